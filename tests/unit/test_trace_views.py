"""What the views show: the tables of a trace, totals, groups, heatmaps, roofline, bars; by hand and against the counters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kernbench as kb
from kernbench.common.errors import InputError
from kernbench.trace import timeline as timeline_module
from kernbench.trace.columns import NULL, Column, Table, paired, pick, rows_of
from kernbench.trace.events import Record
from kernbench.trace.reader import open_trace
from kernbench.trace.report import plots
from kernbench.trace.report.views import AXES, COLOURS, LANES, NONE, axis, chosen, gantt, grouped, heatmaps, roofline, totals
from kernbench.trace.timeline import KINDS, POINTS, Timeline, read_timeline
from kernbench.trace.validate import validate
from tests.oracles.ref_trace import reference_trace
from tests.trace_big import write_big
from tests.trace_samples import lawful, lines, one_of_each, write_trace
from tests.trace_systems import traced_systems

RELAXED = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


def read(tmp_path: Path, records: list[Record], **more: Any) -> Timeline:
    return read_timeline(open_trace(write_trace(tmp_path / "a.jsonl", records)), **more)


@pytest.fixture
def run(tmp_path: Path) -> Timeline:
    return read(tmp_path, lawful())


def rows(table: Table, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(table.columns[name][i] for name in names) for i in range(len(table))]


def test_spans_of_a_run_by_hand(run: Timeline) -> None:
    names = [unit.name for unit in run.units]
    found = [(names[unit], *rest) for unit, *rest in rows(run.spans, "unit", "row", "start", "end", "job", "command", "issue")]
    assert found == [
        ("control", 0, 29, 29, None, 4, None),
        ("dma0", 0, 0, 8, 0, 0, 0),
        ("dma0", 0, 23, 29, 3, 3, 23),
        ("te0", 0, 8, 17, 1, 1, 8),
        ("ve0", 0, 17, 23, 2, 2, 17),
        ("dram.ch0", 0, 4, 8, 0, 0, None),
        ("dram.ch0", 0, 27, 29, 3, 3, None),
        ("noc.r1c0-r0c0", 0, 27, 29, 3, 3, None),
        ("noc.r0c0-r1c0", 0, 4, 8, 0, 0, None),
    ]
    assert (run.first, run.last, run.broken, run.window) == (0, 29, "", 16)
    assert run.details["TE"].row(0)["mac_count"] == 16384 and run.details["VE"].row(0)["op_type"] == "LAYERNORM"
    assert rows(run.waits, "span", "start", "end", "job", "reason") == [(3, 11, 12, 1, 3)]


def test_every_field_of_every_event_of_a_span_is_kept(tmp_path: Path) -> None:
    made = read(tmp_path, one_of_each())
    for kind, first, last, _ in timeline_module.SPAN_EVENTS:
        told = made.details[kind].row(0)
        for record in one_of_each():
            if record.event.name in (first, last):
                for field in record.event.fields:
                    assert field.name == "unit" or told[field.name] == getattr(record, field.name), (kind, field.name)
    assert set(made.points) == set(POINTS)
    assert made.commands.row(0)["desc_addr"] == 140737488355328 and made.commands.row(0)["tenant_id"] == 4


def test_totals_by_hand(run: Timeline) -> None:
    every = totals(run)
    assert (every.spans, every.jobs, every.first, every.last, every.active, every.queued) == (9, 4, 0, 29, 29, 0)
    assert every.cycles == {"DMA": 14, "TE": 9, "VE": 6}
    assert (every.bytes, every.dram_bytes, every.macs, every.ops) == (96, 96, 16384, 128)
    assert every.waits == {"queue_full": 0, "priority_deferred": 0, "backpressure": 0, "bank_conflict": 1}
    phases = grouped(run, "phase")
    assert list(phases) == ["QKV", "LN", NONE]
    assert (phases["QKV"].elapsed, phases["QKV"].active, phases["LN"].bytes, phases[NONE].jobs) == (17, 17, 32, 0)
    assert list(grouped(run, "token")) == ["5", NONE] and grouped(run, "token")["5"].jobs == 2
    assert list(grouped(run, "layer")) == ["0", "1", NONE]
    assert totals(run, chosen(run, (8, 17))).cycles == {"DMA": 0, "TE": 9, "VE": 0}
    assert totals(run, chosen(run, phase=["LN"], component=["DMA"])).bytes == 32
    assert totals(run, chosen(run, phase=["no such"])).spans == 0 and totals(run, chosen(run, phase=["no such"])).first is None


def test_heatmaps_by_hand(run: Timeline) -> None:
    found = {heat.name: heat for heat in heatmaps(run)}
    assert list(found) == ["te", "ve", "dma", "dram", "noc", "grants.spm", "denials.spm"]
    assert found["te"].part.tolist() == [[7, 1]] and found["te"].shares.tolist() == [[7 / 16, 1 / 13]]
    assert found["dram"].part.tolist() == [[64, 32]] and found["dram"].shares.tolist() == [[0.25, 32 / (13 * 16)]]
    assert found["noc"].rows == ["noc.r1c0-r0c0", "noc.r0c0-r1c0"] and found["noc"].part.tolist() == [[0, 32], [64, 0]]
    assert found["grants.spm"].part.tolist() == [[14, 6], [14, 6]] and found["denials.spm"].shares.tolist() == [
        [0, 0],
        [1 / 15, 0],
    ]
    one = {heat.name: heat for heat in heatmaps(run, most_bins=1)}
    assert (one["te"].bin_cycles, one["te"].part.tolist(), one["te"].shares.tolist()) == (32, [[8]], [[8 / 29]])


def test_roofline_by_hand(run: Timeline) -> None:
    found = roofline(run)
    assert (found.macs_per_cycle, found.peak, found.bytes_per_cycle, found.ridge) == (4096, 4096, 16, 256)
    assert [(point.label, point.intensity, point.rate) for point in found.points] == [
        ("all", 16384 / 96, 16384 / 29),
        ("QKV", 256, 16384 / 17),
    ]
    assert found.left_out == ["LN", NONE]


def test_the_picture_of_the_roofline_has_all_points_in_it(run: Timeline) -> None:
    """Those far below the roof were below the picture."""
    pytest.importorskip("matplotlib")
    axes = plots._roofline(run, "phase", "light").axes[0]
    low, high = axes.get_ylim()
    assert all(low < point.rate < high for point in roofline(run).points)


def test_figures_of_pictures_count_in_words(run: Timeline) -> None:
    one = grouped(run, "phase")["QKV"]
    assert plots._figures(one).startswith(f"{one.jobs} jobs in {one.active} cycles")
    assert plots._figures(replace(one, jobs=1, active=1, bytes=0)) == "1 job in 1 cycle"
    assert plots._figures(replace(one, jobs=2, active=1000, bytes=104)) == "2 jobs in 1,000 cycles, 0.10 B/cycle"


def test_the_roof_is_that_of_the_widths_used(run: Timeline) -> None:
    te = {"engines": 1, "macs_per_cycle": 1024, "f_w": {"8": 1, "4": 2, "2": "5/2"}, "f_a": {"8": 1, "4": "11/10"}}
    units = [
        replace(unit, facts={**unit.facts, "macs_per_cycle": "2048"}) if unit.component == "TE" else unit for unit in run.units
    ]
    narrow = replace(run, meta={**run.meta, "sim_config": {"te": te}}, units=units)
    assert roofline(narrow).macs_per_cycle == 2048 and roofline(narrow).peak == 4096  # 16384 MACs in 4 cycles


def test_the_roof_of_a_systolic_array_is_its_cells(run: Timeline) -> None:
    """Factors of widths do not count there: the peak was halved where all bodies were slow and `f_a` had a factor of a half."""
    te = {"engines": 1, "timing": "systolic", "rows": 512, "cols": 256, "f_w": {"8": 1}, "f_a": {"8": 1, "16": "1/2"}}
    cells = {"macs_per_cycle": str(512 * 256)}
    units = [replace(unit, facts={**unit.facts, **cells}) if unit.component == "TE" else unit for unit in run.units]
    assert roofline(replace(run, meta={**run.meta, "sim_config": {"te": te}}, units=units)).peak == 512 * 256


def test_a_file_that_breaks_off_shows_what_it_has(tmp_path: Path) -> None:
    whole = lines(lawful()).splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(whole[:14]) + whole[14][:9])
    made = read_timeline(open_trace(cut))
    assert made.end is None and made.broken.startswith("line 15 (byte ")
    names = [unit.name for unit in made.units]
    found = [(names[unit], *rest) for unit, *rest in rows(made.spans, "unit", "start", "end", "open")]
    assert ("dma0", 0, 7, 1) in found or ("dma0", 0, 8, 1) in found or ("dma0", 0, 4, 1) in found


def test_ends_without_a_start_begin_where_their_latency_says(tmp_path: Path) -> None:
    kept = [record for record in lawful() if record.event.name not in ("TE_START", "DMA_START", "STALL_EVENT")]
    made = read(tmp_path, kept)
    found = {(KINDS[kind], start, end) for kind, start, end in rows(made.spans, "kind", "start", "end")}
    assert {("TE", 8, 17), ("DMA", 0, 8), ("DMA", 23, 29)} <= found
    assert totals(made).macs == 16384 and totals(made).bytes == 0
    assert rows(made.waits, "start", "end") == [(11, 12)]


def test_units_that_the_first_line_does_not_list_come_last(tmp_path: Path) -> None:
    first, *rest = lawful()
    made = read(tmp_path, [type(first)(**{**_fields(first), "units": []}), *rest])
    assert {unit.name: unit.component for unit in made.units}["te0"] == "TE"
    assert totals(made).cycles == {"DMA": 14, "TE": 9, "VE": 6}
    assert roofline(made).peak is None


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_a_window_takes_what_reaches_into_it(tmp_path: Path, run: Timeline) -> None:
    part = read(tmp_path, lawful(), cycles=(8, 23))
    assert (part.first, part.last) == (8, 23)
    assert totals(part) == totals(run, chosen(run, (8, 23)))
    assert list(part.points) == ["SRAM_CONFLICT"] and rows(part.waits, "span") == [
        (int(np.flatnonzero(part.spans["kind"] == 1)[0]),)
    ]
    whole = {heat.name: heat for heat in heatmaps(run)}
    for heat in heatmaps(part):
        assert (heat.part == whole[heat.name].part).all() and (heat.shares == whole[heat.name].shares).all()
    assert heatmaps(read(tmp_path, lawful(), cycles=(0, 16)))[0].part.tolist() == [[7]]
    assert part.details["DMA"].count == 0 and part.details["TE"].row(0)["m"] == 16


@pytest.mark.parametrize("level", ["summary", "full"])
def test_long_traces_of_the_tests_are_lawful(tmp_path: Path, level: str) -> None:
    path = write_big(tmp_path / "big.jsonl", 500, level)
    assert validate(open_trace(path)).valid
    made = read_timeline(open_trace(path))
    jobs, layers = 600, 3  # half of the jobs are loads, of two flows each
    assert len(made.spans) == jobs + layers + (jobs // 2 * 4 if level == "full" else 0)
    assert made.end is not None and made.last == made.end["cycles"]


def test_too_many_spans_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "MAX_SPANS", 8)
    with pytest.raises(
        InputError, match=r"it has 9 spans, and a report shows at most 8; take a part of it with --cycles FROM:TO"
    ):
        read(tmp_path, lawful())
    assert len(read(tmp_path, lawful(), cycles=(0, 8)).spans) == 3


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), max_size=40))
def test_rows_never_overlap_and_are_as_few_as_can_be(drawn: list[tuple[int, int, int]]) -> None:
    spans = sorted((unit, start, start + length) for unit, start, length in drawn)
    columns = zip(*spans, strict=True) if spans else [(), (), ()]
    names = ("unit", "start", "end")
    table = Table({name: Column(np.array(values, np.int64)) for name, values in zip(names, columns, strict=True)})
    found = rows_of(table).tolist()
    for i, (unit, start, _) in enumerate(spans):
        for k in range(i):
            assert spans[k][0] != unit or found[k] != found[i] or spans[k][2] <= start
    for unit in range(3):
        own = [(start, end) for u, start, end in spans if u == unit]
        deepest = max((sum(s <= start < e for s, e in own) for start, _ in own), default=0)
        used = {row for (u, _, _), row in zip(spans, found, strict=True) if u == unit}
        assert len(used) <= max(deepest, 1) + sum(s == e for s, e in own)


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), max_size=12))
def test_the_nth_start_belongs_to_the_nth_end(starts: list[int], ends: list[int]) -> None:
    one, other = paired([np.array(starts, np.int64)], [np.array(ends, np.int64)])
    assert sorted(i for i in one.tolist() if i >= 0) == list(range(len(starts)))
    assert sorted(i for i in other.tolist() if i >= 0) == list(range(len(ends)))
    for i, k in zip(one.tolist(), other.tolist(), strict=True):
        assert i >= 0 or k >= 0
        if i >= 0 and k >= 0:
            assert starts[i] == ends[k] and starts[:i].count(starts[i]) == ends[:k].count(ends[k])
    both = sum(min(starts.count(value), ends.count(value)) for value in range(5))
    assert sum(1 for i, k in zip(one.tolist(), other.tolist(), strict=True) if i >= 0 and k >= 0) == both


def test_pick_finds_the_first() -> None:
    assert pick(np.array([4, 2, 4, NULL]), np.array([4, 3, 2, NULL])).tolist() == [0, -1, 1, -1]
    assert pick(np.array([], np.int64), np.array([1])).tolist() == [-1]


def test_overlapping_jobs_of_an_engine_count_twice_in_its_cycles_and_once_in_its_active_cycles(tmp_path: Path) -> None:
    array = {"timing": "systolic", "rows": 8, "cols": 4, "dataflow": "ws", "fill": "overlapped", "drain": "overlapped"}
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    product = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, "m": 20, "n": 4, "k": 16, **places}
    program = {"metadata": {"version": "1.0", "name": "chain"}, "cmdq": [product] * 3}
    te = {**array, "engines": 1, "init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False}
    kb.run(kb.load_program(program), kb.load_config({"te": te}), trace=tmp_path / "a.jsonl")
    every = totals(read_timeline(open_trace(tmp_path / "a.jsonl")))
    drain = 8 + 4 - 3
    assert every.active == 8 + 3 * 40 + drain
    assert every.cycles["TE"] == every.active + 2 * drain


@given(traced_systems(), st.sampled_from(["summary", "full"]), st.sampled_from([7, 64]))
@RELAXED
def test_views_say_what_the_counters_say(
    tmp_path_factory: pytest.TempPathFactory, system: Any, level: str, window: int
) -> None:
    text = reference_trace(*system, level=level, window=window)
    path = tmp_path_factory.mktemp("views") / "a.jsonl"
    path.write_bytes(b"\n".join(text) + b"\n")
    made = read_timeline(open_trace(path))
    counters, every = json.loads(text[-1])["counters"], totals(made)
    engines = {name: count for name, count in counters.items() if name[:2] in ("te", "ve")}
    if made.end is not None and made.end["status"] == "done":
        assert every.macs == sum(count.get("macs", 0) for count in engines.values())
        assert every.ops == sum(count.get("ops", 0) for count in engines.values())
        assert every.bytes == sum(count["bytes"] for name, count in counters.items() if name.startswith("dma"))
        # Jobs of a systolic array can overlap, so an engine is busy while at least one of its jobs runs.
        units = grouped(made, "unit")
        for name, count in engines.items():
            assert (units[name].active if name in units else 0) == count["busy"] + sum(count["stalled"].values())
    for heat in heatmaps(made):
        key = {"te": "busy", "ve": "busy", "dma": "busy", "dram": "bytes", "noc": "bytes"}.get(heat.name)
        if key is None:
            assert heat.part.sum(axis=1).tolist() == counters["spm"][heat.name.partition(".")[0]]
        else:
            assert heat.part.sum(axis=1).tolist() == [counters.get(row, {key: 0})[key] for row in heat.rows]
        assert (heat.shares <= 1 + 1e-9).all() or heat.name in ("dram", "noc")  # a carry of one line may come on top
    for name in AXES:
        groups = grouped(made, name)
        assert sum(one.spans for one in groups.values()) == every.spans == len(axis(made, name).codes)
        assert sum(one.bytes for one in groups.values()) == every.bytes
        assert all(one.active <= sum(one.cycles.values()) for one in groups.values())
    check_bars(made)


def check_bars(made: Timeline) -> None:
    """All jobs are in the chart, whatever its width; bars of a row stand one behind the other."""
    jobs = int((made.spans["kind"] <= 3).sum())
    cycles = int((made.spans["end"] - made.spans["start"])[made.spans["kind"] <= 3].sum())
    for lanes in LANES:
        for pixels in (1, 3, 5000):
            bars = gantt(made, lanes, COLOURS[pixels % 4], pixels=pixels)
            if not bars.left_out:
                assert (int(bars.spans.sum()), int(bars.busy.sum())) == (jobs, cycles)
            assert (bars.start <= bars.end).all() and (bars.code < len(bars.colours.labels)).all()
            assert (bars.lane < len(bars.lanes)).all()
            assert lanes == "command" or (bars.busy <= bars.end - bars.start).all()
