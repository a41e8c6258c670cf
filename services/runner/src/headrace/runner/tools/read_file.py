"""Reads the text files that a run was given, a part at a time."""

import codecs
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Annotated

from pydantic import Field

from headrace.common.errors import HeadraceError
from headrace.common.files import Files
from headrace.contracts.runs import InputFile
from headrace.tools import Tool, ToolContext, ToolError, tool

MAX_LENGTH = 50_000
"""Characters of one answer."""
LOOKED_AT = 8_192
"""Bytes at the beginning of a file that tell whether it is text."""

FilesOf = Callable[[str], Sequence[InputFile]]
"""The files of a run by its id, from memory: the tool runs under a guard that opens no connection."""


def read_file_tool(files: Files, files_of: FilesOf) -> Tool:
    """The tool `read_file`.

    Args:
        files: Where the contents are.
        files_of: What the run in hand was given.
    """

    @tool(effect="none")
    async def read_file(
        context: ToolContext,
        name: str,
        offset: Annotated[int, Field(ge=0)] = 0,
        length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] = 20_000,
    ) -> str:
        """Read a text file that came with the request, a part at a time.

        Args:
            context: The run.
            name: The name of the file, or its hash.
            offset: How many characters to skip.
            length: How many characters to read.
        """
        file = _pick(files_of(context.run_id), name)
        window = Window(offset, length)
        try:
            await _read(files, file, window)
        except HeadraceError as error:
            raise ToolError(f"{file.name!r} cannot be read: {error}") from error
        return window.told()

    return read_file


class Window:
    """The characters of a text from a place on, taken from the pieces in which the text comes."""

    def __init__(self, offset: int, length: int) -> None:
        self._offset, self._end = offset, offset + length
        self._parts: list[str] = []
        self._total = 0

    def add(self, text: str) -> None:
        """Take what is within."""
        start = max(0, self._offset - self._total)
        end = max(0, self._end - self._total)
        self._parts.append(text[start:end])
        self._total += len(text)

    def told(self) -> str:
        """The part, and how to go on where there is more.

        Raises:
            ToolError: The text ends before.
        """
        if self._offset >= self._total:
            if self._total == 0:
                return "the file is empty"
            raise ToolError(
                f"the text has {self._total} characters; there is nothing from offset {self._offset} on"
            )
        part = "".join(self._parts)
        if self._end >= self._total:
            return part
        return f"{part}\n[characters {self._offset} to {self._end} of {self._total}; go on with offset={self._end}]"


def is_text(media_type: str, beginning: bytes) -> bool:
    """Whether a file can be shown as text: no NUL, and UTF-8 unless its type says that it is text."""
    if b"\0" in beginning:
        return False
    if media_type.lower().startswith("text/"):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return True


def _pick(given: Sequence[InputFile], name: str) -> InputFile:
    found = [file for file in given if name in (file.name, file.sha256)]
    if len({file.sha256 for file in found}) > 1:
        hashes = ", ".join(file.sha256 for file in found)
        raise ToolError(f"several files are named {name!r}; ask for one by its hash: {hashes}")
    if found:
        return found[0]
    if not given:
        raise ToolError("no files came with this request")
    raise ToolError(f"there is no file {name!r}; there are: {', '.join(map(_described, given))}")


async def _read(files: Files, file: InputFile, window: Window) -> None:
    """Read to the end, since only there the content is known to be whole.

    Raises:
        ToolError: It is not text.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    is_first = True
    async with aclosing(files.get(file.sha256)) as chunks:
        async for chunk in chunks:
            if is_first and not is_text(file.media_type, chunk[:LOOKED_AT]):
                raise ToolError(f"{_described(file)} is not text")
            is_first = False
            window.add(decoder.decode(chunk))
    window.add(decoder.decode(b"", final=True))


def _described(file: InputFile) -> str:
    return f"{file.name!r} ({file.media_type}, {file.size} bytes)"
