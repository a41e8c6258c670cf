"""A scripted OpenAI-compatible model server: plays back steps, counts what it was asked, fails on demand."""

from tests.fakes.scripted_model.client import ScriptedModel
from tests.fakes.scripted_model.journal import Call, Totals
from tests.fakes.scripted_model.script import Failure, Rule, Script, ScriptedToolCall, Step, Usage, When

__all__ = [
    "Call",
    "Failure",
    "Rule",
    "Script",
    "ScriptedModel",
    "ScriptedToolCall",
    "Step",
    "Totals",
    "Usage",
    "When",
]
