"""The context of a call, for tools that are called without a runner."""

import pytest

from headrace.tools import ToolContext


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(
        account_id="acc_1",
        agent_id="agt_1",
        run_id="run_1",
        session_id=None,
        door="webhook",
        trigger="evt_1",
        call="root/4",
        secrets={"mail": "hunter2"},
    )
