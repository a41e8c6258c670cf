"""The runner dies by SIGKILL at every named point of a run's path; then the world is counted where it is."""

from collections import Counter
from uuid import uuid4

import httpx
import pytest

from headrace.local.readiness import ask
from headrace.local.smoke_paths import follow_to_end
from tests.chaos import invariants
from tests.fakes.mail_server import MailServer
from tests.fakes.scripted_model import ScriptedModel
from tests.support.campaigns import DONE, campaigner, recipients, turns
from tests.support.eventually import eventually
from tests.support.platform import RunningPlatform

POINTS = (
    "runner.take.before",
    "runner.take.after",
    "runner.journal.before",
    "runner.journal.commit",
    "runner.journal.after",
    "runner.model.before",
    "runner.model.after",
    "runner.intent.before",
    "runner.intent.after",
    "runner.act.before",
    "runner.act.after",
    "runner.confirm.before",
    "runner.confirm.after",
    "runner.tell.before",
    "runner.tell.after",
    "runner.finish.before",
    "runner.finish.after",
    "runner.publish.before",
    "runner.publish.after",
    "runner-interactive.ack.before",
    "runner-interactive.ack.after",
    "usage.publish.before",
    "usage.publish.after",
    "usage-admission-api.ack.before",
    "gateway.publish.before",
)
"""Before and after every intent, act, confirm, journal write, publish and acknowledgement."""


@pytest.mark.parametrize("point", POINTS)
async def test_every_mail_is_sent_once_and_no_step_is_paid_twice_although_a_process_dies(
    platform: RunningPlatform, scripted_model: ScriptedModel, mail_server: MailServer, point: str
) -> None:
    tag = f"p-{uuid4().hex[:8]}"
    parallel, single = recipients(f"{tag}-many", 6), recipients(f"{tag}-one", 2)
    await scripted_model.script(
        *turns(f"{tag}-many", parallel, at_once=3),
        *turns(f"{tag}-one", single, at_once=1),
    )
    async with platform.door.client() as http:
        agent = await campaigner(http, name="campaign", approvals=False)
        platform.arm(point, 2 if point.startswith("runner.") else 1)
        run_ids = [
            await asked(http, agent, prompt, key=f"{tag}-{prompt}")
            for prompt in (f"{tag}-many", f"{tag}-one")
        ]
        ends = [await follow_to_end(http, run_id) for run_id in run_ids]

    assert not platform.disarm(), f"nobody passed {point}"
    assert [(end["state"], end["output"]) for end in ends] == [("succeeded", DONE)] * 2
    assert (await mail_server.stats()).by_recipient == Counter([*parallel, *single])
    await invariants.every_run_ended_once(platform, run_ids)
    await no_step_was_paid_twice(platform, scripted_model, run_ids)
    await everybody_is_back(platform)


async def asked(http: httpx.AsyncClient, agent: str, prompt: str, *, key: str) -> str:
    """Ask for a run, again where the gateway died meanwhile: the key makes it one."""
    found: list[str] = []

    async def post() -> None:
        try:
            answer = await http.post(
                "/v1/runs", json={"agent": agent, "input": prompt}, headers={"Idempotency-Key": key}
            )
        except httpx.TransportError as error:
            raise AssertionError(str(error)) from error
        assert answer.status_code == 202
        found.append(answer.json()["run_id"])

    await eventually(post, timeout=60, every=0.2)
    return found[0]


async def no_step_was_paid_twice(platform: RunningPlatform, model: ScriptedModel, run_ids: list[str]) -> None:
    """Each model call is one step; the one that was in flight at the kill may have been made again."""
    ids = ", ".join(f"'{run_id}'" for run_id in run_ids)
    rows = await platform.rows(
        "runner", f"SELECT 1 FROM steps WHERE kind = 'model' AND state = 'done' AND run_id IN ({ids})"
    )
    calls = (await model.stats()).calls
    assert len(rows) <= calls <= len(rows) + len(run_ids)


async def everybody_is_back(platform: RunningPlatform) -> None:
    """The next test begins with a platform that is whole."""

    async def check() -> None:
        for service in ("gateway", "usage", "runner"):
            assert (await ask(f"{platform.plan.url(service)}/readyz")).ready

    await eventually(check, timeout=90, every=0.2)
