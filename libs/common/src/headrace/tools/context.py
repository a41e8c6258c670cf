"""What a tool may know of the call that it serves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.tools.errors import ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Who is served, by which run, under which names. A parameter annotated with it is filled by the runner."""

    account_id: str
    agent_id: str
    run_id: str
    session_id: str | None
    door: str
    """Where the run came in, such as `chat` or `webhook`."""
    trigger: str
    """Identity of the event that started the run: the same for a run and for its replays."""
    call: str
    """The step, such as `root/4`."""
    effect_key: str = ""
    """The effect's name in the ledger, hexadecimal; empty for a tool without effects."""
    provider_key: str = ""
    """The effect's name as the provider is told it."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def secret(self, name: str) -> str:
        """The secret of that name.

        Raises:
            ToolError: It is not configured.
        """
        value = self.secrets.get(name)
        if value is None:
            raise ToolError(f"the secret `{name}` is not configured for this account; a person must add it")
        return value
