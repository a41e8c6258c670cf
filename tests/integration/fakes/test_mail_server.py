"""The mail server accepts, shows and fails as its script says: an honest fake is what the other tests rest on."""

import asyncio
import imaplib
import json
import signal
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiosmtplib
import httpx
import pytest

from tests.fakes.mail_server import Fault, MailServer, Point, Refusal
from tests.support.eventually import eventually

REPOSITORY = Path(__file__).parents[3]
SENDER = "agent@example.com"
SENDING_PROCESS = """
import smtplib, sys
port, user, password, number, to = sys.argv[1:]
with smtplib.SMTP("127.0.0.1", int(port), local_hostname="test") as smtp:
    smtp.login(user, password)
    smtp.sendmail("agent@example.com", to, f"Message-ID: <{number}@example.com>\\r\\n\\r\\nhello\\r\\n")
"""


async def _send(server: MailServer, name: str, *, to: str = "ann@example.com", password: str = "") -> None:
    message = EmailMessage()
    message["Message-ID"], message["From"], message["To"] = f"<{name}@example.com>", SENDER, to
    message["Subject"] = f"About {name}"
    message.set_content("Hello.\n")
    await aiosmtplib.send(
        message,
        hostname="127.0.0.1",
        port=server.smtp_port,
        username=server.user,
        password=password or server.password,
        local_hostname="test",
        timeout=10,
    )


async def _search(server: MailServer, name: str, *, password: str = "") -> list[Any]:
    def look() -> list[Any]:
        imap = imaplib.IMAP4("127.0.0.1", server.imap_port, timeout=10)
        try:
            imap.login(server.user, password or server.password)
            assert imap.select("Sent", readonly=True)[0] == "OK"
            assert imap.noop()[0] == "OK"
            status, plain = imap.search(None, "HEADER", "Message-ID", f'"<{name}@example.com>"')
            if status != "OK":
                raise imaplib.IMAP4.error(plain[0])
            imap.logout()
        finally:
            imap.file.close()
            imap.sock.close()
        return plain

    return await asyncio.to_thread(look)


async def _kill_a_sender_at(server: MailServer, hold: str, *, name: str, to: str = "ann@example.com") -> None:
    command = [sys.executable, "-c", SENDING_PROCESS, str(server.smtp_port), server.user, server.password]
    process = await asyncio.create_subprocess_exec(*command, name, to)
    try:
        await server.wait_held(hold, seconds=20)
    finally:
        process.kill()
        await process.wait()

    async def gone() -> None:
        assert await server.wait_held(hold, at_least=0) == 0

    await eventually(gone)


async def test_accepted_mails_are_listed_in_order(mail_server: MailServer) -> None:
    await _send(mail_server, "one")
    await _send(mail_server, "two", to="Bob@example.com")

    first, second = await mail_server.accepted()

    assert (first.number, first.message_id, first.sender, first.to, first.subject, first.text) == (
        1,
        "<one@example.com>",
        SENDER,
        ["ann@example.com"],
        "About one",
        "Hello.\n",
    )
    assert (second.number, second.message_id) == (2, "<two@example.com>")
    assert first.when <= second.when


async def test_counts_are_by_recipient_and_by_message_id(mail_server: MailServer) -> None:
    for name, to in (("one", "ann@example.com"), ("one", "ANN@example.com"), ("two", "bob@example.com")):
        await _send(mail_server, name, to=to)

    totals = await mail_server.stats()

    assert totals.accepted == 3
    assert totals.by_recipient == {"ann@example.com": 2, "bob@example.com": 1}
    assert totals.by_message_id == {"<one@example.com>": 2, "<two@example.com>": 1}


async def test_hundreds_of_mails_at_once_are_all_accepted(mail_server: MailServer) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(300):
            group.create_task(_send(mail_server, f"mail-{number}"))

    assert (await mail_server.stats()).accepted == 300
    assert {mail.message_id for mail in await mail_server.accepted()} == {
        f"<mail-{number}@example.com>" for number in range(300)
    }


async def test_sent_shows_what_was_accepted_and_nothing_else(mail_server: MailServer) -> None:
    await _send(mail_server, "one")
    await _send(mail_server, "two")

    assert await _search(mail_server, "two") == [b"2"]
    assert await _search(mail_server, "three") == [b""]
    assert (await mail_server.stats()).searches == 2


async def test_sent_can_lag_behind(mail_server: MailServer) -> None:
    await mail_server.script(sent_lag=1)
    await _send(mail_server, "one")

    assert [await _search(mail_server, "one"), await _search(mail_server, "one")] == [[b""], [b"1"]]


async def test_wrong_credentials_are_refused_at_both_doors(mail_server: MailServer) -> None:
    with pytest.raises(aiosmtplib.SMTPAuthenticationError):
        await _send(mail_server, "one", password="wrong")
    with pytest.raises(imaplib.IMAP4.error, match="AUTHENTICATIONFAILED"):
        await _search(mail_server, "one", password="wrong")
    assert await mail_server.accepted() == []


@pytest.mark.parametrize("at", ["mail", "rcpt", "data", "before_accept"])
async def test_refused_mail_is_not_accepted(mail_server: MailServer, at: Point) -> None:
    await mail_server.script(Fault(at=at, refuse=Refusal(code=451, message="come back later"), times=1))

    with pytest.raises(
        (aiosmtplib.SMTPResponseException, aiosmtplib.SMTPRecipientsRefused), match="come back"
    ):
        await _send(mail_server, "one")

    assert await mail_server.accepted() == []
    await _send(mail_server, "one")
    assert len(await mail_server.accepted()) == 1


async def test_faults_happen_to_recipients_that_match(mail_server: MailServer) -> None:
    await mail_server.script(Fault(at="rcpt", to="*@bad.example.com", refuse=Refusal()))

    await _send(mail_server, "one")
    with pytest.raises(aiosmtplib.SMTPRecipientsRefused):
        await _send(mail_server, "two", to="ann@bad.example.com")

    assert (await mail_server.stats()).by_recipient == {"ann@example.com": 1}


@pytest.mark.parametrize(
    ("at", "accepted"), [("rcpt", 0), ("data", 0), ("before_accept", 0), ("before_answer", 1)]
)
async def test_dropped_connection_leaves_the_truth_of_its_point(
    mail_server: MailServer, at: Point, accepted: int
) -> None:
    await mail_server.script(Fault(at=at, drop=True))

    with pytest.raises(aiosmtplib.SMTPServerDisconnected):
        await _send(mail_server, "one")

    assert len(await mail_server.accepted()) == accepted


@pytest.mark.parametrize(("at", "accepted"), [("before_accept", 0), ("before_answer", 1)])
async def test_held_mail_is_answered_after_its_release(
    mail_server: MailServer, at: Point, accepted: int
) -> None:
    await mail_server.script(Fault(at=at, hold="gate"))
    sending = asyncio.create_task(_send(mail_server, "one"))

    await mail_server.wait_held("gate")
    assert len(await mail_server.accepted()) == accepted
    assert await mail_server.release("gate") == 1
    await sending

    assert len(await mail_server.accepted()) == 1


@pytest.mark.parametrize(("at", "accepted"), [("before_accept", 0), ("before_answer", 1)])
async def test_killed_client_leaves_the_truth_of_its_point(
    mail_server: MailServer, at: Point, accepted: int
) -> None:
    await mail_server.script(Fault(at=at, to="killed@example.com", hold="gate"))

    await _kill_a_sender_at(mail_server, "gate", name="killed", to="killed@example.com")

    await _send(mail_server, "after")
    totals = await mail_server.stats()
    assert totals.by_message_id["<killed@example.com>"] == accepted
    assert totals.by_message_id["<after@example.com>"] == 1


async def test_imap_that_is_down_does_not_greet(mail_server: MailServer) -> None:
    await mail_server.script(imap="down")
    await _send(mail_server, "one")

    with pytest.raises(imaplib.IMAP4.error, match="down"):
        await _search(mail_server, "one")


async def test_imap_search_is_refused_dropped_and_held(mail_server: MailServer) -> None:
    await _send(mail_server, "one")
    await mail_server.script(
        Fault(at="search", refuse=Refusal(message="not today"), times=1),
        Fault(at="search", drop=True, times=1),
        Fault(at="search", hold="gate"),
    )

    with pytest.raises(imaplib.IMAP4.error, match="not today"):
        await _search(mail_server, "one")
    with pytest.raises((imaplib.IMAP4.abort, ConnectionError)):
        await _search(mail_server, "one")
    searching = asyncio.create_task(_search(mail_server, "one"))
    await mail_server.wait_held("gate")
    await mail_server.release("gate")

    assert await searching == [b"1"]


async def test_imap_says_what_it_does_not_know(mail_server: MailServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", mail_server.imap_port)
    lines = [
        b"a SEARCH ALL",
        b"b SELECT Sent",
        b"c FETCH 1 BODY[]",
        b"d",
        b"",
        f'e LOGIN "{mail_server.user}" "{mail_server.password}"'.encode(),
        b"f SELECT Inbox",
        b'g SELECT "Sent"',
        b"h UID SEARCH CHARSET UTF-8 ALL",
        b"i SEARCH SUBJECT x",
        b"j LOGOUT",
    ]
    writer.write(b"".join(line + b"\r\n" for line in lines))

    async with asyncio.timeout(10):
        said = (await reader.read()).decode().splitlines()
    writer.close()
    await writer.wait_closed()

    tagged = [" ".join(line.split()[:2]) for line in said if not line.startswith("* ")]
    assert tagged == ["a BAD", "b BAD", "c BAD", "d BAD", "e OK", "f NO", "g OK", "h OK", "i BAD", "j OK"]
    assert "* SEARCH" in said


async def test_reset_forgets_mails_and_drops_what_is_held(mail_server: MailServer) -> None:
    await _send(mail_server, "one")
    await mail_server.script(Fault(at="before_accept", hold="gate"))
    sending = asyncio.create_task(_send(mail_server, "two"))
    await mail_server.wait_held("gate")

    await mail_server.reset()

    with pytest.raises(aiosmtplib.SMTPServerDisconnected):
        await sending
    assert await mail_server.accepted() == []
    assert await _search(mail_server, "one") == [b""]


async def test_waits_that_are_not_met_say_so(mail_server: MailServer) -> None:
    with pytest.raises(TimeoutError, match="0 connections of 1"):
        await mail_server.wait_held("gate", seconds=0)
    with pytest.raises(TimeoutError, match="0 mails of 1"):
        await mail_server.accepted(at_least=1, seconds=0)


@pytest.mark.parametrize(
    "fault",
    [
        {"at": "before_answer", "refuse": {}},
        {"at": "rcpt"},
        {"at": "rcpt", "drop": True, "refuse": {}},
        {"at": "search", "to": "ann@example.com", "drop": True},
        {"at": "rcpt", "dorp": True},
    ],
)
async def test_script_that_contradicts_itself_is_refused(
    mail_server: MailServer, fault: dict[str, object]
) -> None:
    async with httpx.AsyncClient(base_url=mail_server.control_url, trust_env=False) as http:
        answer = await http.put("/script", json={"faults": [fault]})

    assert answer.status_code == 400


@pytest.mark.parametrize("how", ["stdin", "sigterm"])
def test_process_ends_with_a_mail_still_held(how: str) -> None:
    command = [sys.executable, "-m", "tests.fakes.mail_server"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        ready = json.loads(process.stdout.readline())
        fault = {"at": "before_answer", "hold": "for ever"}
        httpx.put(f"{ready['url']}/script", json={"faults": [fault]}).raise_for_status()
        arguments = [str(ready["smtp"]), SENDER, "mail-password", "one", "ann@example.com"]
        with subprocess.Popen(
            [sys.executable, "-c", SENDING_PROCESS, *arguments], stderr=subprocess.DEVNULL
        ) as sender:
            held = {"at_least": 1, "seconds": 10}
            assert httpx.get(f"{ready['url']}/holding/for ever", params=held, timeout=20).json() == {
                "waiting": 1
            }
            if how == "stdin":
                process.stdin.close()
            else:
                process.terminate()
            code = process.wait(10)
            assert sender.wait(10) != 0

    assert code == (0 if how == "stdin" else -signal.SIGTERM)
