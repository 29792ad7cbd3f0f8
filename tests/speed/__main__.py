"""`python -m tests.speed`: time per engine-tick of the core and of the same rules in SimPy; what else costs time. No test."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import simpy

from kernbench.version import VERSION
from kernbench_core.fast.simd import isa
from tests.speed import history
from tests.speed.build_rows import build_row, build_table
from tests.speed.ccl_rows import ccl_rows, ccl_table, send_rows
from tests.speed.check_rows import check_rows, check_table
from tests.speed.component_rows import component_rows, component_table
from tests.speed.growth_rows import growth_rows, growth_table
from tests.speed.instructions import instruction_rows, instruction_table
from tests.speed.kernel_rows import kernel_rows, kernel_table
from tests.speed.llm_rows import llm_line, llm_row, reuse_line
from tests.speed.measure import Row, Size, measure
from tests.speed.replay_rows import replay_rows, replay_table
from tests.speed.report_rows import report_rows
from tests.speed.sample import plain
from tests.speed.serving_rows import serving_rows, serving_table
from tests.speed.skip_rows import skip_rows, skip_table, yard_table, yardsticks
from tests.speed.start_rows import load_rows, start_rows, start_table
from tests.speed.sweep_rows import sweep_row, sweep_table
from tests.speed.thread_rows import thread_rows, thread_table
from tests.speed.topology_rows import topology_rows, topology_table
from tests.speed.trace_rows import trace_rows
from tests.speed.traced_runs import traced_runs, traced_table
from tests.speed.wait_rows import wait_line, wait_rows
from tests.speed.walk_rows import WalkRow, model_lines, walk_rows, walk_table
from tests.speed.workloads import LOADS

MARK_NS = 14.0  # stepping takes at most so many ns per engine-tick,
MARK_RATIO = 200.0  # and SimPy at least so many times as long,
MARK_PES = 8  # on machines of at least so many PEs

FULL = (Size(1, 400_000, 10_000, 5), Size(8, 80_000, 3_000, 5), Size(64, 12_000, 800, 3))
QUICK = (Size(1, 100_000, 2_500, 3), Size(8, 20_000, 500, 3), Size(64, 3_000, 200, 3))

HEAD = """\
ns per engine-tick: median of the repeats, +- half of their range
                        ticks/                                  SimPy/   step/
load     PEs   cycles    cycle    stepping    skipping    SimPy   step    skip"""

FOOT = """
An engine-tick is a cycle of an active transfer, of a TE or VE with a job, or of
a DRAM channel or mesh link in use. Stepping and skipping run `cycles` cycles.
SimPy runs fewer of the same machine, in the same metric: no queue runs dry, so
its time per engine-tick does not depend on the length. Times are CPU time of
the process, the three in turn; a ratio is the median of those within a round.
In every row all three gave the same start and end of every job."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and return 0, whether the marks hold or not."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs: noisier figures in a few seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all samples to FILE")
    parser.add_argument("--keep", action="store_true", help="add the ratios to the history")
    chosen = parser.parse_args(arguments)
    print(HEAD)
    rows = []
    for load in LOADS.values():
        for size in QUICK if chosen.quick else FULL:
            rows.append(measure(load, size))
            print(_line(rows[-1]), flush=True)
    print(FOOT)
    print("\n".join(["", *(f"{load.name:9} {load.about}" for load in LOADS.values()), "", *_verdicts(rows)]))
    walks, lines = walk_rows(chosen.quick), model_lines()
    print(f"\nthe plain model beside the fast walk, ns an engine-tick\n{walk_table(walks, lines)}", flush=True)
    core = _core_rows(chosen.quick)
    starts = start_rows(5 if chosen.quick else 15)
    loads = load_rows((1_000, 10_000) if chosen.quick else (1_000, 100_000, 1_000_000), 1 if chosen.quick else 3)
    print(f"\nbefore the first cycle\n{start_table(starts, loads)}", flush=True)
    systems = topology_rows()
    print(f"\n{topology_table(systems)}", flush=True)
    model = llm_row()
    print(f"\n{llm_line(model)}", flush=True)
    if not chosen.quick:
        print(reuse_line(model, llm_row(reuse=False)), flush=True)
    parts = component_rows(200_000 if chosen.quick else 2_000_000)
    print(f"\ncomponents: CPU time more than without them\n{component_table(parts)}", flush=True)
    checks = check_rows(2 if chosen.quick else 5)
    print(f"\n{check_table(checks)}", flush=True)
    kernels = kernel_rows(chosen.quick)
    print(f"\n{kernel_table(kernels)}", flush=True)
    replays = replay_rows(chosen.quick)
    print(f"\n{replay_table(replays)}", flush=True)
    threads = thread_rows(chosen.quick)
    print(f"\n{thread_table(threads)}", flush=True)
    sweep = sweep_row(chosen.quick)
    print(f"\n{sweep_table(sweep)}", flush=True)
    collectives, sends = ccl_rows(chosen.quick), send_rows(chosen.quick)
    print(f"\n{ccl_table(collectives, sends)}", flush=True)
    served, beside = serving_rows(chosen.quick)
    print(f"\n{serving_table(served, beside)}", flush=True)
    builds = [] if chosen.quick else [build_row()]
    for build in builds:
        print(f"\n{build_table(build)}", flush=True)
    counts = [] if chosen.quick else instruction_rows()
    if not chosen.quick:
        print(f"\n{instruction_table(counts)}", flush=True)
    traces = _traces(chosen.quick)
    print("\nwhat users wait for, CPU time")
    waits = []
    for row in () if chosen.quick else wait_rows():
        print(wait_line(row), flush=True)
        waits.append(plain(row))
    _history(_ratios(rows, walks, core, traces), chosen.keep, chosen.quick)
    if chosen.json:
        report = {**_report(rows, chosen.quick), "traces": traces}
        report |= core
        report |= {"walks": [plain(row) for row in walks], "model_lines": lines.files}
        report |= {"starts": [plain(row) for row in starts], "loads": [plain(row) for row in loads]}
        report |= {"systems": [plain(row) for row in systems], "llm": plain(model)}
        report["components"] = [plain(row) for row in parts]
        report["waits"] = waits
        report["sweep"] = plain(sweep)
        report["threads"] = [plain(row) for row in threads]
        report |= {"kernels": kernels, "replay": replays}
        report["collectives"] = [plain(row) for row in collectives]
        report["sends"] = [plain(row) for row in sends]
        report["serving"] = [*map(plain, served), {"engine_s": beside[0], "simpy_s": beside[1]}]
        report["builds"] = [plain(row) for row in builds]
        report["instructions"] = [plain(row) for row in counts]
        report["checks"] = [plain(row) for row in checks]
        chosen.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _ratios(rows: list[Row], walks: list[WalkRow], core: dict[str, Any], traces: dict[str, Any]) -> dict[str, float]:
    """What was measured beside something else in this run, by name."""
    found: dict[str, float] = {}
    for row in rows:
        found[f"{row.load}, {row.pes} PEs: SimPy over stepping"] = row.over_simpy
        found[f"{row.load}, {row.pes} PEs: stepping over skipping"] = row.over_stepping
    found |= {f"{row.load}, {row.pes} PEs: the plain model over skipping": float(row.over_skipping) for row in walks}
    found |= {f"{row['load']}: stepping over skipping": row["ratio"] for row in core["skipping"]}
    found |= {f"{row['load']}: stepping over a C loop": row["ratio"] for row in core["yardstick"]}
    plain = traces["runs"][0]["whole"]
    found |= {f"traced at {run['level']}: over untraced": run["whole"] / plain for run in traces["runs"][1:]}
    return found


def _history(ratios: dict[str, float], keeps: bool, quick: bool) -> None:
    """What moved since the runs that were kept; short runs are compared among themselves."""
    named = {f"quick, {name}": value for name, value in ratios.items()} if quick else ratios
    before = [run for run in history.kept_ratios() if run.keys() & named.keys()]
    print(f"\n{history.report(named, before)}", flush=True)
    if keeps:
        history.keep(named, day=datetime.now(tz=UTC).date().isoformat(), version=VERSION)


def _core_rows(quick: bool) -> dict[str, Any]:
    """What skipping brings, stepping beside a C loop, growth."""
    skipped, yards = skip_rows(3 if quick else 7), yardsticks(Size(8, 20_000, 0, 3 if quick else 7))
    print(f"\nskipping, where it is of use ({isa()})\n{skip_table(skipped)}", flush=True)
    print(f"\nstepping beside a minimal C loop, 8 PEs, ns an engine-tick\n{yard_table(yards)}", flush=True)
    growth = growth_rows(quick)
    print(f"\n{growth_table(growth)}", flush=True)
    rows: dict[str, list[Any]] = {"skipping": skipped, "yardstick": yards, "growth": growth}
    return {"isa": isa(), **{name: [plain(row) for row in of] for name, of in rows.items()}}


def _traces(quick: bool) -> dict[str, Any]:
    """Traced runs, reading and measuring a long trace, and the page of a big one: CPU time, but a browser's."""
    runs = traced_runs(3 if quick else 7)
    print("\nthe decode run of Llama-2-7B on npu_server, traced: medians of CPU time\n" + traced_table(runs), flush=True)
    events = 200_000 if quick else 10_000_000
    read = trace_rows(events)
    print(f"\na trace of {read[0].events:,} events (marks for 10 million: metrics <= 20 s, <= 300 MB)")
    for row in read:
        rate = row.events_per_second / 1e6
        print(f"  {row.job:9} {row.seconds:7.2f} s {rate:6.2f} M events/s {row.peak_mib:5.0f} MiB", flush=True)
    page = report_rows(quick)
    print(f"\nthe page of {page['spans']:,} spans (marks for a million: load <= 3 s, zoom <= 100 ms)")
    print(f"  made in {page['make_s']:.2f} s, {page['page_bytes'] / 1e6:.1f} MB")
    if "skipped" in page:
        print(f"  not opened: {page['skipped']}")
    else:
        zoom = page["zoom_ms"]
        print(f"  loaded in {page['load_s']:.2f} s, zoom {zoom['median']:.1f} ms, at most {zoom['largest']:.1f} ms")
    return {"runs": [plain(run) for run in runs], "read": [plain(row) for row in read], "page": page}


def _line(row: Row) -> str:
    ticks = row.stepping.ticks / row.stepping.cycles
    ours = " ".join(f"{timing.median:6.1f} +-{_percent(timing.spread)}" for timing in (row.stepping, row.skipping))
    theirs = f"{row.simpy.median:5.0f} +-{_percent(row.simpy.spread)}"
    machine = f"{row.load:8} {row.pes:3} {row.stepping.cycles:8} {ticks:8.1f}"
    return f"{machine} {ours} {theirs} {row.over_simpy:5.0f}x {row.over_stepping:6.2f}x"


def _percent(part: float) -> str:
    return f"{min(part, 0.99):3.0%}"  # two digits keep the columns; --json has the samples


def _verdicts(rows: list[Row]) -> list[str]:
    marked = [row for row in rows if row.pes >= MARK_PES]
    slow = max(marked, key=lambda row: row.stepping.median)
    near = min(marked, key=lambda row: row.over_simpy)
    return [
        f"marks, at {MARK_PES} PEs and more:",
        f"  stepping takes <= {MARK_NS:g} ns a tick: {_holds(slow.stepping.median <= MARK_NS)}"
        f" ({slow.stepping.median:.2f} at {slow.load}, {slow.pes} PEs)",
        f"  SimPy takes >= {MARK_RATIO:g} times as long: {_holds(near.over_simpy >= MARK_RATIO)}"
        f" ({near.over_simpy:.0f} at {near.load}, {near.pes} PEs)",
    ]


def _holds(holds: bool) -> str:
    return "holds" if holds else "DOES NOT HOLD"


def _report(rows: list[Row], quick: bool) -> dict[str, Any]:
    return {
        "quick": quick,
        "python": platform.python_version(),
        "simpy": simpy.__version__,
        "machine": platform.machine(),
        "marks": {"ns_per_engine_tick": MARK_NS, "times_simpy": MARK_RATIO, "from_pes": MARK_PES},
        "rows": [row.to_dict() for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
