"""Which model answers where an agent names none."""

import pytest

from headrace.local.default_model import choose_model
from headrace.local.server import StartError

DEMO = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "openai/headrace-demo"),
        ({"OPENAI_API_KEY": "k"}, "openai/gpt-5-mini"),
        ({"ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}, "anthropic/claude-sonnet-4-5"),
        ({"OPENAI_API_KEY": "k", "HEADRACE_DEFAULT_MODEL": "openai/llama3.2"}, "openai/llama3.2"),
    ],
)
def test_users_choice_wins_then_a_provider_then_the_demo(environment: dict[str, str], name: str) -> None:
    assert choose_model(environment, demo_url=DEMO).name == name


def test_server_without_a_model_is_refused_with_what_to_do() -> None:
    with pytest.raises(StartError, match="set HEADRACE_DEFAULT_MODEL"):
        choose_model({"HEADRACE_DEFAULT_API_BASE": "http://127.0.0.1:11434/v1"}, demo_url=DEMO)
