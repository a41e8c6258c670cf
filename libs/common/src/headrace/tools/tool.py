"""Tool: what a model can ask for, with what is known of its effect."""

import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from headrace.tools.context import ToolContext
from headrace.tools.errors import ToolError
from headrace.tools.keys import KeyParts
from headrace.tools.keys import effect_key as key_of
from headrace.tools.verdict import CALL_AGAIN, Verdict

Effect = Literal["none", "idempotent", "unsafe"]
"""none: cannot write, and runs under a guard. idempotent: at most once for each key. unsafe: nothing is known."""

KeyFunction = Callable[[Mapping[str, Any], ToolContext], KeyParts]
"""What tells an effect from the tool's others for one trigger: from stable identity, never from a model's text."""

ReconcileFunction = Callable[[str, ToolContext], Awaitable[Verdict]]
"""Looks at the provider for an effect, by its provider key or else its effect key; the context has both."""

ProviderKeyFunction = Callable[[str, ToolContext], str]
"""From the effect key to what the provider is told, such as a Message-ID."""

UndoFunction = Callable[[Mapping[str, Any], ToolContext], tuple[str, KeyParts]]
"""The other tool and the key parts of its effect that a success here undoes."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function with a described input and a declared effect. The `tool` decorator makes them from functions.

    Raises:
        TypeError: The declaration contradicts itself.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments object."""
    function: Callable[..., Any]
    """Async, or synchronous: then it runs in a thread of its own."""
    effect: Effect = "unsafe"
    key: KeyFunction | None = None
    """Required for, and only for, an idempotent tool."""
    reconcile: ReconcileFunction | Literal["call_again"] | None = None
    provider_key: ProviderKeyFunction | None = None
    undoes: UndoFunction | None = None
    approval: bool = False
    """A person must say yes to each call."""
    timeout: float = 30.0
    """Seconds that a call may take."""
    max_result: int = 100_000
    """Characters that the model gets to read."""
    remembers: timedelta = timedelta(days=90)
    """How long its keys live: as long as a trigger can come again."""
    context_parameter: str | None = None
    """Name under which the function takes the context."""
    reader: Callable[[Mapping[str, Any]], dict[str, Any]] | None = field(default=None, repr=False)
    """Validates arguments; without it the function gets them as they are."""

    def __post_init__(self) -> None:
        for wrong, sentence in _rules(self):
            if wrong:
                raise TypeError(f"the tool `{self.name}` {sentence}")

    @property
    def version(self) -> str:
        """What an approval is bound to: a digest of the name, the parameters and the effect."""
        said = json.dumps([self.name, self.parameters, self.effect], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    def declaration(self) -> dict[str, Any]:
        """The tool as models are told of it (OpenAI's function declaration)."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a call: validated, coerced, with defaults.

        Raises:
            ToolError: They do not fit; the sentence says what would.
        """
        if not isinstance(arguments, Mapping):
            raise ToolError("the arguments must be an object with a value for each name")
        return dict(arguments) if self.reader is None else self.reader(arguments)

    def effect_key(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """The ledger's name for the effect of a call; empty for a tool without effects.

        An unsafe tool declares no key: its effect is named by the run and the step, and nothing else is the same.
        """
        if self.effect == "none":
            return ""
        parts = self.key(arguments, context) if self.key else (context.run_id, context.call)
        return key_of(account_id=context.account_id, tool=self.name, trigger=context.trigger, parts=parts)


def is_async(function: object) -> bool:
    """Whether calling it gives an awaitable: a coroutine function, or an object with such a `__call__`."""
    call = getattr(function, "__call__", None)  # noqa: B004  (the method itself is asked, not whether there is one)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _rules(tool: Tool) -> tuple[tuple[bool, str], ...]:
    """Each contradiction: whether it is there, and what to say of it."""
    keyed = tool.effect == "idempotent"
    named = {"reconcile": tool.reconcile, "provider_key": tool.provider_key, "undoes": tool.undoes}
    surplus = [name for name, value in named.items() if value is not None]
    return (
        (not _NAME.fullmatch(tool.name), "needs a name of 1 to 64 letters, digits, `_` or `-`"),
        (not tool.description.strip(), "needs a description"),
        (tool.effect not in ("none", "idempotent", "unsafe"), f"has an effect that is none: {tool.effect!r}"),
        (keyed and tool.key is None, "is idempotent and needs a `key`: what makes two calls the same"),
        (not keyed and tool.key is not None, f"has a `key`, and its effect is {tool.effect}: say idempotent"),
        (tool.effect == "none" and bool(surplus), f"has no effect, and so can have no {', '.join(surplus)}"),
        (tool.key is not None and is_async(tool.key), "has an async `key`: a key is computed, not looked up"),
        (not _reconciles(tool.reconcile), "needs an async `reconcile`, or CALL_AGAIN: it asks the provider"),
        (not tool.timeout > 0, f"needs a timeout of more than 0 seconds, not {tool.timeout}"),
        (tool.max_result < 1, f"needs a max_result of at least 1 character, not {tool.max_result}"),
        (tool.remembers <= timedelta(0), f"must remember its keys for some time, not {tool.remembers}"),
        (_generates(tool.function), "is a generator: it must return its result"),
    )


def _reconciles(reconcile: object) -> bool:
    return reconcile is None or reconcile == CALL_AGAIN or is_async(reconcile)


def _generates(function: object) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
