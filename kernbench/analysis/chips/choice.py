"""Which constants a fit changes, by the errors of rows that were left out.

Constants belong to groups: those of products, of attention, of collectives, and of each kind of vector operation. No row looks
up the constants of two groups, so that each group is chosen on its own: its constants are fitted to its rows, and the errors of
its left-out rows decide. Noise in the rows of one group therefore does not keep the fit of another group away, and a group
without rows keeps the values of the files.

A few constants are shared by several groups, such as the bandwidth of DRAM (`SHARED`). They change only on strong evidence: the
errors of left-out rows must be much smaller than with any fit of the groups' own constants, and no group may become worse.

Rows are left out in several ways: every fifth row, the larger or the smaller half of each group, and the skinnier half of the
products. Each way tests another extrapolation, and all ways count alike. The values of the file are one of the choices. If a
fit may be better by chance, constants move only a part of the way, unless the fit to all rows explains nearly all of their
errors.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, log, pi, sqrt
from statistics import fmean, median
from typing import TYPE_CHECKING

from kernbench.analysis.chips.fit import Constant, Fit, Fitted, fit, looks_up, predictions, relative_errors, with_values
from kernbench.common.json_shapes import counted
from kernbench.config import NpuConfig
from kernbench.config.runtime import Runtime
from kernbench.workloads.ops.operation import Attention, Collective, Product, Vector

if TYPE_CHECKING:
    from kernbench.analysis.chips.cases import Case

Values = tuple[NpuConfig, Runtime]

FOLDS = 5
FIT_ROWS = 400  #: the most rows of a fit
CHOICE_ROWS = 96  #: the most rows for the choice, which needs many fits
FEWEST = 4  #: rows of a table
FEWEST_OF_GROUP = 2  #: rows of a group, so that one of them predicts the other one
#: an earlier choice of `CHOICES` is taken if its error is larger by at most this share, and this logarithm
TOLERANCE = 0.1, 0.005
#: A fit may be better than the values of the file by chance if their error is larger by at most this share, divided by the
#: root of the number of rows. It is one standard error of the difference of two means of absolute errors, relative to the mean,
#: if errors are normal: the errors of a handful of rows do not tell their own spread.
CHANCE = sqrt(pi - 2)
#: Where a fit is better by just as much as chance allows, constants move this share of the way to it, as a logarithm. Where it
#: is better by less, they move less in proportion.
LIKELY = 0.5
TINY = 1e-12  #: a fit without errors is not better by chance
#: But it is not chance if the fit to all rows leaves at most this share of their errors. Rows of little noise are then far from
#: the values of the file, and only half of a handful of rows predicts the other half badly, or as badly as the file does.
EXPLAINED = 0.4
#: By how many the rows must be more than the constants that change, for a fit to explain them. Two rows with noise often have
#: about equal errors, so that one constant explains both.
FREE = 3
#: Shared constants change if the errors of two groups fall to the second share of their errors with the value of the file, and
#: each by at least this logarithm. The bandwidth of DRAM also changes if the error of one group falls to the first share, or to
#: the second share if all rows are of this group. One group alone does not change the other shared constants: its own
#: constants, such as the start of its kernels, explain its errors as well.
STRONG, JOINT, LEAST = 0.7, 0.9, 0.005
UNCHANGED = "the values of the files"
#: The choices; of choices with about equal errors, the first one is taken. With all constants, those that rows hardly determine
#: stay near the values of the file. Times alone would make up for rates.
CHOICES: dict[str, Callable[[Constant], bool]] = {
    "rates only": lambda one: not _is_time(one),
    "all constants": lambda _: True,
    "times only": lambda one: _is_time(one),
}
#: Constants that several groups look up, and their names in reports; in the order in which they are chosen.
SHARED = {
    "DRAM bandwidth": ("dram.peak_bw_bytes_per_cycle",),
    "start of kernels, DRAM latency": ("chip.start_ns", "chip.graph_start_ns", "dram.t_setup_cycles"),
    "cache rate of vectors": ("chip.stream_bytes_per_cycle",),
}
ALONE = SHARED["DRAM bandwidth"]  #: one group of operations is enough to determine it
OF_SEVERAL = {path for paths in SHARED.values() for path in paths}

ALL = (UNCHANGED, *CHOICES)
Determine = Callable[[Sequence["Case"]], list[Constant]]  #: the constants that some rows determine


@dataclass(frozen=True, slots=True)
class Held:
    """Errors of rows that were not used in the fit."""

    name: str
    rows: int
    median: float
    mean: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided on a group of constants."""

    name: str
    fitted: bool
    rows: int  #: that look up a constant of the group
    before: float | None  #: mean error of left-out rows with the values of the files; None if no row could be left out
    after: float | None  #: mean error of left-out rows with what was decided on this group and on constants of several groups
    why: str
    choice: str  #: which constants are fitted


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for each group, and the errors of rows that were left out."""

    decisions: list[Decision]
    held: list[Held]  #: with these choices, by the way of leaving out
    rows: int  #: rows from which the choice was made

    @property
    def name(self) -> str:
        """The groups that are fitted, in words."""
        return "; ".join(f"{one.name}: {one.choice}" for one in self.decisions if one.fitted) or UNCHANGED


@dataclass(frozen=True, slots=True)
class Split:
    """A way to leave out rows: in each part, these rows are held back, and the others are fitted."""

    name: str
    parts: list[list[int]]


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that share constants with no row of another group, except for the constants of `SHARED`."""

    name: str
    rows: list[int]
    constants: list[Constant]


@dataclass(slots=True)
class _Trial:
    """What the choices predict for the left-out rows of a group, by way of leaving out and row."""

    rows: int
    predicted: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)  #: by choice and way
    distance: dict[str, float] = field(default_factory=dict)  #: mean absolute logarithm by choice, each way alike
    error: dict[str, float] = field(default_factory=dict)  #: mean relative error by choice, each way alike

    @property
    def best(self) -> str:
        """The first choice with about the smallest error."""
        share, least = TOLERANCE
        enough = (1 + share) * min(self.distance.values()) + least
        return next(name for name in ALL if self.distance.get(name, enough + 1) <= enough)

    @property
    def by_chance(self) -> bool:
        """Whether the smallest error may be smaller than that of the values of the files by chance."""
        return self.evidence <= 1

    @property
    def evidence(self) -> float:
        """By how much the values of the files are worse than the best fit, over what chance allows; 0 if they are not."""
        _, least = TOLERANCE
        smallest = min(self.distance.values())
        worse = self.distance[UNCHANGED] - least - smallest
        return max(0.0, worse) * sqrt(self.rows) / max(CHANCE * smallest, TINY)

    def summarise(self, cases: Sequence[Case], name: str) -> None:
        """Compute the errors of a choice from what it predicts."""
        logs, errors = [], []
        for predicted in self.predicted[name].values():
            rows = [cases[i] for i in predicted]
            errors.append(fmean(relative_errors(rows, list(predicted.values()))))
            logs.append(_distance(rows, list(predicted.values())))
        self.distance[name], self.error[name] = fmean(logs), fmean(errors)

    def move_in_part(self, cases: Sequence[Case], name: str, share: float) -> None:
        """Let a choice predict what it predicts if its constants move only a share of the way: times are nearly products of
        powers of the constants."""
        for way, predicted in self.predicted[name].items():
            files = self.predicted[UNCHANGED][way]
            self.predicted[name][way] = {i: files[i] * (one / files[i]) ** share for i, one in predicted.items()}
        self.summarise(cases, name)


def chosen_fit(
    cases: Sequence[Case], kinds: Sequence[str], machine: NpuConfig, runtime: Runtime, determine: Determine
) -> tuple[Fit, Choice]:
    """The fit that predicts rows best that were left out. `kinds`: the class of each row."""
    study = _Study(cases, kinds, machine, runtime, determine)
    choice = study.choose()
    some = [cases[i] for i in even(cases, FIT_ROWS)]
    return study.fitted(some), choice


class _Study:
    """The rows of a choice, their groups, and the shared constants that were accepted so far."""

    def __init__(
        self, cases: Sequence[Case], kinds: Sequence[str], machine: NpuConfig, runtime: Runtime, determine: Determine
    ) -> None:
        picked = even(cases, CHOICE_ROWS)
        self.cases, self.kinds = [cases[i] for i in picked], [kinds[i] for i in picked]
        self.machine, self.runtime, self.determine = machine, runtime, determine
        self.groups = groups(self.cases, determine(self.cases), machine, runtime)
        labels = {i: one.name for one in self.groups for i in one.rows}
        self.splits = list(splits(self.cases, [labels[i] for i in range(len(self.cases))]))
        self.shared: list[_Shared] = []  #: accepted, in their order
        self.choices: dict[str, str] = {}  #: by group
        self.shares: dict[str, float] = {}  #: of the way to the fit that constants move, by group

    def choose(self) -> Choice:
        """Decide on the shared constants, then on each group."""
        parts = [part for split in self.splits for part in split.parts]
        values: list[Values] = [(self.machine, self.runtime)] * len(parts)
        trials = {one.name: self._trial(one, values) for one in self.groups}
        begin = {name: one.error.get(UNCHANGED) for name, one in trials.items()}
        decisions = []
        known = {one.path for one in self.determine(self.cases)}
        for name, paths in SHARED.items():
            users = [one for one in self.groups if self._look_up(known.intersection(paths), one)]
            if not users:
                continue
            found = self._shared(paths, users, parts, values, trials)
            rows = sum(len(one.rows) for one in users)
            if isinstance(found, str):
                decisions.append(Decision(name, False, rows, None, None, found, UNCHANGED))
                continue
            shared, values, changed, why = found
            self.shared.append(shared)
            for one in users:
                if one.name in changed:
                    trials[one.name] = self._trial(one, values)
            decisions.append(Decision(name, True, rows, None, None, why, "all constants"))
        for one in self.groups:
            decisions.append(self._decided(one, trials[one.name], begin[one.name]))
        return Choice(decisions, self._held(parts, values, trials), len(self.cases))

    def _look_up(self, paths: Iterable[str], group: Group) -> bool:
        """Whether a row of a group looks up one of these constants."""
        return any(looks_up(self.cases[i], path, self.machine, self.runtime) for path in paths for i in group.rows)

    def _decided(self, group: Group, trial: _Trial, begin: float | None) -> Decision:
        rows = len(group.rows)
        if not trial.distance:
            self.choices[group.name] = UNCHANGED
            why = f"{counted(rows, 'row')}, but at least {FEWEST_OF_GROUP} are needed"
            return Decision(group.name, False, rows, None, None, why, UNCHANGED)
        best, share = trial.best, 1.0
        explains = (best == UNCHANGED and self._explaining(group, trial)) or ""
        if explains:
            best = explains
        elif best != UNCHANGED and trial.by_chance and self._left(group, best) > EXPLAINED:
            share = LIKELY * trial.evidence
            trial.move_in_part(self.cases, best, share)
        self.choices[group.name], self.shares[group.name] = best, share
        fits = sorted((trial.distance[name], trial.error[name]) for name in trial.distance if name != UNCHANGED)
        if share < 1:
            why = f"left-out rows are predicted better, maybe by chance, so that constants move {share:.0%} of the way"
        elif explains:
            why = "left-out rows are not predicted clearly better, but a fit to all rows leaves hardly any error"
        elif best != UNCHANGED:
            why = "left-out rows are predicted better"
        elif fits:
            why = f"no fit predicts left-out rows clearly better ({fits[0][1]:.1%})"
        else:
            why = "no constant belongs to it alone"
        return Decision(group.name, best != UNCHANGED, rows, begin, trial.error[best], why, best)

    def _explaining(self, group: Group, trial: _Trial) -> str:
        """The choice that leaves the smallest share of the errors of all rows of a group, if this share is small, otherwise ''.
        Also '' if the values of the files have hardly any error."""
        _, least = TOLERANCE
        if trial.distance[UNCHANGED] <= least:
            return ""
        left = {name: self._left(group, name) for name in CHOICES if name in trial.distance}
        best = min(left, key=lambda name: left[name], default="")
        return best if best and left[best] <= EXPLAINED else ""

    def _left(self, group: Group, choice: str) -> float:
        """The share of the errors of all rows of a group that a fit to them leaves; infinite if the rows are too few for the
        constants that change."""
        rows = [self.cases[i] for i in group.rows]
        base, _ = self._with_all_shared(self.cases)
        found = fit(rows, *base, list(filter(CHOICES[choice], self._own(rows))), rough=True)
        free = len(rows) - sum(one.value != one.before for one in found.constants)
        left = _distance(rows, predictions(rows, found.machine, found.runtime))
        before = _distance(rows, predictions(rows, *base))
        return left * sqrt(len(rows) / free) / max(before, TINY) if free >= FREE else inf

    def _shared(
        self, paths: Sequence[str], users: Sequence[Group], parts: Sequence[Sequence[int]], values: Sequence[Values],
        trials: dict[str, _Trial],
    ) -> tuple[_Shared, list[Values], dict[str, _Trial], str] | str:  # fmt: skip
        """Shared constants with their values in each part, and what the groups then predict; or why they are kept."""
        tested = [one for one in users if trials[one.name].distance]
        reasons = []
        alone = STRONG if len(self.groups) > 1 else JOINT
        for donors in _donors(tested):
            names = [one.name for one in donors]
            shared = _Shared(paths, names)
            tried = [self._with_shared(shared, part, base) for part, base in zip(parts, values, strict=True)]
            changed: dict[str, _Trial] = {}
            for one in tested:
                changed[one.name] = self._trial(one, tried, {UNCHANGED, _least(trials[one.name])})
            falls = {name: _falls(changed[name], trials[name]) for name in changed}
            if worse := [name for name in changed if _worse(changed[name], trials[name])]:
                reasons.append(f"rows of {_listed(worse)} contradict those of {_listed(names)}")
            elif sum(fall <= JOINT for fall in falls.values()) < 2 and (paths != ALONE or min(falls.values()) > alone):
                reasons.append(f"rows of {_listed(names)} show no other value clearly")
            else:
                first = min(falls, key=lambda name: falls[name])
                was, now = (some[first].error[_least(some[first])] for some in (trials, changed))
                return shared, tried, changed, f"error of left-out {first} {was:.1%} without it, {now:.1%} with it"
        return "; ".join(reasons) or "too few rows depend on it"

    def _with_shared(self, shared: _Shared, part: Sequence[int], base: Values) -> Values:
        out = set(part)
        rows = [i for one in self.groups if one.name in shared.donors for i in one.rows if i not in out]
        found = shared.fit([self.cases[i] for i in rows], base, self.determine, rough=True)
        return with_values(*base, {one.constant.path: one.value for one in found})

    def _trial(self, group: Group, values: Sequence[Values], only: Container[str] = ALL) -> _Trial:
        """Fit the group's own constants with each choice, and predict the rows that were left out. `values`: of each part;
        `only`: the choices to try."""
        trial = _Trial(len(group.rows))
        number, inside = 0, set(group.rows)
        for split in self.splits:
            for part in split.parts:
                base, number = values[number], number + 1
                held = [i for i in part if i in inside]
                rest = [i for i in group.rows if i not in set(part)]
                if not held or len(rest) < FEWEST_OF_GROUP - 1:
                    continue
                for name, some in self._tried(rest, held, base, only).items():
                    trial.predicted.setdefault(name, {}).setdefault(split.name, {}).update(zip(held, some, strict=True))
        for name in trial.predicted:
            trial.summarise(self.cases, name)
        return trial

    def _tried(
        self, rest: Sequence[int], held: Sequence[int], base: Values, only: Container[str]
    ) -> dict[str, list[float]]:  # fmt: skip
        """What each choice predicts for the rows that are held back."""
        back, rows = [self.cases[i] for i in held], [self.cases[i] for i in rest]
        found = {UNCHANGED: predictions(back, *base)}
        constants = self._own(rows)
        for name, takes in CHOICES.items():
            some = [one for one in constants if takes(one)]
            if some and name in only and (name != "all constants" or 0 < sum(map(_is_time, some)) < len(some)):
                one = fit(rows, *base, some, rough=True)
                found[name] = predictions(back, one.machine, one.runtime)
        return found

    def _own(self, rows: Sequence[Case]) -> list[Constant]:
        return [one for one in self.determine(rows) if one.path not in OF_SEVERAL]

    def _held(self, parts: Sequence[Sequence[int]], values: Sequence[Values], trials: dict[str, _Trial]) -> list[Held]:
        """Errors with the choices that were made, by the way of leaving out; and of each class of operations left out."""
        bases = dict(zip(map(tuple, parts), values, strict=True))
        found = []
        for split in self.splits:
            predicted: dict[int, float] = {}
            for part in split.parts:
                predicted |= dict(zip(part, predictions([self.cases[i] for i in part], *bases[tuple(part)]), strict=True))
            for name, trial in trials.items():
                predicted |= trial.predicted.get(self.choices[name], {}).get(split.name, {})
            found.append(self._errors(split.name, predicted))
        classes = sorted(set(self.kinds))
        for one in classes if len(classes) > 1 else []:
            out = [i for i, kind in enumerate(self.kinds) if kind == one]
            rest = set(range(len(self.cases))) - set(out)
            machine, runtime = self._fit_to([self.cases[i] for i in sorted(rest)])
            found.append(self._errors(f"class {one}", dict(zip(
                out, predictions([self.cases[i] for i in out], machine, runtime), strict=True))))  # fmt: skip
        return found

    def _errors(self, name: str, predicted: dict[int, float]) -> Held:
        errors = relative_errors([self.cases[i] for i in predicted], list(predicted.values()))
        return Held(name, len(errors), median(errors), fmean(errors))

    def _fit_to(self, cases: Sequence[Case]) -> Values:
        one = self.fitted(cases)
        return one.machine, one.runtime

    def fitted(self, cases: Sequence[Case]) -> Fit:
        """The choices applied to some rows: the shared constants, then those of each group."""
        values, found = self._with_all_shared(cases)
        for group, rows in self._by_group(cases).items():
            takes = CHOICES.get(self.choices[group])
            constants = list(filter(takes, self._own(rows))) if takes and rows else []
            if constants:
                share = self.shares[group]
                some = [one.in_part(share) for one in fit(rows, *values, constants).constants]
                found += some
                values = with_values(*values, {one.constant.path: one.value for one in some})
        order = {one.path: i for i, one in enumerate(self.determine(cases))}
        found.sort(key=lambda one: order.get(one.constant.path, len(order)))
        return Fit(*values, found, relative_errors(cases, predictions(cases, *values)))

    def _with_all_shared(self, cases: Sequence[Case]) -> tuple[Values, list[Fitted]]:
        """The accepted shared constants, fitted to these rows."""
        values: Values = (self.machine, self.runtime)
        found: list[Fitted] = []
        of = self._by_group(cases)
        for shared in self.shared:
            some = shared.fit([case for name in shared.donors for case in of[name]], values, self.determine)
            found += some
            values = with_values(*values, {one.constant.path: one.value for one in some})
        return values, found

    def _by_group(self, cases: Sequence[Case]) -> dict[str, list[Case]]:
        labels = {one.name: {_label(self.cases[i], self.runtime) for i in one.rows} for one in self.groups}
        return {name: [case for case in cases if _label(case, self.runtime) in some] for name, some in labels.items()}


@dataclass(frozen=True, slots=True)
class _Shared:
    """How shared constants are fitted: to the rows of some groups, together with all constants of these groups."""

    paths: Sequence[str]
    donors: list[str]

    def fit(self, cases: Sequence[Case], base: Values, determine: Determine, *, rough: bool = False) -> list[Fitted]:
        """The constants and their intervals; none if the rows do not determine them."""
        some = [one for one in determine(cases) if one.path in self.paths or one.path not in OF_SEVERAL] if cases else []
        if len(cases) < FEWEST_OF_GROUP or not any(one.path in self.paths for one in some):
            return []
        return [one for one in fit(cases, *base, some, rough=rough).constants if one.constant.path in self.paths]


def groups(cases: Sequence[Case], constants: Sequence[Constant], machine: NpuConfig, runtime: Runtime) -> list[Group]:
    """Rows that look up the same constant are in one group. Constants of `SHARED` do not count."""
    labels = [_label(case, runtime) for case in cases]
    whole = {label: {label} for label in labels}
    own = [one for one in constants if one.path not in OF_SEVERAL]
    for one in own:
        users = {label for label, case in zip(labels, cases, strict=True) if looks_up(case, one.path, machine, runtime)}
        joined = set().union(*(whole[label] for label in users))
        whole |= dict.fromkeys(joined, joined)
    found = []
    for label in dict.fromkeys(labels):
        if label == next(other for other in labels if other in whole[label]):
            rows = [i for i, other in enumerate(labels) if other in whole[label]]
            some = [one for one in own if any(looks_up(cases[i], one.path, machine, runtime) for i in rows)]
            found.append(Group(_listed(sorted(whole[label])), rows, some))
    return found


def _label(case: Case, runtime: Runtime) -> str:
    """The name of the group of a row, before groups with common constants are joined."""
    op = case.operation
    if isinstance(op, Product):
        return "experts" if op.kind == "moe" else "products"
    if isinstance(op, Attention):
        return "attention"
    if isinstance(op, Collective):
        return "collectives between nodes" if op.crosses else "collectives"
    return (op.name if op.name in runtime.ops else op.kind) if isinstance(op, Vector) else case.op


def _donors(tested: Sequence[Group]) -> Iterator[list[Group]]:
    """The groups to whose rows shared constants are fitted: all together, else products, else attention."""
    if tested:
        yield list(tested)
    for label in ("products", "attention"):
        some = [one for one in tested if label in one.name]
        if 0 < len(some) < len(tested):
            yield some


def _least(trial: _Trial) -> str:
    return min(trial.distance, key=lambda name: trial.distance[name])


def _falls(now: _Trial, before: _Trial) -> float:
    """To which share the error of a group falls, with the best choices; 1 if it falls by less than `LEAST`, or if the group has
    so few rows that its error may fall by chance."""
    was, then = min(before.distance.values()), min(now.distance.values())
    return then / was if was - then >= LEAST and now.rows >= FEWEST else 1.0


def _worse(now: _Trial, before: _Trial) -> bool:
    share, least = TOLERANCE
    return min(now.distance.values()) > (1 + share) * min(before.distance.values()) + least


def _distance(cases: Sequence[Case], ours: Sequence[float]) -> float:
    """The mean absolute logarithm of simulated over measured times."""
    return fmean(abs(log(max(one, 1e-12) / case.measured)) for case, one in zip(cases, ours, strict=True))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def splits(cases: Sequence[Case], labels: Sequence[str]) -> Iterator[Split]:
    """The ways of leaving out rows for which the table has enough of them. `labels`: the group of each row."""
    by_size = sorted(range(len(cases)), key=lambda i: (labels[i], _operation(cases[i]), _size(cases[i])))
    count = min(FOLDS, len(cases) // 2)
    if count > 1:
        yield Split(f"{count} folds", [by_size[fold::count] for fold in range(count)])
    yield from shapes(cases, labels)


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
