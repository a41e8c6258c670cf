"""Schedules: the questions of the scheduler service."""

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from headrace.contracts.hooks import Deleted
from headrace.contracts.ids import AccountId, AgentId, Token
from headrace.contracts.message import Contract
from headrace.contracts.question import Question


class Schedule(Contract):
    """An agent that is run at an interval."""

    schedule_id: Token
    account_id: AccountId
    agent_id: AgentId
    name: str
    every_seconds: int
    prompt: str
    next_fire_at: datetime
    last_run_id: Token | None = None


class CreateSchedule(Question[Schedule]):
    """Run an agent every so many seconds, for the first time one interval from now. One id is one schedule."""

    service: ClassVar[str] = "scheduler"
    verb: ClassVar[str] = "create-schedule"
    reply: ClassVar[type[Contract]] = Schedule

    schedule_id: Token
    account_id: AccountId
    agent_id: AgentId
    name: str = Field(max_length=200)
    every_seconds: int = Field(ge=1, le=31_536_000)
    prompt: str = Field(min_length=1, max_length=100_000)


class Schedules(Contract):
    """A list of schedules."""

    items: tuple[Schedule, ...]


class ListSchedules(Question[Schedules]):
    """The schedules of an account."""

    service: ClassVar[str] = "scheduler"
    verb: ClassVar[str] = "list-schedules"
    reply: ClassVar[type[Contract]] = Schedules

    account_id: AccountId


class DeleteSchedule(Question[Deleted]):
    """Stop firing; runs that were fired go on."""

    service: ClassVar[str] = "scheduler"
    verb: ClassVar[str] = "delete-schedule"
    reply: ClassVar[type[Contract]] = Deleted

    account_id: AccountId
    schedule_id: Token
