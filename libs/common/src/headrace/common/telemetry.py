"""Telemetry: traces, metrics and logs that cross the broker; off without an endpoint, and never able to stop the work."""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from opentelemetry import metrics, propagate, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from headrace.common.settings import InfraSettings

_tracer = trace.get_tracer("headrace")

_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_VENDORS_FIELDS = frozenset({"color_message", "litellm_redacted"})


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, service, event, its fields, and the trace it belongs to."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {
            key: value for key, value in vars(record).items() if key not in _RECORD_FIELDS | _VENDORS_FIELDS
        }
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            line["trace_id"] = trace.format_trace_id(context.trace_id)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(service: str, settings: InfraSettings) -> Callable[[], None]:
    """Set up logs, and telemetry where an endpoint is set.

    Args:
        service: The name that everything is told under.
        settings: The level, and the endpoint if any.

    Returns:
        What flushes and stops the exporters.
    """
    console = logging.StreamHandler(sys.stderr)
    console.setFormatter(JsonFormatter(service))
    exporters: list[logging.Handler] = []
    resource = Resource.create({"service.name": f"headrace-{service}", "service.namespace": "headrace"})
    readers: list[MetricReader] = [PrometheusMetricReader(scope_info_enabled=False)]
    stops: list[Callable[[], None]] = []
    if settings.otlp_endpoint:
        readers.append(_exporting(settings.otlp_endpoint.rstrip("/"), resource, exporters, stops))
    meters = MeterProvider(metric_readers=readers, resource=resource)
    metrics.set_meter_provider(meters)
    stops.append(meters.shutdown)
    logging.basicConfig(level=settings.log_level, handlers=[console], force=True)
    for exporter in exporters:  # not through basicConfig, which would put level and logger into the event
        logging.getLogger().addHandler(exporter)
    for noisy in ("httpx", "httpcore", "LiteLLM", "alembic", "uvicorn.access", "faststream"):
        logging.getLogger(noisy).setLevel(logging.WARNING)

    def stop() -> None:
        for each in stops:
            try:
                each()
            except Exception:
                logging.getLogger(__name__).exception("telemetry.not_stopped")

    return stop


def _exporting(
    endpoint: str, resource: Resource, exporters: list[logging.Handler], stops: list[Callable[[], None]]
) -> MetricReader:
    """Send traces and logs in the background; answers the reader that sends metrics."""
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.instrumentation.logging.handler import LoggingHandler  # noqa: PLC0415

    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces", timeout=5)))
    trace.set_tracer_provider(tracers)
    loggers = LoggerProvider(resource=resource)
    loggers.add_log_record_processor(
        BatchLogRecordProcessor(OTLPLogExporter(f"{endpoint}/v1/logs", timeout=5))
    )
    exported = LoggingHandler(logger_provider=loggers)
    exported.addFilter(lambda record: not record.name.startswith("opentelemetry"))
    exporters.append(exported)
    stops.extend((tracers.shutdown, loggers.shutdown))
    return PeriodicExportingMetricReader(
        OTLPMetricExporter(f"{endpoint}/v1/metrics", timeout=5), export_interval_millis=10_000
    )


class Instruments:
    """What a service measures; read at `/metrics`, and exported where an endpoint is set."""

    def __init__(self, service: str) -> None:
        meter = metrics.get_meter("headrace")
        self._meter = meter
        self._service = service
        self._deliveries = meter.create_counter(
            "headrace_deliveries", description="Deliveries by consumer and outcome."
        )

    def delivered(self, consumer: str, outcome: str) -> None:
        """Count a delivery."""
        self._deliveries.add(1, {"consumer": consumer, "outcome": outcome})

    def gauge(self, name: str, description: str, read: Callable[[], float]) -> None:
        """Show a value that is read when somebody looks."""

        def observe(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            return [metrics.Observation(read(), {"service": self._service})]

        self._meter.create_observable_gauge(name, [observe], description=description)


@contextmanager
def span_of_delivery(consumer: str, headers: Mapping[str, str] | None) -> Iterator[None]:
    """Continue the trace that a message carries."""
    context = propagate.extract(dict(headers or {}))
    with _tracer.start_as_current_span(f"consume {consumer}", context=context, kind=trace.SpanKind.CONSUMER):
        yield


@contextmanager
def span_of_question(verb: str, headers: Mapping[str, str] | None) -> Iterator[None]:
    """Continue the trace that a question carries."""
    context = propagate.extract(dict(headers or {}))
    with _tracer.start_as_current_span(f"answer {verb}", context=context, kind=trace.SpanKind.SERVER):
        yield


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[None]:
    """A piece of work within the current trace."""
    with _tracer.start_as_current_span(name, attributes=attributes):
        yield
