"""OpenTelemetry: a trace as spans of the official SDK, to a file of OTLP JSON lines or to a collector.

The levels of the hierarchy are those of the trace format: a request (the commands of one tenant and token), its layers, their
commands, the jobs of a command. A layer's span reaches from the first start of its commands to their last end, so every span
lies inside its parent. Ids are digests of the run and the span's place: the same trace has the same ids.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, BinaryIO

from kernbench.common.errors import InputError, Problem
from kernbench.trace.exporters.timeline import Clock
from kernbench.trace.exporters.write import TimeUnit
from kernbench.trace.reader import Trace

BATCH = 512  #: spans that are sent at a time
SCOPE = "kernbench.trace"
LEVELS = ("run", "request", "layer", "command", "job")
_ENDS = {"DMA_END": "DMA", "TE_END": "TE", "VE_END": "VE"}
_READ: dict[str, tuple[str, ...]] = {
    "CMD_ENQUEUE": (
        "t_cycle", "cmd_id", "cmd_type", "unit", "tenant_id", "layer_id", "phase", "token_idx", "block_id", "head_id",
        "model_name", "precision", "deps", "bytes", "work",
    ),
    "CMD_START": ("t_cycle", "cmd_id"),
    "CMD_END": ("t_cycle", "cmd_id", "status"),
    "DMA_START": ("t_cycle", "cmd_id", "job_id", "unit", "direction", "size_bytes"),
    "TE_START": ("t_cycle", "cmd_id", "job_id", "unit", "m", "n", "k"),
    "VE_START": ("t_cycle", "cmd_id", "job_id", "unit", "op_type"),
    "DMA_END": ("t_cycle", "job_id"),
    "TE_END": ("t_cycle", "job_id", "mac_count", "stall_cycles"),
    "VE_END": ("t_cycle", "job_id", "op_count", "stall_cycles"),
    "STALL_EVENT": ("t_cycle", "job_id", "reason"),
    "RESUME_EVENT": ("t_cycle", "job_id", "reason", "duration_cycles"),
    "TOKEN_COMPLETE": ("t_cycle", "cmd_id", "token"),
}  # fmt: skip


@dataclass(slots=True)
class Span:
    """A span before it is one of the SDK's: times in cycles, and the place that its id is made from."""

    place: tuple[str, ...]  #: the names of its parents and its own
    level: str
    name: str
    start: int | None = None
    end: int | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    error: str = ""
    children: list[Span] = field(default_factory=list)

    def cover(self, child: Span) -> None:
        """Extend the span over the time of a child."""
        if child.start is not None:
            self.start = child.start if self.start is None else min(self.start, child.start)
        if child.end is not None:
            self.end = child.end if self.end is None else max(self.end, child.end)


def spans(trace: Trace) -> Span:
    """The tree of spans of a trace, under one span for the run. Commands that never start have no span."""
    tree = _Tree(trace)
    last = tree.run.start or 0
    for batch in trace.batches(_READ):
        for record in batch:
            if record.event.name in _READ:
                last = max(last, record.t_cycle)
                tree.take(record)
    tree.close(trace.end.cycles if trace.end is not None else last)
    tree.run.attributes["status"] = "cut off" if trace.end is None else trace.end.status
    return tree.run


class _Tree:
    """The spans of the records that were read so far."""

    def __init__(self, trace: Trace) -> None:
        self.run = Span((), "run", trace.meta.program or "run", start=trace.meta.t_cycle)
        self._usual = int((trace.meta.defaults or {}).get("tenant_id", 0))
        self._requests: dict[tuple[int, int | None], Span] = {}
        self._layers: dict[tuple[int, int | None, int | None], Span] = {}
        self._commands: dict[int, Span] = {}
        self._above: dict[int, tuple[Span, Span]] = {}  # request and layer of a command
        self._jobs: dict[int, Span] = {}

    def take(self, record: Any) -> None:
        """Add what a record says of its command or job."""
        name = record.event.name
        if name == "CMD_ENQUEUE":
            self._enqueue(record)
        elif name == "CMD_START":
            self._commands[record.cmd_id].start = record.t_cycle
        elif name == "CMD_END":
            command = self._commands[record.cmd_id]
            command.end = record.t_cycle
            command.error = "" if record.status == "OK" else record.status
        elif name.endswith("_START"):
            self._jobs[record.job_id] = _job(self._commands[record.cmd_id], record, name)
        elif name in _ENDS:
            _end(self._jobs.get(record.job_id), record)
        elif name == "TOKEN_COMPLETE":
            self._commands[record.cmd_id].events.append(("token complete", record.t_cycle, {"token": record.token}))
        else:
            _wait(self._jobs.get(record.job_id), record, name)

    def _enqueue(self, record: Any) -> None:
        """A command, below the spans of its request and its layer, which begin with their first command."""
        tenant = self._usual if record.tenant_id is None else record.tenant_id
        request = self._requests.get((tenant, record.token_idx))
        if request is None:
            request = self._requests[tenant, record.token_idx] = _request(self.run, tenant, record)
        key = tenant, record.token_idx, record.layer_id
        layer = self._layers.get(key)
        if layer is None:
            called = _named("layer", record.layer_id)
            layer = self._layers[key] = _child(request, "layer", called, {"layer_id": record.layer_id})
        self._commands[record.cmd_id] = _command(layer, record)
        self._above[record.cmd_id] = request, layer

    def close(self, end: int) -> None:
        """End the run, and the commands that have no end; requests and layers cover their commands."""
        self.run.end = end
        for cmd_id, (request, layer) in self._above.items():
            _close(self._commands[cmd_id], end)
            layer.cover(self._commands[cmd_id])
            request.cover(self._commands[cmd_id])


def _child(parent: Span, level: str, name: str, attributes: dict[str, Any]) -> Span:
    kept = {key: value for key, value in attributes.items() if value is not None}
    child = Span((*parent.place, f"{level} {name}"), level, name, attributes=kept)
    parent.children.append(child)
    return child


def _named(what: str, number: int | None) -> str:
    return f"{what} {number}" if number is not None else f"no {what}"


def _request(run: Span, tenant: int, record: Any) -> Span:
    name = f"tenant {tenant}" + (f", token {record.token_idx}" if record.token_idx is not None else "")
    return _child(run, "request", name, {"tenant_id": tenant, "token_idx": record.token_idx, "model_name": record.model_name})


def _command(layer: Span, record: Any) -> Span:
    made = Span((*layer.place, f"command {record.cmd_id}"), "command", record.cmd_type)
    names = ("cmd_id", "unit", "phase", "block_id", "head_id", "precision", "bytes", "work")
    made.attributes = {name: getattr(record, name) for name in names if getattr(record, name) is not None}
    made.attributes["enqueue_cycle"] = record.t_cycle
    if record.deps:
        made.attributes["deps"] = list(record.deps)
    layer.children.append(made)
    return made


def _job(command: Span, record: Any, event: str) -> Span:
    names = ("job_id", "unit", "direction", "size_bytes", "m", "n", "k", "op_type")
    kept = {name: getattr(record, name) for name in names if getattr(record, name, None) is not None}
    made = Span((*command.place, f"job {record.job_id}"), "job", f"{event.removesuffix('_START')} on {record.unit}")
    made.start, made.attributes = record.t_cycle, kept
    command.children.append(made)
    return made


def _end(job: Span | None, record: Any) -> None:
    if job is None:
        return
    job.end = record.t_cycle
    for name in ("mac_count", "op_count", "stall_cycles"):
        if getattr(record, name, None) is not None:
            job.attributes[name] = getattr(record, name)


def _wait(job: Span | None, record: Any, event: str) -> None:
    """A wait of a job that runs: an event of its span. Waits before the start of a job are in the queue, before its span."""
    if job is None:
        return
    if event == "STALL_EVENT":
        job.events.append(("stall", record.t_cycle, {"reason": record.reason}))
    else:
        job.events.append(("resume", record.t_cycle, {"reason": record.reason, "waited_cycles": record.duration_cycles}))


def _close(command: Span, end: int) -> None:
    """Spans that are cut off by the end of the file end there."""
    for span in (command, *command.children):
        if span.start is not None and span.end is None:
            span.end, span.error = end, "cut off"


def walk(span: Span) -> Iterator[tuple[Span, Span | None]]:
    """Every span that started, and its parent: parents first."""
    stack: list[tuple[Span, Span | None]] = [(span, None)]
    while stack:
        one, parent = stack.pop()
        if one.start is None or one.end is None:
            continue
        yield one, parent
        stack += [(child, one) for child in reversed(one.children)]


# The SDK ----------------------------------------------------------------------------------------------------------


def sdk(module: str) -> Any:
    """A module of OpenTelemetry; InputError if it is not installed."""
    try:
        return import_module(f"opentelemetry.{module}")
    except ImportError:
        rule = "OpenTelemetry's SDK is not installed"
        raise InputError(Problem("--to otlp", rule, remedy="pip install 'kernbench[otel]'")) from None


def emit(trace: Trace, exporter: Any, time: TimeUnit = TimeUnit.NS, origin_ns: int = 0) -> dict[str, int]:
    """Send the spans of a trace to an exporter of the SDK; return the number of spans of each level.

    `origin_ns`: [ns since 1970] cycle 0. InputError if the exporter reports that spans were not taken.
    """
    clock = Clock(trace.freq_ghz, time)
    root = spans(trace)  # reads the file before a span is sent
    numbers = _Numbers(trace.meta.sim_id)
    provider = sdk("sdk.trace").TracerProvider(
        id_generator=numbers, resource=sdk("sdk.resources").Resource(_resource(trace)), shutdown_on_exit=False
    )
    batches = _Batches(exporter)
    provider.add_span_processor(batches)
    tracer = provider.get_tracer(SCOPE, trace.meta.sim_version)
    api, status = sdk("trace"), sdk("trace.status")
    made: dict[int, Any] = {}
    counts = dict.fromkeys((f"{level}s" for level in LEVELS), 0)

    def at(cycle: int) -> int:
        return origin_ns + int(clock.ns(cycle))

    for span, parent in walk(root):
        numbers.place = span.place
        above = None if parent is None else api.set_span_in_context(made[id(parent)])
        context = sdk("context").Context() if above is None else above
        attributes = {f"kernbench.{name}": value for name, value in span.attributes.items()}
        attributes |= {"kernbench.level": span.level, "kernbench.start_cycle": span.start, "kernbench.end_cycle": span.end}
        started = tracer.start_span(span.name, context=context, attributes=attributes, start_time=at(span.start or 0))
        for name, cycle, about in span.events:
            started.add_event(name, {f"kernbench.{key}": value for key, value in about.items()}, timestamp=at(cycle))
        if span.error:
            started.set_status(status.Status(status.StatusCode.ERROR, span.error))
        started.end(end_time=at(span.end or 0))
        counts[f"{span.level}s"] += 1
        if span.children:
            made[id(span)] = started
    provider.shutdown()
    return counts


def _resource(trace: Trace) -> dict[str, Any]:
    meta = trace.meta
    return {
        "service.name": "kernbench",
        "service.version": meta.sim_version,
        "kernbench.program": meta.program,
        "kernbench.sim_id": meta.sim_id,
        "kernbench.program_hash": meta.program_hash,
        "kernbench.config_hash": meta.config_hash,
        "kernbench.freq_ghz": str(meta.freq_ghz),
        "kernbench.trace_level": meta.level,
    }


class _Numbers:
    """A generator of ids for the SDK: an id is a digest of the run and of the position of the span."""

    def __init__(self, sim_id: str) -> None:
        self.sim_id = sim_id
        self.place: tuple[str, ...] = ()

    def generate_trace_id(self) -> int:
        return self._digest("trace", 16)

    def generate_span_id(self) -> int:
        return self._digest("\x1f".join(("span", *self.place)), 8)

    def is_trace_id_random(self) -> bool:
        return False

    def _digest(self, text: str, nbytes: int) -> int:
        made = hashlib.sha256(f"{self.sim_id}\x1f{text}".encode()).digest()[:nbytes]
        return int.from_bytes(made, "big") or 1  # 0 is no id


class _Batches:
    """A processor of the SDK that hands spans on in the order in which they end, and drops none."""

    def __init__(self, exporter: Any) -> None:
        self.exporter = exporter
        self.kept: list[Any] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Nothing: a span is sent when it is over."""

    def _on_ending(self, span: Any) -> None:
        """Nothing."""

    def on_end(self, span: Any) -> None:
        self.kept.append(span)
        if len(self.kept) >= BATCH:
            self._send()

    def _send(self) -> None:
        if self.kept and self.exporter.export(tuple(self.kept)).name != "SUCCESS":
            rule = f"the collector did not take {len(self.kept)} spans"
            remedy = "see that it runs and accepts OTLP traces at this address"
            raise InputError(Problem("kbsim trace export", rule, remedy=remedy))
        self.kept = []

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self._send()
        return True

    def shutdown(self) -> None:
        self._send()
        self.exporter.shutdown()


class JsonLines:
    """An exporter of the SDK that writes OTLP JSON: one export request a line."""

    def __init__(self, out: BinaryIO) -> None:
        self.out = out
        self._encode: Callable[[Sequence[Any]], Any] = sdk("exporter.otlp.proto.common.trace_encoder").encode_spans

    def export(self, batch: Sequence[Any]) -> Any:
        """Write a batch."""
        message = import_module("google.protobuf.json_format").MessageToDict(self._encode(batch))
        for resource in message["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    _hexadecimal(span)
        self.out.write(json.dumps(message, sort_keys=True, separators=(",", ":")).encode() + b"\n")
        return sdk("sdk.trace.export").SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing: the file is its owner's."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def _hexadecimal(span: dict[str, Any]) -> None:
    """Ids as OTLP's JSON has them: hexadecimal, where protobuf's JSON has base64. Kinds and codes are numbers there."""
    for name in ("traceId", "spanId", "parentSpanId"):
        if name in span:
            span[name] = b64decode(span[name]).hex()
    for name in ("startTimeUnixNano", "endTimeUnixNano"):
        span.setdefault(name, "0")  # protobuf omits fields that are 0
    span["kind"] = {"SPAN_KIND_INTERNAL": 1}.get(span["kind"], 0)
    code = span.get("status", {}).get("code")
    if code is not None:
        span["status"]["code"] = {"STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}.get(code, 0)


def export(trace: Trace, out: BinaryIO, time: TimeUnit = TimeUnit.NS, origin_ns: int = 0) -> dict[str, int]:
    """Write a trace as OTLP JSON lines; how many spans of each level there are."""
    return emit(trace, JsonLines(out), time, origin_ns)


PROTOCOLS = {"http": "exporter.otlp.proto.http.trace_exporter", "grpc": "exporter.otlp.proto.grpc.trace_exporter"}


def collector(endpoint: str, protocol: str) -> Any:
    """The SDK's exporter to a collector. InputError for an address that is none, and if a package is missing."""
    if not endpoint.startswith(("http://", "https://")):
        rule = "it must be a URL: http://localhost:4318/v1/traces, or with --protocol grpc http://localhost:4317"
        raise InputError(Problem("kbsim trace export", rule, "--endpoint", endpoint))
    more = {"insecure": endpoint.startswith("http://")} if protocol == "grpc" else {}
    return sdk(PROTOCOLS[protocol]).OTLPSpanExporter(endpoint=endpoint, timeout=10, **more)
