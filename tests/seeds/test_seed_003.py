"""Seed document 003, the profiler and trace format: a test a section, on the trace of a run."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from kernbench.cmdq import Program
from kernbench.trace.compare.align import align, read_readings
from kernbench.trace.exporters.selection import OF_COMMANDS, SelectedTrace, Selection
from kernbench.trace.exporters.timeline import Tracks
from kernbench.trace.exporters.write import Format, export
from kernbench.trace.metric.measure import metrics
from kernbench.trace.reader import Trace
from kernbench.trace.validate import validate
from tests.seeds.traced import LLM, MACHINE, Events, of, program, trace_file, trace_text, traced


@pytest.fixture(scope="module")
def events() -> Events:
    """All lines of the trace at its finest level."""
    return traced()


def has(event: dict[str, Any], **wanted: Any) -> None:
    """These fields with these values."""
    assert {name: event.get(name) for name in wanted} == wanted


def one(events: Events, kind: str, **where: Any) -> dict[str, Any]:
    """The only event of a type with these values."""
    (found,) = [event for event in of(events, kind) if all(event.get(name) == value for name, value in where.items())]
    return found


def test_seed_003_s1(events: Events) -> None:
    """Events of processor, engines, memories and network in one schema; tenants, phases and commands can be told apart."""
    assert {"CMD_START", "TE_START", "VE_START", "DMA_START", "DRAM_TX_START", "NOC_TX_START", "SRAM_ACCESS"} <= {
        event["event_type"] for event in events
    }
    assert one(events, "TE_START")["tenant_id"] == 1 and one(events, "TE_START")["phase"] == "QKV_PROJ"


def test_seed_003_s2(events: Events) -> None:
    """One stream of flat objects with a type and a time each, in order of time."""
    for event in events[1:-1]:
        assert isinstance(event["event_type"], str) and isinstance(event["t_cycle"], int)
        assert not any(isinstance(value, dict) for value in event.values())
    times = [event["t_cycle"] for event in events[1:-1]]
    assert times == sorted(times)


def test_seed_003_s3_1(tmp_path: Path) -> None:
    """A file has one JSON object a line, under either ending of names."""
    text = trace_text(level="summary")
    for name in ("run.jsonl", "run.trace.jsonl"):
        path = tmp_path / name
        path.write_bytes(text)
        assert next(json.loads(line)["event_type"] for line in path.read_text().splitlines()) == "TRACE_META"
        assert sum(1 for _ in Trace(path)) == len(text.splitlines()) - 2


def test_seed_003_s3_2(events: Events, tmp_path: Path) -> None:
    """The common fields are those of the event, or of `defaults` in the first line; `t_ns` is the cycle by the clock."""
    common = {"sim_id", "core_id", "npu_id", "tenant_id", "thread_id"}
    assert set(events[0]["defaults"]) == common
    assert one(events, "TE_START")["tenant_id"] == 1 and "tenant_id" not in one(events, "VE_START")
    out = tmp_path / "run.csv"
    export(trace_file(tmp_path, level="summary"), Format.CSV, out)
    head, *rows = out.read_text().splitlines()
    names = head.split(",")
    assert {"event_type", "t_cycle", "t_ns", *common} <= set(names)
    row = dict(zip(names, next(row for row in rows if row.startswith("TE_END") or ",TE_END," in row).split(","), strict=False))
    assert float(row["t_ns"]) == int(row["t_cycle"]) / 2  # 2 GHz


def test_seed_003_s4_1_1(events: Events) -> None:
    """CMD_ENQUEUE of a command of the instruction set."""
    has(
        one(events, "CMD_ENQUEUE", cmd_id=1), t_cycle=0, cmd_type="TE_GEMM_TILE", source="ISA", token=10,
        desc_addr=140737488355328, layer_id=3, block_id=3, phase="QKV_PROJ", model_name="llama2_7b",
    )  # fmt: skip


def by_mmio() -> Program:
    """Two commands: the host enqueues the second when the interrupt of the first has reached it."""
    made = Program("mmio")
    fields = {"length": 64, "qbits_activation": 8, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0}
    first = made.ve_copy(**fields, source="ISA", token=10, irq_line=3)
    made.ve_copy(**fields, source="MMIO", token=11, deps_before=[first])
    return made


WITH_HOST = {**MACHINE, "control": {"mmio": {"write_cycles": 4, "latency_cycles": 20, "interrupt_cycles": 30}}}


def test_seed_003_s4_1_1_by_mmio() -> None:
    """CMD_ENQUEUE when a command is enqueued by MMIO: then, and not before the run. It is issued no earlier."""
    events = traced(by_mmio(), WITH_HOST)
    enqueued, ended = one(events, "CMD_ENQUEUE", cmd_id=1), one(events, "CMD_END", cmd_id=0)
    has(enqueued, source="MMIO", token=11, t_cycle=ended["t_cycle"] + 30 + 4 + 20)
    assert one(events, "JOB_ISSUE", cmd_id=1)["t_cycle"] == enqueued["t_cycle"]
    has(one(events, "CMD_ENQUEUE", cmd_id=0), source="ISA", t_cycle=0)


def test_seed_003_s4_1_2(events: Events) -> None:
    """CMD_START and CMD_END: a command begins with its engine and ends with it."""
    start, end = one(events, "CMD_START", cmd_id=1), one(events, "CMD_END", cmd_id=1)
    assert start["t_cycle"] == one(events, "TE_START", cmd_id=1)["t_cycle"]
    assert end["t_cycle"] == one(events, "TE_END", cmd_id=1)["t_cycle"] and end["status"] == "OK"
    stopped = traced(machine={**MACHINE, "max_cycles": 100})
    assert {event["cmd_id"]: event["status"] for event in of(stopped, "CMD_END")}[0] == "TIMEOUT"


def test_seed_003_s4_2_1(events: Events) -> None:
    """JOB_ISSUE: a job of a command, with its tile, or its chunk where it is a vector job."""
    has(one(events, "JOB_ISSUE", cmd_id=1), job_id=1, job_type="TE_GEMM", tile_id=5, phase="QKV_PROJ")
    has(one(events, "JOB_ISSUE", cmd_id=3), job_type="VE_LAYERNORM", vec_chunk_id=6, phase="LN1")
    assert {one(events, "JOB_ISSUE", cmd_id=number)["job_type"] for number in (0, 4)} == {"DMA_READ", "DMA_WRITE"}


#: Tiles of 32 x 16 x 64 and chunks of two rows.
WITH_JOBS = {**MACHINE, "control": {"micro_scheduler": {"tile_m": 32, "tile_n": 16, "tile_k": 64, "chunk_elements": 128}}}


def of_tiles() -> Program:
    """A product of 2 x 2 x 2 tiles, and a softmax of five rows."""
    made = Program("tiles")
    at = {"ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 0, "wgt_offset": 4096, "ofm_bank": 0, "ofm_offset": 8192}
    first = made.te_gemm(m=48, n=32, k=96, qbits_weight=8, qbits_activation=8, phase="QKV_PROJ", token=9, **at)
    rows = {"length": 64, "batch": 5, "qbits_activation": 8, "in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0}
    made.ve_softmax(**rows, deps_before=[first])
    return made


def test_seed_003_s4_2_1_micro_scheduler() -> None:
    """A command is several jobs, each with its tile or chunk; it starts with the first and ends with the last of them."""
    events = traced(of_tiles(), WITH_JOBS)
    tiles = [event for event in of(events, "JOB_ISSUE") if event["cmd_id"] == 0]
    chunks = [event for event in of(events, "JOB_ISSUE") if event["cmd_id"] == 1]
    assert [event["tile_id"] for event in tiles] == list(range(8)) and len({event["job_id"] for event in tiles}) == 8
    assert [event["vec_chunk_id"] for event in chunks] == [0, 1, 2] and "tile_id" not in chunks[0]
    starts, ends = of(events, "TE_START"), of(events, "TE_END")
    has(one(events, "CMD_START", cmd_id=0), t_cycle=starts[0]["t_cycle"])
    has(one(events, "CMD_END", cmd_id=0), t_cycle=ends[-1]["t_cycle"])
    has(one(events, "TOKEN_COMPLETE"), t_cycle=ends[-1]["t_cycle"], token=9)
    assert [end["t_cycle"] for end in ends[:-1]] == [start["t_cycle"] for start in starts[1:]]
    assert all(event["phase"] == "QKV_PROJ" for event in tiles)
    assert [(event["len"], event["batch"]) for event in of(events, "VE_START")] == [(64, 2), (64, 2), (64, 1)]


def test_seed_003_s4_2_2(events: Events) -> None:
    """JOB_DONE: its latency is from its issue to its end."""
    issue, done = one(events, "JOB_ISSUE", cmd_id=1), one(events, "JOB_DONE", cmd_id=1)
    has(done, job_id=1, cmd_id=1, job_type="TE_GEMM", latency_cycles=done["t_cycle"] - issue["t_cycle"])


def test_seed_003_s4_3_1(events: Events) -> None:
    """DMA_START: addresses, size and direction."""
    has(
        one(events, "DMA_START", cmd_id=0), tx_id=0, channel=0, direction="DRAM_TO_SRAM", src_addr=4096, dst_addr=0,
        size_bytes=65536, cmd_id=0, job_id=0, phase="QKV_PROJ",
    )  # fmt: skip
    # Flat scratchpad addresses: bank 1 of two, interleaved by lines of 16 bytes.
    has(one(events, "DMA_START", cmd_id=4), direction="SRAM_TO_DRAM", dst_addr=8192, size_bytes=4096)


def test_seed_003_s4_3_2(events: Events) -> None:
    """DMA_END names its transfer, and is the end of the command."""
    has(one(events, "DMA_END", cmd_id=0), tx_id=0, channel=0, job_id=0, t_cycle=one(events, "CMD_END", cmd_id=0)["t_cycle"])


def test_seed_003_s4_4_1(events: Events) -> None:
    """TE_START and TE_END: the product, its tile, its multiplications and its length."""
    start, end = one(events, "TE_START"), one(events, "TE_END")
    has(start, job_id=1, cmd_id=1, m=128, n=128, k=256, phase="QKV_PROJ")
    assert {"tile_m", "tile_n", "tile_k"} <= set(start)
    has(end, job_id=1, mac_count=128 * 128 * 256, latency_cycles=end["t_cycle"] - start["t_cycle"])


def test_seed_003_s4_4_1_tiles() -> None:
    """TE_START of a tile has the product and the tile; the MACs of all tiles are those of the product."""
    events = traced(of_tiles(), WITH_JOBS)
    starts = of(events, "TE_START")
    for start in starts:
        has(start, m=48, n=32, k=96)
    assert [(start["tile_m"], start["tile_n"], start["tile_k"]) for start in starts] == [
        (m, n, k) for m in (32, 16) for n in (16, 16) for k in (64, 32)
    ]
    assert sum(end["mac_count"] for end in of(events, "TE_END")) == 48 * 32 * 96


def test_seed_003_s4_4_2(events: Events) -> None:
    """VE_START and VE_END."""
    start, end = one(events, "VE_START"), one(events, "VE_END")
    has(start, cmd_id=3, op_type="LAYERNORM", len=4096, batch=4, phase="LN1")
    has(end, cmd_id=3, job_id=start["job_id"], latency_cycles=end["t_cycle"] - start["t_cycle"])


def test_seed_003_s4_5_1(events: Events) -> None:
    """SRAM_ACCESS: who accessed which bank, and whether it had to wait. The bytes of a transfer are all accessed."""
    mine = [event for event in of(events, "SRAM_ACCESS") if event["cmd_id"] == 0]
    assert sum(event["size_bytes"] for event in mine) == 65536
    assert {event["by"] for event in of(events, "SRAM_ACCESS")} == {"TE", "VE", "DMA"}
    for event in mine[:100]:
        has(event, access_type="WRITE", by="DMA", bank_id=event["addr"] // 16 % 2, job_id=0)
    assert {event["conflict"] for event in mine} == {False, True}


def test_seed_003_s4_5_2(events: Events) -> None:
    """SRAM_CONFLICT: more ask for a bank than it has ports, and somebody waits."""
    found = of(events, "SRAM_CONFLICT")
    assert found
    for event in found:
        assert event["num_requests"] > event["allowed"] == 1 and event["stalled_clients"] and event["bank_id"] in (0, 1)
    assert {client for event in found for client in event["stalled_clients"]} <= {"TE", "VE", "DMA"}


def test_seed_003_s4_6_1(events: Events) -> None:
    """DRAM_TX_START and DRAM_TX_END: the bytes of a transfer by channel."""
    starts = [event for event in of(events, "DRAM_TX_START") if event["cmd_id"] == 0]
    assert {event["channel"]: event["size_bytes"] for event in starts} == {0: 32768, 1: 32768}
    for start in starts:
        end = one(events, "DRAM_TX_END", tx_id=0, channel=start["channel"])
        assert end["t_cycle"] > start["t_cycle"] == 4


def test_seed_003_s4_6_2(events: Events) -> None:
    """NOC_TX_START and NOC_TX_END: the same by link."""
    starts = [event for event in of(events, "NOC_TX_START") if event["cmd_id"] == 0]
    assert starts and {event["size_bytes"] for event in starts} == {32768}
    for start in starts:
        end = one(events, "NOC_TX_END", tx_id=0, link_id=start["link_id"], channel=start["channel"])
        assert end["t_cycle"] > start["t_cycle"]


def test_seed_003_s4_7_1(events: Events) -> None:
    """IRQ_EMIT at the end of the command that asks for it."""
    has(one(events, "IRQ_EMIT"), cmd_id=1, token=10, irq_line=3, t_cycle=one(events, "CMD_END", cmd_id=1)["t_cycle"])


def test_seed_003_s4_7_1_reaches_the_host() -> None:
    """The interrupt takes its time: a cycle more of it is a cycle more to the next command."""
    slow = {**MACHINE, "control": {"mmio": {"write_cycles": 4, "latency_cycles": 20, "interrupt_cycles": 31}}}
    early, late = (one(traced(by_mmio(), machine), "CMD_ENQUEUE", cmd_id=1)["t_cycle"] for machine in (WITH_HOST, slow))
    raised = one(traced(by_mmio(), WITH_HOST), "IRQ_EMIT", cmd_id=0)
    assert (early, late) == (raised["t_cycle"] + 54, raised["t_cycle"] + 55)


def test_seed_003_s4_7_2(events: Events) -> None:
    """TOKEN_COMPLETE, likewise."""
    has(one(events, "TOKEN_COMPLETE"), token=10, cmd_id=1, status="OK", t_cycle=one(events, "CMD_END", cmd_id=1)["t_cycle"])


def test_seed_003_s4_8_1() -> None:
    """ERROR names component, code and message: here two jobs use the same bytes."""
    made = program()
    made.dma_load(tensor_role="weight", qbits=8, num_elements=64, dram_addr=0, spm_bank=0, spm_offset=0)
    spm = {**MACHINE["spm"], "check_overlap": "error"}
    found = one(traced(made, {**MACHINE, "spm": spm}), "ERROR")
    has(found, code="OVERLAP", component="DMA")
    assert found["msg"] and found["cmd_id"] in range(6)


def test_seed_003_s4_8_2(events: Events) -> None:
    """WARN names component, code and message."""
    found = of(events, "WARN")
    assert found and all(event["component"] and event["msg"] for event in found)
    assert "CHANNEL_SATURATED" in {event["code"] for event in found}


def test_seed_003_s5(events: Events) -> None:
    """The fields of a language model are on the command; every event of the command is joined to them by `cmd_id`."""
    has(one(events, "CMD_ENQUEUE", cmd_id=1), **LLM)
    assert all(event["cmd_id"] in range(5) for event in events if "cmd_id" in event)


def test_seed_003_s6_1(events: Events, tmp_path: Path) -> None:
    """What a viewer filters by: time, component, ids, layer, phase, tenant, model."""
    units = {unit["unit"]: unit["component"] for unit in events[0]["units"]}
    assert {"CPU", "TE", "VE", "DMA", "DRAM", "SRAM", "NOC"} <= set(units.values())
    assert all(event["unit"] in units for event in events if "unit" in event)
    # A selection has the commands of a layer or phase alone; samples belong to all of them.
    path = trace_file(tmp_path)
    for chosen, kept in ((Selection(layers=frozenset({3})), {0, 1}), (Selection(phases=frozenset({"LN1"})), {3})):
        found = list(SelectedTrace(path.path, chosen))
        assert {record.cmd_id for record in found if record.event.name in OF_COMMANDS} - {None} == kept
        assert any(record.event.name == "BANDWIDTH_SAMPLE" for record in found)
    waits = {record.event.name for record in SelectedTrace(path.path, Selection(kinds=frozenset({"waits"})))}
    assert waits == {"STALL_EVENT", "RESUME_EVENT"}
    tenants = {event["cmd_id"]: event.get("tenant_id", 0) for event in of(events, "CMD_ENQUEUE")}
    assert tenants[1] == 1 and set(tenants.values()) == {0, 1}


def test_seed_003_s6_2(events: Events) -> None:
    """A Gantt chart needs pairs; a heat map needs samples; a summary of phases needs commands with phases."""
    for start, end in (("CMD_START", "CMD_END"), ("TE_START", "TE_END"), ("VE_START", "VE_END"), ("DMA_START", "DMA_END")):
        assert len(of(events, start)) == len(of(events, end)) > 0
    sampled = sum(event["read_bytes"] for event in of(events, "BANDWIDTH_SAMPLE") if event["unit"].startswith("dram"))
    assert sampled == 65536 + 16384


def busy(spans: list[tuple[int, str]]) -> int:
    """[cycle] The time in which at least one flow is in the channel, from starts and ends in order of time."""
    total = members = since = 0
    for cycle, kind in spans:
        total += cycle - since if members else 0
        members += {"DRAM_TX_START": 1, "DRAM_TX_END": -1, "DRAM_TX_SUSPEND": -1, "DRAM_TX_RESUME": 1}[kind]
        since = cycle
    return total


def test_seed_003_s7(events: Events, tmp_path: Path) -> None:
    """Each metric of the list by its formula from the events, and as `kbsim trace summary` has it."""
    found = metrics(trace_file(tmp_path))
    cycles = events[-1]["cycles"]
    engines = {engine.unit: engine for engine in found.engines}
    te = one(events, "TE_END")["t_cycle"] - one(events, "TE_START")["t_cycle"]
    ve = one(events, "VE_END")["t_cycle"] - one(events, "VE_START")["t_cycle"]
    assert engines["te0"].busy + engines["te0"].bank_conflict == te and engines["ve0"].busy == ve
    assert engines["te0"].cycles == cycles and engines["te0"].idle == cycles - te
    moved = sum(event["size_bytes"] for event in of(events, "DMA_START"))
    assert found.transfers.bytes == moved == 65536 + 16384 + 4096
    (phase,) = [part for part in found.phases if part.name == "LN1"]
    assert phase.first == one(events, "CMD_START", cmd_id=3)["t_cycle"]
    assert phase.last == one(events, "CMD_END", cmd_id=3)["t_cycle"]
    (layer,) = [part for part in found.layers if part.name == 3]
    assert layer.te == te and layer.ve == 0 and layer.macs == 128 * 128 * 256
    assert found.banks.conflicts == len(of(events, "SRAM_CONFLICT"))
    assert found.banks.conflicts is not None and found.banks.accesses
    assert found.banks.conflict_rate == Fraction(found.banks.conflicts, found.banks.accesses) > 0
    for channel in (one for one in found.channels if one.kind == "DRAM"):
        spans = [(event["t_cycle"], event["event_type"]) for event in events if event.get("unit") == channel.unit]
        assert channel.busy == busy([one for one in spans if one[1].startswith("DRAM_TX")])


def test_seed_003_s8_1(events: Events) -> None:
    """The first line is the meta line with version and machine."""
    has(events[0], event_type="TRACE_META", t_cycle=0)
    assert events[0]["version"].count(".") == 1 and events[0]["sim_config"]["spm"]["num_banks"] == 2


def test_seed_003_s8_2(events: Events) -> None:
    """Schema and simulator have a version each; changes of fields are listed by version."""
    import kernbench
    from kernbench.trace.schema import CHANGES, EVENTS, VERSION

    assert events[0]["version"] == VERSION == CHANGES[0][0] and events[0]["sim_version"] == kernbench.__version__
    versions = [version for version, _ in CHANGES]
    assert versions == sorted(versions, reverse=True)
    assert {field.since for event in EVENTS for field in event.fields} <= set(versions)


def test_seed_003_s9(tmp_path: Path) -> None:
    """A trace may be packed with gzip; pandas or polars get it as a frame."""
    pytest.importorskip("polars")
    from kernbench.trace.frames import frame

    path = tmp_path / "run.trace.jsonl.gz"
    path.write_bytes(gzip.compress(trace_text(level="summary")))
    rows = frame(Trace(path), "DMA_START")
    assert rows["size_bytes"].to_list() == [65536, 16384, 4096]
    assert validate(Trace(path)).valid


def test_seed_003_s10_1() -> None:
    """The trace is a hierarchy: every unit names its parent, and a PE's units are below it, as PEs are below cubes and SIPs."""
    from kernbench import Program

    made = Program("hierarchy")
    node = "sip0.cube0.pe0"
    made.dma_load(node=node, tensor_role="weight", qbits=8, num_elements=64, dram_addr=0, spm_bank=0, spm_offset=0)
    found = traced(made, {"schema": "kernbench/system/1"})
    parents = {unit["unit"]: unit["parent"] for unit in found[0]["units"]}
    unit = one(found, "DMA_START")["unit"]
    assert unit.startswith(node) and parents[unit] == node
    levels = {parent for parent in parents.values() if parent} | {node}
    assert {"sip0.cube0.pe0", "sip0.cube0.hbm_ctrl"} <= levels
    # Every level is below the one before: a viewer shows a heading for each, and the unit under its PE.
    made_tracks = Tracks(found[0]["units"])
    number = made_tracks.single(unit, "jobs", "lane")
    tracks = {track.number: track for track in made_tracks.fresh}
    own, above = tracks[number], []
    while own.parent:
        own = tracks[own.parent]
        above.append(own.name)
    assert above == ["sip0.cube0.pe0", "sip0.cube0", "sip0"]


def test_seed_003_s10_2_open_telemetry(tmp_path: Path) -> None:
    """Export as spans of OpenTelemetry: a request has commands, and a command has its jobs; a job is inside its command."""
    pytest.importorskip("opentelemetry.sdk")
    out = tmp_path / "run.otlp.jsonl"
    export(trace_file(tmp_path, level="summary"), Format.OTLP, out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    spans = [span for one in lines for part in one["resourceSpans"] for scope in part["scopeSpans"] for span in scope["spans"]]
    by_id = {span["spanId"]: span for span in spans}
    product = one(traced(level="summary"), "TE_START")
    starts = [span for span in spans if int(span["startTimeUnixNano"]) == product["t_cycle"] // 2]
    chains = [[span["name"] for span in up(by_id, one)] for one in starts]
    assert max(len(chain) for chain in chains) >= 3
    for span in spans:
        for above in up(by_id, span)[1:]:
            assert int(above["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(above["endTimeUnixNano"])


def up(by_id: dict[str, Any], span: dict[str, Any]) -> list[dict[str, Any]]:
    """A span and those above it."""
    found = [span]
    while found[-1].get("parentSpanId"):
        found.append(by_id[found[-1]["parentSpanId"]])
    return found


def test_seed_003_s10_2(tmp_path: Path) -> None:
    """Export to the Chrome trace format: complete events with the start and length of the file's."""
    trace = trace_file(tmp_path, level="summary")
    out = tmp_path / "run.json"
    export(trace, Format.CHROME, out)
    made = json.loads(out.read_text())
    product = one(traced(level="summary"), "TE_START")
    spans = [event for event in made["traceEvents"] if event["ph"] in "BX" and event.get("args", {}).get("cmd_id") == 1]
    assert product["t_cycle"] / 2 / 1000 in {event["ts"] for event in spans}  # [us], 2 GHz


def test_seed_003_s10_3(tmp_path: Path) -> None:
    """Counters read from hardware are put beside those of the run."""
    readings = tmp_path / "read.csv"
    readings.write_text("counter,value\nte0.jobs,2\n")
    aligned = align(trace_file(tmp_path), str(readings), read_readings(readings))
    (line,) = aligned.lines
    assert line.reading.value == 2 and line.simulated == 1 and line.ratio == 1 / 2


def test_seed_003_s10_4(events: Events) -> None:
    """Energy by window, whose sum is that of the run; engines that are idle and active again."""
    windows, total = of(events, "ENERGY_SAMPLE"), events[-1]["energy_pj"]
    for part in ("dram", "mac", "ve", "spm"):
        assert sum(event[f"{part}_pj"] for event in windows) == pytest.approx(total[part])
    states = sorted((event["unit"], event["t_cycle"], event["state"]) for event in of(events, "POWER_STATE"))
    assert {"dma0", "te0", "ve0"} <= {unit for unit, _, _ in states}
    for unit, cycle, state in states:  # idle in the whole window that ends here, or at work in it
        works = [event for event in of(events, "ENGINE_SAMPLE") if (event["unit"], event["t_cycle"]) == (unit, cycle)]
        assert bool(works) == (state == "ACTIVE")
    for _, group in groupby(states, key=lambda state: state[0]):
        kinds = [state for _, _, state in group]
        assert kinds == [("IDLE", "ACTIVE")[number % 2] for number in range(len(kinds))]
