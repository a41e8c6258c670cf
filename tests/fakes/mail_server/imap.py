"""A small IMAP4rev1 server with one folder, Sent: enough to look for a Message-ID."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tests.fakes.mail_server.script import Refusal
from tests.fakes.mail_server.stage import ConnectionDropped, Stage

FOLDER = "Sent"
_CAPABILITIES = "IMAP4rev1"
_WORD = re.compile(r'"((?:\\.|[^"\\])*)"|([^\s()"]+)')
_ESCAPED = re.compile(r"\\(.)")
_IDLE_SECONDS = 300.0


class ImapDoor:
    """Serves each connection from its greeting to its end."""

    def __init__(self, stage: Stage, *, user: str, password: str) -> None:
        self._stage = stage
        self._login = (user, password)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            await _Conversation(self._stage, self._login, reader, writer).converse()
        except ConnectionDropped:
            writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass
        finally:
            writer.close()


class _Conversation:
    def __init__(
        self,
        stage: Stage,
        login: tuple[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._stage = stage
        self._login = login
        self._reader = reader
        self._writer = writer
        self._known = False
        self._selected = False
        self._commands: Mapping[str, Callable[[Sequence[str]], Awaitable[str]]] = {
            "CAPABILITY": self._capability,
            "NOOP": self._noop,
            "LOGIN": self._log_in,
            "SELECT": self._select,
            "EXAMINE": self._select,
            "SEARCH": self._search,
            "UID": self._search_by_uid,
        }

    async def converse(self) -> None:
        """Greet, then answer commands until one of both leaves."""
        if self._stage.script.imap == "down":
            await self._say("* BYE [UNAVAILABLE] the scripted server is down")
            return
        await self._say(f"* OK [CAPABILITY {_CAPABILITIES}] the scripted server is ready")
        while True:
            async with asyncio.timeout(_IDLE_SECONDS):
                line = (await self._reader.readuntil(b"\r\n")).decode("utf-8", "replace")
            tag, *words = _words(line) or [""]
            if not words:
                await self._say(f"{tag or '*'} BAD there is no command")
                continue
            name, arguments = words[0].upper(), words[1:]
            if name == "LOGOUT":
                await self._say("* BYE until next time", f"{tag} OK LOGOUT completed")
                return
            answer = self._commands.get(name)
            await self._say(f"{tag} {await answer(arguments) if answer else 'BAD this command is not known'}")

    async def _say(self, *lines: str) -> None:
        self._writer.write("".join(f"{line}\r\n" for line in lines).encode())
        await self._writer.drain()

    async def _capability(self, _arguments: Sequence[str]) -> str:
        await self._say(f"* CAPABILITY {_CAPABILITIES}")
        return "OK CAPABILITY completed"

    async def _noop(self, _arguments: Sequence[str]) -> str:
        if self._selected:
            await self._say(f"* {len(self._stage.record)} EXISTS")
        return "OK NOOP completed"

    async def _log_in(self, arguments: Sequence[str]) -> str:
        self._known = tuple(arguments) == self._login
        return "OK LOGIN completed" if self._known else "NO [AUTHENTICATIONFAILED] wrong credentials"

    async def _select(self, arguments: Sequence[str]) -> str:
        if not self._known:
            return "BAD log in first"
        self._selected = list(arguments) == [FOLDER]
        if not self._selected:
            return "NO [NONEXISTENT] there is no such folder"
        count = len(self._stage.record)
        await self._say(
            f"* {count} EXISTS",
            "* 0 RECENT",
            r"* FLAGS (\Seen)",
            "* OK [UIDVALIDITY 1] for ever",
            f"* OK [UIDNEXT {count + 1}] the next",
        )
        return "OK [READ-ONLY] selected"

    async def _search_by_uid(self, arguments: Sequence[str]) -> str:
        if not arguments or arguments[0].upper() != "SEARCH":
            return "BAD only UID SEARCH is known"
        return await self._search(arguments[1:])

    async def _search(self, arguments: Sequence[str]) -> str:
        if not self._selected:
            return "BAD select a folder first"
        if arguments[:1] and arguments[0].upper() == "CHARSET":
            arguments = arguments[2:]
        match [word.upper() for word in arguments[:2]]:
            case ["HEADER", "MESSAGE-ID"] if len(arguments) == 3:
                wanted = arguments[2]
            case ["ALL"]:
                wanted = ""
            case _:
                return "BAD only ALL and HEADER Message-ID can be searched"
        refusal: Refusal | None = await self._stage.meet("search")
        if refusal:
            return f"NO {refusal.message}"
        found = self._stage.record.search(wanted, lag=self._stage.script.sent_lag)
        await self._say(" ".join(["* SEARCH", *map(str, found)]))
        return "OK SEARCH completed"


def _words(line: str) -> list[str]:
    return [
        _ESCAPED.sub(r"\1", match[1]) if match[1] is not None else match[2] for match in _WORD.finditer(line)
    ]
