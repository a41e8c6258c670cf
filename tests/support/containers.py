"""Servers in containers, where a Docker engine answers."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import PortWaitStrategy

_NATS_CONFIG = "jetstream {{ store_dir: /data }}\n{authorization}\n"


@cache
def docker_answers() -> bool:
    """Whether a Docker engine really answers; asked in another process, since a failed question leaks its socket."""
    question = "import docker; docker.from_env(timeout=2).ping()"
    asked = subprocess.run([sys.executable, "-c", question], capture_output=True, check=False)
    return asked.returncode == 0


@contextmanager
def nats_container(authorization: str) -> Iterator[str]:
    """NATS with JetStream; yields `host:port`."""
    config = _NATS_CONFIG.format(authorization=authorization).encode()
    container = DockerContainer("nats:2").with_copy_into_container(config, "/headrace.conf")
    with _running(container.with_command("--config /headrace.conf"), 4222) as address:
        yield address


@contextmanager
def postgres_container(password: str) -> Iterator[str]:
    """PostgreSQL with this password for `postgres`; yields `host:port`."""
    container = DockerContainer("postgres:18").with_env("POSTGRES_PASSWORD", password)
    with _running(container.with_command("-c fsync=off -c max_connections=200"), 5432) as address:
        yield address


@contextmanager
def valkey_container(password: str) -> Iterator[str]:
    """Valkey with this password; yields `host:port`."""
    container = DockerContainer("valkey/valkey:9").with_command(f"valkey-server --requirepass {password}")
    with _running(container, 6379) as address:
        yield address


@contextmanager
def _running(container: DockerContainer, port: int) -> Iterator[str]:
    container.with_exposed_ports(port).waiting_for(PortWaitStrategy(port))
    with container:
        yield f"{container.get_container_host_ip()}:{container.get_exposed_port(port)}"
