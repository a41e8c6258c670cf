"""Settings that every service shares. Read once, in `__main__`, and passed down as a value."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class InfraSettings(BaseSettings):
    """Where the servers are, and how patient to be with them. Prefix `HEADRACE_`."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", extra="ignore", use_attribute_docstrings=True)

    nats_url: SecretStr
    """NATS, with the service's own user: `nats://gateway:password@host:4222`."""
    database_url: SecretStr
    """Postgres, with the service's own role: `postgresql+asyncpg://role:password@host:5432/headrace`."""
    redis_url: SecretStr
    """Redis or Valkey: `redis://:password@host:6379/0`."""
    secret_keys: SecretStr
    """Fernet keys separated by commas, newest first."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    migrate_on_start: bool = False
    """Bring the service's own schema up to date before serving."""
    startup_patience_seconds: float = Field(default=30, gt=0)
    """How long to wait for each server at start before giving up."""
    drain_seconds: float = Field(default=15, gt=0)
    """How long work in hand may take after SIGTERM."""
    database_pool_size: int = Field(default=10, ge=1)
    """Connections to Postgres that are kept open by one replica."""
    max_body_bytes: int = Field(default=1_048_576, ge=1_024)
    """The largest HTTP request body a door takes, in bytes."""
    log_level: str = "INFO"
    """The least severe log that is written."""
    faults: Path | None = None
    """A file that tells the process where to die, for drills; absent everywhere else."""
    otlp_endpoint: str | None = None
    """Base URL of an OTLP/HTTP collector; telemetry leaves the process only where this is set."""
