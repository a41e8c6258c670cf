"""What the usage service does with messages."""

from headrace.common.app import Infra
from headrace.common.consumer import AnyHandler, Handler
from headrace.common.db import Transaction
from headrace.contracts.runs import LAST_EVENT, RunAdmitted, RunControl, RunEvent, RunFinished, RunRequested
from headrace.contracts.streams import USAGE_ADMISSION, USAGE_LEDGER
from headrace.contracts.usage import UsageRecorded
from headrace.usage import repository
from headrace.usage.rate import RateWindow


class Admission:
    """Decides each run that was asked for: one row, and one message, in one transaction."""

    def __init__(self, infra: Infra, rate: RateWindow) -> None:
        self._clock, self._rate = infra.clock, rate

    async def decide(self, request: RunRequested, tx: Transaction) -> None:
        """Let the run in, or refuse it with a reason that its caller sees."""
        now = self._clock.now()
        refusal = await self._rate.take(request.account_id, request.run_id, now=now)
        await repository.record_decision(tx.connection, request, refusal=refusal, now=now)
        if refusal is None:
            await tx.send(
                RunAdmitted(run_id=request.run_id, lane=request.lane, request=request, admitted_at=now)
            )
        else:
            await self._refuse(request, tx, code="rate_limited", sentence=refusal)

    async def give_up(self, request: RunRequested, reason: str, tx: Transaction) -> None:
        """A request that could not be decided is refused, so that nobody waits for it for ever."""
        now = self._clock.now()
        await repository.record_decision(tx.connection, request, refusal=reason, now=now)
        sentence = "the run could not be admitted; an operator was told"
        await self._refuse(request, tx, code="not_decided", sentence=sentence)

    async def _refuse(self, request: RunRequested, tx: Transaction, *, code: str, sentence: str) -> None:
        """Tell the caller at once, and the runner for the record."""
        event = RunEvent(
            run_id=request.run_id,
            account_id=request.account_id,
            seq=LAST_EVENT,
            at=self._clock.now(),
            news=RunFinished(state="refused", error_code=code, error=sentence),
        )
        command = RunControl(
            run_id=request.run_id,
            verb="refuse",
            account_id=request.account_id,
            command_id="refused",
            code=code,
            reason=sentence,
        )
        await tx.send(event, command)


async def enter(used: UsageRecorded, tx: Transaction) -> None:
    """Write a model call into the ledger."""
    await repository.record_model_call(tx.connection, used)


def handlers(infra: Infra, rate: RateWindow) -> tuple[AnyHandler, ...]:
    """The consumers of the usage service."""
    admission = Admission(infra, rate)
    return (
        *(
            Handler(consumer=queue, act=admission.decide, buried=admission.give_up, concurrency=8)
            for queue in USAGE_ADMISSION.values()
        ),
        Handler(consumer=USAGE_LEDGER, act=enter, concurrency=4),
    )
