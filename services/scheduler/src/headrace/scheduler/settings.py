"""Settings of the scheduler service."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class SchedulerSettings(BaseSettings):
    """How the scheduler looks at the clock, and what else it keeps. Prefix `HEADRACE_SCHEDULER_`."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_SCHEDULER_", extra="ignore", use_attribute_docstrings=True
    )

    port: int = Field(default=8015, ge=1, le=65_535)
    """The HTTP port."""
    tick_seconds: float = Field(default=0.25, gt=0)
    """The pause between two looks for due schedules, in seconds: how late a fire may be."""
    tick_batch: int = Field(default=100, ge=1, le=1_000)
    """How many schedules one transaction fires at most."""
    operator_nats_url: SecretStr | None = None
    """NATS, with the operator's user; where it is set, streams that go missing are made again."""
