"""Files by the SHA-256 of their content, in the object store `files`: what runs are given, each content kept once.

The layout is the NATS object store's (ADR-20), so `nats object get files <sha256>` reads them. Services may neither
make consumers nor purge: chunks are read one by one, and taken back by a message that rolls up its own subject.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import nats.errors
import nats.js.errors
from nats.js.api import Header, RawStreamMsg
from pydantic import ValidationError

from headrace.common.bus import Bus
from headrace.common.errors import NotFound, Terminal, TooLarge, Unavailable
from headrace.contracts.ids import new_id
from headrace.contracts.message import Contract
from headrace.contracts.runs import InputFile
from headrace.contracts.streams import FILES, object_stream

CHUNK_BYTES = 128 * 1024
_STREAM = object_stream(FILES)
_SOMEBODY_WAS_FIRST = frozenset({10071, 10164})
"""JetStream's error codes for an expected last sequence that is not the last."""


class FileGone(Terminal):
    """The content of a file was there and is no more, such as after the broker's data was wiped."""

    status: ClassVar[int] = 410
    code: ClassVar[str] = "file_gone"


class FileDamaged(Terminal):
    """What is stored is not the content that its name promises. Uploading the content again repairs it."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "file_damaged"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A content that is kept."""

    sha256: str
    size: int
    """Bytes."""


class _Entry(Contract):
    """What the object store says of a content."""

    name: str
    bucket: str = FILES
    nuid: str
    size: int
    chunks: int
    digest: str
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """The last entry of a name, if it stands, and its place in the stream (0 where there was never one)."""

    entry: _Entry | None
    sequence: int


class Files:
    """The store of contents. The broker decides who may write."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def put(self, content: AsyncIterable[bytes], *, max_bytes: int) -> StoredFile:
        """Keep a content; when this returns, it is durable. The same content again is not stored again.

        The chunks go first and the name last, so what ends halfway is never seen; its chunks are taken back. Where
        the process dies instead, at most `max_bytes` for each upload in hand stay behind without a name. They
        are never read, and the operator may purge their subjects.

        Args:
            content: The bytes, in pieces of any size.
            max_bytes: The largest content that is taken.

        Raises:
            TooLarge: There is more.
            Unavailable: The broker does not take it. It may be kept nevertheless; putting it again is safe.
        """
        upload = _Upload(self._bus, max_bytes)
        try:
            async for piece in content:
                await upload.add(piece)
            stored = upload.content
            found = await self._find(stored.sha256)
            is_there = found.entry is not None and await self._is_whole(found.entry)
            if not is_there:
                await upload.finish()
        except BaseException:  # also a cancellation: nobody else knows these chunks
            await upload.take_back()
            raise
        if is_there or not await upload.name(after=found.sequence):
            await upload.take_back()
        elif found.entry is not None:  # it was damaged, and its name is the new one's now
            await _empty(self._bus, found.entry.nuid)
        return stored

    async def info(self, sha256: str) -> StoredFile:
        """A content that is kept, without reading it.

        Raises:
            NotFound: It is not kept, or not any more.
            Unavailable: The broker does not answer.
        """
        entry = (await self._find(sha256)).entry
        if entry is None:
            raise NotFound(f"there is no file with the hash {sha256}")
        return StoredFile(sha256, entry.size)

    async def expect(self, files: Sequence[InputFile]) -> None:
        """See that the files of a run are still there.

        Raises:
            FileGone: Some are not; the sentence names them.
            Unavailable: The broker does not answer.
        """
        gone = [file for file in files if (await self._find(file.sha256)).entry is None]
        if gone:
            names = ", ".join(f"{file.name!r} ({file.sha256})" for file in gone)
            raise FileGone(f"no longer stored: {names}; upload the same content again")

    async def get(self, sha256: str) -> AsyncGenerator[bytes, None]:
        """Read a content. Its last chunk comes only after the whole was seen to have the right hash.

        Raises:
            FileGone: It is not kept, or not any more.
            FileDamaged: It is not what its name promises.
            Unavailable: The broker does not answer.
        """
        entry = (await self._find(sha256)).entry
        if entry is None:
            raise _gone(sha256)
        digest, held = hashlib.sha256(), b""
        async for chunk in self._chunks(entry):
            if held:
                yield held
            held = chunk
            digest.update(chunk)
        if digest.hexdigest() != sha256:
            if (await self._find(sha256)).entry is None:
                raise _gone(sha256)
            raise FileDamaged(f"what is stored as {sha256} is damaged; upload the same content again")
        if held:
            yield held

    async def _is_whole(self, entry: _Entry) -> bool:
        digest = hashlib.sha256()
        async for chunk in self._chunks(entry):
            digest.update(chunk)
        return digest.hexdigest() == entry.name

    async def _find(self, sha256: str) -> _Found:
        message = await self._message(_entry_subject(sha256))
        if message is None:
            return _Found(None, 0)
        try:
            entry = _Entry.model_validate_json(message.data or b"")
        except ValidationError:
            return _Found(None, message.seq or 0)
        return _Found(None if entry.deleted else entry, message.seq or 0)

    async def _chunks(self, entry: _Entry) -> AsyncIterator[bytes]:
        sequence = 0
        for _ in range(entry.chunks):
            message = await self._message(_chunk_subject(entry.nuid), from_sequence=sequence + 1)
            if message is None:
                return
            sequence = message.seq or sequence + 1
            yield message.data or b""

    async def _message(self, subject: str, *, from_sequence: int | None = None) -> RawStreamMsg | None:
        """The last message of a subject, or the first from a place on."""
        # Any replica answers the first question, and may be behind; what it does not have is asked of the leader.
        for direct in (True, False):
            try:
                return await self._bus.jetstream.get_msg(
                    _STREAM, from_sequence, subject, direct=direct, next=from_sequence is not None
                )
            except nats.js.errors.NotFoundError:
                continue
            except (TimeoutError, nats.errors.Error, OSError) as error:
                raise Unavailable("the store of files does not answer", after=1) from error
        return None


class _Upload:
    """Chunks on a subject of their own, which no name leads to yet. The last one waits until it is known to be needed."""

    def __init__(self, bus: Bus, max_bytes: int) -> None:
        self._bus, self._max, self._nuid = bus, max_bytes, new_id()
        self._digest, self._size, self._pending = hashlib.sha256(), 0, bytearray()
        self._sent = self._sequence = 0

    @property
    def content(self) -> StoredFile:
        return StoredFile(self._digest.hexdigest(), self._size)

    async def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max:
            raise TooLarge(f"the file is larger than the {self._max} bytes that are taken")
        self._digest.update(piece)
        self._pending += piece
        while len(self._pending) > CHUNK_BYTES:
            await self._send(bytes(self._pending[:CHUNK_BYTES]))
            del self._pending[:CHUNK_BYTES]

    async def finish(self) -> None:
        if self._pending:
            await self._send(bytes(self._pending))

    async def name(self, *, after: int) -> bool:
        """Make the chunks a file, unless somebody else made the same one meanwhile.

        Raises:
            Unavailable: The broker did not say. The name may stand, so the chunks stay.
        """
        sha256 = self._digest.hexdigest()
        digest = base64.urlsafe_b64encode(self._digest.digest()).decode()
        entry = _Entry(
            name=sha256, nuid=self._nuid, size=self._size, chunks=self._sent, digest=f"SHA-256={digest}"
        )
        body = json.dumps({**entry.model_dump(), "options": {"max_chunk_size": CHUNK_BYTES}})
        headers = {Header.ROLLUP.value: "sub", Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(after)}
        try:
            await self._publish(_entry_subject(sha256), body.encode(), headers)
        except nats.js.errors.APIError as error:
            if error.err_code in _SOMEBODY_WAS_FIRST:
                return False
            raise Unavailable(f"the store of files refused the file: {error.description}") from error
        return True

    async def take_back(self) -> None:
        if self._sent:
            await _empty(self._bus, self._nuid)

    async def _send(self, chunk: bytes) -> None:
        self._sent += 1
        try:
            await self._publish(_chunk_subject(self._nuid), chunk, None)
        except nats.js.errors.APIError as error:
            raise Unavailable(f"the store of files refused a chunk: {error.description}") from error

    async def _publish(self, subject: str, body: bytes, headers: dict[str, str] | None) -> None:
        try:
            kept = await self._bus.jetstream.publish(subject, body, headers=headers)
        except nats.js.errors.APIError:
            raise
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise Unavailable("the store of files does not answer", after=1) from error
        if kept.seq <= self._sequence:
            raise Unavailable("the store of files was made anew meanwhile; send the file again")
        self._sequence = kept.seq


async def _empty(bus: Bus, nuid: str) -> None:
    """Let a message without content take the place of chunks; where it is lost, they stay and are never read."""
    with contextlib.suppress(nats.errors.Error, OSError, Unavailable):
        await bus.client.publish(_chunk_subject(nuid), headers={Header.ROLLUP.value: "sub"})


def _gone(sha256: str) -> FileGone:
    return FileGone(f"the file {sha256} is no longer stored; upload the same content again")


def _entry_subject(sha256: str) -> str:
    return f"$O.{FILES}.M.{base64.urlsafe_b64encode(sha256.encode()).decode()}"


def _chunk_subject(nuid: str) -> str:
    return f"$O.{FILES}.C.{nuid}"
