"""Every table of a folder, compared with the simulator and two baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from statistics import fmean, median
from typing import Any

from kernbench.analysis.chips.baselines import middle, roofline_errors, three_number_errors, three_numbers
from kernbench.analysis.chips.cases import Case
from kernbench.analysis.chips.fit import predictions, relative_errors
from kernbench.analysis.chips.leave_out import as_new, left_out
from kernbench.analysis.chips.tables import Table, other_tables, read_tables
from kernbench.common.errors import InputError
from kernbench.config.runtime import Runtime, load_runtime
from kernbench.workloads.ops.timing import OperationTimer

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "chips"  #: the folder beside a checkout
WORST = 5  #: rows of a table that are shown, those with the largest errors
MANY = 10  #: a table with more rows is compared with the fitted three numbers too
QUICK = 60  #: rows of a table in the quick comparison, evenly spaced


@dataclass(frozen=True, slots=True)
class Target:
    """The limits of the errors of a table, as shares."""

    match: str
    median: float | None = None
    mean: float | None = None
    each: float | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """A row with a large error, and the components of its time."""

    label: str
    op: str
    measured: float
    ours: float
    unit: str
    causes: dict[str, float]

    @property
    def error(self) -> float:
        """The signed relative error."""
        return (self.ours - self.measured) / self.measured


@dataclass(frozen=True, slots=True)
class TableResult:
    """The errors of the simulator on a table."""

    name: str
    chip: str
    runtime: str
    calibrated: bool
    rows: int  #: rows of the file
    cases: int  #: rows that were simulated
    skipped: str = ""
    median: float = 0.0
    mean: float = 0.0
    worst_error: float = 0.0
    left_out: float | None = None  #: median error with the constants that the table determines taken from other tables
    left_out_mean: float | None = None
    new_chip: float | None = None  #: median error with the chip's datasheet and the constants of other chips
    new_chip_mean: float | None = None
    moved: float | None = None  #: median error with the chip's own constants of short programs, and others' constants
    moved_mean: float | None = None
    roofline: float | None = None
    three: float | None = None
    worst: Sequence[Wrong] = field(default_factory=list)
    points: Sequence[tuple[float, float]] = field(default_factory=list)  #: pairs (measured, simulated)
    notes: Sequence[str] = field(default_factory=list)
    target: Target | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("worst", "points", "target", "notes")}
        worst = [{name: getattr(one, name) for name in one.__slots__} | {"error": one.error} for one in self.worst]
        return plain | {"worst": worst, "notes": list(self.notes)}


def validate_chips(
    folder: Path, targets: Sequence[Target], *, quick: bool = False, progress: Callable[[str], None] | None = None
) -> list[TableResult]:
    """Compare every table of the folder; a table without a reader is skipped with the reason."""
    tables = list(read_tables(folder))
    found = []
    for table in tables:
        if progress is not None:
            progress(table.name)
        found.append(_result(table, tables, targets, quick=quick))
    found += [TableResult(name, "", "", False, rows, 0, skipped=why) for name, rows, why in other_tables(folder)]
    return found


def _result(table: Table, tables: Sequence[Table], targets: Sequence[Target], *, quick: bool) -> TableResult:
    target = next((one for one in targets if fnmatch(table.name, one.match)), None)
    calibrated = bool(table.machine and table.machine.chip and table.machine.chip.calibrated)
    head = (table.name, table.chip, table.runtime, calibrated, table.rows)
    timer = OperationTimer(table.machine, load_runtime(table.runtime)) if table.machine is not None else None
    cases, ours, refused = _simulated(_some(table.cases) if quick else table.cases, timer)
    notes = [*table.notes, *refused]
    if timer is None or not cases:
        why = table.skipped or (notes[0] if notes else "it has no rows")
        return TableResult(*head, 0, skipped=why, notes=notes, target=target)
    errors = relative_errors(cases, ours)
    others = relative_errors(cases, predictions(cases, *left_out(table, tables)))
    new, moved = (_as_new(table, cases, timer.runtime, measured=measured) for measured in (False, True))
    three = three_number_errors(cases, three_numbers(cases)) if len(cases) > MANY else []
    order = sorted(range(len(cases)), key=lambda i: (-errors[i], i))[:WORST]
    return TableResult(
        *head, len(cases), median=median(errors), mean=fmean(errors), worst_error=max(errors), left_out=median(others),
        left_out_mean=fmean(others), new_chip=middle(new), new_chip_mean=fmean(new) if new else None,
        moved=middle(moved), moved_mean=fmean(moved) if moved else None, roofline=middle(roofline_errors(cases)),
        three=middle(three),
        worst=[_wrong(cases[i], ours[i], timer) for i in order], points=_points(cases, ours), notes=notes, target=target,
    )  # fmt: skip


def _simulated(cases: Sequence[Case], timer: OperationTimer | None) -> tuple[list[Case], list[float], list[str]]:
    """The rows that can be simulated, their figures, and for each other row why it cannot."""
    found: list[Case] = []
    ours: list[float] = []
    if timer is None:
        return found, ours, []
    refused = []
    for case in cases:
        try:
            ours.append(case.ask(timer))
        except InputError as error:
            refused.append(f"{case.label} is skipped: {error}")
        else:
            found.append(case)
    return found, ours, refused


def _as_new(table: Table, cases: Sequence[Case], runtime: Runtime, *, measured: bool) -> list[float]:
    """Errors with the constants of other chips; none if there are no other chips."""
    machine = as_new(table, measured=measured)
    return relative_errors(cases, predictions(cases, machine, runtime)) if machine is not None else []


def _some(cases: Sequence[Case]) -> list[Case]:
    every = max(1, -(-len(cases) // QUICK))
    return list(cases[::every])


def _wrong(case: Case, ours: float, timer: OperationTimer) -> Wrong:
    return Wrong(case.label, case.op, case.measured, ours, case.unit, case.causes(timer))


def _points(cases: Iterable[Case], ours: Iterable[float]) -> list[tuple[float, float]]:
    return [(case.measured, found) for case, found in zip(cases, ours, strict=True)]
