"""Which constants a fit changes, and how much the values of the file count, by the errors of rows that were left out.

Rows are left out in several ways: every fifth row, the larger or the smaller half of each class, the skinnier half of the
products, and one class after the other. Each way tests another extrapolation, and all ways count alike. The values of the file
are one of the choices: if no fit predicts the left-out rows better, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean, median
from typing import TYPE_CHECKING

from kernbench.analysis.chips.fit import Constant, Fit, fit, predictions, relative_errors
from kernbench.config import NpuConfig
from kernbench.config.runtime import Runtime
from kernbench.workloads.ops.operation import Product

if TYPE_CHECKING:
    from kernbench.analysis.chips.tables import Case

FOLDS = 5
FIT_ROWS = 400  #: the most rows of a fit
CHOICE_ROWS = 160  #: the most rows for the choice, which needs many fits
FEWEST = 4  #: rows of a fit
#: a choice that changes fewer constants is taken if its error is larger by at most this share, and this logarithm
TOLERANCE = 0.1, 0.005
UNCHANGED = "the values of the files"
#: the choices, those that change fewer constants first: name, which constants, and how many rows the values of the file count
CHOICES: tuple[tuple[str, Callable[[Constant], bool], float], ...] = (
    ("rates only", lambda one: not _is_time(one), 1.0),
    ("times only", lambda one: _is_time(one), 1.0),
    ("all constants, near the files", lambda _: True, 3.0),
    ("all constants", lambda _: True, 1.0),
)

Determine = Callable[[Sequence["Case"]], list[Constant]]  #: the constants that some rows determine


@dataclass(frozen=True, slots=True)
class Held:
    """Errors of rows that were not used in the fit."""

    name: str
    rows: int
    median: float
    mean: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and the errors of rows that were left out."""

    name: str
    errors: dict[str, float]  #: mean error of the left-out rows by choice, each way of leaving out alike
    held: list[Held]  #: of the choice, by the way of leaving out
    rows: int  #: rows from which the choice was made


@dataclass(frozen=True, slots=True)
class Split:
    """A way to leave out rows: in each part, these rows are held back, and the others are fitted."""

    name: str
    parts: list[list[int]]


def chosen_fit(
    cases: Sequence[Case], kinds: Sequence[str], machine: NpuConfig, runtime: Runtime, determine: Determine
) -> tuple[Fit, Choice]:
    """The fit that predicts rows best that were left out. `kinds`: the class of each row."""
    choice = choose(cases, kinds, machine, runtime, determine)
    some = [cases[i] for i in even(cases, FIT_ROWS)]
    constants = determine(some)
    for name, takes, weight in CHOICES:
        if name == choice.name:
            return fit(some, machine, runtime, list(filter(takes, constants)), weight=weight), choice
    return Fit(machine, runtime, [], relative_errors(some, predictions(some, machine, runtime))), choice


def choose(
    cases: Sequence[Case], kinds: Sequence[str], machine: NpuConfig, runtime: Runtime, determine: Determine
) -> Choice:  # fmt: skip
    """Compare the choices by the errors of left-out rows."""
    picked = even(cases, CHOICE_ROWS)
    some, of = [cases[i] for i in picked], [kinds[i] for i in picked]
    before = predictions(some, machine, runtime)
    names = [UNCHANGED, *(name for name, _, _ in CHOICES)]
    held: dict[str, list[Held]] = {name: [] for name in names}
    scores: dict[str, list[float]] = {name: [] for name in names}
    for split in splits(some, of):
        found: dict[str, dict[int, float]] = {name: {} for name in names}
        for part in split.parts:
            out = set(part)
            rest = [case for i, case in enumerate(some) if i not in out]
            tried = _tried(rest, [some[i] for i in part], machine, runtime, determine)
            tried[UNCHANGED] = [before[i] for i in part]
            for name in names:
                found[name] |= dict(zip(part, tried.get(name, tried[UNCHANGED]), strict=True))
        for name in names:
            rows = [some[i] for i in found[name]]
            errors = relative_errors(rows, list(found[name].values()))
            held[name].append(Held(split.name, len(errors), median(errors), fmean(errors)))
            scores[name].append(fmean(abs(log(max(found[name][i], 1e-12) / some[i].measured)) for i in found[name]))
    total = {name: fmean(scores[name]) for name in names} if scores[UNCHANGED] else {UNCHANGED: 0.0}
    share, distance = TOLERANCE
    enough = (1 + share) * min(total.values()) + distance
    name = next(name for name in names if name in total and total[name] <= enough)
    return Choice(name, {one: fmean(each.mean for each in held[one]) for one in total if held[one]}, held[name], len(some))


def _tried(
    rest: Sequence[Case], held: Sequence[Case], machine: NpuConfig, runtime: Runtime, determine: Determine
) -> dict[str, list[float]]:  # fmt: skip
    """What each choice predicts for the rows that are held back."""
    constants, found = determine(rest), {}
    near: Mapping[str, float] = {}
    for name, takes, weight in CHOICES:
        some = list(filter(takes, constants))
        if not some:
            continue
        one = fit(rest, machine, runtime, some, weight=weight, begin=near if len(some) == len(constants) else None)
        if len(some) == len(constants):
            near = {each.constant.path: each.value for each in one.constants}
        found[name] = predictions(held, one.machine, one.runtime)
    return found


def splits(cases: Sequence[Case], kinds: Sequence[str]) -> Iterator[Split]:
    """The ways of leaving out rows for which the table has enough of them."""
    by_size = sorted(range(len(cases)), key=lambda i: (_operation(cases[i]), _size(cases[i])))
    count = min(FOLDS, len(cases) // 2)
    if count > 1:
        yield Split(f"{count} folds", [by_size[fold::count] for fold in range(count)])
    classes = sorted(set(kinds))
    for one in classes if len(classes) > 1 else []:
        yield Split(f"class {one}", [[i for i, kind in enumerate(kinds) if kind == one]])
    yield from shapes(cases, kinds)


def shapes(cases: Sequence[Case], kinds: Sequence[str]) -> Iterator[Split]:
    """Large shapes, small shapes and skinny products: half of the rows of each class, or of the products."""
    small: list[int] = []
    large: list[int] = []
    for kind in dict.fromkeys(kinds):
        some = sorted((i for i, one in enumerate(kinds) if one == kind), key=lambda i: _size(cases[i]))
        small += some[: len(some) // 2]
        large += some[len(some) // 2 :]
    products = [i for i, case in enumerate(cases) if isinstance(case.operation, Product)]
    products.sort(key=lambda i: _skinny(cases[i]))
    square, skinny = products[: len(products) // 2], products[len(products) // 2 :]
    halves = (("large shapes", large, small), ("small shapes", small, large), ("skinny products", skinny, square))
    for name, held, rest in halves:
        if held and len(rest) >= 2:
            yield Split(name, [held])


def even(cases: Sequence[Case], most: int) -> list[int]:
    """The numbers of at most about this many rows, evenly spaced over the sizes of each operation."""
    if len(cases) <= most:
        return list(range(len(cases)))
    groups: dict[str, list[int]] = {}
    for i, case in enumerate(cases):
        groups.setdefault(_operation(case), []).append(i)
    found: list[int] = []
    for group in groups.values():
        group.sort(key=lambda i: _size(cases[i]))
        count = min(len(group), max(FEWEST, most * len(group) // len(cases)))
        found += [group[k * (len(group) - 1) // max(1, count - 1)] for k in range(count)]
    return sorted(found)


def _operation(case: Case) -> str:
    return case.operation.name if case.operation is not None else case.op


def _size(case: Case) -> float:
    return case.compute_us + case.memory_us


def _skinny(case: Case) -> float:
    """The longest side of a product over its shortest one."""
    op = case.operation
    assert isinstance(op, Product)
    return max(op.m, op.n, op.k) / min(op.m, op.n, op.k)


def _is_time(one: Constant) -> bool:
    """Whether a constant is a time, of software or of a latency, rather than a rate."""
    return one.unit in ("ns", "DRAM latency")
