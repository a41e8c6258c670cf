"""Telemetry that leaves a process: one trace through two of them, logs, metrics, and a collector that is away."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest_asyncio
import uvicorn
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.local.loopback import free_port
from tests.support.eventually import eventually

BEGIN = """
import json, logging, sys
from datetime import UTC, datetime
from headrace.common import telemetry
from headrace.common.envelope import headers_of
from headrace.common.settings import InfraSettings
from headrace.contracts.runs import RunEvent, RunFinished

role, endpoint, *rest = sys.argv[1:]
settings = InfraSettings(nats_url="x", database_url="x", redis_url="x", secret_keys="x", otlp_endpoint=endpoint or None)
stop = telemetry.configure(role, settings)
instruments = telemetry.Instruments(role)
now = datetime(2030, 1, 1, tzinfo=UTC)
"""
SENDER = f"""{BEGIN}
event = RunEvent(run_id="run_1", account_id="acc_1", seq=1, at=now, news=RunFinished(state="succeeded"))
with telemetry.span("send it"):
    logging.getLogger("headrace.sender").info("event.sent", extra={{"run_id": "run_1"}})
    print(json.dumps(headers_of(event, source=role, now=now)), flush=True)
stop()
"""
RECEIVER = f"""{BEGIN}
with telemetry.span_of_delivery("runner-recorder", json.loads(rest[0])), telemetry.span("act on it"):
    logging.getLogger("headrace.receiver").warning("event.seen")
instruments.delivered("runner-recorder", "done")
stop()
"""


@dataclass
class Collector:
    """What an OTLP/HTTP collector was sent."""

    endpoint: str
    requests: list[tuple[str, bytes]] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        self.requests.append((request.url.path, await _decompressed(request)))
        return Response(media_type="application/x-protobuf")

    def _read(self, signal: str, kind: Any) -> list[Any]:
        return [kind.FromString(body) for path, body in self.requests if path == f"/v1/{signal}"]

    def spans(self) -> dict[str, tuple[str, Any]]:
        """The service and the span, by the span's name."""
        return {
            span.name: (_service(resource), span)
            for request in self._read("traces", ExportTraceServiceRequest)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def logs(self) -> dict[str, tuple[str, Any]]:
        """The service and the record, by the event."""
        return {
            record.body.string_value: (_service(resource), record)
            for request in self._read("logs", ExportLogsServiceRequest)
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        }

    def metrics(self) -> dict[str, tuple[str, Any]]:
        """The service and the metric, by the metric's name."""
        return {
            metric.name: (_service(resource), metric)
            for request in self._read("metrics", ExportMetricsServiceRequest)
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


async def _decompressed(request: Request) -> bytes:
    assert request.headers.get("content-encoding") in (None, "identity")
    return await request.body()


def _service(resource: Any) -> str:
    return next(str(a.value.string_value) for a in resource.resource.attributes if a.key == "service.name")


@pytest_asyncio.fixture
async def collector() -> AsyncIterator[Collector]:
    port = free_port()
    made = Collector(f"http://127.0.0.1:{port}")
    app = Starlette(routes=[Route("/v1/{signal}", made.take, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())

    async def ready() -> None:
        assert server.started

    await eventually(ready)
    yield made
    server.should_exit = True
    await serving


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    status: int
    out: str
    err: str
    seconds: float


async def run(script: str, *arguments: str, within: float = 60) -> Ended:
    """Run a role as a process of its own, to its end."""
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(process.returncode or 0, out.decode(), err.decode(), time.monotonic() - begun)


async def sent_and_received(endpoint: str) -> None:
    sender = await run(SENDER, "gateway", endpoint)
    assert sender.status == 0, sender.err
    receiver = await run(RECEIVER, "runner", endpoint, sender.out.strip())
    assert receiver.status == 0, receiver.err


async def test_trace_goes_on_in_the_process_that_receives(collector: Collector) -> None:
    await sent_and_received(collector.endpoint)

    (sender, sent), (receiver, consumed) = (
        collector.spans()[name] for name in ("send it", "consume runner-recorder")
    )
    assert (sender, receiver) == ("headrace-gateway", "headrace-runner")
    assert (consumed.trace_id, consumed.parent_span_id) == (sent.trace_id, sent.span_id)


async def test_work_on_a_message_is_within_its_delivery(collector: Collector) -> None:
    await sent_and_received(collector.endpoint)

    (_, consumed), (_, acted) = (collector.spans()[name] for name in ("consume runner-recorder", "act on it"))
    assert (acted.trace_id, acted.parent_span_id) == (consumed.trace_id, consumed.span_id)


async def test_logs_of_both_processes_belong_to_the_trace(collector: Collector) -> None:
    await sent_and_received(collector.endpoint)

    trace_id = collector.spans()["send it"][1].trace_id
    told = {event: (service, log.trace_id) for event, (service, log) in collector.logs().items()}
    assert told == {
        "event.sent": ("headrace-gateway", trace_id),
        "event.seen": ("headrace-runner", trace_id),
    }


async def test_deliveries_are_counted_by_consumer_and_outcome(collector: Collector) -> None:
    await sent_and_received(collector.endpoint)

    service, metric = collector.metrics()["headrace_deliveries"]
    (point,) = metric.sum.data_points
    counted = {attribute.key: attribute.value.string_value for attribute in point.attributes}
    assert (service, point.as_int) == ("headrace-runner", 1)
    assert counted == {"consumer": "runner-recorder", "outcome": "done"}


async def test_collector_that_is_away_stops_nothing() -> None:
    ended = await run(SENDER, "gateway", f"http://127.0.0.1:{free_port()}")

    assert (ended.status, json.loads(ended.out)["ce-id"]) == (0, "run_1.event.1")
    assert ended.seconds < 30


async def test_silent_collector_holds_up_the_end_for_a_bounded_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        ended = await run(SENDER, "gateway", f"http://127.0.0.1:{port}")

    assert ended.status == 0
    assert ended.seconds < 30


async def test_without_an_endpoint_nothing_is_exported_and_messages_have_no_trace() -> None:
    ended = await run(SENDER, "gateway", "")

    assert ended.status == 0
    assert "traceparent" not in json.loads(ended.out)


async def test_log_line_on_the_console_names_the_trace_that_the_message_carries() -> None:
    ended = await run(SENDER, "gateway", f"http://127.0.0.1:{free_port()}")

    lines = [json.loads(line) for line in ended.err.splitlines()]
    (said,) = (line for line in lines if line["event"] == "event.sent")
    assert said["trace_id"] == json.loads(ended.out)["traceparent"].split("-")[1]
