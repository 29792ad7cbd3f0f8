"""Traffic that was recorded on a chip, replayed."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kernbench.analysis.noc.device import load_device
from kernbench.analysis.noc.events import Trace, read_trace
from kernbench.analysis.noc.outcome import MODES, Outcome, mean_error, outcome
from kernbench.common.errors import InputError, Problem
from kernbench.validate.run import Runner
from kernbench.validate.suite import Figure, Row, Series, Skipped, SuiteData

NAMES = {"recorded": "at recorded times", "closed": "closed loop"}
INFO = "info: only the mean over all traces has a tolerance, because nothing is fitted to a trace"
MEAN = {
    "recorded": "the mean error of tt-npe, which replays the same reads at the same times",
    "closed": "each wait follows from the one before, so errors add up",
}


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Every trace of the folder, and the mean of their errors. InputError for a folder without any."""
    folder = runner.options.traces
    if folder is None:
        raise Skipped("there are no traces; name the folder of tt-npe's noc_trace_json with --traces or KERNBENCH_NOC_TRACES")
    device = load_device(data.fact("device"))
    traces = [read_trace(path, device) for path in sorted(folder.glob("*.json"))]
    if not traces:
        raise InputError(Problem(str(folder), "--traces: it has no .json file"))
    for mode in MODES:
        found = []
        for trace in traces:
            found.append(outcome(trace, device, mode, slowest=0, slower=Fraction(runner.plant.get("noc", 1))))
            yield _row(trace, found[-1])
        name = f"mean error, {NAMES[mode]}, {len(found)} traces"
        limit = data.fact("allowed")[mode]
        yield Row(case=name, source="tt-npe", expected=(0, limit), ours=mean_error(found), unit="", allowed=0, why=MEAN[mode])


def _row(trace: Trace, one: Outcome) -> Row:
    return Row(
        case=f"{trace.name} {one.mode}",
        source="tt-npe",
        expected=one.measured,
        ours=one.estimated,
        unit="cycles",
        allowed=None,
        why=INFO,
    )


def figures(data: SuiteData, rows: list[Row]) -> list[Figure]:
    """Ours over measured."""
    lines = []
    for mode, name in NAMES.items():
        points = [(float(row.expected), float(row.ours)) for row in rows if row.unit and row.case.endswith(f" {mode}")]  # type: ignore[arg-type]
        lines.append(Series(name, points))
    ends = [x for line in lines for x, _ in line.points]
    same = Series("equal", [(end, end) for end in (min(ends), max(ends))], "line")
    axes = ("measured [cycle]", "simulated [cycle]")
    return [Figure("Recorded kernels of Wormhole", *axes, [*lines, same], log_x=True, log_y=True)]
