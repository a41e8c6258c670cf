"""Sends a mail, once for each event, recipient and purpose, whatever the text says the second time.

The mail's name is its Message-ID, made from the effect's key: a mail that was sent and not seen to be sent is found by
that name in the folder of sent mail.
"""

import asyncio
import imaplib
import re
import ssl
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime
from typing import Annotated, Any, Self
from urllib.parse import unquote, urlsplit

import aiosmtplib
from pydantic import Field

from headrace.common.clock import Clock, SystemClock
from headrace.contracts.text import mended
from headrace.tools import (
    CannotTell,
    DidNotHappen,
    Happened,
    Tool,
    ToolContext,
    ToolError,
    Verdict,
    email_address,
    text,
    tool,
)

MAX_SUBJECT, MAX_BODY = 500, 200_000
"""Characters."""

_SMTP_PORTS = {"smtp": 587, "smtp+starttls": 587, "smtps": 465}
_IMAP_PORTS = {"imap": 143, "imaps": 993}
_QUIT_SECONDS = 2.0
_HELLO = "[127.0.0.1]"  # for EHLO; nobody reads it, and the default asks the resolver, which can take seconds
_POLICY = SMTP_POLICY.clone(cte_type="7bit")
_ADDRESS = re.compile(r"(?:[^<>@]*<)?\s*([a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]{1,64})@([^<>@\s,;]+)\s*(>?)")
_TEMPLATE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """The mailbox that agents send from.

    Attributes:
        smtp_url: `smtp://user:password@host:port` (never encrypted), `smtp+starttls://` (always) or `smtps://`.
        sender: Whom the mail is from, such as `Ann <ann@example.com>`.
        sent_url: `imap://user:password@host:port/Sent` or `imaps://`; none when sent mail cannot be looked up. Give it
            only for a provider that files what SMTP accepts there by itself, and that keeps our Message-ID.
        templates: The purposes that mails may have. Empty: the model names them, and may give one purpose two names.
        connect_seconds: Time to connect, log in and name the recipient.
        answer_seconds: Time for the server to accept the mail, and for each look into Sent.
        settle_seconds: How long an accepted mail may need to be seen in Sent.
    """

    smtp_url: str = field(repr=False)
    sender: str
    sent_url: str | None = field(default=None, repr=False)
    templates: tuple[str, ...] = ()
    connect_seconds: float = 10.0
    answer_seconds: float = 15.0
    settle_seconds: float = 2.0


def send_email_tool(mail: MailSettings, *, clock: Clock | None = None) -> Tool:
    """The tool that sends from this mailbox.

    Raises:
        ValueError: The settings make no sense; the sentence holds no password.
    """
    mailbox, now = _Mailbox(mail), (clock or SystemClock()).now
    choice = {"enum": list(mailbox.templates)} if mailbox.templates else None

    @tool(
        effect="idempotent",
        key=mailbox.key,
        provider_key=mailbox.message_id,
        reconcile=mailbox.look,
        timeout=mail.connect_seconds + mail.answer_seconds + _QUIT_SECONDS + 3,
    )
    async def send_email(  # noqa: D417  (nobody but the runner gives the context)
        to: str,
        subject: Annotated[str, Field(max_length=MAX_SUBJECT)],
        body: Annotated[str, Field(max_length=MAX_BODY)],
        template: Annotated[str, Field(json_schema_extra=choice)],
        context: ToolContext,
    ) -> str:
        """Send a mail in plain text to one recipient.

        Args:
            to: One address.
            subject: One line.
            body: The text.
            template: What the mail is for, such as `order_confirmation`. An event sends one mail of each to an address.
        """
        mailbox.key({"to": to, "template": template}, context)
        if not context.provider_key:
            raise ToolError("the mail has no key, so it could be sent twice")
        headers = {
            "Date": format_datetime(now()),
            "Message-ID": context.provider_key,
            "From": mail.sender,
            "To": _recipient(to),
            "Subject": _one_line("subject", subject),
        }
        await mailbox.submit(_message(headers, body), recipient=headers["To"])
        return _accepted(context.provider_key)

    return send_email


class _Mailbox:
    def __init__(self, mail: MailSettings) -> None:
        self._mail = mail
        self._smtp = _Server.read(mail.smtp_url, ports=_SMTP_PORTS)
        self._sent = _Server.read(mail.sent_url, ports=_IMAP_PORTS) if mail.sent_url is not None else None
        self.templates = tuple(text(name) for name in mail.templates)
        try:
            self._sender = _recipient(mail.sender)
        except ToolError as error:
            raise ValueError("the sender of mail must be one address: Ann <ann@example.com>") from error

    def key(self, arguments: Mapping[str, Any], _context: ToolContext) -> tuple[str, str]:
        """Name what may happen once: never the text, which a model writes differently each time."""
        template = text(arguments["template"])
        if self.templates and template not in self.templates:
            raise ToolError(f"`template` must be one of {', '.join(self.templates)}")
        if not _TEMPLATE.fullmatch(template):
            raise ToolError("`template` must be a name of at most 64 letters, digits, _ . and -")
        return email_address(_recipient(arguments["to"])), template

    def message_id(self, effect_key: str, _context: ToolContext) -> str:
        """Name the mail, the same each time."""
        return f"<{effect_key}@{self._sender.rpartition('@')[2]}>"

    async def look(self, message_id: str, _context: ToolContext) -> Verdict:
        """Look for the mail in Sent, twice.

        Assumed: what the server accepted is in Sent after `settle_seconds`, under our Message-ID, and nobody deleted
        it. So "did not happen" is wrong if the server still works on a mail whose connection broke: the pause bounds
        that window, and does not close it. The whole takes at most two times `answer_seconds` and the pause; a caller
        with less time cuts it short, which is no answer, never "did not happen".
        """
        if self._sent is None:
            return CannotTell("no folder of sent mail is configured where the mail could be looked up")
        seconds = self._mail.answer_seconds
        for pause in (0.0, self._mail.settle_seconds):
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(seconds):
                    found = await asyncio.to_thread(_is_there, self._sent, message_id, seconds=seconds)
            except (imaplib.IMAP4.error, OSError) as error:
                return CannotTell(f"the folder of sent mail could not be searched: {_reason(error)}")
            if found:
                return Happened(_accepted(message_id))
        return DidNotHappen()

    async def submit(self, content: bytes, *, recipient: str) -> None:
        """Hand a mail to the server.

        Raises:
            ToolError: It was refused, or its body never left: nothing was done. Any other error leaves that open.
        """
        mail, server = self._mail, self._smtp
        smtp = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            username=server.user,
            password=server.password if server.user else None,
            local_hostname=_HELLO,
            use_tls=server.scheme == "smtps",
            start_tls=server.scheme == "smtp+starttls",
            timeout=mail.connect_seconds,
        )
        try:
            try:
                async with asyncio.timeout(mail.connect_seconds):
                    await smtp.connect()
                    await smtp.mail(self._sender)
                    await smtp.rcpt(recipient)
            except (aiosmtplib.SMTPException, OSError) as error:
                raise ToolError(f"the mail was not sent: {_reason(error)}") from error
            try:
                await smtp.data(content, timeout=mail.answer_seconds)
            except aiosmtplib.SMTPDataError as error:
                if (
                    400 <= error.code < 600
                ):  # after the body as well: RFC 5321, 4.2.5, forbids to deliver then
                    raise ToolError(f"the mail was refused: {_reason(error)}") from error
                raise
            with suppress(aiosmtplib.SMTPException, OSError):
                await smtp.quit(timeout=_QUIT_SECONDS)
        finally:
            smtp.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    scheme: str
    host: str
    port: int
    user: str | None
    password: str = field(repr=False)
    folder: str

    @classmethod
    def read(cls, url: str, *, ports: Mapping[str, int]) -> Self:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or ports[parts.scheme]
        except (ValueError, KeyError):
            host = None
        if not host:  # raised outside of `except`: what urlsplit says may quote the password
            raise ValueError(f"mail needs a URL like SCHEME://user:password@host, with {' or '.join(ports)}")
        found = cls(
            scheme=parts.scheme,
            host=host,
            port=port,
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password or ""),
            folder=unquote(parts.path.strip("/")) or "Sent",
        )
        written = f"{found.user or ''}{found.password}{found.folder}"
        if not (written.isascii() and written.isprintable()):
            raise ValueError("user, password and folder of mail must be printable ASCII")
        return found


def _is_there(server: _Server, message_id: str, *, seconds: float) -> bool:
    """Whether the folder has a mail of this name. Each step of the talk may take so many seconds."""
    imap = (
        imaplib.IMAP4_SSL(server.host, server.port, ssl_context=ssl.create_default_context(), timeout=seconds)
        if server.scheme == "imaps"
        else imaplib.IMAP4(server.host, server.port, timeout=seconds)
    )
    try:
        if server.user:
            imap.login(_quoted(server.user), server.password)
        status, answer = imap.select(_quoted(server.folder), readonly=True)
        if status == "OK":
            status, answer = imap.search(None, "HEADER", "Message-ID", _quoted(message_id))
        if status != "OK":
            raise imaplib.IMAP4.error(answer[-1] if answer else status)
        return any(answer)
    finally:
        with suppress(imaplib.IMAP4.error, OSError):
            imap.logout()
        with suppress(OSError):
            imap.shutdown()


def _message(headers: Mapping[str, str], body: str) -> bytes:
    message = EmailMessage(policy=_POLICY)
    try:
        for name, value in headers.items():
            message[name] = value
        message.set_content(mended(body))
        return message.as_bytes()
    except ValueError as error:
        raise ToolError(f"the mail cannot be written down: {_reason(error)}") from error


def _recipient(to: str) -> str:
    """The one address in a text, as it goes over the wire: the part before the @ as written, the domain as in DNS."""
    found = _ADDRESS.fullmatch(_one_line("to", to).strip())
    if found is None or ("<" in to) != bool(found[3]):
        raise ToolError("`to` must be one address, ASCII before its @; call again for each other recipient")
    return f"{found[1]}@{email_address(f'{found[1]}@{found[2]}').rpartition('@')[2]}"


def _one_line(name: str, written: str) -> str:
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in written):
        raise ToolError(f"`{name}` must be one line, without control characters")
    if not written.strip():
        raise ToolError(f"`{name}` must not be empty")
    return written


def _quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _accepted(message_id: str) -> str:
    return f"the mail server accepted the mail as {message_id}"


def _reason(error: Exception) -> str:
    parts = (str(part, "utf-8", "replace") if isinstance(part, bytes) else str(part) for part in error.args)
    silent = "it took too long" if isinstance(error, TimeoutError) else type(error).__name__
    return (" ".join(mended(" ".join(parts)).split()) or silent)[:300]
