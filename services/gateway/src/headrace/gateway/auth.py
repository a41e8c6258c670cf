"""API keys: shown once, stored hashed."""

import hashlib
from collections.abc import AsyncIterator
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
class Caller:
    """Who asks, and the transaction that the request is."""

    account_id: str
    tx: Transaction


class Door:
    """Opens a request's transaction for whoever shows a key."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def __call__(self, authorization: Annotated[str | None, Header()] = None) -> AsyncIterator[Caller]:
        """The dependency of every route; commits before the answer is sent.

        Raises:
            Unauthorized: No key, or none of ours.
        """
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key:
            raise Unauthorized("send your API key as `Authorization: Bearer hr_...`")
        async with self._db.transaction() as tx:
            account_id = await repository.owner_of_key(tx.connection, hash_key(key.strip()))
            if account_id is None:
                raise Unauthorized("this API key is not known")
            yield Caller(account_id, tx)

    def dependency(self) -> object:
        """This door, for a route's signature; the transaction ends with the function, not with a streamed answer."""
        return Depends(self, scope="function")
