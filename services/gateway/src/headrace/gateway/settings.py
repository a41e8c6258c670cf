"""Settings of the gateway. Prefix `HEADRACE_GATEWAY_`."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class GatewaySettings(BaseSettings):
    """The public door."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_GATEWAY_", extra="ignore", use_attribute_docstrings=True
    )

    port: int = 8080
    """HTTP port of the public API."""
    bootstrap_key: SecretStr | None = None
    """An API key to begin with: with it come, where there is no account yet, an account and an agent `assistant`."""
    ping_seconds: float = Field(default=15, gt=0)
    """Silence on an event stream after which a comment is sent, so that proxies keep the connection."""
    doubt_seconds: float = Field(default=3, gt=0)
    """Silence of a run after which the gateway asks the runner where it stands."""
    max_file_bytes: int = Field(default=32 * 1024**2, ge=1_024)
    """The largest file that can be uploaded, in bytes."""
    answer_seconds: float = Field(default=900, gt=0)
    """How long a request that waits for a whole answer waits."""
