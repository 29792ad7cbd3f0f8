"""Published tables of real chips."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernbench.validate.chips import FOLDER, MANY, TableResult, Target, validate_chips
from kernbench.validate.run import Runner
from kernbench.validate.suite import Figure, Row, Series, Skipped, SuiteData

TARGET_WHY = "the goal for tables of this kind; the page Validation explains the rows with the largest errors"
ROOFLINE_WHY = "at most the error of the roofline: the table has no target"
NOTHING_WHY = "reported only: the table has no target, and no roofline to compare with"
THREE_WHY = "at most the error of three numbers that are fitted to the table itself"
THREE_QUICK_WHY = "reported only: three numbers that are fitted to a part of the table nearly interpolate it"


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Medians and means of the errors of tables, compared with targets and baselines. The suite is skipped if there are no
    tables."""
    found = results(data, runner)
    for one in found:
        if not one.skipped:
            yield from _rows(one, quick=runner.options.quick)
    if all(one.skipped for one in found):
        why = "; ".join(f"{one.name}: {one.skipped}" for one in found[:3])
        raise Skipped(f"no table can be compared: {why}" if why else "the folder has no .csv file in it or in its subfolders")


def results(data: SuiteData, runner: Runner) -> list[TableResult]:
    """The results of every table; cached as long as the file does not change."""
    folder = runner.options.chip_tables or FOLDER
    if not os.path.isdir(folder):
        raise Skipped("there is no folder of chip tables; name one with --data or KERNBENCH_CHIP_TABLES")
    key = (str(folder), runner.options.quick)
    if key not in _RESULTS:
        targets = [Target(**one) for one in data.fact("targets")]
        _RESULTS.clear()
        _RESULTS[key] = validate_chips(Path(folder), targets, quick=runner.options.quick)
    return _RESULTS[key]


_RESULTS: dict[tuple[str, bool], list[TableResult]] = {}


def _rows(one: TableResult, *, quick: bool) -> Iterator[Row]:
    target = one.target or Target("")
    judged = [
        ("median", one.median, target.median),
        ("mean", one.mean, target.mean),
        ("worst row", one.worst_error, target.each),
    ]
    for name, ours, most in judged:
        if most is not None:
            yield _row(f"{one.name}: {name}", most, ours, TARGET_WHY)
    if one.target is None and one.roofline is None:
        yield _row(f"{one.name}: median", 1, one.median, NOTHING_WHY, judged=False)
    if one.target is None and one.roofline is not None:
        yield _row(f"{one.name}: median, roofline", one.roofline, one.median, ROOFLINE_WHY)
    if one.three is not None and one.cases > MANY:
        why = THREE_QUICK_WHY if quick else THREE_WHY
        yield _row(f"{one.name}: median, three numbers", one.three, one.median, why, judged=not quick)


def _row(case: str, most: float, ours: float, why: str, *, judged: bool = True) -> Row:
    allowed = 0 if judged else None
    return Row(case=case, source="tables", expected=(0, most), ours=ours, unit="error", allowed=allowed, why=why)


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """Measured and simulated figures, one plot for each table."""
    found = next(iter(_RESULTS.values()), [])
    made = []
    for one in found:
        points = [point for point in one.points if min(point) > 0]
        if len(points) > MANY:
            low, high = min(min(point) for point in points), max(max(point) for point in points)
            series = [Series("rows", _thinned(points)), Series("equal", [(low, low), (high, high)], "line")]
            made.append(Figure(one.name, "measured", "simulated", series, log_x=True, log_y=True))
    return made


SHOWN = 300  #: points of a figure


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return list(points[:: max(1, -(-len(points) // SHOWN))])
