import pytest

from headrace.runner.tools.send_email import MAX_BODY, MAX_SUBJECT, MailSettings, _message, send_email_tool
from headrace.tools import ToolContext, ToolError

SMTP = "smtps://clerk:secret@mail.example.com"
CALL = {"to": "ann@example.com", "subject": "Hello", "body": "Hello.", "template": "greeting"}


def _key(trigger: str = "event-1", sender: str = "clerk@example.com", **changes: str) -> str:
    tool = send_email_tool(MailSettings(smtp_url=SMTP, sender=sender))
    context = ToolContext(
        account_id="acme",
        agent_id="clerk",
        run_id="run-1",
        session_id=None,
        door="webhook",
        trigger=trigger,
        call="root/1",
    )
    assert tool.provider_key
    return tool.provider_key(tool.effect_key({**CALL, **changes}, context), context)


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "Good day"},
        {"body": "Good day."},
        {"to": "Ann <ann@example.com>"},
        {"to": " ANN@Example.com "},
        {"template": " Greeting "},
        {"sender": "The clerk <clerk@example.com>"},
    ],
)
def test_key_is_the_same_whatever_is_only_written_differently(changes: dict[str, str]) -> None:
    assert _key(**changes) == _key()


@pytest.mark.parametrize(
    "changes", [{"to": "bob@example.com"}, {"template": "farewell"}, {"trigger": "event-2"}]
)
def test_key_is_another_for_another_intent(changes: dict[str, str]) -> None:
    assert _key(**changes) != _key()


def test_message_id_is_in_the_domain_of_the_sender() -> None:
    assert _key(sender="Ann <ann@Post.example.com>").endswith("@post.example.com>")


@pytest.mark.parametrize("changes", [{"subject": "x" * (MAX_SUBJECT + 1)}, {"body": "x" * (MAX_BODY + 1)}])
def test_mail_that_is_too_large_is_refused_when_it_is_read(changes: dict[str, str]) -> None:
    tool = send_email_tool(MailSettings(smtp_url=SMTP, sender="clerk@example.com"))

    with pytest.raises(ToolError):
        tool.read({**CALL, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"smtp_url": "http://clerk:secret@mail.example.com"},
        {"smtp_url": "smtp://clerk:secret/x@mail.example.com"},
        {"smtp_url": "smtp://clerk:secret@mail.example.com:port"},
        {"smtp_url": "smtp://clerk:secret@mail.example.com:99999"},
        {"smtp_url": "smtp://"},
        {"smtp_url": "secret"},
        {"sent_url": "smtp://clerk:secret@mail.example.com"},
        {"sent_url": "imaps://clerk:secr%C3%A9t@mail.example.com"},
        {"sent_url": "imaps://clerk:secret%0D%0A@mail.example.com"},
        {"sender": "nobody"},
        {"sender": "a@example.com, b@example.com"},
        {"sender": "a@example.com\r\nBcc: b@example.com"},
    ],
)
def test_settings_that_make_no_sense_are_refused_without_the_password(changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="mail") as refused:
        send_email_tool(MailSettings(**{"smtp_url": SMTP, "sender": "clerk@example.com", **changes}))  # type: ignore[arg-type]

    assert "secr" not in str(refused.value)
    assert refused.value.__cause__ is None or "secr" not in str(refused.value.__cause__)


@pytest.mark.parametrize("body", ["Grüße\n", "Grüße\n" + "long " * 400, "long " * 400])
def test_mail_needs_no_server_that_takes_8_bits_or_long_lines(body: str) -> None:
    content = _message({"Subject": "Grüße"}, body)

    assert content.isascii()
    assert max(len(line) for line in content.splitlines()) < 100


def test_settings_show_no_password() -> None:
    assert "secret" not in repr(MailSettings(smtp_url=SMTP, sender="clerk@example.com", sent_url=SMTP))
