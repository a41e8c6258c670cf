"""Composition root of the runner."""

from datetime import timedelta

from headrace.common.app import Infra, Parts, Service
from headrace.common.delivery import DeliveryPolicy
from headrace.common.rpc import answers
from headrace.contracts.run_questions import FindRun
from headrace.runner.agent_loop import AgentLoop
from headrace.runner.agents import Agents
from headrace.runner.attempt import Attempts
from headrace.runner.handlers import Runs, handlers
from headrace.runner.limits import RunLimits
from headrace.runner.llm import LiteLlm
from headrace.runner.models import metadata
from headrace.runner.settings import ModelSettings, RunnerSettings
from headrace.runner.tools import all_tools


def create_service(settings: RunnerSettings, model: ModelSettings) -> Service:
    """The runner as a value."""

    def compose(infra: Infra) -> Parts:
        loop = AgentLoop(
            LiteLlm(model, timeout=settings.model_timeout_seconds),
            all_tools(infra.clock, infra.rpc),
            RunLimits(model_calls=settings.max_model_calls, seconds=settings.max_run_seconds),
            tool_timeout=settings.tool_timeout_seconds,
        )
        lease = timedelta(seconds=settings.lease_seconds)
        policy = DeliveryPolicy(attempts=settings.max_attempts)
        attempts = Attempts(infra, Agents(infra.rpc), loop, lease=lease, policy=policy)
        runs = Runs(infra, attempts, lease=lease, recovered_at_once=settings.background_runs)
        return Parts(
            handlers=handlers(runs, settings), answers=(answers(FindRun, runs.find),), loops=(runs.recover,)
        )

    return Service("runner", "Runs admitted agents.", metadata, compose)
