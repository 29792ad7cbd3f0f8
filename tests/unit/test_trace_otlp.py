"""OpenTelemetry: the hierarchy of spans, read back with the SDK's in-memory exporter, from the file, and from receivers."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kernbench.cli.main import exit_code
from kernbench.common.errors import InputError
from kernbench.trace.exporters.otlp import collector, emit
from kernbench.trace.exporters.write import Format, export
from kernbench.trace.reader import Trace, open_trace
from tests.unit.test_trace_energy import traced

pytest.importorskip("opentelemetry.sdk", reason="needs OpenTelemetry's SDK (pip install 'kernbench[otel]')")


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return open_trace(traced(tmp_path)[0])


def in_memory(trace: Trace, **how: Any) -> list[Any]:
    """The spans as the SDK's own in-memory exporter keeps them."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    emit(trace, exporter, **how)
    return list(exporter.get_finished_spans())


def test_requests_have_layers_have_commands_have_jobs(trace: Trace) -> None:
    spans = in_memory(trace)
    by_id = {span.context.span_id: span for span in spans}
    above = {"request": "run", "layer": "request", "command": "layer", "job": "command"}
    for span in spans:
        level = span.attributes["kernbench.level"]
        if level == "run":
            assert span.parent is None
            continue
        parent = by_id[span.parent.span_id]
        assert parent.attributes["kernbench.level"] == above[level]
        assert parent.start_time <= span.start_time <= span.end_time <= parent.end_time
    assert len(by_id) == len(spans) and len({span.context.trace_id for span in spans}) == 1
    assert Counter(span.attributes["kernbench.level"] for span in spans) == {
        "run": 1, "request": 1, "layer": 3, "command": 7, "job": 7}  # fmt: skip
    layers = [span.name for span in spans if span.attributes["kernbench.level"] == "layer"]
    assert sorted(layers) == ["layer 0", "layer 1", "no layer"]


def test_times_and_attributes_of_jobs_are_those_of_the_trace(trace: Trace) -> None:
    began, ended = {}, {}
    for record in trace:
        if record.event.name in ("TE_START", "VE_START", "DMA_START"):
            began[record.job_id] = record
        elif record.event.name in ("TE_END", "VE_END", "DMA_END"):
            ended[record.job_id] = record
    origin = 1_700_000_000_000_000_000
    jobs = [span for span in in_memory(trace, origin_ns=origin) if span.attributes["kernbench.level"] == "job"]
    assert len(jobs) == len(began)
    for span in jobs:  # at 1 GHz a cycle is a nanosecond
        number = span.attributes["kernbench.job_id"]
        assert (span.start_time - origin, span.end_time - origin) == (began[number].t_cycle, ended[number].t_cycle)
        assert span.attributes["kernbench.unit"] == began[number].unit
    macs = [span.attributes["kernbench.mac_count"] for span in jobs if "kernbench.mac_count" in span.attributes]
    assert macs == [16 * 64 * 64] * 2


def test_ids_and_bytes_are_the_same_each_time(trace: Trace, tmp_path: Path) -> None:
    first, second = ([(span.context.trace_id, span.context.span_id) for span in in_memory(trace)] for _ in range(2))
    assert first == second
    for name in ("a.otlp", "b.otlp"):
        export(trace, Format.OTLP, tmp_path / name)
    assert (tmp_path / "a.otlp").read_bytes() == (tmp_path / "b.otlp").read_bytes()


def test_the_file_is_otlp_json(trace: Trace, tmp_path: Path) -> None:
    """Ids are hexadecimal, times are texts, and protobuf's own reader knows every field."""
    import base64

    from google.protobuf.json_format import Parse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    counts = export(trace, Format.OTLP, tmp_path / "a.otlp")
    lines = [json.loads(line) for line in (tmp_path / "a.otlp").read_text().splitlines()]
    spans = [s for line in lines for r in line["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]
    wanted = {f"{span.context.span_id:016x}": span.name for span in in_memory(trace)}
    assert {span["spanId"]: span["name"] for span in spans} == wanted and sum(counts.values()) == len(spans)
    assert all(len(span["traceId"]) == 32 and span["startTimeUnixNano"].isdecimal() for span in spans)
    for span in spans:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    for line in lines:
        Parse(json.dumps(line), ExportTraceServiceRequest())


class Receiver(BaseHTTPRequestHandler):
    """Keeps the OTLP messages that are posted to it."""

    messages: list[Any]
    answer = 200

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.messages.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(self.answer)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def receiver() -> Iterator[tuple[str, type[Receiver]]]:
    """The address of a server, and the class that answers its requests."""
    handler = type("Handler", (Receiver,), {"messages": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", handler
    server.shutdown()
    thread.join()
    server.server_close()


def names(messages: list[Any]) -> list[str]:
    return [s.name for message in messages for r in message.resource_spans for scope in r.scope_spans for s in scope.spans]


def test_an_http_collector_gets_every_span(trace: Trace, receiver: tuple[str, type[Receiver]]) -> None:
    address, handler = receiver
    counts = emit(trace, collector(address, "http"))
    assert {path for path, _ in handler.messages} == {"/v1/traces"}
    got = names([message for _, message in handler.messages])
    assert sorted(got) == sorted(span.name for span in in_memory(trace)) and len(got) == sum(counts.values())


def test_a_collector_that_refuses_is_an_error(trace: Trace, receiver: tuple[str, type[Receiver]]) -> None:
    address, handler = receiver
    handler.answer = 400
    with pytest.raises(InputError, match="the collector did not take 19 spans"):
        emit(trace, collector(address, "http"))


def test_a_grpc_collector_gets_every_span(trace: Trace) -> None:
    grpc = pytest.importorskip("grpc", reason="needs grpcio (pip install 'kernbench[otel]')")
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

    kept: list[Any] = []

    class Service(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            kept.append(request)
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        emit(trace, collector(f"http://127.0.0.1:{port}", "grpc"))
    finally:
        server.stop(0).wait()
    assert sorted(names(kept)) == sorted(span.name for span in in_memory(trace))


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("otelcol") is None, reason="needs an OpenTelemetry collector (otelcol) on the PATH")
def test_a_real_collector_writes_the_spans_to_its_file(trace: Trace, tmp_path: Path) -> None:
    import socket
    import time

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = tmp_path / "out.json"
    (tmp_path / "collector.yaml").write_text(
        f"receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n"
        f"exporters: {{file: {{path: '{out}'}}}}\n"
        "service: {pipelines: {traces: {receivers: [otlp], exporters: [file]}}}\n"
    )
    process = subprocess.Popen(["otelcol", "--config", str(tmp_path / "collector.yaml")], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        counts = emit(trace, collector(f"http://127.0.0.1:{port}/v1/traces", "http"))
        for _ in range(100):
            text = out.read_text() if out.exists() else ""
            if text.count('"spanId"') >= sum(counts.values()):
                break
            time.sleep(0.1)
    finally:
        process.terminate()
        process.wait(10)
    assert text.count('"spanId"') == sum(counts.values())


def test_addresses_and_a_trace_that_breaks_off(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match='--endpoint = "localhost:4318", but it must be a URL'):
        collector("localhost:4318", "http")
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(Path(trace.path).read_bytes().splitlines(keepends=True)[:40]))
    broken = open_trace(cut)
    spans = in_memory(broken)
    assert broken.broken is not None and spans[0].attributes["kernbench.status"] == "cut off"
    opened = [span for span in spans if span.status.description == "cut off"]
    assert opened and all(span.end_time == spans[0].end_time for span in opened)


def test_the_command_sends_what_is_there_of_a_broken_trace_and_exits_with_2(
    trace: Trace, receiver: tuple[str, type[Receiver]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, handler = receiver
    assert exit_code(["trace", "export", str(trace.path), "--to", "otlp", "--endpoint", address]) == 0
    whole = len(names([message for _, message in handler.messages]))
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(Path(trace.path).read_bytes().splitlines(keepends=True)[:40]))
    assert exit_code(["trace", "export", str(cut), "--to", "otlp", "--endpoint", address]) == 2
    assert "cut.jsonl: line 41 " in capsys.readouterr().err
    assert whole < len(names([message for _, message in handler.messages])) < 2 * whole
