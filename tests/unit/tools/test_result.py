"""What a model reads of what a tool returned."""

import tracemalloc
from typing import Any

import pytest
from pydantic import BaseModel

from headrace.tools import Done, Failed, Tool, ToolContext, perform


class Place(BaseModel):
    city: str


def returning(value: object, **options: Any) -> Tool:
    async def function() -> object:
        return value

    return Tool(name="t", description="T.", parameters={}, function=function, **options)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "done"),
        (True, "true"),
        ({"é": [1, None]}, '{"é": [1, null]}'),
        (Place(city="Köln"), '{"city": "Köln"}'),
        ([Place(city="Rome")], '[{"city": "Rome"}]'),
        ("a\0b\ud83d\ude00\ud800", "ab\U0001f600\ufffd"),
        (["\ud800"], '["\ufffd"]'),
        (Place.model_construct(city="\ud800"), '{"city": "\ufffd"}'),
    ],
)
async def test_text_of_a_result(value: object, text: str, context: ToolContext) -> None:
    assert await perform(returning(value), {}, context) == Done(text)


def circular() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    ("value", "name"),
    [(object(), "object"), ({1, 2}, "set"), (b"a", "bytes"), ([object()], "list"), (circular(), "list")],
)
async def test_what_has_no_text_is_a_failure_only_where_nothing_was_done(
    value: object, name: str, context: ToolContext
) -> None:
    what = f"the tool returned a value of type {name}, which is not JSON"

    assert await perform(returning(value, effect="none"), {}, context) == Failed(what)
    assert await perform(returning(value, effect="unsafe"), {}, context) == Done(f"done; {what}")


async def test_longer_result_than_a_model_reads_is_cut_and_says_so(context: ToolContext) -> None:
    outcome = await perform(returning("abcdef", max_result=4), {}, context)

    assert outcome == Done("abcd\n[cut: these are the first 4 of 6 characters]")


async def test_result_of_exactly_the_limit_is_whole(context: ToolContext) -> None:
    assert await perform(returning("abcd", max_result=4), {}, context) == Done("abcd")


@pytest.mark.parametrize("letter", ["a", "é", "\ud800"])
async def test_fifty_megabytes_are_cut_before_they_are_copied(letter: str, context: ToolContext) -> None:
    tool = returning(letter * 50_000_000)
    tracemalloc.start()

    outcome = await perform(tool, {}, context)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert isinstance(outcome, Done)
    assert outcome.text.endswith("of 50000000 characters]")
    assert peak < 5_000_000
