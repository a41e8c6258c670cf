"""The state of a scripted model: the script in progress, the calls seen, the answers that stand still."""

from dataclasses import dataclass, field

from tests.fakes.scripted_model.holds import Holds
from tests.fakes.scripted_model.journal import Journal
from tests.fakes.scripted_model.playbook import Playbook
from tests.fakes.scripted_model.script import Script


@dataclass(slots=True)
class Stage:
    """What the endpoints share."""

    playbook: Playbook = field(default_factory=lambda: Playbook(Script()))
    journal: Journal = field(default_factory=Journal)
    holds: Holds = field(default_factory=Holds)

    def forget_calls(self) -> None:
        """Start a new journal and drop the answers that stand still: they write in the old one."""
        self.journal = Journal()
        self.holds.abandon()
