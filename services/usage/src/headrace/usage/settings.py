"""Settings of the usage service. Prefix `HEADRACE_USAGE_`."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class UsageSettings(BaseSettings):
    """How runs are let in."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_USAGE_", extra="ignore", use_attribute_docstrings=True
    )

    port: int = 8016
    """HTTP port, for health and metrics."""
    runs_per_minute: int = Field(default=0, ge=0)
    """Runs an account may start within any sixty seconds; 0 is unlimited."""
    when_redis_is_away: Literal["open", "closed"] = "open"
    """Whether runs are let in (`open`) or wait (`closed`) while the rate cannot be read."""
