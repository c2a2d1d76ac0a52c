"""Traces of requests, and the metrics of ``/metrics``, sent to an OpenTelemetry collector over OTLP/HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driftsurf import __version__
from driftsurf.core.options import check_bounds, choice, option, option_fields, shown
from driftsurf.core.secrets import Secret, read_secret
from driftsurf.errors import OptionError
from driftsurf.service.http.metrics import BOUNDS, Family
from driftsurf.service.http.requests import HttpRequest

NAME = "driftsurf"
METHODS: Final = ("GET", "HEAD", "POST")
"""Methods that are told by name; a client may send any word as its method."""
UNTRACED: Final = ("healthz", "readyz", "v2/health/live", "v2/health/ready", "v2-ready", "metrics")
"""Endpoints without traces: probes and scrapes, which come every few seconds and say nothing."""
SEND_SECONDS = 5
"""How long one attempt to send may take; the end of the service waits for the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """Where traces and metrics are sent, as the table ``[telemetry]`` of ``serve.toml``.

    Examples
    --------
    >>> TelemetryOptions(endpoint="http://localhost:4318").sample_ratio
    1.0
    """

    endpoint: str | None = option(None, "Address of the collector, such as http://localhost:4318; without it, nothing.")
    sample_ratio: float = option(1.0, "Share of the requests that are traced, unless the client decides.", at_least=0.0)
    metrics_seconds: float = option(60.0, "Seconds between two transmissions of the metrics.", above=0.0)
    service_name: str = option(NAME, "Name of this service in traces and metrics.")
    headers: Mapping[str, Secret] = field(default_factory=dict)
    """Headers that the collector asks for, such as ``authorization``."""

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        check_bounds(self)
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise OptionError(
                f"endpoint of [telemetry] is {self.endpoint!r}; pass an address such as 'http://localhost:4318'"
            )
        if self.sample_ratio > 1:
            raise OptionError(f"sample-ratio of [telemetry] must be from 0 to 1; got {self.sample_ratio!r}")


def read_telemetry(table: Mapping[str, Any]) -> TelemetryOptions:
    """Return the options of a table ``[telemetry]``; values of ``[telemetry.headers]`` name where a secret is.

    Examples
    --------
    >>> read_telemetry({"endpoint": "http://localhost:4318", "sample-ratio": 0.1}).sample_ratio
    0.1
    """
    options = option_fields(TelemetryOptions)
    names = {one.toml_name: name for name, one in options.items()}
    values: dict[str, Any] = {}
    for name, value in table.items():
        choice("option of [telemetry]", name, (*names, "headers"))
        if name != "headers":
            default = options[names[name]].default
            wanted = (int, float) if isinstance(default, float) else (str,)
            if not isinstance(value, wanted) or isinstance(value, bool):
                what = "a number" if isinstance(default, float) else "text"
                raise OptionError(f"{name} of [telemetry] must be {what}; got {shown(value)}")
            values[names[name]] = value
    headers = table.get("headers", {})
    if not isinstance(headers, Mapping):
        raise OptionError("headers of [telemetry] must be a table, [telemetry.headers]")
    secrets = {name: read_secret(f"telemetry header {name}", where) for name, where in headers.items()}
    found = TelemetryOptions(**values, headers=secrets)
    found.check()
    return found


class Telemetry:
    """Records requests, and sends them with the metrics; threads of its own do that, and a collector that fails is
    logged.

    Parameters
    ----------
    options
        Where to send.
    families
        Returns the metrics as they are now.
    """

    def __init__(self, options: TelemetryOptions, families: Callable[[], Iterable[Family]]) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        assert options.endpoint is not None
        base = options.endpoint.rstrip("/")
        sent: dict[str, Any] = {
            "headers": {name: secret.value for name, secret in options.headers.items()},
            "timeout": SEND_SECONDS,
        }
        about = Resource.create({"service.name": options.service_name, "service.version": __version__})
        # Nothing is registered as the global provider: an application that embeds the service may have its own.
        self._traces = TracerProvider(
            resource=about, sampler=ParentBased(TraceIdRatioBased(options.sample_ratio)), shutdown_on_exit=False
        )
        self._traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{base}/v1/traces", **sent)))
        self._tracer = self._traces.get_tracer(NAME, __version__)
        self._server, self._error = SpanKind.SERVER, StatusCode.ERROR
        self._parent = TraceContextTextMapPropagator().extract
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(f"{base}/v1/metrics", **sent), options.metrics_seconds * 1000, SEND_SECONDS * 1000
        )
        self._metrics = MeterProvider([reader], resource=about, shutdown_on_exit=False)
        self._read = families
        self._known: dict[str, Family] = {}
        """The metrics of one transmission, by name."""
        self._mirror()

    def close(self) -> None:
        """Send what was recorded, as far as the collector takes it, and end the threads."""
        self._traces.shutdown()
        self._metrics.shutdown()

    def record(self, request: HttpRequest, endpoint: str, status: int, seconds: float) -> None:
        """Record a request that has been answered, with nothing of its contents, its headers and its key."""
        attributes: dict[str, str | int] = {
            "http.request.method": request.method if request.method in METHODS else "_OTHER",
            "http.response.status_code": status,
        }
        route = _route(request, endpoint)
        if route:
            attributes["http.route"] = route
        self._duration.record(seconds, attributes)
        if endpoint in UNTRACED:
            return
        if request.entry is not None:
            attributes["driftsurf.model"] = request.entry.served.name
            attributes["driftsurf.rows"] = request.rows
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{attributes['http.request.method']} {route}".strip(),
            context=self._parent(request.headers),
            kind=self._server,
            attributes=attributes,
            start_time=end - int(seconds * 1e9),
        )
        if status >= 500:
            span.set_status(self._error)
        span.end(end)

    # ------------------------------------------------------------------------ metrics

    def _mirror(self) -> None:
        """Make an instrument for each metric, under the name that it has in ``/metrics``."""
        meter = self._metrics.get_meter(NAME, __version__)
        self._duration = meter.create_histogram(
            "http.server.request.duration", "s", "Time of requests.", explicit_bucket_boundaries_advisory=BOUNDS
        )
        for number, one in enumerate(self._read()):
            make = meter.create_observable_counter if one.kind == "counter" else meter.create_observable_gauge
            make(f"driftsurf_{one.name}", [self._observer(one.name, reads=number == 0)], description=one.what)

    def _observer(self, name: str, *, reads: bool) -> Callable[[Any], Iterable[Any]]:
        """Return what gives the values of a metric; the first one that is asked reads all of them."""
        from opentelemetry.metrics import Observation

        def observe(options: object) -> Iterable[Any]:
            if reads:
                self._known = {one.name: one for one in self._read()}
            found = self._known.get(name)
            return [] if found is None else [Observation(value, dict(labels)) for labels, value in found.values]

        return observe


def _route(request: HttpRequest, endpoint: str) -> str:
    """Return the address of a request without what the client chose in it; "" if there is nothing at it."""
    if endpoint == "other":
        return ""
    parts = request.path.split("/")
    if parts[2:3] == ["models"] and len(parts) > 3:
        parts[3] = "{name}"
    return "/".join(parts)
