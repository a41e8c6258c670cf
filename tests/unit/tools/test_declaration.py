"""From a function to a tool: what a model is told, and which declarations are wrong."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from headrace.tools import CALL_AGAIN, KeyParts, Tool, ToolContext, ToolError, Verdict, tool


class Person(BaseModel):
    name: str
    age: int | None = None


def key(arguments: Mapping[str, Any], context: ToolContext) -> KeyParts:  # noqa: ARG001
    return [arguments["to"]]


async def look(key: str, context: ToolContext) -> Verdict:
    raise NotImplementedError


async def send(
    to: str, context: ToolContext, people: list[Person], how: Literal["mail", "fax"] = "mail"
) -> str:
    """Send a letter.

    It goes out at once.

    Args:
        to: Whom it is for,
            on one line.
        people: Who is told.

    Returns:
        Where it is.
    """
    return f"{to} {people} {how} {context.call}"


def test_declaration_of_a_function() -> None:
    assert tool(send).declaration() == {
        "type": "function",
        "function": {
            "name": "send",
            "description": "Send a letter.\n\nIt goes out at once.",
            "parameters": {
                "type": "object",
                "properties": {
                    "to": {"type": "string", "description": "Whom it is for,\non one line."},
                    "people": {
                        "type": "array",
                        "items": {"$ref": "#/$defs/Person"},
                        "description": "Who is told.",
                    },
                    "how": {"type": "string", "enum": ["mail", "fax"], "default": "mail"},
                },
                "required": ["to", "people"],
                "additionalProperties": False,
                "$defs": {
                    "Person": {
                        "title": "Person",
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "age": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
                        },
                        "required": ["name"],
                    }
                },
            },
        },
    }


def test_tool_without_parameters_takes_an_empty_object() -> None:
    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    assert ping.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_annotated_description_wins_over_the_docstring() -> None:
    @tool
    def find(city: Annotated[str, Field(description="A city", max_length=3)]) -> str:
        """Find.

        Args:
            city: Another.
        """
        return city

    assert find.parameters["properties"]["city"] == {
        "type": "string",
        "description": "A city",
        "maxLength": 3,
    }


def test_options_reach_the_tool() -> None:
    made = tool(
        name="send_mail",
        effect="idempotent",
        key=key,
        reconcile=look,
        provider_key=lambda key, _: key[:8],
        undoes=lambda arguments, _: ("other", arguments["to"]),
        approval=True,
        timeout=5,
        max_result=10,
        remembers=timedelta(days=1),
    )(send)

    assert (made.name, made.effect, made.key, made.reconcile) == ("send_mail", "idempotent", key, look)
    assert (made.approval, made.timeout, made.max_result, made.remembers) == (True, 5, 10, timedelta(days=1))


def test_tool_is_unsafe_unless_it_says_otherwise() -> None:
    assert tool(send).effect == "unsafe"


def test_one_decorator_makes_tools_of_many_functions() -> None:
    harmless = tool(effect="none")

    def one() -> None:
        """One."""

    def two() -> None:
        """Two."""

    assert [harmless(one).name, harmless(two).name] == ["one", "two"]


def test_version_is_of_the_name_the_parameters_and_the_effect() -> None:
    def other(to: int) -> str:
        """Send a letter."""
        return str(to)

    versions = {
        tool(send).version,
        tool(send, name="b").version,
        tool(send, effect="none").version,
        tool(other, name="send").version,
    }

    assert len(versions) == 4
    assert tool(send, timeout=1).version == tool(send).version


def everything(*args: str) -> None:
    """Do."""


def anything(**kwargs: str) -> None:
    """Do."""


def untyped(a) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Do."""


def positional(a: str, /) -> None:
    """Do."""


def undescribed(a: str) -> None: ...


def twice(a: ToolContext, b: ToolContext) -> None:
    """Do."""


def unknown(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Do."""


def opaque(a: Callable[[], int]) -> None:
    """Do."""


def plain() -> None:
    """Do."""


def generated() -> Any:
    """Do."""
    yield 1


async def streamed() -> Any:
    """Do."""
    yield 1


async def async_key(arguments: Mapping[str, Any], context: ToolContext) -> KeyParts:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "options", "sentence"),
    [
        (everything, {}, "`args` of `everything` takes any number of arguments"),
        (anything, {}, "`kwargs` of `anything` takes any number of arguments"),
        (untyped, {}, "`a` of `untyped` has no annotation"),
        (positional, {}, "`a` of `positional` cannot be given by its name"),
        (undescribed, {}, "`undescribed` needs a docstring"),
        (twice, {}, "`twice` takes the context more than once: a, b"),
        (unknown, {}, "an annotation of `unknown` is not known at run time: name 'Nowhere'"),
        (opaque, {}, "the parameters of `opaque` have no JSON Schema"),
        (generated, {}, "`generated` is a generator"),
        (streamed, {}, "`streamed` is a generator"),
        (plain, {"name": "a b"}, "`a b` needs a name of 1 to 64 letters"),
        (plain, {"name": ""}, "needs a name of 1 to 64 letters"),
        (plain, {"name": "a\n"}, "needs a name of 1 to 64 letters"),
        (plain, {"name": "a" * 65}, "needs a name of 1 to 64 letters"),
        (plain, {"effect": "idempotent"}, "is idempotent and needs a `key`"),
        (plain, {"effect": "some"}, "has an effect that is none: 'some'"),
        (plain, {"key": key}, "has a `key`, and its effect is unsafe"),
        (plain, {"effect": "none", "key": key}, "has a `key`, and its effect is none"),
        (plain, {"effect": "none", "reconcile": CALL_AGAIN}, "has no effect, and so can have no reconcile"),
        (plain, {"effect": "none", "provider_key": key}, "has no effect, and so can have no provider_key"),
        (plain, {"effect": "idempotent", "key": async_key}, "has an async `key`"),
        (plain, {"reconcile": key}, "needs an async `reconcile`, or CALL_AGAIN"),
        (plain, {"reconcile": "again"}, "needs an async `reconcile`, or CALL_AGAIN"),
        (plain, {"timeout": 0}, "needs a timeout of more than 0 seconds, not 0"),
        (plain, {"timeout": float("nan")}, "needs a timeout of more than 0 seconds, not nan"),
        (plain, {"max_result": 0}, "needs a max_result of at least 1 character, not 0"),
        (plain, {"remembers": timedelta(0)}, "must remember its keys for some time"),
    ],
)
def test_wrong_declaration_is_told_in_a_sentence(function: Any, options: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        tool(function, **options)


def test_directly_made_tool_is_held_to_the_same_rules() -> None:
    with pytest.raises(TypeError, match="is idempotent and needs a `key`"):
        Tool(name="a", description="A.", parameters={}, function=plain, effect="idempotent")


def test_effect_key_is_of_the_account_the_tool_the_trigger_and_the_parts(context: ToolContext) -> None:
    send_once = tool(send, effect="idempotent", key=key)

    assert send_once.effect_key({"to": "ann", "how": "fax"}, context) == send_once.effect_key(
        {"to": "ann"}, context
    )
    assert send_once.effect_key({"to": "ann"}, context) != send_once.effect_key({"to": "bob"}, context)


def test_effect_key_of_an_unsafe_tool_is_the_step_and_of_a_harmless_one_nothing(context: ToolContext) -> None:
    assert (
        tool(send).effect_key({"to": "ann"}, context) == tool(send).effect_key({"to": "bob"}, context) != ""
    )
    assert tool(send, effect="none").effect_key({"to": "ann"}, context) == ""


def test_secret_is_given_by_name_and_never_shown(context: ToolContext) -> None:
    assert context.secret("mail") == "hunter2"
    assert "hunter2" not in repr(context)


def test_secret_that_is_not_configured_is_named(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="the secret `fax` is not configured"):
        context.secret("fax")
