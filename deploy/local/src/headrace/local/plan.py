"""What runs where, and what each child is told: worked out from the environment, the secrets and the ports."""

import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from headrace.local.default_model import DefaultModel, choose_model
from headrace.local.process import ChildSpec, Stage
from headrace.local.server import plain_environment
from headrace.local.state import OPERATOR, SERVICES, Home, Secrets

DEMO_MODEL = "demo_model"
_PYTHON = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": ""}
"""Logs appear at once, and modules are compiled at the first start instead of at every one."""


@dataclass(frozen=True)
class Plan:
    """One local deployment. A server whose URL the user's environment gives is not ours to run."""

    environment: Mapping[str, str]
    """The user's own; what it sets wins over what is chosen here."""
    home: Home
    secrets: Secrets
    ports: Mapping[str, int]

    @property
    def owns_nats(self) -> bool:
        """Whether the embedded NATS runs."""
        return "HEADRACE_NATS_URL" not in self.environment

    @property
    def owns_postgres(self) -> bool:
        """Whether the embedded PostgreSQL runs."""
        return "HEADRACE_DATABASE_URL" not in self.environment

    @property
    def owns_valkey(self) -> bool:
        """Whether the embedded Valkey runs."""
        return "HEADRACE_REDIS_URL" not in self.environment

    @property
    def host(self) -> str:
        """The address that the services listen on."""
        return self.environment.get("HEADRACE_HOST", "127.0.0.1")

    def url(self, service: str) -> str:
        """Where a service answers, seen from this machine."""
        host = "127.0.0.1" if self.host == "0.0.0.0" else self.host  # noqa: S104  (compared, not bound)
        return f"http://{host}:{self.ports[service]}"

    @property
    def webhooks_url(self) -> str:
        """Where senders of webhooks reach us."""
        return self.environment.get("HEADRACE_WEBHOOKS_PUBLIC_URL", self.url("webhooks"))

    @property
    def api_key(self) -> str:
        """The first API key."""
        return self.environment.get("HEADRACE_GATEWAY_BOOTSTRAP_KEY", self.secrets.api_key)

    @cached_property
    def model(self) -> DefaultModel:
        """The model that answers where an agent names none."""
        return choose_model(self.environment, demo_url=f"http://127.0.0.1:{self.ports[DEMO_MODEL]}/v1")

    @cached_property
    def _runner_name(self) -> str:
        """The same for one runner after another of one supervisor, which starts one when the last is dead."""
        return f"local-{secrets.token_hex(4)}"

    def nats_url(self, user: str) -> str:
        """NATS, as a service or the operator."""
        own = f"nats://{user}:{self.secrets.nats[user]}@127.0.0.1:{self.ports['nats']}"
        return self.environment.get("HEADRACE_NATS_URL", own)

    @property
    def operator_nats_url(self) -> str:
        """NATS, as the one who may make streams."""
        return self.environment.get("HEADRACE_SCHEDULER_OPERATOR_NATS_URL", self.nats_url(OPERATOR))

    @property
    def superuser_url(self) -> str:
        """The embedded PostgreSQL, as its superuser."""
        return f"postgresql://postgres:{self.secrets.superuser}@127.0.0.1:{self.ports['postgres']}/headrace"

    def database_url(self, service: str) -> str:
        """PostgreSQL, as a service."""
        address = f"127.0.0.1:{self.ports['postgres']}/headrace"
        own = f"postgresql+asyncpg://headrace_{service}:{self.secrets.postgres[service]}@{address}"
        return self.environment.get("HEADRACE_DATABASE_URL", own)

    @property
    def redis_url(self) -> str:
        """Valkey or Redis."""
        own = f"redis://:{self.secrets.valkey}@127.0.0.1:{self.ports['valkey']}/0"
        return self.environment.get("HEADRACE_REDIS_URL", own)

    def service(self, name: str) -> ChildSpec:
        """How a service is run."""
        return ChildSpec(
            name=name,
            command=(sys.executable, "-m", f"headrace.{name}", "serve"),
            log=self.home.log(name),
            stage=Stage.SERVICE,
            environment=self._service_environment(name),
        )

    def nursery(self) -> ChildSpec:
        """How the nursery is run, which sees nothing of ours in its environment."""
        others = {name: value for name, value in self.environment.items() if not name.startswith("HEADRACE_")}
        return ChildSpec(
            name="nursery",
            command=(sys.executable, "-m", "headrace.local.nursery_process"),
            log=self.home.log("nursery"),
            stage=Stage.SERVICE,
            environment={**others, **_PYTHON},
        )

    def demo_model(self) -> ChildSpec:
        """How the demo model is run."""
        port = str(self.ports[DEMO_MODEL])
        return ChildSpec(
            name=DEMO_MODEL,
            command=(sys.executable, "-m", "headrace.local.demo_model", "--port", port),
            log=self.home.log(DEMO_MODEL),
            stage=Stage.MODEL,
            environment=plain_environment(),
        )

    def _service_environment(self, name: str) -> dict[str, str]:
        ours = {
            "HEADRACE_HOME": str(self.home.root),
            "HEADRACE_HOST": self.host,
            "HEADRACE_NATS_URL": self.nats_url(name),
            "HEADRACE_DATABASE_URL": self.database_url(name),
            "HEADRACE_REDIS_URL": self.redis_url,
            "HEADRACE_SECRET_KEYS": self.secrets.fernet_key,
            "HEADRACE_MIGRATE_ON_START": "true",
            f"HEADRACE_{name.upper()}_PORT": str(self.ports[name]),
        }
        return {**ours, **self._own_settings(name), **self._inherited(name), **_PYTHON}

    def _inherited(self, name: str) -> dict[str, str]:
        """The user's environment less what is meant for another service, such as the operator's identity."""
        others = tuple(f"HEADRACE_{other.upper()}_" for other in SERVICES if other != name)
        return {key: value for key, value in self.environment.items() if not key.startswith(others)}

    def _own_settings(self, name: str) -> Mapping[str, str]:
        match name:
            case "gateway":
                return {"HEADRACE_GATEWAY_BOOTSTRAP_KEY": self.api_key}
            case "runner":
                return {"HEADRACE_RUNNER_NAME": self._runner_name, **self.model.settings}
            case "rag":
                return {"HEADRACE_RAG_DATA_DIR": str(self.home.root / "lancedb")}
            case "webhooks":
                return {"HEADRACE_WEBHOOKS_PUBLIC_URL": self.webhooks_url}
            case "scheduler":
                return {"HEADRACE_SCHEDULER_OPERATOR_NATS_URL": self.operator_nats_url}
            case _:
                return {}
