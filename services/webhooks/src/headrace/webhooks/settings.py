"""Settings of the webhooks service."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class WebhooksSettings(BaseSettings):
    """How the webhooks service listens and what it accepts. Prefix `HEADRACE_WEBHOOKS_`."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_WEBHOOKS_", extra="ignore", use_attribute_docstrings=True
    )

    port: int = Field(default=8014, ge=1, le=65_535)
    """The HTTP port."""
    public_url: str = "http://127.0.0.1:8014"
    """Where senders reach this service; the addresses of subscriptions begin with it."""
    tolerance_seconds: int = Field(default=300, ge=1)
    """How far an event's timestamp may be from this machine's clock, either way, in seconds."""
    max_event_bytes: int = Field(default=1_000_000, ge=1_024, le=1_000_000)
    """The largest event, in bytes as a JSON string: one message of the broker (1 MiB) carries it to its run."""
