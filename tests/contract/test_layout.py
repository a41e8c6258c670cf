"""The rules of the house that review would otherwise repeat."""

import ast
import tomllib
from pathlib import Path
from typing import Any

from headrace.common.access import OPERATOR, SERVICES
from headrace.common.clock import SystemClock
from headrace.contracts import streams
from headrace.contracts.agents import TOOLS
from headrace.contracts.message import Message
from headrace.local import state
from headrace.local.asyncapi import QUESTIONS, senders
from headrace.local.contracts import FOLDER, documents
from headrace.runner.tools import all_tools

ROOT = Path(__file__).parents[2]
SOURCES = [
    path for part in ("libs", "services", "deploy", "bench") for path in (ROOT / part).rglob("src/**/*.py")
]
SUBJECTS = tuple(stream.message.address.partition("{")[0] for stream in streams.STREAMS)


def messages(parent: type[Message] = Message) -> list[type[Message]]:
    return [each for child in parent.__subclasses__() for each in (child, *messages(child))]


def test_namespace_has_no_init() -> None:
    assert [path for path in SOURCES if path.parent.name == "headrace" and path.name == "__init__.py"] == []


def test_services_are_the_folders_the_workspace_and_the_linter_know() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    roots = {name.removeprefix("headrace.") for name in project["tool"]["importlinter"]["root_packages"]}

    assert {path.name for path in (ROOT / "services").iterdir() if path.is_dir()} == set(SERVICES)
    assert roots == {*SERVICES, "common", "contracts", "local", "tools"}
    assert {f"headrace-{service}" for service in SERVICES} <= set(project["tool"]["uv"]["sources"])


def test_every_message_is_in_exactly_one_stream() -> None:
    kept = [stream.message for stream in streams.STREAMS]

    assert sorted(m.__name__ for m in kept) == sorted(m.__name__ for m in messages())


def test_every_message_has_somebody_who_may_send_it() -> None:
    assert [m.__name__ for m in messages() if not senders(m)] == []


def test_every_question_names_a_service_and_a_verb_once() -> None:
    subjects = [question.subject() for question in QUESTIONS]

    assert len(subjects) == len(set(subjects))
    assert {question.service for question in QUESTIONS} <= set(SERVICES)


def test_no_subject_is_written_outside_the_contracts() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if "contracts" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(SUBJECTS)
    ]

    assert found == []


def test_published_contracts_are_current() -> None:
    import json

    for name, document in documents().items():
        assert json.loads((ROOT / FOLDER / name).read_text()) == json.loads(json.dumps(document)), name


def test_runner_has_the_tools_that_agents_may_be_given() -> None:
    anything: Any = None

    assert (
        tuple(all_tools(clock=SystemClock(), rpc=anything, files=anything, files_of=anything, mail=None))
        == TOOLS
    )


def test_local_deployment_runs_the_services_that_have_permissions() -> None:
    assert state.SERVICES == SERVICES
    assert state.OPERATOR == OPERATOR
