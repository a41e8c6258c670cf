"""API keys: shown once, stored hashed."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header

from headrace.common.db import Database, Transaction
from headrace.common.errors import Unauthorized
from headrace.gateway import repository


def hash_key(key: str) -> bytes:
    """The stored form of a key. Keys are 256 random bits, so a fast hash gives nothing away."""
    return hashlib.sha256(key.encode()).digest()


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks."""

    account_id: str
    by: str
    """The key that was shown, for the record: its label, and the first digits of its hash; never the key."""


@dataclass(frozen=True, slots=True)
class Caller(Visitor):
    """Who asks, and the transaction that the request is."""

    tx: Transaction


class KeyDoor:
    """Opens a request's transaction for whoever shows a key."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def open(self, authorization: Annotated[str | None, Header()] = None) -> AsyncIterator[Caller]:
        """Open the request's transaction; it commits before the answer is sent.

        Raises:
            Unauthorized: No key, or none of ours.
        """
        key = _key(authorization)
        async with self.transaction() as tx:
            visitor = await _visitor(tx, key)
            yield Caller(visitor.account_id, visitor.by, tx)

    async def see(self, authorization: Annotated[str | None, Header()] = None) -> Visitor:
        """Only see whose key it is, and keep no connection while other services are asked. See `open` for errors."""
        key = _key(authorization)
        async with self.transaction() as tx:
            return await _visitor(tx, key)

    async def ask(self, authorization: Annotated[str | None, Header()] = None) -> str:
        """Only see which account it is. See `open` for errors."""
        return (await self.see(authorization)).account_id

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction of the gateway's own schema."""
        return self._db.transaction()

    def dependency(self) -> object:
        """The caller and its transaction, which ends with the route's function and not with a streamed answer."""
        return Depends(self.open, scope="function")

    def account(self) -> object:
        """The caller's account alone, for routes that ask other services."""
        return Depends(self.ask)

    def visitor(self) -> object:
        """The caller alone, for routes that ask other services and say who wanted it."""
        return Depends(self.see)


def _key(authorization: str | None) -> bytes:
    scheme, _, key = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise Unauthorized("send your API key as `Authorization: Bearer hr_...`")
    return hash_key(key.strip())


async def _visitor(tx: Transaction, key_hash: bytes) -> Visitor:
    owner = await repository.owner_of_key(tx.connection, key_hash)
    if owner is None:
        raise Unauthorized("this API key is not known")
    account_id, label = owner
    return Visitor(account_id, f"{label} ({key_hash.hex()[:8]})")
