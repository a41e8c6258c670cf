"""What Headrace keeps in its home folder: secrets, ports, data and logs."""

import base64
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from headrace.local.private_file import write_private

SERVICES = ("gateway", "runner", "rag", "webhooks", "scheduler", "usage")
OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one local deployment."""

    root: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """`HEADRACE_HOME`, or `.headrace` in the current folder."""
        return cls(Path(environment.get("HEADRACE_HOME") or ".headrace").absolute())

    def make(self) -> None:
        """Make the folder, closed to other users."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def lock(self) -> Path:
        """Held by the supervisor that runs."""
        return self.root / "lock"

    @property
    def secrets(self) -> Path:
        """Every secret that was generated here."""
        return self.root / "secrets.json"

    @property
    def ports(self) -> Path:
        """The ports of the last start."""
        return self.root / "ports.json"

    @property
    def children(self) -> Path:
        """The processes of the last start."""
        return self.root / "children.json"

    def log(self, name: str) -> Path:
        """A child's log."""
        return self.root / "logs" / f"{name}.log"


@dataclass(frozen=True, slots=True)
class Secrets:
    """What was generated at the first start, and is kept ever after."""

    api_key: str
    """The first API key of the gateway."""
    fernet_key: str
    """Encrypts credentials at rest."""
    valkey: str
    superuser: str
    """PostgreSQL's superuser's password."""
    postgres: Mapping[str, str]
    """The password of each service's role."""
    nats: Mapping[str, str]
    """The password of each service's user, and the operator's."""

    @classmethod
    def kept(cls, path: Path) -> Self:
        """The secrets in a file, which is made where it is missing and completed where a service is new."""
        old = json.loads(path.read_text()) if path.exists() else {}
        kept = cls(
            api_key=old.get("api_key") or f"hr_{secrets.token_urlsafe(32)}",
            fernet_key=old.get("fernet_key") or base64.urlsafe_b64encode(os.urandom(32)).decode(),
            valkey=old.get("valkey") or _password(),
            superuser=old.get("superuser") or _password(),
            postgres={name: _password() for name in SERVICES} | old.get("postgres", {}),
            nats={name: _password() for name in (*SERVICES, OPERATOR)} | old.get("nats", {}),
        )
        if asdict(kept) != old:
            write_private(path, json.dumps(asdict(kept), indent=1))
        return kept


def _password() -> str:
    return secrets.token_hex(16)
