"""What a model says is put together so that it can be stored and sent."""

from types import SimpleNamespace
from typing import Any

from headrace.runner.llm import _Gathered
from headrace.runner.model import ModelRequest


def _chunk(content: str) -> Any:
    delta = SimpleNamespace(content=content, tool_calls=None)
    return SimpleNamespace(choices=[SimpleNamespace(delta=delta)], usage=None)


def test_pair_that_two_chunks_split_is_one_character() -> None:
    turn = _Gathered("m")

    told = [turn.take(_chunk(piece)) for piece in ("a\0 \ud83d", "\ude00!")]

    assert told == ["a ", "😀!"]
    assert turn.result(ModelRequest(None, (), ())).text == "a 😀!"
