"""Which model answers where an agent names none."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.local.server import StartError

_PROVIDERS = {
    "OPENAI_API_KEY": "openai/gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
    "GEMINI_API_KEY": "gemini/gemini-2.5-flash",
}


@dataclass(frozen=True, slots=True)
class DefaultModel:
    """The choice, and why."""

    name: str
    reason: str
    is_demo: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """The environment that tells the runner."""


def choose_model(environment: Mapping[str, str], *, demo_url: str) -> DefaultModel:
    """The user's own choice, else that of the first provider whose key is there, else the demo model.

    Args:
        environment: The user's.
        demo_url: Where the demo model answers, should it be needed.

    Raises:
        StartError: A server is named without a model.
    """
    if name := environment.get("HEADRACE_DEFAULT_MODEL"):
        return DefaultModel(name, "from HEADRACE_DEFAULT_MODEL")
    if base := environment.get("HEADRACE_DEFAULT_API_BASE"):
        raise StartError(
            f"HEADRACE_DEFAULT_API_BASE is {base}, but no model is named. What to do: set HEADRACE_DEFAULT_MODEL as well, "
            "such as openai/llama3.2."
        )
    for key, name in _PROVIDERS.items():
        if environment.get(key):
            return DefaultModel(name, f"because {key} is set", settings={"HEADRACE_DEFAULT_MODEL": name})
    return DefaultModel(
        "openai/headrace-demo",
        "a demo model that answers by rules, not an intelligence; set OPENAI_API_KEY, ANTHROPIC_API_KEY, "
        "GEMINI_API_KEY or HEADRACE_DEFAULT_MODEL for a real one",
        is_demo=True,
        settings={
            "HEADRACE_DEFAULT_MODEL": "openai/headrace-demo",
            "HEADRACE_DEFAULT_API_BASE": demo_url,
            "HEADRACE_DEFAULT_API_KEY": "demo",
        },
    )
