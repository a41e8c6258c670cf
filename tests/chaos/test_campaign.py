"""The worked example: a campaign writes to a hundred people, after a person said yes, whoever dies on the way."""

from collections import Counter

from headrace.local.smoke_paths import follow_to_end
from tests.chaos import invariants
from tests.chaos.test_killed_service import is_back
from tests.fakes.mail_server import MailServer
from tests.fakes.scripted_model import ScriptedModel
from tests.support.campaigns import DONE, campaigner, recipients, turns
from tests.support.eventually import eventually
from tests.support.platform import RunningPlatform


async def test_campaign_of_a_hundred_waits_for_approval_and_sends_each_mail_once_although_its_runner_dies(
    platform: RunningPlatform, scripted_model: ScriptedModel, mail_server: MailServer
) -> None:
    everybody = recipients("spring", 100)
    await scripted_model.script(*turns("spring", everybody, at_once=100))
    async with platform.door.client() as http:
        agent = await campaigner(http, name="campaign-approved", approvals=True)
        run = (await http.post("/v1/runs", json={"agent": agent, "input": "spring"})).json()

        async def asks_for_all() -> None:
            waiting = (await http.get(f"/v1/runs/{run['run_id']}/waiting")).json()
            assert len(waiting) == len(everybody)

        await eventually(asks_for_all, timeout=30, every=0.1)
        assert await mail_server.accepted() == []

        yes = {"all": "approve", "note": "looks good"}
        approved = await http.post(f"/v1/runs/{run['run_id']}/approve", json=yes)
        assert approved.status_code == 202, approved.text
        for number in (10, 40, 70):
            await mail_server.accepted(at_least=number, seconds=60)
            await is_back(platform, "runner", platform.kill("runner"))
        end = await follow_to_end(http, run["run_id"])
        whole = (await http.get(f"/v1/runs/{run['run_id']}")).json()

    assert (end["state"], end["output"]) == ("succeeded", DONE)
    assert (await mail_server.stats()).by_recipient == Counter(everybody)
    assert (await scripted_model.stats()).calls in (2, 3)  # the last one may have been in flight at a kill
    assert {decision["choice"] for decision in whole["decisions"]} == {"approve"}
    assert len(whole["decisions"]) == len(everybody)
    await invariants.every_run_ended_once(platform, [run["run_id"]])
