"""A mail is sent once, and when nobody saw whether it was, Sent tells the truth."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import as_file, files
from typing import Any, Literal

import pytest

from headrace.runner.tools.send_email import MailSettings, send_email_tool
from headrace.tools import (
    CannotTell,
    DidNotHappen,
    Done,
    Failed,
    Happened,
    Outcome,
    Tool,
    ToolContext,
    Unknown,
    Verdict,
    perform,
)
from tests.fakes.mail_server import Fault, MailServer, Point, Refusal

CALL = {"to": "ann@example.com", "subject": "Your order", "body": "It is sent.\n", "template": "order_sent"}
BARE = ToolContext(
    account_id="acme",
    agent_id="clerk",
    run_id="run-1",
    session_id=None,
    door="webhook",
    trigger="event-1",
    call="root/1",
)


class NoonClock:
    def now(self) -> datetime:
        return datetime(2030, 1, 2, 12, 0, tzinfo=UTC)


def settings(server: MailServer, **changes: Any) -> MailSettings:
    mail = MailSettings(
        smtp_url=server.smtp_url,
        sender="Ann's clerk <clerk@example.com>",
        sent_url=server.sent_url,
        settle_seconds=0,
    )
    return replace(mail, **changes)


def keyed(tool: Tool, arguments: dict[str, Any]) -> ToolContext:
    assert tool.provider_key
    key = tool.effect_key(arguments, BARE)
    return replace(BARE, effect_key=key, provider_key=tool.provider_key(key, BARE))


async def send(mail: MailSettings, **changes: str) -> Outcome:
    tool, call = send_email_tool(mail, clock=NoonClock()), {**CALL, **changes}
    return await perform(tool, tool.read(call), keyed(tool, call))


async def look(mail: MailSettings) -> Verdict:
    tool = send_email_tool(mail)
    context = keyed(tool, CALL)
    assert callable(tool.reconcile)
    return await tool.reconcile(context.provider_key, context)


@asynccontextmanager
async def _impostor() -> AsyncIterator[int]:
    """A TLS server with a certificate that nobody has signed; tells its port."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = files("aiosmtpd.tests.certs")
    with (
        as_file(certificates / "server.crt") as certificate,
        as_file(certificates / "server.key") as private_key,
    ):
        tls.load_cert_chain(certificate, private_key)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_mail_is_accepted_once_with_its_headers(mail_server: MailServer) -> None:
    outcome = await send(settings(mail_server))

    (mail,) = await mail_server.accepted()
    assert outcome == Done(f"the mail server accepted the mail as {mail.message_id}")
    assert (mail.sender, mail.to, mail.subject, mail.text) == (
        "clerk@example.com",
        ["ann@example.com"],
        "Your order",
        "It is sent.\n",
    )
    assert mail.headers[:5] == ["Date", "Message-ID", "From", "To", "Subject"]


async def test_message_id_is_the_same_for_another_text(mail_server: MailServer) -> None:
    mail = settings(mail_server)

    await send(mail)
    await send(mail, subject="About your order", body="We have sent it.", to="Ann <ANN@Example.COM>")

    totals = await mail_server.stats()
    assert list(totals.by_message_id.values()) == [2]
    assert all(name.endswith("@example.com>") for name in totals.by_message_id)


async def test_another_template_is_another_mail(mail_server: MailServer) -> None:
    mail = settings(mail_server)

    await send(mail)
    await send(mail, template="invoice")

    assert list((await mail_server.stats()).by_message_id.values()) == [1, 1]


async def test_mail_beyond_ascii_arrives_as_it_was_written(mail_server: MailServer) -> None:
    body = "Grüße aus 東京 🚰\n.\n.a line with a dot\n" + "long " * 400 + "\n"
    mail = settings(mail_server, sender="Jörg Müller <clerk@bücher.example.com>")

    await send(mail, to="Änne <anne@bücher.example.com>", subject="Grüße 🚰", body=body)

    (accepted,) = await mail_server.accepted()
    assert (accepted.subject, accepted.text, accepted.to) == (
        "Grüße 🚰",
        body,
        ["anne@xn--bcher-kva.example.com"],
    )
    assert accepted.message_id.endswith("@xn--bcher-kva.example.com>")


@pytest.mark.parametrize("code", [451, 550])
@pytest.mark.parametrize("at", ["mail", "rcpt", "data", "before_accept"])
async def test_refusal_means_that_nothing_was_done(mail_server: MailServer, at: Point, code: int) -> None:
    await mail_server.script(Fault(at=at, refuse=Refusal(code=code, message="no such thing here")))

    outcome = await send(settings(mail_server))

    assert isinstance(outcome, Failed)
    assert f"{code} " in outcome.sentence
    assert "no such thing here" in outcome.sentence
    assert await mail_server.accepted() == []


async def test_nothing_was_done_when_the_mail_never_left(
    mail_server: MailServer,
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = f"smtp://127.0.0.1:{nobody.getsockname()[1]}"
        wrong_password = f"smtp://{mail_server.user.replace('@', '%40')}:x@127.0.0.1:{mail_server.smtp_port}"
        unencrypted = mail_server.smtp_url.replace("smtp:", "smtp+starttls:")
        not_tls = mail_server.smtp_url.replace("smtp:", "smtps:")

        outcomes = [
            await send(settings(mail_server, smtp_url=url))
            for url in (closed, wrong_password, unencrypted, not_tls)
        ]

    assert all(isinstance(outcome, Failed) for outcome in outcomes), outcomes
    assert "535" in str(outcomes[1])
    assert "STARTTLS" in str(outcomes[2])
    assert await mail_server.accepted() == []


async def test_server_that_cannot_prove_its_name_is_not_talked_to(mail_server: MailServer) -> None:
    async with _impostor() as port:
        mail = settings(
            mail_server,
            smtp_url=f"smtps://clerk:secret@localhost:{port}",
            sent_url=f"imaps://clerk:secret@localhost:{port}",
        )

        outcome, verdict = await send(mail), await look(mail)

    assert isinstance(outcome, Failed)
    assert isinstance(verdict, CannotTell)
    assert "certificate verify failed" in outcome.sentence
    assert "certificate verify failed" in verdict.why


async def test_server_that_does_not_come_to_the_body_did_nothing(mail_server: MailServer) -> None:
    await mail_server.script(Fault(at="rcpt", drop=True, times=1), Fault(at="rcpt", hold="for ever"))

    dropped = await send(settings(mail_server))
    silent = await send(settings(mail_server, connect_seconds=0.2))

    assert isinstance(dropped, Failed)
    assert isinstance(silent, Failed)
    assert await mail_server.accepted() == []


@pytest.mark.parametrize(
    ("at", "verdict"),
    [("data", DidNotHappen), ("before_accept", DidNotHappen), ("before_answer", Happened)],
)
async def test_lost_connection_is_unknown_until_sent_tells_the_truth(
    mail_server: MailServer, at: Point, verdict: type[Verdict]
) -> None:
    await mail_server.script(Fault(at=at, drop=True))

    outcome = await send(settings(mail_server))

    assert isinstance(outcome, Unknown)
    assert isinstance(await look(settings(mail_server)), verdict)
    assert len(await mail_server.accepted()) == (verdict is Happened)


async def test_what_happened_reads_as_the_call_would_have_said(mail_server: MailServer) -> None:
    outcome = await send(settings(mail_server))

    verdict = await look(settings(mail_server))

    assert isinstance(outcome, Done)
    assert verdict == Happened(outcome.text)


async def test_silence_after_the_body_is_unknown_and_was_sent(mail_server: MailServer) -> None:
    await mail_server.script(Fault(at="before_answer", hold="gate"))

    outcome = await send(settings(mail_server, answer_seconds=1))

    await mail_server.accepted(at_least=1)
    assert isinstance(outcome, Unknown)
    assert isinstance(await look(settings(mail_server)), Happened)


async def test_cancellation_passes_and_leaves_the_truth_in_sent(mail_server: MailServer) -> None:
    await mail_server.script(Fault(at="before_answer", hold="gate"))
    sending = asyncio.create_task(send(settings(mail_server)))
    await mail_server.wait_held("gate")

    sending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sending
    assert isinstance(await look(settings(mail_server)), Happened)


async def test_mail_that_was_never_sent_is_looked_for_twice(mail_server: MailServer) -> None:
    assert await look(settings(mail_server)) == DidNotHappen()
    assert (await mail_server.stats()).searches == 2


async def test_mail_that_sent_shows_late_is_found(mail_server: MailServer) -> None:
    await send(settings(mail_server))
    await mail_server.script(sent_lag=1)

    assert isinstance(await look(settings(mail_server)), Happened)


@pytest.mark.parametrize("fault", ["refuse", "drop", "hold", "down"])
async def test_sent_that_cannot_be_searched_tells_nothing(
    mail_server: MailServer, fault: Literal["refuse", "drop", "hold", "down"]
) -> None:
    await send(settings(mail_server))
    match fault:
        case "refuse":
            await mail_server.script(Fault(at="search", refuse=Refusal(message="busy")))
        case "drop":
            await mail_server.script(Fault(at="search", drop=True))
        case "hold":
            await mail_server.script(Fault(at="search", hold="for ever"))
        case "down":
            await mail_server.script(imap="down")

    verdict = await look(settings(mail_server, answer_seconds=0.5 if fault == "hold" else 10))

    assert isinstance(verdict, CannotTell)
    assert verdict.why.startswith("the folder of sent mail could not be searched: ")


async def test_sent_that_is_configured_wrongly_tells_nothing(mail_server: MailServer) -> None:
    await send(settings(mail_server))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        urls = [
            None,
            mail_server.sent_url.replace("/Sent", "/Sent%20Items"),
            mail_server.sent_url.replace("mail-password", "wrong"),
            f"imap://127.0.0.1:{nobody.getsockname()[1]}/Sent",
            f"imap://127.0.0.1:{mail_server.imap_port}/Sent",
            mail_server.sent_url.replace("imap:", "imaps:"),
        ]

        verdicts = [await look(settings(mail_server, sent_url=url)) for url in urls]

    assert all(isinstance(verdict, CannotTell) for verdict in verdicts), verdicts


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "Hello\r\nBcc: eve@example.com"},
        {"subject": "Hello\nBcc: eve@example.com"},
        {"subject": "Hello\u2028Bcc: eve@example.com"},
        {"subject": "Hello\0"},
        {"subject": " "},
        {"to": "ann@example.com\r\nBcc: eve@example.com"},
        {"to": "ann@example.com\r\nRCPT TO:<eve@example.com>"},
        {"to": "ann@example.com, eve@example.com"},
        {"to": "Ann <ann@example.com>, Eve <eve@example.com>"},
        {"to": "everybody: ann@example.com;"},
        {"to": "ann@example.com> <eve@example.com"},
        {"to": "<ann@example.com"},
        {"to": "ann@example.com>"},
        {"to": "änne@example.com"},
        {"to": "ann"},
        {"template": "Dear Ann, your order is on its way"},
        {"template": ""},
    ],
)
async def test_call_that_is_not_one_plain_mail_is_refused(
    mail_server: MailServer, changes: dict[str, str]
) -> None:
    tool, call = send_email_tool(settings(mail_server)), {**CALL, **changes}

    outcome = await perform(tool, call, keyed(tool, CALL))

    assert isinstance(outcome, Failed)
    assert await mail_server.accepted() == []


async def test_template_is_one_of_those_that_are_configured(mail_server: MailServer) -> None:
    mail = settings(mail_server, templates=("order_sent", "Invoice"))
    tool = send_email_tool(mail)

    outcome = await perform(tool, {**CALL, "template": "farewell"}, keyed(tool, CALL))

    assert outcome == Failed("`template` must be one of order_sent, invoice")
    assert tool.parameters["properties"]["template"]["enum"] == ["order_sent", "invoice"]
    assert isinstance(await send(mail, template="invoice"), Done)


async def test_call_without_a_key_sends_nothing(mail_server: MailServer) -> None:
    outcome = await perform(send_email_tool(settings(mail_server)), dict(CALL), BARE)

    assert outcome == Failed("the mail has no key, so it could be sent twice")
    assert await mail_server.accepted() == []
