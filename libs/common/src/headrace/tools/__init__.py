"""The tools SDK: what a tool is, what it may do to the world, and how it is made once."""

from headrace.tools.canonical import email_address, text
from headrace.tools.context import ToolContext
from headrace.tools.declare import ToolOptions, tool
from headrace.tools.entry_points import installed
from headrace.tools.errors import ToolError
from headrace.tools.guard import EffectRefused, forbid_fork, watch
from headrace.tools.keys import KeyPart, KeyParts, effect_key
from headrace.tools.perform import Done, Failed, Outcome, Unknown, perform
from headrace.tools.tool import (
    Effect,
    KeyFunction,
    ProviderKeyFunction,
    ReconcileFunction,
    Tool,
    UndoFunction,
)
from headrace.tools.verdict import CALL_AGAIN, CannotTell, DidNotHappen, Happened, Verdict

__all__ = [
    "CALL_AGAIN",
    "CannotTell",
    "DidNotHappen",
    "Done",
    "Effect",
    "EffectRefused",
    "Failed",
    "Happened",
    "KeyFunction",
    "KeyPart",
    "KeyParts",
    "Outcome",
    "ProviderKeyFunction",
    "ReconcileFunction",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolOptions",
    "UndoFunction",
    "Unknown",
    "Verdict",
    "effect_key",
    "email_address",
    "forbid_fork",
    "installed",
    "perform",
    "text",
    "tool",
    "watch",
]
