"""Traces for Chrome's and Perfetto's viewers: what becomes of every event, and that nothing overlaps or hangs in the air."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kernbench.trace.events import Record
from kernbench.trace.exporters.timeline import MAPPING, MAX_NS, Clock, Timeline
from kernbench.trace.exporters.write import Format, TimeUnit, export
from kernbench.trace.reader import open_trace
from kernbench.trace.schema import BY_NAME
from tests.trace_exports import READERS, Read, wanted
from tests.trace_samples import lawful, lines, meta, one_of_each, record, write_trace

NO_PERFETTO = pytest.mark.skipif(find_spec("perfetto") is None, reason="perfetto is not installed")
FORMS = [Format.CHROME, pytest.param(Format.PERFETTO, marks=NO_PERFETTO)]


def exported(records: list[Record], form: Format, folder: Path, time: TimeUnit = TimeUnit.NS) -> Read:
    """Records through a file, an export and its reader; the export's own counts must be what is in it."""
    trace = open_trace(write_trace(folder / "x.jsonl", records))
    out = folder / f"x.{form.value}"
    counts = export(trace, form, out, time)
    read = READERS[form](out)
    assert {name: counts[name] for name in read.counts()} == read.counts()
    return read


def run(*records: Record, **changed: Any) -> list[Record]:
    """A file of these records."""
    return [meta(**changed), *records]


def test_every_event_type_has_its_place() -> None:
    assert MAPPING.keys() == BY_NAME.keys()


@pytest.mark.parametrize("form", FORMS)
def test_a_lawful_run_has_just_what_its_records_make(form: Format, tmp_path: Path) -> None:
    read = exported(lawful(), form, tmp_path, TimeUnit.CYCLES)
    read.check()
    assert read.counts() == wanted(lawful()) == {"slices": 15, "instants": 15, "points": 83, "flows": 7}
    cycle = Decimal("0.001") if form is Format.CHROME else 1
    gemm = next(one for one in read.slices if one[3] == "TE_GEMM_TILE")
    assert gemm[1:3] == (8 * cycle, 17 * cycle)
    expected = {
        "start_cycle": 8,
        "cycles": 9,
        "cmd_id": 1,
        "layer_id": 0,
        "phase": "QKV",
        "deps": "0",
        "work": 16384,
        "status": "OK",
    }
    assert gemm[4] == expected
    reads = [(time, value) for name, time, value in read.points if name == "dram.ch0 read_bytes"]
    assert reads == [(0, 64), (16 * cycle, 0), (29 * cycle, 0)]


@pytest.mark.parametrize("form", FORMS)
def test_one_of_each_event_comes_through(form: Format, tmp_path: Path) -> None:
    """Each sort of event alone makes the difference that MAPPING names."""
    base = exported(run(), form, tmp_path).counts()
    changes = {}
    for one in one_of_each()[1:-1]:
        read = exported(run(one), form, tmp_path)
        read.check()
        counts = read.counts()
        changes[one.event.name] = {name for name in counts if counts[name] > base[name]}
    kinds = {"slice": {"slices"}, "instant": {"instants"}, "counter": {"points"}, "arguments": set(), "nothing": set()}
    silent = ("DRAM_TX_END", "NOC_TX_END", "DRAM_TX_RESUME", "WRITE_BACK_END")  # alone they end nothing
    for name, seen in changes.items():
        assert seen == (set() if name in silent else kinds[MAPPING[name][0]]), name


@pytest.mark.parametrize("form", FORMS)
def test_the_marker_of_a_command_is_in_its_slices(form: Format, tmp_path: Path) -> None:
    """A command of a kernel has its source line as marker; the implicit waits of a kernel are not its marker."""
    ids, move = {"cmd_id": 0, "unit": "dma0"}, {"channel": 0, "tx_id": 0, "job_id": 0}
    load = {"direction": "DRAM_TO_SRAM", "src_addr": 0, "dst_addr": 0, "size_bytes": 8, "head_cycles": 0, "weight": 1}
    records = [
        record("CMD_ENQUEUE", 0, cmd_type="DMA_LOAD_TILE", **ids),
        record("CMD_START", 0, **ids),
        record("DMA_START", 0, **load, **move, **ids),
        record("CMD_START", 0, cmd_id=1, unit="te0"),
        record("MARKER", 2, marker="implicit_wait=9", cmd_id=1),
        record("CMD_END", 5, status="OK", **ids),
        record("DMA_END", 5, latency_cycles=5, **move, **ids),
        record("MARKER", 5, marker="kernel.py:3", cmd_id=0),
        record("CMD_END", 6, cmd_id=1, unit="te0", status="OK"),
    ]
    read = exported(run(*records), form, tmp_path)
    assert [(args["cmd_id"], args.get("marker")) for *_, args in read.slices] == [
        (0, "kernel.py:3"),
        (0, "kernel.py:3"),
        (1, None),
    ]
    assert [args["marker"] for *_, args in read.instants if "marker" in args] == ["implicit_wait=9", "kernel.py:3"]


@pytest.mark.parametrize("form", FORMS)
def test_same_input_same_bytes(form: Format, tmp_path: Path) -> None:
    exported(lawful(), form, tmp_path)
    first = (tmp_path / f"x.{form.value}").read_bytes()
    exported(lawful(), form, tmp_path)
    assert (tmp_path / f"x.{form.value}").read_bytes() == first


@pytest.mark.parametrize("form", FORMS)
def test_what_happens_at_once_stands_on_tracks_of_its_own(form: Format, tmp_path: Path) -> None:
    """Four transfers, never more than three at a time: three tracks, all named after their engine."""
    load = {
        "channel": 0,
        "direction": "DRAM_TO_SRAM",
        "src_addr": 0,
        "dst_addr": 0,
        "size_bytes": 8,
        "head_cycles": 0,
        "weight": 1,
    }
    spans = [(0, 0, 10), (1, 0, 4), (2, 2, 6), (3, 4, 12)]
    marks = sorted([(start, 1, job) for job, start, _ in spans] + [(end, 0, job) for job, _, end in spans])
    records = []
    for cycle, begins, job in marks:
        ids = {"tx_id": job, "job_id": job, "cmd_id": job, "unit": "dma0"}
        made = (
            record("DMA_START", cycle, **load, **ids)
            if begins
            else record("DMA_END", cycle, channel=0, latency_cycles=1, **ids)
        )
        records.append(made)
    read = exported(run(*records), form, tmp_path)
    read.check()
    assert len({track for track, *_ in read.slices}) == 3
    names = {
        read.tracks[track]["thread_name"]["name"] if form is Format.CHROME else read.tracks[track].name
        for track, *_ in read.slices
    }
    assert names == {"dma0"}


@pytest.mark.parametrize("form", FORMS)
def test_commands_of_one_cycle_are_drawn_dependencies_first(form: Format, tmp_path: Path) -> None:
    """The file has the waiting command first, as queue order has it."""
    queue = [
        record("CMD_ENQUEUE", 0, cmd_id=i, cmd_type="NOP", unit="control", deps=deps) for i, deps in enumerate(([1], [2], []))
    ]
    ran = [made for i in range(3) for made in (
        record("CMD_START", 5, cmd_id=i, unit="control"), record("CMD_END", 5, cmd_id=i, unit="control", status="OK"),
    )]  # fmt: skip
    read = exported(run(*queue, *ran), form, tmp_path)
    read.check()
    assert [args["cmd_id"] for *_, args in read.slices] == [2, 1, 0]
    assert len(read.flows) == 2


@pytest.mark.parametrize(("start", "arrows"), [(4, 0), (5, 1), (6, 1)])
def test_no_arrow_goes_back_in_time(start: int, arrows: int, tmp_path: Path) -> None:
    """A command that starts before its dependency has ended did not wait for it, whatever the file says."""
    records = [
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type="TE_GEMM_TILE", unit="te0"),
        record("CMD_ENQUEUE", 0, cmd_id=1, cmd_type="VE_ADD_TILE", unit="ve0", deps=[0]),
        record("CMD_START", 0, cmd_id=0, unit="te0"),
        *sorted(
            [record("CMD_END", 5, cmd_id=0, unit="te0", status="OK"), record("CMD_START", start, cmd_id=1, unit="ve0")],
            key=lambda one: one.t_cycle,
        ),
        record("CMD_END", 9, cmd_id=1, unit="ve0", status="OK"),
    ]
    read = exported(run(*records), Format.CHROME, tmp_path)
    read.check()
    assert len(read.flows) == arrows


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_stops_leaves_no_loose_ends(form: Format, tmp_path: Path) -> None:
    """An open command and job end with the run and say so; nothing points to a command that never came."""
    records = [
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type="TE_GEMM_TILE", unit="te0"),
        record("CMD_ENQUEUE", 0, cmd_id=1, cmd_type="NOP", unit="control", deps=[0]),
        record("CMD_START", 2, cmd_id=0, unit="te0"),
        record("STALL_EVENT", 3, unit="te0", job_id=0, cmd_id=0, reason="bank_conflict"),
        record("TRACE_END", 9, status="interrupted", cycles=9, events=4, counters={}),
    ]
    read = exported(run(*records), form, tmp_path, TimeUnit.CYCLES)
    read.check()
    assert not read.flows
    end = Decimal("0.009") if form is Format.CHROME else 9
    assert [(name, stop, args["open"]) for _, _, stop, name, args in read.slices] == [
        ("TE_GEMM_TILE", end, True),
        ("bank_conflict", end, True),
    ]


def test_a_window_of_a_trace_shows_what_was_under_way(tmp_path: Path) -> None:
    """Ends without starts: the slices begin as long before as the records say."""
    records = run(
        record("TE_END", 50, job_id=0, cmd_id=0, unit="te0", mac_count=1, latency_cycles=20, stall_cycles=0),
        record("RESUME_EVENT", 50, unit="dma0", job_id=1, cmd_id=1, reason="backpressure", duration_cycles=7),
        record("ENGINE_EVENT", 50, unit="dma0", job_id=1, cmd_id=1, start_cycle=5, end_cycle=50),
        record("CMD_END", 51, cmd_id=3, unit="ve0", status="OK"),
    )
    read = exported(records, Format.CHROME, tmp_path, TimeUnit.CYCLES)
    spans = sorted((name, int(start * 1000), int(stop * 1000)) for _, start, stop, name, _ in read.slices)
    assert spans == [("TE", 30, 50), ("backpressure", 43, 50), ("command", 51, 51), ("job", 5, 50)]


def test_a_broken_trace_is_written_up_to_the_break(tmp_path: Path) -> None:
    text = lines(lawful())
    file = tmp_path / "cut.jsonl"
    file.write_bytes(text[: text.index(b'"CMD_START","t_cycle":17')])
    trace = open_trace(file)
    counts = export(trace, Format.CHROME, tmp_path / "cut.json")
    assert trace.broken is not None
    read = READERS["chrome"](tmp_path / "cut.json")
    read.check()
    assert read.counts() == {name: counts[name] for name in read.counts()}
    assert sum("open" in args for *_, args in read.slices) == 0


NASTY = "</script><img src=x onerror=alert(1)>\x1b[31m\x00\u202e" + "A" * 5000


@pytest.mark.parametrize("form", FORMS)
def test_hostile_names_do_no_harm(form: Format, tmp_path: Path) -> None:
    units = [
        {"unit": NASTY, "component": "TE", "index": 0, "parent": NASTY + "b"},
        {"unit": "a", "component": "TE", "parent": "a"},
    ]
    units.append({"unit": "a." * 5000, "component": "TE", "index": 1, "parent": ""})
    records = [
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type=NASTY, unit=NASTY, phase=NASTY, deps=[0, 0, 7]),
        record("CMD_START", 0, cmd_id=0, unit=NASTY),
        record("CMD_START", 0, cmd_id=0, unit=NASTY),
        record("MARKER", 1, marker=NASTY, cmd_id=0),
        record("CMD_END", 2, cmd_id=0, unit=NASTY, status=NASTY),
        record("WARN", 2, component=NASTY, code=NASTY, msg=NASTY, unit="a." * 5000),
        record("POWER_STATE", 2, unit="a", state="IDLE"),
        record("HW_COUNTER", 2, counter=NASTY, value=2**63 - 1, unit="a." * 5000),
        record(
            "SRAM_CONFLICT",
            2**63 - 1,
            unit="new.unit",
            bank_id=2**63 - 1,
            access_type="READ",
            num_requests=2**63 - 1,
            allowed=0,
            stalled_clients=[NASTY],
        ),
    ]
    read = exported(run(*records, units=units, program=NASTY), form, tmp_path)
    read.check()
    assert len(read.instants) == 4 and len(read.points) == 2  # the file was read to its end
    data = (tmp_path / f"x.{form.value}").read_bytes()
    assert b"\x1b" not in data and "\u202e".encode() not in data
    names = [name for *_, name, _ in (*read.slices, *read.instants)]
    assert max(map(len, names)) <= 220 and all(name.isprintable() for name in names)
    if form is Format.CHROME:
        assert b"<" not in data


def test_lone_surrogates_are_spelt_out() -> None:
    from kernbench.trace.exporters.timeline import plain

    assert plain("a\ud800b\n") == "a\\ud800b\\u000a"
    assert plain("x" * 300) == "x" * 197 + "..."


@pytest.mark.parametrize(("freq", "texts"), [
    ("1", ["0", "0.001", "0.002"]),
    ("1.5", ["0", "0.000666666", "0.001333333"]),
    ("3.2", ["0", "0.0003125", "0.000625"]),
    ("1/3", ["0", "0.003", "0.006"]),
])  # fmt: skip
def test_times_are_exact_decimals_or_rounded_down(freq: str, texts: list[str]) -> None:
    clock = Clock(Fraction(freq))
    assert [clock.us_text(cycle).decode() for cycle in range(3)] == texts
    period = 1 / Fraction(freq)
    for cycle in range(200):
        assert clock.ns(cycle) == int(cycle * period)
        assert 0 <= cycle * period - Fraction(clock.us_text(cycle).decode()) * 1000 < Fraction(1, 10**6)
    assert clock.ns(2**100) == MAX_NS and clock.ns(-5) == 0
    assert Clock(Fraction(freq), TimeUnit.CYCLES).us_text(1234567).decode() == "1234.567"


def test_chrome_json_says_what_it_is_of(tmp_path: Path) -> None:
    exported(lawful(), Format.CHROME, tmp_path)
    about = json.loads((tmp_path / "x.chrome").read_text())["otherData"]
    assert about["sim_id"] == "5f2a9c" and about["freq_ghz"] == "1.5" and about["time"] == "nanoseconds"


@NO_PERFETTO
def test_perfetto_tracks_stand_under_their_parents(tmp_path: Path) -> None:
    units = [
        {"unit": "sip0.cube0.pe3.pe_gemm", "component": "TE", "index": 0, "parent": "sip0.cube0.pe3"},
        {"unit": "sip0.cube0.pe3.pe_math", "component": "VE", "index": 0, "parent": "sip0.cube0.pe3"},
        {"unit": "dram.ch0", "component": "DRAM", "index": 0, "parent": ""},
    ]
    states = [record("POWER_STATE", 9, unit=unit["unit"], state="IDLE") for unit in units]
    read = exported(run(*states, units=units), Format.PERFETTO, tmp_path)

    def path(uuid: int) -> list[str]:
        track = read.tracks[uuid]
        return [*(path(track.parent_uuid) if track.parent_uuid else []), track.name]

    paths = [path(uuid) for uuid, track in read.tracks.items() if track.HasField("counter")]
    gemm, math = "sip0.cube0.pe3.pe_gemm", "sip0.cube0.pe3.pe_math"
    assert paths == [
        ["sip0", "sip0.cube0", "sip0.cube0.pe3", gemm, f"{gemm} power_state"],
        ["sip0", "sip0.cube0", "sip0.cube0.pe3", math, f"{math} power_state"],
        ["DRAM channels", "dram.ch0", "dram.ch0 power_state"],
    ]


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    """Of events that are over nothing is kept."""
    access = record(
        "SRAM_CONFLICT", 1, unit="spm", bank_id=0, access_type="READ", num_requests=2, allowed=1, stalled_clients=[]
    )
    timeline = Timeline(open_trace(write_trace(tmp_path / "x.jsonl", run(*([access] * 3000)))))
    assert sum(1 for _ in timeline) == 3000 + 1 + timeline.counts["tracks"]
    assert not timeline._out and not timeline._open and not timeline._at_once
