"""A forked copy of a runner must not go on as a second one."""

import subprocess
import sys

FORKING = """
import asyncio, os, subprocess, sys
from headrace.tools import ToolContext, forbid_fork, perform, tool

forbid_fork()
forbid_fork()
context = ToolContext(account_id="a", agent_id="a", run_id="r", session_id=None, door="d", trigger="t", call="c")

@tool
def fork() -> str:
    "Fork."
    child = os.fork()
    if child == 0:
        print("the copy goes on", flush=True)
        return "copy"
    _, status = os.waitpid(child, 0)
    return f"the copy ended with {os.waitstatus_to_exitcode(status)}"

@tool
def call() -> str:
    "Start another program."
    return subprocess.run([sys.executable, "-c", "print('ran')"], capture_output=True, text=True, check=True).stdout

print(asyncio.run(perform(fork, {}, context)))
print(asyncio.run(perform(call, {}, context)))
"""


def test_copy_ends_at_once_and_other_programs_still_run() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=120, check=True
    )

    assert ended.stdout == "Done(text='the copy ended with 70')\nDone(text='ran\\n')\n"
    assert ended.stderr == "a forked copy of a runner ends at once; start another program with subprocess\n"
