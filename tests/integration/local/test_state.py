"""What the home folder keeps."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.local.lock import AlreadyRunningError, Holder, held, holder
from headrace.local.ports import choose_ports
from headrace.local.state import Home, Secrets


def test_secrets_are_private_and_stay_the_same(tmp_path: Path) -> None:
    first = Secrets.kept(tmp_path / "secrets.json")

    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert Secrets.kept(tmp_path / "secrets.json") == first


def test_secrets_that_a_new_version_needs_are_added(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text('{"api_key": "hr_old", "nats": {"gateway": "old"}}')

    kept = Secrets.kept(tmp_path / "secrets.json")

    assert (kept.api_key, kept.nats["gateway"], "runner" in kept.nats) == ("hr_old", "old", True)


def test_ports_are_remembered(tmp_path: Path) -> None:
    names = ("gateway", "nats")
    said: list[str] = []

    first = choose_ports(tmp_path / "ports.json", names, fixed={}, say=said.append)

    assert choose_ports(tmp_path / "ports.json", names, fixed={}, say=said.append) == first
    assert (len(set(first.values())), said) == (2, [])


def test_a_port_that_was_taken_meanwhile_is_chosen_anew_with_a_line(tmp_path: Path) -> None:
    said: list[str] = []
    old = choose_ports(tmp_path / "ports.json", ["gateway"], fixed={}, say=said.append)["gateway"]

    with socket.create_server(("127.0.0.1", old)):
        new = choose_ports(tmp_path / "ports.json", ["gateway"], fixed={}, say=said.append)["gateway"]

    assert new != old
    assert said == [f"port {old} of gateway is taken by another program; gateway moves to {new}"]


def test_a_port_that_the_user_chose_is_taken_as_it_is(tmp_path: Path) -> None:
    chosen = choose_ports(tmp_path / "ports.json", ["gateway"], fixed={"gateway": 8080}, say=print)

    assert chosen == {"gateway": 8080}


def test_a_second_holder_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    with held(tmp_path / "lock") as lock:
        lock.sign("http://127.0.0.1:1")

        with pytest.raises(AlreadyRunningError) as refusal, held(tmp_path / "lock"):
            pass

    assert str(refusal.value) == f"Headrace is already running (pid {os.getpid()}) at http://127.0.0.1:1"


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    with held(tmp_path / "lock") as lock:
        lock.sign("http://127.0.0.1:1")
        during = holder(tmp_path / "lock")

    assert (during, holder(tmp_path / "lock")) == (Holder(os.getpid(), "http://127.0.0.1:1"), None)


def test_a_second_up_says_that_headrace_is_running(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with held(home.lock) as lock:
        lock.sign("http://127.0.0.1:1")

        second = subprocess.run(
            [sys.executable, "-m", "headrace.local", "up"],
            env={**os.environ, "HEADRACE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert (second.returncode, second.stderr) == (
        1,
        f"Headrace is already running (pid {os.getpid()}) at http://127.0.0.1:1\n",
    )
