"""Metrics are what their formulas say: on a trace written by hand, on random ones, and of what is left of a broken one."""

from __future__ import annotations

import csv
import io
import json
import sys
import tracemalloc
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.cmdq import load_program
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace import Metrics, frame, metrics, metrics_frame, open_trace
from kernbench.trace.columns import IdMap
from kernbench.trace.events import Record
from kernbench.trace.metric.collect import Activity
from kernbench.trace.metric.figures import Engine, Spread, StageMetrics, Stall
from kernbench.trace.metric.tables import csv_text, parquet_bytes, rows, to_dict
from kernbench.trace.writer import TraceFile
from tests.trace_samples import UNITS, lawful, lines, meta, one_of_each, record, write_trace

NO_RATE = "bank conflict rate: it needs level access (the share of denied requests is here)"


def of(folder: Path, records: list[Record]) -> Metrics:
    return metrics(open_trace(write_trace(folder / "t.jsonl", records)))


def as_summary(records: list[Record]) -> list[Record]:
    """What the lawful run writes at level summary."""
    low = [one for one in records[1:-1] if one.event.level == "summary"]
    kept = [one for one in low if getattr(one, "reason", "") != "bank_conflict"]
    return [meta(level="summary"), *kept, msgspec.structs.replace(records[-1], events=len(kept))]


def test_the_figures_of_a_run_by_hand(tmp_path: Path) -> None:
    found = of(tmp_path, lawful())
    assert (found.run.status, found.run.cycles, found.run.ns, found.run.events) == ("done", 29, F(58, 3), 73)
    assert found.engines == (
        Engine("dma0", "DMA", 29, busy=14, bank_conflict=0, backpressure=0, jobs=2, work=96, running=14, queued=0),
        Engine("te0", "TE", 29, busy=8, bank_conflict=1, backpressure=0, jobs=1, work=16384, running=9, queued=0),
        Engine("ve0", "VE", 29, busy=6, bank_conflict=0, backpressure=0, jobs=1, work=128, running=6, queued=0),
    )
    assert [engine.utilisation for engine in found.engines] == [F(14, 29), F(8, 29), F(6, 29)]
    assert [engine.idle for engine in found.engines] == [15, 20, 23]
    assert (found.transfers.bandwidth, found.transfers.loaded, found.transfers.stored) == (F(96, 29), 64, 32)
    (channel,) = found.channels
    assert (channel.bytes, channel.utilisation, channel.used) == (96, F(6, 29), F(96, 29 * 16))
    assert [(link.unit, link.read, link.write, link.busy) for link in found.links] == [
        ("noc.r1c0-r0c0", 0, 32, 2), ("noc.r0c0-r1c0", 64, 0, 4)]  # fmt: skip
    assert (found.banks.conflict_rate, found.banks.conflicts, found.banks.denial_rate) == (None, 1, F(1, 41))
    assert found.banks.denials == [0, 1] and found.stalls == (Stall("te0", "bank_conflict", 1, 1, 0),)


def test_phases_and_layers_of_a_run_by_hand(tmp_path: Path) -> None:
    found = of(tmp_path, lawful())
    qkv = {"active": 17, "te": 9, "ve": 0, "dma": 8, "command_cycles": 17, "longest": 9, "macs": 16384, "ops": 0, "bytes": 64}
    norm = {"active": 12, "te": 0, "ve": 6, "dma": 6, "command_cycles": 12, "longest": 6, "macs": 0, "ops": 128, "bytes": 32}
    end = dict.fromkeys(qkv, 0)
    for parts, names in ((found.phases, ("QKV", "LN", None)), (found.layers, (0, 1, None))):
        assert parts == (
            StageMetrics(names[0], commands=2, ended=2, first=0, last=17, stalls={"bank_conflict": 1}, **qkv),
            StageMetrics(names[1], commands=2, ended=2, first=17, last=29, stalls={}, **norm),
            StageMetrics(names[2], commands=1, ended=1, first=29, last=29, stalls={}, **end),
        )
        assert [part.latency for part in parts] == [17, 12, 0]


def test_tokens_energy_and_roofline_of_a_run_by_hand(tmp_path: Path) -> None:
    found = of(tmp_path, lawful())
    assert (found.tokens.count, found.tokens.prompt, found.tokens.ttft, found.tokens.tpot) == (1, 0, None, F(29))
    assert found.tokens.gap is None
    assert found.tokens.latency == Spread(1, F(29), 29, 29, 29, 29, 29) and found.tokens.completions == {"OK": 1}
    parts = {"dram": F(1920), "noc": F(96), "spm": F(0), "mac": F(4), "ve": F(64), "static": F(0)}
    assert found.energy_pj == {**parts, "total": F(2084)}
    roof = found.roofline
    assert (roof.ops, roof.bytes, roof.intensity) == (2 * 16384 + 128, 96, F(32896, 96))
    assert (roof.peak, roof.bandwidth, roof.ridge, roof.bound) == (2 * 4096 + 64, 16, 516, "memory")
    assert (roof.attained, roof.roof) == (F(32896, 29), F(32896, 6))


def test_a_denser_format_raises_the_peak(tmp_path: Path) -> None:
    faster = [msgspec.structs.replace(one, mac_count=65536) if one.event.name == "TE_END" else one for one in lawful()]
    roof = of(tmp_path, faster).roofline  # 65536 MACs in 4 body cycles: four times macs_per_cycle
    assert (roof.peak, roof.ridge, roof.bound) == (2 * 16384 + 64, 2052, "memory")


def test_right_of_the_ridge_the_engines_are_the_roof(tmp_path: Path) -> None:
    wide = [{**unit, "capacity": "64"} if unit["component"] == "DRAM" else unit for unit in UNITS]
    roof = of(tmp_path, [meta(units=wide), *lawful()[1:]]).roofline
    assert (roof.ridge, roof.bound, roof.roof) == (129, "compute", roof.peak)


def test_level_summary_says_what_it_lacks(tmp_path: Path) -> None:
    full, found = of(tmp_path, lawful()), of(tmp_path, as_summary(lawful()))
    assert found.engines == full.engines and found.channels == full.channels and found.roofline == full.roofline
    assert found.banks.conflict_rate is None and found.banks.denial_rate is None and found.stalls == ()
    assert [what.partition(":")[0] for what in found.run.missing] == [
        "requests and denials by bank", "waits for banks by job", "bank conflict rate"]  # fmt: skip
    assert full.run.missing == (NO_RATE,)


def test_a_file_that_broke_off_gives_what_there_is(tmp_path: Path) -> None:
    text = lines(lawful())
    path = tmp_path / "t.jsonl"
    path.write_bytes(text[: text.index(b'{"event_type":"VE_START"')])
    found = metrics(open_trace(path))
    assert found.run.status == "cut off" and found.run.broken.endswith("the file ends without TRACE_END")
    assert found.run.cycles == 17  # the last command ends there
    assert [engine.cycles for engine in found.engines] == [16, 16, 16]  # the first window is sampled
    assert found.run.missing == (
        NO_RATE,
        "engines and channels outside cycles 0 to 16: samples are of whole windows",
    )
    assert [engine.busy for engine in found.engines] == [8, 7, 0]
    assert found.energy_pj["dram"] == 1280 and found.roofline.bytes == 64
    assert [part.latency for part in found.phases] == [17, 0, None]


def test_a_window_counts_from_its_first_cycle(tmp_path: Path) -> None:
    inside = [one for one in lawful()[1:-1] if one.event.name == "CMD_ENQUEUE" or 16 <= one.t_cycle < 32]
    found = of(tmp_path, [meta(t_cycle=16, filter={"cycles": [16, 32], "only": None}), *inside, lawful()[-1]])
    assert (found.run.first, found.run.cycles) == (16, 13)
    assert [(engine.busy, engine.idle) for engine in found.engines] == [(6, 7), (1, 12), (6, 7)]
    assert (found.phases[0].te, found.phases[0].active) == (1, 1)  # it ran when the window began
    assert found.energy_pj["dram"] == 640


def test_a_run_that_is_traced_for_some_cycles_is_measured_over_them(tmp_path: Path) -> None:
    """Two loads of 3,200 bytes, 200 cycles each, one after the other: of cycles 100 to 300 all are busy, and the first ends."""
    load = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0}
    entries = [{**load, "num_elements": 3200, "phase": "p"}, {**load, "num_elements": 3200, "phase": "p", "deps_before": [0]}]
    run = Machine(load_config({}), load_program({"metadata": {"version": "1.0"}, "cmdq": entries}))
    with TraceFile(tmp_path / "t.jsonl") as file:
        tracing = run.trace(file, TraceOptions("full", 50, (), (100, 300)))
        run.run()
        tracing.close()
    found = metrics(open_trace(tmp_path / "t.jsonl"))
    assert (found.run.first, found.run.cycles, found.engines[0].utilisation) == (100, 200, 1)
    assert (found.transfers.ended, found.transfers.bytes, found.transfers.loaded, found.transfers.open) == (1, 3200, 3200, 1)
    (part,) = found.phases
    assert (part.first, part.latency, part.active, part.dma, part.bytes) == (100, 200, 200, 200, 3200)


def test_samples_of_a_window_are_of_whole_windows(tmp_path: Path) -> None:
    inside = [one for one in lawful()[1:-1] if one.event.name == "CMD_ENQUEUE" or 9 <= one.t_cycle < 20]
    found = of(tmp_path, [meta(t_cycle=9, filter={"cycles": [9, 20]}), *inside, lawful()[-1]])
    assert (found.run.first, found.run.cycles) == (9, 11)
    assert [(engine.cycles, engine.busy, engine.idle) for engine in found.engines] == [(16, 8, 8), (16, 7, 8), (16, 0, 16)]
    assert found.run.missing == (
        NO_RATE,
        "engines and channels outside cycles 0 to 16: samples are of whole windows",
    )


def test_units_that_are_left_out_have_no_figures(tmp_path: Path) -> None:
    only = [one for one in lawful()[1:-1] if getattr(one, "unit", "te0") in ("te0", "spm")]
    found = of(tmp_path, [meta(filter={"only": ["te*", "spm"]}), *only, lawful()[-1]])
    assert [engine.unit for engine in found.engines] == ["te0"] and found.channels == () and found.engines[0].busy == 8
    assert found.run.missing == (
        NO_RATE,
        "engines, channels and links that the file leaves out (TRACE_META.filter)",
    )


def test_without_samples_the_jobs_say_what_was_busy(tmp_path: Path) -> None:
    records = [one for one in lawful() if not one.event.name.endswith("_SAMPLE")]
    found = of(tmp_path, records)
    assert [(engine.busy, engine.bank_conflict) for engine in found.engines] == [(14, 0), (8, 1), (6, 0)]
    assert found.run.missing[0] == NO_RATE
    assert len(found.run.missing) == 2 and "the file has no samples" in found.run.missing[1]


def test_what_is_open_at_the_end_is_counted_up_to_it(tmp_path: Path) -> None:
    job = {"unit": "dma0", "job_id": 0, "cmd_id": 0}
    records = [
        meta(),
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type="DMA_LOAD_TILE", unit="dma0", phase="p"),
        record("JOB_ISSUE", 2, **job, job_type="DMA_READ"),
        record("STALL_EVENT", 2, **job, reason="queue_full", channel=0),
        record("STALL_EVENT", 3, **{**job, "job_id": 1}, reason="queue_full", channel=0),
        record("RESUME_EVENT", 5, **{**job, "job_id": 1}, reason="queue_full", channel=0, duration_cycles=2),
        record("CMD_START", 5, cmd_id=0, unit="dma0"),
        record("CMD_END", 20, cmd_id=0, unit="dma0", status="TIMEOUT"),
        record("TRACE_END", 20, status="aborted", cycles=20, events=7, counters={}),
    ]
    found = of(tmp_path, records)
    assert found.stalls == (Stall("dma0", "queue_full", 2, 2 + 18, 1),)
    assert [(p.name, p.latency, p.active, p.stalls) for p in found.phases] == [("p", 15, 15, {"queue_full": 2})]


@pytest.mark.parametrize(
    ("unit", "value", "rule"),
    [
        ({"unit": "dram.ch0", "component": "DRAM", "capacity": "fast"}, "fast", "units[0].capacity"),
        ({"unit": "dram.ch0", "component": "DRAM", "capacity": 0}, 0, "units[0].capacity"),
        ({"unit": "te0", "component": "TE", "macs_per_cycle": "-1"}, "-1", "units[0].macs_per_cycle"),
    ],
)
def test_a_machine_that_makes_no_sense_is_refused(tmp_path: Path, unit: dict[str, Any], value: object, rule: str) -> None:
    path = write_trace(tmp_path / "t.jsonl", [meta(units=[unit]), lawful()[-1]])
    with pytest.raises(InputError) as error:
        metrics(open_trace(path))
    assert str(error.value) == f"{path}:1: {rule} = {json.dumps(value)}, but it must be a number above 0"
    with pytest.raises(InputError, match="freq_ghz"):
        of(tmp_path, [meta(units=UNITS, freq_ghz="0"), lawful()[-1]])


def test_rows_say_everything_once_and_exactly(tmp_path: Path) -> None:
    found = of(tmp_path, lawful())
    table = list(rows(found))
    assert len({row[:3] for row in table}) == len(table)
    exact = {row[:3]: (row.unit, row.value, row.exact) for row in table}
    assert exact["engines", "te0", "utilisation"] == ("", 8 / 29, "8/29")
    assert exact["phases", "QKV", "stalls.bank_conflict"] == ("job-cycle", 1.0, "1")
    assert exact["tokens", "", "latency.p50"] == ("cycle", 29.0, "29")
    assert exact["run", "", "program"] == ("", None, "by_hand")
    assert all(row.value is None or row.value == float(F(row.exact)) for row in table)
    read_back = list(csv.reader(io.StringIO(csv_text(found))))
    assert read_back[0] == list(table[0]._fields)
    assert read_back[1:] == [["" if cell is None else str(cell) for cell in row] for row in table]
    plain = json.loads(json.dumps(to_dict(found)))
    assert plain["engines"][1]["utilisation"] == 8 / 29 and plain["channels"][0]["capacity"] == 16
    assert plain["layers"][2]["name"] is None and plain["run"]["ns"] == 58 / 3


def test_parquet_and_frames_hold_the_same_rows(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    found = of(tmp_path, lawful())
    assert parquet_bytes(found) == parquet_bytes(found)
    back = polars.read_parquet(io.BytesIO(parquet_bytes(found)))
    assert back.rows() == [tuple(row) for row in rows(found)] == metrics_frame(found).rows()


def test_a_frame_has_a_row_an_event(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    trace = open_trace(write_trace(tmp_path / "t.jsonl", one_of_each()))
    whole = frame(trace)
    between = one_of_each()[1:-1]
    assert whole["event_type"].to_list() == [one.event.name for one in between]
    assert whole["line"].to_list() == list(range(2, len(between) + 2))
    for name in whole.columns[2:]:
        default = trace.meta.defaults.get(name)
        given = [getattr(one, name, None) for one in between]
        if name == "t_ns":
            given = [one.t_cycle / 1.5 if value is None else value for one, value in zip(between, given, strict=True)]
        given = [default if value is None else str(value) if name == "marker" else value for value in given]
        assert whole[name].to_list() == given, name
    some = frame(trace, ["TE_END", "VE_END"])
    assert some.height == 2 and some["mac_count"].to_list() == [4194304, None] and "deps" not in some.columns
    assert frame(trace, "MARKER")["marker"].to_list() == ["layer done", "17"]
    for wrong, value in ((["TE_END", "NONSENSE"], "NONSENSE"), ([], ""), ("TRACE_END", "TRACE_END")):
        with pytest.raises(InputError, match=f'frame: event_types = "{value}", but it must name event types'):
            frame(trace, wrong)


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = open_trace(write_trace(tmp_path / "t.jsonl", lawful()))
    for module in ("polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, module, None)
    for name, ask in (("polars", lambda: frame(trace)), ("pyarrow", lambda: parquet_bytes(metrics(trace)))):
        with pytest.raises(InputError) as error:
            ask()
        assert str(error.value) == f"analysis: {name} is not installed; pip install 'kernbench[analysis]'"


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", [meta(), *lawful()[1:-1] * 500, lawful()[-1]])
    tracemalloc.start()
    found = metrics(open_trace(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.run.events == 73 * 500 and peak < 4_000_000


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=8), st.integers(0, 60))
def test_activity_is_the_length_of_a_union(spans: list[tuple[int, int]], until: int) -> None:
    ends = sorted([(start + length, 0) for start, length in spans] + [(start, 1) for start, _ in spans])
    activity = Activity()
    for t_cycle, is_start in sorted(ends, key=lambda end: (end[0], -end[1])):
        if t_cycle <= until:
            activity.begin(t_cycle) if is_start else activity.end(t_cycle)
    covered = {cycle for start, length in spans for cycle in range(start, min(start + length, until))}
    assert activity.until(until) == len(covered)


@given(st.lists(st.integers(1, 50), min_size=1))
def test_percentiles_are_the_nearest_rank(numbers: list[int]) -> None:
    spread = Spread.of(sorted(numbers))
    assert spread is not None and spread.mean == F(sum(numbers), len(numbers))
    for percent, value in ((50, spread.p50), (90, spread.p90), (99, spread.p99)):
        reached = sum(number <= value for number in numbers)
        below = sum(number < value for number in numbers)
        assert 100 * reached >= percent * len(numbers) > 100 * below
    assert (spread.least, spread.most) == (min(numbers), max(numbers)) and Spread.of([]) is None


@given(st.dictionaries(st.integers(-5, 2**40) | st.integers(0, 50), st.integers(0, 9)), st.integers(0, 100))
def test_an_id_map_is_a_dictionary(wanted: dict[int, int], expected: int) -> None:
    made = IdMap(expected)
    for key, number in wanted.items():
        made[key] = number
    assert dict(made.items()) == wanted and all(made.get(key) == wanted.get(key) for key in (*wanted, 3, -1, 2**41))
