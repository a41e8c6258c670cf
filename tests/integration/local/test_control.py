"""The commands that act on a deployment from outside."""

import json
from pathlib import Path

import pytest

from headrace.local.control import connections, destroy, down, logs, status
from headrace.local.lock import held
from headrace.local.state import Home, Secrets


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    Secrets.kept(made.secrets)
    return made


@pytest.fixture
def environment(home: Home) -> dict[str, str]:
    return {"HEADRACE_HOME": str(home.root)}


@pytest.mark.parametrize("command", [status, down])
def test_nothing_to_look_at_is_said(
    command: object, home: Home, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(command)

    code = command(environment)

    assert (code, capsys.readouterr().err) == (1, f"Headrace is not running in {home.root}.\n")


def test_data_is_not_removed_while_headrace_runs(home: Home, environment: dict[str, str]) -> None:
    with held(home.lock):
        code = destroy(environment, yes=True)

    assert (code, home.root.exists()) == (1, True)


@pytest.mark.parametrize("yes", [True, False])
def test_data_is_removed_only_for_a_yes(home: Home, environment: dict[str, str], *, yes: bool) -> None:
    code = destroy(environment, yes=yes)

    assert (code == 0, not home.root.exists()) == (yes, yes)


def test_a_folder_that_is_no_deployment_is_left_alone(tmp_path: Path) -> None:
    code = destroy({"HEADRACE_HOME": str(tmp_path)}, yes=True)

    assert (code, tmp_path.exists()) == (1, True)


def test_logs_show_the_last_lines(
    home: Home, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    home.log("usage").parent.mkdir()
    home.log("usage").write_text("one\ntwo\nthree\n")

    code = logs(environment, "usage", lines=2, follow=False)

    assert (code, capsys.readouterr().out) == (0, "two\nthree\n")


def test_an_unknown_log_is_answered_with_the_known(
    home: Home, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    home.log("usage").parent.mkdir()
    home.log("usage").touch()

    code = logs(environment, "usaeg", lines=2, follow=False)

    assert (code, capsys.readouterr().err) == (1, "There is no log of 'usaeg'; there are: usage.\n")


def test_the_operators_connections_are_printed(
    home: Home, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    home.ports.write_text(json.dumps({"nats": 1, "postgres": 2, "valkey": 3}))
    secrets = Secrets.kept(home.secrets)

    connections(environment)

    assert capsys.readouterr().out.splitlines() == [
        f"psql 'postgresql://postgres:{secrets.superuser}@127.0.0.1:2/headrace'",
        f"nats --server 'nats://operator:{secrets.nats['operator']}@127.0.0.1:1' stream report",
        f"redis-cli -u 'redis://:{secrets.valkey}@127.0.0.1:3/0'",
    ]
