"""Composition root of the runner."""

from collections.abc import Sequence
from datetime import timedelta

from headrace.common.agents import Agents
from headrace.common.app import Infra, Parts, Service
from headrace.common.delivery import DeliveryPolicy
from headrace.contracts.runs import InputFile
from headrace.runner.admissible import Admissible
from headrace.runner.answers import RunAnswers
from headrace.runner.attempt import Attempts, Means
from headrace.runner.control import Control
from headrace.runner.handlers import Runs, handlers
from headrace.runner.leases import Leases
from headrace.runner.limits import RunLimits
from headrace.runner.llm import LiteLlm
from headrace.runner.models import metadata
from headrace.runner.settings import MailboxSettings, ModelSettings, RunnerSettings
from headrace.runner.sweep import Sweep
from headrace.runner.tools import all_tools
from headrace.runner.tools.send_email import MailSettings
from headrace.tools import forbid_fork


def create_service(
    settings: RunnerSettings, model: ModelSettings, mailbox: MailboxSettings | None = None
) -> Service:
    """The runner as a value."""
    length = timedelta(seconds=settings.lease_seconds)

    def compose(infra: Infra) -> Parts:
        leases = Leases(infra.db, length=length, name=settings.name)
        control = Control(leases, infra.clock)
        agents = Agents(infra.rpc)

        def files_of(run_id: str) -> Sequence[InputFile]:
            request = leases.request(run_id)
            return () if request is None else request.files

        tools = all_tools(
            clock=infra.clock,
            rpc=infra.rpc,
            files=infra.files,
            files_of=files_of,
            mail=_mail(mailbox or MailboxSettings()),
        )
        limits = RunLimits(
            model_calls=settings.max_model_calls,
            tokens=settings.max_run_tokens,
            seconds=settings.max_run_seconds,
        )
        means = Means(
            agents=agents,
            model=LiteLlm(model, timeout=settings.model_timeout_seconds),
            tools=tools,
            secrets={name: secret.get_secret_value() for name, secret in settings.tool_secrets.items()},
            limits=limits,
            policy=DeliveryPolicy(attempts=settings.max_attempts),
            approval_time=timedelta(seconds=settings.approval_seconds),
            admissible=Admissible(infra.files, tools).check,
        )
        attempts = Attempts(infra, leases, means)
        sweep = Sweep(infra.db, attempts, control, leases, at_once=settings.background_runs)
        forbid_fork()
        return Parts(
            handlers=handlers(Runs(infra, attempts, control, leases), control, settings),
            answers=RunAnswers(infra.db, agents, tools, limits, infra.clock).all(),
            loops=(leases.keep, sweep.recover, sweep.upkeep),
        )

    return Service("runner", "Runs admitted agents.", metadata, compose, longest_pause=length)


def _mail(mailbox: MailboxSettings) -> MailSettings | None:
    if mailbox.smtp_url is None:
        return None
    return MailSettings(
        smtp_url=mailbox.smtp_url.get_secret_value(),
        sender=mailbox.sender,
        sent_url=None if mailbox.sent_url is None else mailbox.sent_url.get_secret_value(),
        templates=mailbox.templates,
    )
