"""Composition root of the usage service."""

from headrace.common.app import Infra, Parts, Service
from headrace.usage.handlers import handlers
from headrace.usage.models import metadata
from headrace.usage.rate import RateWindow
from headrace.usage.settings import UsageSettings


def create_service(settings: UsageSettings) -> Service:
    """The usage service as a value."""

    def compose(infra: Infra) -> Parts:
        rate = RateWindow(infra.redis, limit=settings.runs_per_minute, when_away=settings.when_redis_is_away)
        return Parts(handlers=handlers(infra, rate))

    return Service("usage", "Decides which runs are let in, and keeps the ledger.", metadata, compose)
