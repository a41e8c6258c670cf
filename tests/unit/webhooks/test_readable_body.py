import pytest

from headrace.common.errors import TooLarge
from headrace.webhooks.errors import NotText
from headrace.webhooks.receive import readable


def test_text_is_kept_whole() -> None:
    assert readable("a\r\n世界 ".encode(), max_bytes=1_024) == "a\r\n世界 "


@pytest.mark.parametrize("body", [b"\xff\xfe", b"ok\x80", b"a\0b"])
def test_what_is_no_text_is_refused(body: bytes) -> None:
    with pytest.raises(NotText):
        readable(body, max_bytes=1_024)


def test_size_is_that_of_the_message_not_of_the_body() -> None:
    quotes = b'"' * 600

    with pytest.raises(TooLarge, match="1202 bytes"):
        readable(quotes, max_bytes=1_024)
