"""Arguments as a model gives them: coerced where the meaning is plain, else answered with a sentence."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from headrace.tools import Tool, ToolContext, ToolError, tool


class Colour(StrEnum):
    RED = "red"


class Person(BaseModel, extra="forbid"):
    name: str

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not name:
            raise ValueError("a person has a name")
        return name


@tool
def visit(
    *,
    city: str,
    people: list[Person],
    days: Annotated[int, Field(ge=1)] = 2,
    how: Literal["train", "car"] = "train",
    when: date | None = None,
    colours: frozenset[Colour] = frozenset(),
    schema: str = "s",
    _id: str | None = None,
    ctx: ToolContext,
) -> str:
    """Visit a city."""
    return f"{city}{people}{days}{how}{when}{colours}{schema}{_id}{ctx}"


GOOD: dict[str, Any] = {"city": "Rome", "people": [{"name": "Ann"}]}


def test_defaults_are_filled_in() -> None:
    assert visit.read(GOOD) == {
        "city": "Rome",
        "people": [Person(name="Ann")],
        "days": 2,
        "how": "train",
        "when": None,
        "colours": frozenset(),
        "schema": "s",
        "_id": None,
    }


def test_plain_meanings_are_coerced() -> None:
    given = {**GOOD, "days": "3", "when": "2026-01-02", "colours": ["red"], "schema": "x", "_id": "y"}

    read = visit.read(given)

    assert (read["days"], read["when"], read["colours"]) == (3, date(2026, 1, 2), {Colour.RED})
    assert (read["schema"], read["_id"]) == ("x", "y")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"days": "many"},
            "the argument `days` should be a valid integer, unable to parse string as an integer, not 'many'",
        ),
        ({"days": 0}, "the argument `days` should be greater than or equal to 1, not 0"),
        ({"how": "ship"}, "the argument `how` should be 'train' or 'car', not 'ship'"),
        ({"city": None}, "the argument `city` should be a valid string, not None"),
        ({"people": [{}]}, "the argument `people[0].name` is missing"),
        ({"people": [{"name": ""}]}, "the argument `people[0].name` does not fit: a person has a name"),
        ({"people": [{"name": "A", "age": 1}]}, "the argument `people[0].age` does not exist"),
        ({"people": "Ann"}, "the argument `people` should be a valid list, not 'Ann'"),
        (
            {"town": "x"},
            "there is no argument `town` (there are: `city`, `people`, `days`, `how`, `when`, `colours`, `schema`, `_id`)",
        ),
        ({"ctx": {}}, "there is no argument `ctx`"),
        ({"argument_0": "x"}, "there is no argument `argument_0`"),
        ({"days": 0, "how": "ship"}, "not 0; the argument `how`"),
        ({"people": [{}] * 9}, "; and 4 more"),
    ],
)
def test_what_does_not_fit_is_told_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ToolError) as refused:
        visit.read(GOOD | change)

    assert sentence in str(refused.value)


def test_missing_argument_is_named() -> None:
    with pytest.raises(
        ToolError, match=r"^the argument `city` is missing; the argument `people` is missing$"
    ):
        visit.read({})


@pytest.mark.parametrize("arguments", [None, [], "city", 1])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    with pytest.raises(ToolError, match="the arguments must be an object"):
        visit.read(arguments)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*visit.parameters["properties"], "x", "\ud800"]), JSON))
def test_any_object_is_read_or_answered_with_a_sentence(arguments: dict[str, Any]) -> None:
    try:
        read = visit.read(GOOD | arguments)
    except ToolError as error:
        sentence, names = str(error), []
    else:
        sentence, names = "", list(read)

    assert len(sentence.encode()) < 2_000
    assert names == ([] if sentence else list(visit.parameters["properties"]))


def test_default_that_can_change_is_not_shared() -> None:
    @tool
    def gather(names: list[str] = []) -> None:  # noqa: B006
        """Gather."""
        names.append("x")

    gather.function(**gather.read({}))

    assert gather.read({}) == {"names": []}


def test_tool_with_a_schema_of_its_own_gets_arguments_as_they_are() -> None:
    foreign = Tool(name="a", description="A.", parameters={"type": "object"}, function=print)

    assert foreign.read({"anything": [1]}) == {"anything": [1]}
