"""The composition root of the scheduler service."""

from headrace.common.app import Infra, Parts, Service
from headrace.common.rpc import answers
from headrace.contracts.schedules import CreateSchedule, DeleteSchedule, ListSchedules
from headrace.scheduler.answers import ScheduleDesk
from headrace.scheduler.models import metadata
from headrace.scheduler.settings import SchedulerSettings
from headrace.scheduler.tick import Ticker
from headrace.scheduler.upkeep import stream_keeping


def create_service(settings: SchedulerSettings) -> Service:
    """Make the scheduler service.

    Args:
        settings: Its own.
    """

    def compose(infra: Infra) -> Parts:
        desk = ScheduleDesk(infra.db)
        ticker = Ticker(db=infra.db, pause_seconds=settings.tick_seconds, batch=settings.tick_batch)
        operator = settings.operator_nats_url
        return Parts(
            answers=[
                answers(CreateSchedule, desk.create),
                answers(ListSchedules, desk.list),
                answers(DeleteSchedule, desk.delete),
            ],
            loops=[ticker.run, *([stream_keeping(operator)] if operator else [])],
        )

    return Service(
        name="scheduler",
        description="Clocks become runs, and the house is kept.",
        metadata=metadata,
        compose=compose,
    )
