"""Which audit events are acts."""

import os
from typing import Any

import pytest

from headrace.tools.refusals import attempted


@pytest.mark.parametrize(
    ("event", "arguments", "what"),
    [
        ("open", ("/a", "r", os.O_RDONLY | os.O_CLOEXEC), None),
        ("open", ("/a", None, os.O_RDONLY | os.O_DIRECTORY), None),
        ("open", (3, "r", 0), None),
        ("open", ("/a", "rb", None), None),
        ("open", ("/a", "w", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "write the file '/a'"),
        ("open", ("/a", None, os.O_RDWR), "write the file '/a'"),
        ("open", (os.devnull, "w", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), None),
        ("sqlite3.connect", (":memory:",), "open the database ':memory:'"),
        ("sqlite3.connect", ("file:a?mode=memory",), "open the database 'file:a?mode=memory'"),
        ("os.listdir", ("/",), None),
        ("import", ("os", None, None, None, None), None),
        ("socket.__new__", (None, 2, 1, 0), None),
        ("smtplib.send", (None, b""), "send a mail"),
        ("http.client.connect", (None, "a", 80), "reach the network"),
        ("_thread.start_new_thread", (print, (), None), "start a thread"),
    ],
)
def test_event_in_words(event: str, arguments: tuple[Any, ...], what: str | None) -> None:
    assert attempted(event, arguments) == what
