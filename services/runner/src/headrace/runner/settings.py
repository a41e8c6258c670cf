"""Settings of the runner: prefix `HEADRACE_RUNNER_`, `HEADRACE_DEFAULT_` for the model, `HEADRACE_MAIL_` for mail."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class RunnerSettings(BaseSettings):
    """How much a runner does at once, and how long it may take."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_RUNNER_", extra="ignore", use_attribute_docstrings=True
    )

    port: int = 8012
    """HTTP port, for health and metrics."""
    interactive_runs: int = Field(default=64, ge=1)
    """Runs of people who wait, at once in one replica."""
    background_runs: int = Field(default=16, ge=1)
    """Runs that events started, at once in one replica."""
    name: str | None = None
    """A name that no two live runners share, such as that of a StatefulSet's pod: a runner goes on at once with what a
    dead one of its name left, instead of waiting for leases to run out."""
    lease_seconds: float = Field(default=8, gt=0)
    """A run whose runner is silent for this long may be taken by another."""
    max_model_calls: int = Field(default=25, ge=1)
    """Model calls in one run."""
    max_run_tokens: int = Field(default=2_000_000, ge=1)
    """Tokens of all classes in one run."""
    max_run_seconds: float = Field(default=900, gt=0)
    """Wall time of one attempt; waiting for a person is none."""
    model_timeout_seconds: float = Field(default=120, gt=0)
    """Silence of a model, before the first token or between two, after which the call failed."""
    max_attempts: int = Field(default=5, ge=1)
    """Attempts without progress, counting those that a killed runner began, and not those that waited for a server."""
    approval_seconds: float = Field(default=604_800, gt=0)
    """How long a question for approval waits, and how long its answer counts. A week."""
    tool_secrets: dict[str, SecretStr] = Field(default={})
    """Secrets that tools may ask for by name, as JSON."""


class MailboxSettings(BaseSettings):
    """The mailbox that agents send from; without an SMTP URL there is no tool `send_email`."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_MAIL_", extra="ignore", use_attribute_docstrings=True
    )

    smtp_url: SecretStr | None = None
    """`smtp+starttls://user:password@host:port`, `smtps://` or `smtp://`."""
    sender: str = ""
    """Whom the mail is from, such as `Ann <ann@example.com>`."""
    sent_url: SecretStr | None = None
    """`imaps://user:password@host:port/Sent`: where sent mail can be looked up after a crash."""
    templates: tuple[str, ...] = ()
    """The purposes that mails may have, as JSON; empty: the model names them."""


class ModelSettings(BaseSettings):
    """The shared default model, for agents that name none."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_DEFAULT_", extra="ignore", use_attribute_docstrings=True
    )

    model: str
    """A LiteLLM model name, such as `openai/gpt-5-mini` or `openai/<any>` with an `api_base`."""
    api_base: str | None = None
    """The OpenAI-compatible server to call instead of the provider's own."""
    api_key: SecretStr | None = None
    """The key; providers' own variables such as `OPENAI_API_KEY` work as well."""
