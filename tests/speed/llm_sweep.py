"""`python -m tests.speed.llm_sweep`: what a point of `llm_sweep.yaml` costs, and what its 100,000 points would. No test.

Without options, the command runs a part of the sweep on two processes: all bits and scratchpads, one array, and every n-th
bandwidth. `--rows N` measures the store, the merge and the HTML page of N points with made-up results. To run the whole sweep:

    kbsim sweep run tests/speed/llm_sweep.yaml --store llm_sweep.sqlite --jobs 2
    kbsim sweep report llm_sweep.sqlite --html llm_sweep.html
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kernbench.sweep.axes import Axis
from kernbench.sweep.executors.choice import executor_for
from kernbench.sweep.points import Points, points_of
from kernbench.sweep.report.page import page_bytes
from kernbench.sweep.report.table import read_table
from kernbench.sweep.runner import run_missing
from kernbench.sweep.spec import Spec
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.store.merge import merge_into
from kernbench.sweep.store.sweeps import keep_sweep
from kernbench.sweep.store.tables import Row
from tests.browser.chromium import browser, missing
from tests.speed.kept import results_kept_in

SPEC = Path(__file__).with_name("llm_sweep.yaml")
JOBS = 2
GOAL_MS, GOAL_MINUTES, GOAL_OPEN_S = 36.0, 30.0, 3.0  #: CPU a point, on two cores, and of the page
EVERY = 2  #: bandwidths that a part leaves out: every second one
ARRAY, BANDWIDTH = "te.macs_per_cycle", "dram.peak_bw_bytes_per_cycle"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the sweep that was run."""

    points: int
    of: int  #: points of the whole sweep
    runs: int  #: different results: points with the same cycles, tokens and energy count once
    cpu_ms: float  #: CPU time of all processes, a point
    driver_ms: float  #: of that, the process that reads the sweep and stores results
    seconds: float  #: of wall time

    @property
    def minutes(self) -> float:
        """Of wall time for the whole sweep on JOBS cores that do nothing else, at this CPU time a point."""
        return self.of * self.cpu_ms / 1000 / JOBS / 60


def part_of(spec: Spec, every: int) -> Spec:
    """One array of the middle, and every n-th bandwidth: neighbours share as much as in the whole sweep, or less."""
    return replace(spec, axes=tuple(_fewer(axis, every) for axis in spec.axes))


def _fewer(axis: Axis, every: int) -> Axis:
    if axis.names == (ARRAY,):
        return replace(axis, levels=axis.levels[len(axis.levels) // 2 :][:1])
    return replace(axis, levels=axis.levels[::every]) if axis.names == (BANDWIDTH,) else axis


def measured_part(every: int = EVERY) -> Part:
    """Run a part and measure."""
    spec = load_spec(SPEC)
    whole = 1
    for axis in spec.axes:
        whole *= len(axis.levels)
    found: set[tuple[object, ...]] = set()

    def stored(rows: object) -> None:
        for row in rows:  # type: ignore[attr-defined]
            found.add((row.cycles, row.jobs_hash, row.metrics["energy_pj"]))

    with tempfile.TemporaryDirectory() as folder, results_kept_in(folder):
        begin, own, all_of_them = time.monotonic(), time.process_time(), _cpu()
        points = points_of(part_of(spec, every))
        with Store.write(Path(folder) / "part.sqlite") as store:
            keep_sweep(store, points)
            pool = executor_for(points.spec, jobs=JOBS, threads=None, dask=False, scheduler=None)
            outcome = run_missing(points.points, store, pool, stored=stored)
        seconds, own, spent = time.monotonic() - begin, time.process_time() - own, _cpu() - all_of_them
    assert outcome.ran == len(points) and not outcome.failed, outcome
    return Part(len(points), whole, len(found), spent * 1000 / len(points), own * 1000 / len(points), seconds)


def part_line(part: Part) -> str:
    """The part for a person."""
    holds = "holds" if part.cpu_ms <= GOAL_MS else "DOES NOT HOLD"
    return "\n".join(
        [
            f"{part.points:,} points with {part.runs:,} different results on {JOBS} processes: {part.seconds:.0f} s",
            f"  CPU time a point: {part.cpu_ms:.1f} ms, of which the process of the store takes {part.driver_ms:.2f} ms"
            f" (goal: {GOAL_MS:g} ms): {holds}",
            f"  {part.of:,} points: {part.minutes:.0f} minutes on {JOBS} idle cores (goal: {GOAL_MINUTES:g})",
        ]
    )


def _cpu() -> float:
    """[s] of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def made_up(points: Points) -> list[Row]:
    """Results of the form of real ones, which are quick to make."""
    rows = []
    for point in points.points:
        weight, activation, macs, bank, bandwidth = point.values
        cycles = round(3e9 * weight / (8 * bandwidth) + 4e10 * activation / macs + 1e11 / bank)
        metrics = {
            "bound": cycles - cycles // 50, "bound_by": "DRAM channels", "energy_pj": 3.2e10 * weight + macs * activation * 1e3,
            "dram_bytes": 800_000_000 * weight + bank, "dma_busy": 0.9, "te_busy": 1e3 / macs, "ve_busy": 0.01,
            "bank_denials": 0.01 * bandwidth / 118, "tokens_per_s": 1e9 / cycles,
        }  # fmt: skip
        row = Row(key=point.task.key, status="done", cycles=cycles, ns=cycles, jobs=4000, jobs_hash="0" * 64, metrics=metrics)
        rows.append(row)
    return rows


@contextmanager
def _timed(what: str, tell: Callable[[str], None]) -> Iterator[None]:
    begin = time.process_time()
    yield
    tell(f"  {what:48} {time.process_time() - begin:7.2f} s of CPU time")


def measure_rows(count: int, tell: Callable[[str], None] = print) -> None:
    """Store, merge and page of so many points, spread over the sweep."""
    tell(f"store and page of {count:,} points")
    spec = load_spec(SPEC)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _timed("spec, checks of all points, keys", tell):
            points = points_of(spec)
            step = max(1, len(points) // count)
            points = replace(points, points=[replace(p, number=i) for i, p in enumerate(points.points[::step][:count])])
        rows = made_up(points)
        for shard in (0, 1):
            with Store.write(folder / f"{shard}.sqlite") as store, _timed(f"store of shard {shard + 1} of 2", tell):
                keep_sweep(store, points)
                some = rows[shard::2]
                for i in range(0, len(some), 256):
                    store.add(some[i : i + 256])
        with _timed("merge", tell):
            merge_into(folder / "all.sqlite", [folder / "0.sqlite", folder / "1.sqlite"])
        with Store.read(folder / "all.sqlite") as store, _timed("table", tell):
            table = read_table(store)
        with _timed("HTML page", tell):
            page = page_bytes(table, table.goals, {})
        (folder / "page.html").write_bytes(page)
        sizes = [(folder / file).stat().st_size / 1e6 for file in ("all.sqlite", "page.html")]
        tell(f"  store of {sizes[0]:.0f} MB, page of {sizes[1]:.1f} MB")
        open_page(folder / "page.html", folder / "profile", tell)


def open_page(path: Path, profile: Path, tell: Callable[[str], None] = print, times: int = 3) -> None:
    """Seconds until Chromium has drawn a page."""
    if why := missing():
        tell(f"  not opened: {why}")
        return
    with browser(profile, 1920, 1080) as chromium:
        found = []
        for _ in range(times):
            begin = time.perf_counter()
            chromium.open(path)
            found.append(time.perf_counter() - begin)
    told = ", ".join(f"{seconds:.2f}" for seconds in found)
    tell(f"  opened by Chromium in {told} s (goal: {GOAL_OPEN_S:g})")


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed.llm_sweep", description=__doc__)
    parser.add_argument("--every", type=int, default=EVERY, metavar="N", help="of the part: every n-th bandwidth")
    parser.add_argument("--rows", type=int, metavar="N", help="measure store, merge and page of N points instead")
    parser.add_argument("--open", type=Path, metavar="FILE", help="measure how long Chromium takes for this page instead")
    chosen = parser.parse_args(arguments)
    if chosen.open is not None:
        with tempfile.TemporaryDirectory() as profile:
            open_page(chosen.open.resolve(), Path(profile))
    elif chosen.rows is not None:
        measure_rows(chosen.rows)
    else:
        print(part_line(measured_part(chosen.every)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
