"""SMTP's side of the provider, over aiosmtpd: a mail counts from the moment it is stored."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.fakes.mail_server.script import Point
from tests.fakes.mail_server.stage import ConnectionDropped, Stage

MAX_MAIL = 5_000_000
"""Bytes of one mail, as announced by SIZE."""


class SmtpConnection(SMTP):
    """One client's connection. AUTH is required, and TLS is not offered: the server is on loopback."""

    def __init__(self, door: "SmtpDoor") -> None:
        self._door = door
        super().__init__(
            door,
            hostname="mail.example.com",
            ident="mail server for tests",
            data_size_limit=MAX_MAIL,
            auth_required=True,
            auth_require_tls=False,
            authenticator=door.authenticate,
            loop=asyncio.get_running_loop(),
        )

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802  (aiosmtpd's name)
        """Ask for the body, unless the script refuses."""
        to = self.envelope.rcpt_tos if self.envelope else []
        if to and (refusal := await self._door.meet(self, "data", *to)):
            await self.push(refusal)
            return
        await super().smtp_DATA(arg)


class SmtpDoor:
    """Answers the commands of every connection."""

    def __init__(self, stage: Stage, *, user: str, password: str) -> None:
        self._stage = stage
        self._login = LoginPassword(user.encode(), password.encode())

    def authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, login: Any
    ) -> AuthResult:
        """Tell whether these are the credentials."""
        return AuthResult(success=login == self._login, handled=False, auth_data=login)

    async def handle_MAIL(  # noqa: N802  (aiosmtpd's name)
        self, server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a sender."""
        if refusal := await self.meet(server, "mail"):
            return refusal
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 OK"

    async def handle_RCPT(  # noqa: N802  (aiosmtpd's name)
        self, server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        """Take a recipient."""
        if refusal := await self.meet(server, "rcpt", address):
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802  (aiosmtpd's name)
        """Store the mail whose end was received, then answer."""
        record, to = self._stage.record, envelope.rcpt_tos
        if refusal := await self.meet(server, "before_accept", *to):
            return refusal
        record.store(
            envelope.original_content or b"", sender=envelope.mail_from or "", to=to, when=datetime.now(UTC)
        )
        await self.meet(server, "before_answer", *to)
        return f"250 2.0.0 accepted as {record.totals.accepted}"

    async def meet(self, server: SMTP, at: Point, *to: str) -> str | None:
        """Pass a point; return the refusal that is due there, as it goes over the wire."""
        try:
            refusal = await self._stage.meet(at, to=to)
        except ConnectionDropped:
            return await _break(server)
        return f"{refusal.code} {refusal.code // 100}.0.0 {refusal.message}" if refusal else None


async def _break(server: SMTP) -> str:
    """Reset the connection, and never come back: aiosmtpd cancels what serves a lost connection."""
    if isinstance(server.transport, asyncio.Transport):
        server.transport.abort()
    return str(await asyncio.get_running_loop().create_future())
