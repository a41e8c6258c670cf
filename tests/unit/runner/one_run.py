"""One run without a database: the real loop, steps and tool calls over a journal in memory."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from headrace.common.clock import SystemClock
from headrace.contracts.agents import AgentRevision
from headrace.contracts.message import Message
from headrace.contracts.runs import RunNews
from headrace.contracts.usage import UsageRecorded
from headrace.runner import agent_loop
from headrace.runner.agent_loop import Conversation
from headrace.runner.calls import ToolCalls
from headrace.runner.journal import Recorded
from headrace.runner.limits import RunLimits
from headrace.runner.live import LiveSteps
from headrace.runner.repository.runs import Lease
from headrace.runner.steps import Step
from headrace.runner.teller import Teller
from headrace.tools import Tool
from tests.support.runner_rig import LIMITS, ScriptedTurns, request

AGENT = AgentRevision(
    agent_id="agent_1",
    account_id="acc_1",
    revision=1,
    name="assistant",
    instruction="Be brief.",
    model="openai/m",
    tools=("lookup", "echo", "not_there"),
)
QUESTION = {"role": "user", "content": "hello"}


class MemoryJournal(Recorded):
    """A journal that nothing can be written to after its process ended."""

    def __init__(self, steps: Iterable[Step] = (), *, epoch: int = 1) -> None:
        super().__init__(steps)
        self.lease = Lease("r-1", epoch, 1, request("r-1", account_id="acc_1"))
        self.messages: list[Message] = []

    def carry(self, *steps: Step, messages: Iterable[Message] = ()) -> None:
        self._steps |= {step.place: replace(step, epoch=self.lease.epoch) for step in steps}
        self.messages += messages

    async def write(self, *steps: Step, **_: Any) -> None:
        self.carry(*steps)


class Told(Teller):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.news: list[RunNews] = []

    async def text(self, piece: str, *, step: int = 0) -> None:  # noqa: ARG002  (a teller's shape)
        self.texts.append(piece)

    async def tell(self, news: RunNews) -> None:
        self.news.append(news)


class OneRun:
    """One taking of a run.

    Args:
        model: What the model says.
        tools: The tools that there are.
        limits: The run's ceilings.
        journal: What an earlier taking left.
    """

    def __init__(
        self,
        model: ScriptedTurns,
        *tools: Tool,
        limits: RunLimits = LIMITS,
        journal: MemoryJournal | None = None,
    ) -> None:
        self.model, self.told = model, Told()
        self.journal = journal or MemoryJournal()
        self.conversation = Conversation("Be brief.", [], [QUESTION])
        self._tools, self._limits = {tool.name: tool for tool in tools}, limits

    async def answer(self, agent: AgentRevision = AGENT) -> str:
        journal: Any = self.journal
        no_deeds: Any = None
        calls = ToolCalls(journal, no_deeds, journal.lease.request, {})
        steps = LiveSteps(
            journal,
            model=self.model,
            calls=calls,
            agent=agent,
            teller=self.told,
            clock=SystemClock(),
            approval_time=timedelta(days=1),
        )
        return await agent_loop.run(agent, self.conversation, steps, tools=self._tools, limits=self._limits)

    def again(self) -> "OneRun":
        """The next taking of the run, with the steps of this one."""
        journal = MemoryJournal(self.journal.steps(), epoch=self.journal.lease.epoch + 1)
        return OneRun(self.model, *self._tools.values(), limits=self._limits, journal=journal)

    @property
    def results(self) -> list[str]:
        """What the model read of its tools, in the order in which it reads them."""
        return [each["content"] for each in self.conversation.current if each["role"] == "tool"]

    @property
    def booked(self) -> list[UsageRecorded]:
        """The rows for the usage ledger."""
        return [message for message in self.journal.messages if isinstance(message, UsageRecorded)]
