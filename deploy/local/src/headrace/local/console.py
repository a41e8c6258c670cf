"""What the person who typed `headrace up` is told."""

import json
import sys
import time

from headrace.local.plan import Plan


class Console:
    """Lines for a person, or one JSON line for a program.

    Args:
        quiet_json: True keeps all but the JSON line off stdout; warnings go to stderr.
    """

    def __init__(self, *, quiet_json: bool) -> None:
        self._quiet = quiet_json
        self._begun = time.monotonic()

    def progress(self, what: str) -> None:
        """One step, with the seconds since the start."""
        if not self._quiet:
            print(f"  {what:<24}{time.monotonic() - self._begun:5.1f} s", flush=True)

    def say(self, line: str) -> None:
        """Something that the person should know."""
        print(f"  {line}", file=sys.stderr if self._quiet else sys.stdout, flush=True)

    def ready(self, plan: Plan, pids: dict[str, int]) -> None:
        """Everything answers."""
        print(_facts(plan, pids) if self._quiet else _banner(plan), flush=True)


def _facts(plan: Plan, pids: dict[str, int]) -> str:
    return json.dumps(
        {
            "url": plan.url("gateway"),
            "webhooks_url": plan.webhooks_url,
            "api_key": plan.api_key,
            "home": str(plan.home.root),
            "pids": pids,
        }
    )


def _banner(plan: Plan) -> str:
    return f"""
Headrace is ready at {plan.url("gateway")}

  API key   {plan.api_key}
  model     {plan.model.name} ({plan.model.reason})
  data      {plan.home.root}
  logs      {plan.home.log("*")}

Try it:

  curl -N {plan.url("gateway")}/v1/chat/completions \\
    -H 'Authorization: Bearer {plan.api_key}' \\
    -H 'Content-Type: application/json' \\
    -d '{{"model": "assistant", "stream": true, "messages": [{{"role": "user", "content": "What time is it?"}}]}}'

Ctrl-C stops it; `{sys.argv[0]} status` and `{sys.argv[0]} logs gateway` show how it does.
"""
