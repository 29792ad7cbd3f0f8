"""The laws of a trace: a lawful one keeps them all, and each is broken by a trace with one thing changed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernbench.trace import open_trace
from kernbench.trace.events import Record
from kernbench.trace.laws.law import LAWS
from kernbench.trace.validate import Report, validate
from tests.trace_samples import MACHINE, UNITS, lawful, lawful_lines, meta, record, write_trace

Change = Callable[[list[Record]], list[Record]]


def report(folder: Path, records: list[Record], most: int = 100) -> Report:
    return validate(open_trace(write_trace(folder / "t.jsonl", records)), most)


def found(folder: Path, change: Change) -> list[str]:
    return [str(violation) for violation in report(folder, change(lawful())).violations]


def place(records: list[Record], name: str, nth: int) -> int:
    return [i for i, one in enumerate(records) if one.event.name == name][nth]


def counted(records: list[Record]) -> list[Record]:
    """TRACE_END says the right number of events again."""
    return [*records[:-1], msgspec.structs.replace(records[-1], events=len(records) - 2)]


def changed(name: str, nth: int = 0, **fields: Any) -> Change:
    def change(records: list[Record]) -> list[Record]:
        i = place(records, name, nth)
        return [*records[:i], msgspec.structs.replace(records[i], **fields), *records[i + 1 :]]

    return change


def dropped(name: str, nth: int = 0) -> Change:
    def change(records: list[Record]) -> list[Record]:
        i = place(records, name, nth)
        return counted([*records[:i], *records[i + 1 :]])

    return change


def doubled(name: str, nth: int = 0) -> Change:
    def change(records: list[Record]) -> list[Record]:
        i = place(records, name, nth)
        return counted([*records[: i + 1], *records[i:]])

    return change


def swapped(one: tuple[str, int], other: tuple[str, int]) -> Change:
    def change(records: list[Record]) -> list[Record]:
        i, j = place(records, *one), place(records, *other)
        records[i], records[j] = records[j], records[i]
        return records

    return change


def several(*changes: Change) -> Change:
    def change(records: list[Record]) -> list[Record]:
        for one in changes:
            records = one(records)
        return records

    return change


def first_line(**fields: Any) -> Change:
    return lambda records: [meta(**fields), *records[1:]]


def counters(unit: str, **said: Any) -> Change:
    def change(records: list[Record]) -> list[Record]:
        known = records[-1].counters
        return changed("TRACE_END", counters={**known, unit: {**known[unit], **said}})(records)

    return change


def without_counters(records: list[Record]) -> list[Record]:
    known = {unit: said for unit, said in records[-1].counters.items() if unit != "ve0"}
    return changed("TRACE_END", counters=known)(records)


def limited(transfers: int, channel: int) -> Change:
    dma = {"max_concurrent_transfers": transfers, "channels": {"act_weight": {"max_concurrent": channel}}}
    return first_line(sim_config={**MACHINE, "dma": dma})


def waiting(*records: Record) -> Change:
    """The store waits in its queue before it starts; these say so."""

    def change(known: list[Record]) -> list[Record]:
        i = place(known, "JOB_ISSUE", 3)
        return counted([*known[: i + 1], *records, *known[i + 1 :]])

    return change


LIMIT = 2**63 - 1  # the largest integer of a trace; sums can be larger
ENERGY = {"dram": 1920, "noc": 96, "spm": 0, "mac": 4, "ve": 64, "static": 0, "total": 2085}
STORE = {"job_id": 3, "cmd_id": 3, "unit": "dma0", "reason": "queue_full", "channel": 0}

# fmt: off
BROKEN: list[tuple[Change, list[str]]] = [
    (changed("CMD_END", status="KO"), [
        "line 14: schema: status: Invalid enum value 'KO'", "line 75: pair: command 0 has no CMD_END"]),
    (changed("SRAM_CONFLICT", bank_id=-1), ["line 24: schema: bank_id: Expected int >= 0"]),
    (changed("SRAM_CONFLICT", num_requests=2**63), ["line 24: schema: num_requests: Expected int <= 9223372036854775807"]),
    (swapped(("JOB_ISSUE", 1), ("CMD_START", 1)), [
        "line 21: order: JOB_ISSUE of phase issue comes after phase start of cycle 8"]),
    (changed("QUEUE_SAMPLE", t_cycle=14), ["line 31: order: cycle 14 comes after cycle 15"]),
    (changed("QUEUE_SAMPLE", unit="te7"), ["line 31: track: QUEUE_SAMPLE is of te7, which is no track of TRACE_META"]),
    (changed("SRAM_CONFLICT", unit="te0"), ["line 24: track: SRAM_CONFLICT is of te0, which is no track of SRAM, but of TE"]),
    (dropped("CMD_START", 1), ["line 35: pair: command 1 ends, but it is queued, not started"]),
    (doubled("CMD_START", 1), ["line 22: pair: command 1 starts, but it is started, not queued"]),
    (changed("CMD_START", 1, unit="ve0"), ["line 21: pair: command 1 starts on ve0, but it is queued for te0"]),
    (dropped("CMD_END", 1), ["line 74: pair: command 1 has no CMD_END"]),
    (doubled("CMD_END", 1), ["line 37: pair: command 1 ends, but it is over, not started"]),
    (doubled("CMD_ENQUEUE", 1), [
        "line 4: pair: command 1 is queued twice", "line 1: end: TRACE_META has 5 commands, but 6 are queued"]),
    (dropped("CMD_ENQUEUE", 1), [
        "line 20: pair: command 1 starts, but it is not queued", "line 1: end: TRACE_META has 5 commands, but 4 are queued"]),
    (doubled("JOB_ISSUE", 1), ["line 21: pair: job 1 is issued twice"]),
    (dropped("JOB_ISSUE", 2), [
        "line 41: pair: job 2 starts, but it is not issued, or over", "line 42: pair: SRAM_ACCESS of job 2, which does not run",
        "line 43: pair: SRAM_ACCESS of job 2, which does not run",
        "line 45: pair: job 2 is done, but it is not issued, or over",
        "line 46: pair: job 2 ends, but it is not issued, or over",
        "line 47: pair: job 2 has an ENGINE_EVENT, but it is not issued, or over"]),
    (changed("JOB_DONE", 1, job_type="TE_AV"), ["line 37: pair: job 1 is done as TE_AV, but was issued as TE_GEMM"]),
    (doubled("JOB_DONE", 1), [
        "line 38: pair: job 1 has two JOB_DONE", "line 76: counters: events of te0 add up to jobs 2, but TRACE_END says 1"]),
    (changed("TE_END", cmd_id=2), ["line 38: pair: job 1 is of command 2 on te0, but was issued for command 1 on te0"]),
    (dropped("TE_END"), [
        "line 38: pair: job 1 is over, but has no TE_END",
        "line 74: cycles: te0: its jobs cover 21 cycles and 20 are idle, of 29",
        "line 74: counters: events of te0 add up to macs 0, but TRACE_END says 16384"]),
    (dropped("ENGINE_EVENT", 1), ["line 38: pair: job 1 is over, but has no ENGINE_EVENT"]),
    (changed("DMA_END", channel=1), ["line 16: pair: job 0 ends on channel 1, but it started on 0"]),
    (doubled("TE_START"), [
        "line 23: overlap: job 1 starts on te0, but job 1 has not ended", "line 23: pair: job 1 starts twice",
        "line 76: cycles: te0: its jobs cover 21 cycles and 20 are idle, of 29"]),
    (limited(0, 1), [
        "line 9: concurrency: 1 transfers run on dma0, but dma.max_concurrent_transfers is 0",
        "line 51: concurrency: 1 transfers run on dma0, but dma.max_concurrent_transfers is 0"]),
    (limited(1, 0), [
        "line 9: concurrency: 1 transfers run on dma0 act_weight, but its max_concurrent is 0",
        "line 51: concurrency: 1 transfers run on dma0 act_weight, but its max_concurrent is 0"]),
    (changed("JOB_DONE", 1, latency_cycles=8), [
        "line 37: latency: job 1 is issued at 8 and ends at 17, but latency_cycles is 8"]),
    (changed("DMA_END", 1, latency_cycles=7), [
        "line 65: latency: job 3 starts at 23 and ends at 29, but latency_cycles is 7"]),
    (changed("ENGINE_EVENT", 1, start_cycle=9), [
        "line 39: latency: job 1 runs from 8 to 17, but its ENGINE_EVENT says 9 to 17"]),
    (changed("DMA_START", head_cycles=3), ["line 10: latency: a flow of job 0 joins at 4, but its head latency ends at 3"]),
    (changed("DMA_START", 1, head_cycles=LIMIT), [
        "line 52: latency: a flow of job 3 joins at 27, but its head latency ends at 9223372036854775830"]),
    (changed("ENGINE_EVENT", bytes=None), ["line 17: bytes: job 0 moves 64 bytes, but its ENGINE_EVENT says None"]),
    (changed("ENGINE_EVENT", bytes=32), ["line 17: bytes: job 0 moves 64 bytes, but its ENGINE_EVENT says 32"]),
    (changed("DRAM_TX_START", size_bytes=32), [
        "line 11: bytes: the flow of job 0 on channel 0 has 64 bytes on noc.r0c0-r1c0 and 32 on its channel",
        "line 18: bytes: the flow of job 0 on channel 0 begins with 32 bytes and ends with 64",
        "line 17: bytes: job 0 moves 64 bytes, but its flows 32",
        "line 17: bytes: the flow of job 0 on channel 0 has 32 bytes, but its MEM_ACCESS_EVENTs 64"]),
    (changed("MEM_ACCESS_EVENT", size_bytes=32), [
        "line 17: bytes: the flow of job 0 on channel 0 has 64 bytes, but its MEM_ACCESS_EVENTs 32"]),
    (changed("SRAM_ACCESS", size_bytes=32), ["line 17: bytes: job 0 moves 64 bytes, but its SRAM_ACCESS events 32"]),
    (changed("SRAM_ACCESS", 1, by="VE"), ["line 26: pair: SRAM_ACCESS by VE of job 1, which is on te0"]),
    (doubled("DRAM_TX_START"), [
        "line 11: pair: job 0 has two flows on channel 0",
        "line 76: counters: events of dram.ch0 add up to busy 25, but TRACE_END says 6"]),
    (dropped("NOC_TX_START"), [
        "line 18: pair: the flow of job 0 on channel 0 leaves noc.r0c0-r1c0, where it is not",
        "line 74: counters: events of noc.r0c0-r1c0 add up to busy 0, but TRACE_END says 4",
        "line 74: counters: events of noc.r0c0-r1c0 add up to member_cycles 0, but TRACE_END says 4"]),
    (dropped("NOC_TX_END"), [
        "line 17: pair: the flow of job 0 on channel 0 does not leave noc.r0c0-r1c0, but the job is over"]),
    (doubled("NOC_TX_START"), [
        "line 12: pair: the flow of job 0 on channel 0 enters noc.r0c0-r1c0 twice",
        "line 76: counters: events of noc.r0c0-r1c0 add up to member_cycles 8, but TRACE_END says 4"]),
    (dropped("STALL_EVENT"), ["line 24: waits: job 1 resumes from bank_conflict, but does not wait for it"]),
    (doubled("STALL_EVENT"), ["line 24: waits: job 1 begins to wait for bank_conflict twice"]),
    (dropped("RESUME_EVENT"), [
        "line 38: waits: job 1 is over, but still waits for bank_conflict",
        "line 38: cycles: job 1 on te0 was held 0 cycles by RESUME_EVENTs, but its stall_cycles is 1"]),
    (changed("SRAM_CONFLICT", num_requests=1), ["line 24: waits: bank 1 denies a request, but 1 ask and 1 are allowed"]),
    (waiting(record("STALL_EVENT", 23, **STORE), record("RESUME_EVENT", 23, **STORE, duration_cycles=1)), [
        "line 51: latency: job 3 waits for queue_full from 23 to 23, but duration_cycles is 1",
        "line 77: counters: events of dma0 add up to queue_full 1, but TRACE_END says 0"]),
    (changed("TE_END", stall_cycles=0), [
        "line 38: cycles: job 1 on te0 takes 9 cycles, 8 of them work, but stall_cycles is 0",
        "line 39: cycles: job 1 on te0 was held 1 cycles by RESUME_EVENTs, but its stall_cycles is 0"]),
    (changed("ENERGY_SAMPLE", window_cycles=15), [
        "line 35: samples: a window of 15 cycles ends after cycle 15, but windows are of 16"]),
    (doubled("ENGINE_SAMPLE", 0), [
        "line 33: samples: dma0 has two ENGINE_SAMPLE in one window",
        "line 76: counters: samples of dma0 add up to busy 22, but TRACE_END says 14"]),
    (changed("ENGINE_SAMPLE", busy_cycles=17), [
        "line 32: samples: dma0 is busy or stalled for 17 cycles of a window of 16",
        "line 75: counters: samples of dma0 add up to busy 23, but TRACE_END says 14"]),
    (changed("ENGINE_SAMPLE", busy_cycles=16, backpressure_cycles=LIMIT, bank_conflict_cycles=LIMIT), [
        "line 32: samples: dma0 is busy or stalled for 18446744073709551630 cycles of a window of 16",
        "line 75: counters: samples of dma0 add up to busy 22, but TRACE_END says 14",
        "line 75: counters: samples of dma0 add up to backpressure 9223372036854775807, but TRACE_END says 0",
        "line 75: counters: samples of dma0 add up to bank_conflict 9223372036854775807, but TRACE_END says 0"]),
    (changed("BANDWIDTH_SAMPLE", member_cycles=3), [
        "line 29: samples: dram.ch0 has 3 member-cycles in 4 busy cycles",
        "line 75: counters: samples of dram.ch0 add up to member_cycles 5, but TRACE_END says 6"]),
    (changed("BANK_SAMPLE", grants=[13, 14]), [
        "line 34: samples: bank 0 of spm has 14 requests, but 13 grants and 0 denials",
        "line 75: counters: samples of spm add up to grants [19, 20], but TRACE_END says [20, 20]"]),
    (changed("BANK_SAMPLE", 1, grants=[6, 6, 0]), [
        "line 61: samples: spm counts requests, grants and denials of different numbers of banks",
        "line 75: counters: samples of spm add up to requests [14, 15], but TRACE_END says [20, 21]",
        "line 75: counters: samples of spm add up to grants [14, 14], but TRACE_END says [20, 20]"]),
    (changed("BANDWIDTH_SAMPLE", read_bytes=65), [
        "line 75: counters: samples of dram.ch0 add up to bytes 97, but TRACE_END says 96"]),
    (several(*[changed("BANDWIDTH_SAMPLE", nth, read_bytes=LIMIT, write_bytes=2**62 - 1) for nth in (0, 2)]), [
        "line 75: counters: samples of dram.ch0 add up to bytes 27670116110564327420, but TRACE_END says 96"]),
    (counters("te0", macs=2), ["line 75: counters: events of te0 add up to macs 16384, but TRACE_END says 2"]),
    (counters("ve0", jobs=2), ["line 75: counters: events of ve0 add up to jobs 1, but TRACE_END says 2"]),
    (counters("dma0", bytes=97), ["line 75: counters: events of dma0 add up to bytes 96, but TRACE_END says 97"]),
    (counters("dma0", queue_full=1), ["line 75: counters: events of dma0 add up to queue_full 0, but TRACE_END says 1"]),
    (counters("te0", idle=21), [
        "line 75: cycles: te0: busy + stalled + idle is 30, but the run has 29 cycles",
        "line 75: cycles: te0: its jobs cover 9 cycles and 21 are idle, of 29"]),
    (counters("te0", busy="x"), [
        "line 75: counters: samples of te0 add up to busy 8, but TRACE_END says x",
        "line 75: counters: counters of te0 have no busy, stalled and idle cycles"]),
    (counters("spm", denials=5), ["line 75: counters: samples of spm add up to denials [0, 1], but TRACE_END says 5"]),
    (without_counters, ["line 75: counters: TRACE_END has no counters of ve0"]),
    (changed("ENERGY_SAMPLE", dram_pj=1281), ["line 75: energy: windows add up to 1921.0 pJ of dram, but TRACE_END says 1920"]),
    (changed("TRACE_END", energy_pj=ENERGY), ["line 75: energy: the parts add up to 2084.0 pJ, but the total is 2085"]),
    (changed("TRACE_END", events=72), ["line 75: end: TRACE_END says 72 events, but there are 73"]),
    (changed("TRACE_END", t_cycle=30), ["line 75: end: TRACE_END is at cycle 30, but the run has 29"]),
    (first_line(level="all"), ["line 1: schema: level: Invalid enum value 'all'"]),
    (first_line(units=[*UNITS, UNITS[2]]), ["line 1: track: TRACE_META has 2 tracks of the name te0"]),
    (first_line(filter={"cycles": [0], "only": "te*"}), [
        "line 1: schema: filter.cycles: Expected two cycles, the first and the one after the last",
        "line 1: schema: filter.only: Expected a list of patterns"]),
    (first_line(commands=6), ["line 1: end: TRACE_META has 6 commands, but 5 are queued"]),
]
# fmt: on


@pytest.mark.parametrize(("change", "messages"), BROKEN, ids=[messages[0][:60] for _, messages in BROKEN])
def test_each_law_is_broken_with_its_message(tmp_path: Path, change: Change, messages: list[str]) -> None:
    assert found(tmp_path, change) == messages


def test_a_lawful_trace_breaks_no_law(tmp_path: Path) -> None:
    good = report(tmp_path, lawful())
    assert (good.valid, good.total, good.events, good.broken, good.violations) == (True, 0, 73, None, ())


def test_every_law_but_level_is_broken_by_some_change() -> None:
    broken = {message.split(": ")[1] for _, messages in BROKEN for message in messages}
    assert broken | {"level"} == set(LAWS)


def test_a_file_of_level_summary_holds_no_events_of_full(tmp_path: Path) -> None:
    names = {message.split(": ")[2].partition(" ")[0] for message in found(tmp_path, first_line(level="summary"))}
    full = {one.event.name for one in lawful() if one.event.level != "summary"}
    assert names == {*full, "STALL_EVENT", "RESUME_EVENT"}


def test_violations_past_the_limit_are_counted(tmp_path: Path) -> None:
    bad = first_line(level="summary")(lawful())
    assert len(report(tmp_path, bad, most=3).violations) == 3
    assert report(tmp_path, bad, most=0).counts == report(tmp_path, bad).counts == {"level": 22}


def test_what_is_filtered_out_breaks_no_law(tmp_path: Path) -> None:
    window = {"cycles": [9, 24], "only": None}
    inside = [one for one in lawful()[1:-1] if 9 <= one.t_cycle < 24]
    records = [meta(t_cycle=9, filter=window), *inside, lawful()[-1]]
    assert report(tmp_path, counted(records)).violations == ()
    te0 = [one for one in lawful()[1:-1] if getattr(one, "unit", "te0") == "te0"]
    assert report(tmp_path, counted([meta(filter={"only": ["te*"]}), *te0, lawful()[-1]])).violations == ()
    late = changed("VE_END", latency_cycles=1)(records)
    assert [violation.law for violation in report(tmp_path, counted(late)).violations] == ["latency", "cycles"]


def test_a_file_that_breaks_off_is_checked_up_to_there(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", changed("CMD_START", unit="ve0")(lawful()))
    path.write_bytes(path.read_bytes()[:4000])
    cut = validate(open_trace(path))
    assert [str(v) for v in cut.violations] == ["line 8: pair: command 0 starts on ve0, but it is queued for dma0"]
    assert cut.broken is not None and cut.broken.reason == "the line is cut off" and not cut.valid


@pytest.mark.parametrize("status", ["aborted", "deadlock", "failed", "interrupted"])
def test_only_a_run_that_is_done_ends_all_its_jobs(tmp_path: Path, status: str) -> None:
    start = place(lawful(), "DMA_START", 1)
    records = lawful()[: start + 1]
    open_ends = [record("CMD_END", 24, cmd_id=i, unit=u, status="TIMEOUT") for i, u in ((3, "dma0"), (4, "control"))]
    say = {**lawful()[-1].counters, "dma0": {**lawful()[-1].counters["dma0"], "jobs": 1, "busy": 9, "bytes": 64}}
    end = record("TRACE_END", 24, status=status, cycles=24, events=0, counters=say)
    messages = [str(v) for v in report(tmp_path, counted([*records, *open_ends, end])).violations]
    assert not any("has no" in message or "ends" in message for message in messages)
    done = report(tmp_path, counted([*records, *open_ends, msgspec.structs.replace(end, status="done")]))
    assert any(str(v) == "line 51: pair: job 3 has no end, but the run is done" for v in done.violations)


def test_events_of_newer_versions_are_skipped_and_counted(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", first_line(version="1.7")(lawful()))
    lines = path.read_bytes().split(b"\n")
    lines.insert(8, b'{"event_type":"QUANTUM","t_cycle":0,"qubits":3}')
    lines[7] = lines[7].replace(b'"unit"', b'"colour":"red","unit"')
    lines[-2] = lines[-2].replace(b'"events":73', b'"events":74')
    path.write_bytes(b"\n".join(lines))
    newer = validate(open_trace(path))
    assert (newer.valid, newer.events, newer.skipped) == (True, 74, 1)


def test_a_long_trace_is_checked_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lawful_lines(400)))
    tracemalloc.start()
    long = validate(open_trace(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (long.valid, long.events, long.violations) == (True, 400 * 73, ()) and peak < 5_000_000


def test_the_documentation_has_every_law() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "trace_metrics.md"
    if not page.exists():
        pytest.skip("the documentation is not in this source tree")
    text = page.read_text(encoding="utf-8")
    table = text[text.index("| law | what holds |") :].split("\n\n")[0]
    assert table.splitlines()[2:] == [f"| `{law}` | {what} |" for law, what in LAWS.items()]
