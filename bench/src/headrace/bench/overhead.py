"""What the platform adds to a model call: the same call, to the same scripted model, directly and through all services.

Both sides stream the same answer of four pieces. The two are measured in turn within one run, so that a noisy machine
is noisy for both. Directly means LiteLLM in this process; through the platform means HTTP to the gateway.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from headrace.bench.report import Aim, Report, percentile
from headrace.local.smoke import started

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

ADDED_TTFT_P50_MS = 15.0
CONCURRENCY = (1, 8, 64)
WARM_UP = 20
SECONDS_PER_LEVEL = 8.0
PROMPT = "four words of answer"


@dataclass(frozen=True, slots=True)
class Timing:
    """One call, in milliseconds."""

    first: float
    total: float


Call = Callable[[], Awaitable[Timing]]


async def measure(count: int) -> Report:
    """Measure pairs at concurrency 1, then runs a second at each level."""
    async with _sides() as (direct, through):
        for _ in range(WARM_UP):
            await direct()
            await through()
        pairs = [(await direct(), await through()) for _ in range(count)]
        rates = {str(level): await _rates(level, direct, through) for level in CONCURRENCY}
    latency = _latency(pairs)
    added = round(latency["through"]["ttft_p50_ms"] - latency["direct"]["ttft_p50_ms"], 2)
    _print(latency, rates)
    return Report(
        aims={"added_ttft_p50_ms": Aim(ADDED_TTFT_P50_MS, added, "ms")},
        measured={"latency": latency, "runs_per_second": rates, "pairs": count},
    )


def _latency(pairs: list[tuple[Timing, Timing]]) -> dict[str, Any]:
    sides = {"direct": [p[0] for p in pairs], "through": [p[1] for p in pairs]}
    told: dict[str, Any] = {
        name: {
            "ttft_p50_ms": percentile([t.first for t in timings], 0.5),
            "ttft_p95_ms": percentile([t.first for t in timings], 0.95),
            "total_p50_ms": percentile([t.total for t in timings], 0.5),
            "total_p95_ms": percentile([t.total for t in timings], 0.95),
        }
        for name, timings in sides.items()
    }
    told["added"] = {key: round(told["through"][key] - told["direct"][key], 2) for key in told["direct"]}
    return told


async def _rates(level: int, direct: Call, through: Call) -> dict[str, float]:
    """Calls a second with so many at once, each side alone, one after the other."""
    return {name: await _rate(level, call) for name, call in (("direct", direct), ("through", through))}


async def _rate(level: int, call: Call) -> float:
    done = 0
    begun = time.perf_counter()

    async def again() -> None:
        nonlocal done
        while time.perf_counter() - begun < SECONDS_PER_LEVEL:
            await call()
            done += 1

    await asyncio.gather(*(again() for _ in range(level)))
    return round(done / (time.perf_counter() - begun), 1)


@asynccontextmanager
async def _sides() -> AsyncIterator[tuple[Call, Call]]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        async with _scripted_model() as model_url:
            environment = {
                "HEADRACE_DEFAULT_MODEL": "openai/scripted",
                "HEADRACE_DEFAULT_API_BASE": f"{model_url}/v1",
                "HEADRACE_DEFAULT_API_KEY": "scripted",
            }
            async with started(Path(home), environment) as facts, httpx.AsyncClient(timeout=60) as http:
                yield _direct(f"{model_url}/v1"), _through(http, facts["url"], facts["api_key"])


@asynccontextmanager
async def _scripted_model() -> AsyncIterator[str]:
    command = [sys.executable, "-m", "tests.fakes.scripted_model", "--port", "0"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220  (before any load)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait()


def _direct(api_base: str) -> Call:
    import litellm  # noqa: PLC0415  (seconds of import, for this bench alone)

    async def call() -> Timing:
        begun = time.perf_counter()
        first = 0.0
        stream: Any = await litellm.acompletion(
            model="openai/scripted",
            messages=[{"role": "user", "content": PROMPT}],
            api_base=api_base,
            api_key="scripted",
            stream=True,
            stream_options={"include_usage": True},
            num_retries=0,
            max_retries=0,
        )
        async for chunk in stream:
            if not first and chunk.choices and chunk.choices[0].delta.content:
                first = time.perf_counter()
        return Timing((first - begun) * 1_000, (time.perf_counter() - begun) * 1_000)

    return call


def _through(http: httpx.AsyncClient, url: str, key: str) -> Call:
    body = {"model": "assistant", "stream": True, "messages": [{"role": "user", "content": PROMPT}]}

    async def call() -> Timing:
        begun = time.perf_counter()
        first, text = 0.0, ""
        async with http.stream(
            "POST", f"{url}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}
        ) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    delta = json.loads(line[6:])["choices"][0]["delta"].get("content")
                    if delta and not first:
                        first = time.perf_counter()
                    text += delta or ""
        if text != PROMPT:
            raise RuntimeError(f"the platform answered {text!r}")
        return Timing((first - begun) * 1_000, (time.perf_counter() - begun) * 1_000)

    return call


def _print(latency: dict[str, Any], rates: dict[str, dict[str, float]]) -> None:
    print(f"{'':10}{'first p50':>12}{'first p95':>12}{'total p50':>12}{'total p95':>12}  ms")
    for side, row in latency.items():
        print(f"{side:10}" + "".join(f"{value:12.2f}" for value in row.values()))
    print(f"\n{'at once':10}{'direct/s':>12}{'through/s':>12}")
    for level, row in rates.items():
        print(f"{level:10}{row['direct']:12.1f}{row['through']:12.1f}")
