"""What each child is told."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.local.plan import DEMO_MODEL, Plan
from headrace.local.state import SERVICES, Home, Secrets


def plan(folder: Path, environment: Mapping[str, str]) -> Plan:
    names = (*SERVICES, DEMO_MODEL, "nats", "postgres", "valkey")
    ports = {name: 20_000 + number for number, name in enumerate(names)}
    return Plan(environment, Home(folder), Secrets.kept(folder / "secrets.json"), ports)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_gets_its_own_credentials_and_nobody_elses(tmp_path: Path, service: str) -> None:
    made = plan(tmp_path, {})
    told = " ".join(made.service(service).environment.values())

    foreign = [
        name
        for name in SERVICES
        if name != service and (made.secrets.nats[name] in told or made.secrets.postgres[name] in told)
    ]

    assert (made.secrets.nats[service] in told, made.secrets.postgres[service] in told, foreign) == (
        True,
        True,
        [],
    )


@pytest.mark.parametrize("service", SERVICES)
def test_only_the_scheduler_gets_the_operators_identity(tmp_path: Path, service: str) -> None:
    made = plan(tmp_path, {})

    told = " ".join(made.service(service).environment.values())

    assert (made.secrets.nats["operator"] in told) is (service == "scheduler")


def test_what_the_user_sets_wins(tmp_path: Path) -> None:
    environment = {"HEADRACE_MIGRATE_ON_START": "false", "OTEL_SERVICE_NAME": "mine"}

    told = plan(tmp_path, environment).service("usage").environment

    assert (told["HEADRACE_MIGRATE_ON_START"], told["OTEL_SERVICE_NAME"]) == ("false", "mine")


def test_a_setting_of_one_service_is_not_shown_to_another(tmp_path: Path) -> None:
    environment = {"HEADRACE_SCHEDULER_OPERATOR_NATS_URL": "nats://operator:secret@nats:4222"}

    assert (
        "HEADRACE_SCHEDULER_OPERATOR_NATS_URL" not in plan(tmp_path, environment).service("usage").environment
    )


def test_a_server_of_the_users_replaces_ours(tmp_path: Path) -> None:
    made = plan(tmp_path, {"HEADRACE_NATS_URL": "nats://broker:4222"})

    assert (made.owns_nats, made.owns_postgres, made.owns_valkey) == (False, True, True)
    assert (made.nats_url("usage"), made.operator_nats_url) == ("nats://broker:4222", "nats://broker:4222")


@pytest.mark.parametrize(
    ("environment", "model", "is_demo"),
    [
        ({}, "openai/headrace-demo", True),
        ({"OPENAI_API_KEY": "k"}, "openai/gpt-5-mini", False),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-4-5", False),
        ({"GEMINI_API_KEY": "k"}, "gemini/gemini-2.5-flash", False),
        ({"OPENAI_API_KEY": "k", "HEADRACE_DEFAULT_MODEL": "openai/mine"}, "openai/mine", False),
    ],
)
def test_the_runner_is_told_the_model(
    tmp_path: Path, environment: Mapping[str, str], model: str, *, is_demo: bool
) -> None:
    made = plan(tmp_path, environment)
    told = made.service("runner").environment

    assert (told["HEADRACE_DEFAULT_MODEL"], "HEADRACE_DEFAULT_API_BASE" in told) == (model, is_demo)
    assert made.model.is_demo is is_demo
