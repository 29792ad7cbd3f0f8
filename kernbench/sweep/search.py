"""Searches: points of a sweep that are chosen by the results of earlier ones.

Points are proposed in batches, and a batch is proposed when all results of the one before are known. So the points depend on
the spec alone, and not on who runs them or how fast. A search that was interrupted is repeated from its first batch: results
that are in the store are not computed again, so it soon comes to where it was (ADR 57).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from itertools import product
from typing import Any, Protocol

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import cycles_to_ns
from kernbench.sweep.axes import Axis, Level
from kernbench.sweep.conditions import Condition
from kernbench.sweep.goals import broken_by, goal_value, keeps
from kernbench.sweep.points import Keys, Point, Points, Task, place_holds, placed
from kernbench.sweep.runner import Executor, Outcome, Stored, Writer
from kernbench.sweep.spec import Largest, Sampled, Spec
from kernbench.sweep.store import Store
from kernbench.sweep.store.sweeps import keep_sweep
from kernbench.sweep.store.tables import Row
from kernbench.sweep.targets.target import ProgramTarget, WorkloadTarget

MOST_REFUSED = 20  #: times the number of trials: proposals that may be no points of the sweep


@dataclass
class Proposal:
    """A combination of levels that a searcher wants to know about, and what became of it."""

    number: int
    machine: int  #: position in the spec's machines
    levels: tuple[Level, ...]
    point: Point | None = None  #: None: conditions exclude it, or it is not valid
    row: Row | None = None  #: None: it was not run
    bound: Fraction | None = None  #: [goal] that it cannot be better than, where it was not run for this reason

    @property
    def values(self) -> tuple[Any, ...]:
        """One for each of the spec's names."""
        return tuple(value for level in self.levels for value in level)


class Searcher(Protocol):
    """Something that chooses points."""

    def ask(self) -> list[Proposal]:
        """The next batch; empty at the end."""
        ...

    def tell(self, batch: Sequence[Proposal]) -> None:
        """What became of it, in its order."""
        ...


@dataclass
class Searched:
    """What a search has done."""

    points: Points
    outcome: Outcome
    proposals: int = 0
    pruned: int = 0  #: not run, because their lower bound was worse than the best result
    largest: list[tuple[dict[str, Any], Any]] = field(default_factory=list)  #: values of other axes, and the largest value


class Feed:
    """Tasks for an executor, which come in batches: it is empty between them, and not at its end."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def put(self, tasks: Sequence[Task]) -> None:
        """More of them, after those that are in it."""
        self._tasks = self._tasks[::-1] + list(tasks)
        self._tasks.reverse()

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        if not self._tasks:
            raise StopIteration
        return self._tasks.pop()


class Search:
    """One search, run to its end or to its budget. `searched` is known at any time."""

    def __init__(
        self, spec: Spec, store: Store, executor: Executor, *, retry: bool = False, stored: Stored = lambda rows: None
    ) -> None:
        assert spec.search is not None
        self.spec, self.store, self.executor, self.retry = spec, store, executor, retry
        self.searcher: Searcher = _Bisected(spec) if isinstance(spec.search, Largest) else _Drawn(spec)
        self.searched = Searched(Points(spec, []), Outcome(0, 0))
        self._keys = Keys(spec)
        self._by_key: dict[str, Point] = {}
        self._rows: dict[str, Row] = {}
        self._best: Fraction | None = None  # of the goal, less being better, if points are pruned
        self._writer = Writer(store, self.searched.outcome, stored)
        self._feed = Feed()
        self._begin = time.monotonic()

    def run(self) -> Searched:
        """Run it. Points that have results are in the store's sweep, also after an interrupt."""
        try:
            with closing(self.executor.results(self._feed)) as results:
                while not self.searched.outcome.stopped and (batch := self.searcher.ask()):
                    self._batch(batch, results)
                    self.searcher.tell(batch)
        finally:
            with suppress(InputError):
                self._writer.write()
            self.searched.outcome.points = len(self.searched.points)
            keep_sweep(self.store, self.searched.points)
        if isinstance(self.searcher, _Bisected):
            self.searched.largest = self.searcher.found()
        return self.searched

    def _batch(self, batch: Sequence[Proposal], results: Iterator[Row | None]) -> None:
        """The results of a batch."""
        self.searched.proposals += len(batch)
        wanted: dict[str, Task] = {}
        for proposal in batch:
            proposal.point = self._point(proposal)
            if proposal.point is not None and proposal.point.task.key not in self._rows:
                wanted[proposal.point.task.key] = proposal.point.task
        # Bounds are asked before the store, so that results of other sweeps do not change what the searcher learns.
        pruned = {key: bound for key, task in wanted.items() if (bound := self._hopeless(task)) is not None}
        self._know({key: task for key, task in wanted.items() if key not in pruned})
        to_run = self._within_budget([task for key, task in wanted.items() if key not in self._rows and key not in pruned])
        self._feed.put(to_run)
        pending = {task.key for task in to_run}
        while pending:
            row = next(results)
            self._writer.take(row)
            if row is not None:
                self._rows[row.key] = row
                pending.discard(row.key)
        for proposal in batch:
            self._close(proposal, pruned)

    def _know(self, wanted: dict[str, Task]) -> None:
        """Take results that the store has."""
        for key, row in self.store.sound_rows(list(wanted)).items():
            if row.ended or not self.retry:
                self._rows[key] = row
                self.searched.outcome.known += 1

    def _close(self, proposal: Proposal, pruned: dict[str, Fraction]) -> None:
        """What became of a proposal, and whether it is the best so far."""
        point = proposal.point
        if point is None:
            return
        key = point.task.key
        proposal.row, proposal.bound = self._rows.get(key), pruned.get(key)
        if proposal.bound is not None:
            self.searched.pruned += 1
        if proposal.row is None:
            return
        if key not in self._by_key:
            numbered = Point(len(self._by_key), point.values, point.task)
            self._by_key[key] = numbered
            self.searched.points.points.append(numbered)
        value = _score(proposal.row, self.spec.goals[0])
        better = value is not None and (self._best is None or value < self._best)
        place = dict(zip(self.spec.names, point.values, strict=True))
        if better and keeps(proposal.row, place, self.spec.constraints):
            self._best = value

    def _point(self, proposal: Proposal) -> Point | None:
        """The point; None if there is none. InputError for a machine that is not valid, unless the spec leaves those out."""
        if not place_holds(self.spec, 0, proposal.machine, proposal.values):
            return None
        try:
            return Point(0, proposal.values, self._keys.task(0, proposal.machine, proposal.values))
        except InputError as error:
            if not self.spec.skip_invalid:
                raise InputError([placed(self.spec, proposal.values, problem) for problem in error.problems]) from None
            return None

    def _hopeless(self, task: Task) -> Fraction | None:
        """The lower bound of a point that cannot be better than the best."""
        search, target = self.spec.search, self.spec.targets[0]
        if not isinstance(search, Sampled) or not search.prune or self._best is None or self.spec.goals not in PRUNED:
            return None
        if not isinstance(target, (ProgramTarget, WorkloadTarget)):
            return None
        try:
            config = self.spec.machines[task.machine].again(task.settings)
            machine = target.longest(config, task.params)[1]
            cycles = machine.bounds.cycles
        except InputError:  # the run says why
            return None
        bound = Fraction(cycles) if self.spec.goals[0][0] == "cycles" else cycles_to_ns(cycles, machine.config.freq_ghz)
        return bound if bound >= self._best else None

    def _within_budget(self, tasks: list[Task]) -> list[Task]:
        budget, outcome = self.spec.budget, self.searched.outcome
        if budget.seconds is not None and time.monotonic() - self._begin >= budget.seconds:
            outcome.stopped = f"its budget of {budget.seconds:g} s"
            return []
        left = len(tasks) if budget.points is None else budget.points - len(self._rows) + outcome.known
        if left < len(tasks):
            outcome.stopped = f"its budget of {budget.points:,} points"
        return tasks[: max(left, 0)]


#: Goals for which a lower bound of cycles says that a point cannot be the best.
PRUNED = ((("ns", "min"),), (("cycles", "min"),))


def _score(row: Row, goal: tuple[str, str]) -> Fraction | None:
    """A row's number for a goal, less being better."""
    value = goal_value(row, goal[0]) if row.status == "done" else None
    return None if value is None else -value if goal[1] == "max" else value


class _Drawn:
    """Points that a sampler of Optuna draws."""

    def __init__(self, spec: Spec) -> None:
        assert isinstance(spec.search, Sampled)
        optuna = optuna_module()
        self.spec, self.search = spec, spec.search
        samplers = optuna.samplers
        made = {"tpe": samplers.TPESampler, "nsga2": samplers.NSGAIISampler}[self.search.sampler]
        options = {} if self.search.sampler == "tpe" else {"population_size": max(2, self.search.batch)}
        ways = ["maximize" if way == "max" else "minimize" for _, way in spec.goals]
        self._study = optuna.create_study(directions=ways, sampler=made(seed=self.search.seed, **options))
        self._fail = optuna.trial.TrialState.FAIL
        self._trials: list[Any] = []
        self._left, self._refused = self.search.trials, 0

    def ask(self) -> list[Proposal]:
        if self._left <= 0 or self._refused > MOST_REFUSED * self.search.trials:
            return []
        self._trials = [self._study.ask() for _ in range(min(self._left, self.search.batch))]
        return [self._proposal(trial) for trial in self._trials]

    def _proposal(self, trial: Any) -> Proposal:
        machines = self.spec.machine_of[0]
        machine = machines[0] if len(machines) == 1 else trial.suggest_categorical("machine", list(machines))
        return Proposal(trial.number, machine, tuple(_suggested(trial, axis) for axis in self.spec.axes))

    def tell(self, batch: Sequence[Proposal]) -> None:
        for trial, proposal in zip(self._trials, batch, strict=True):
            if proposal.point is None:
                self._refused += 1
            else:
                self._left -= 1
            values = self._values(proposal)
            if values is None:
                self._study.tell(trial, state=self._fail)
                continue
            for text in self.spec.constraints:
                place = dict(zip(self.spec.names, proposal.values, strict=True))
                trial.set_constraint(text, 0.0 if proposal.row is None else broken_by(proposal.row, place, text))
            self._study.tell(trial, values)

    def _values(self, proposal: Proposal) -> list[float] | None:
        """What Optuna learns: the goals, or the bound of a point that was not run; nothing of a point without a result."""
        if proposal.bound is not None:
            return [float(proposal.bound)]
        if proposal.row is None or proposal.row.status != "done":
            return None
        values = [goal_value(proposal.row, name) for name, _ in self.spec.goals]
        return None if None in values else [float(value) for value in values if value is not None]


def _suggested(trial: Any, axis: Axis) -> Level:
    """A level of an axis: numbers by their order, anything else as categories."""
    name = "+".join(axis.names)
    if axis.span is not None:
        return axis.at(Fraction(trial.suggest_float(name, 0.0, 1.0)))
    last = len(axis.levels) - 1
    firsts = [level[0] for level in axis.levels]
    numbers = all(type(value) in (int, float) for value in firsts)
    if numbers and (firsts == sorted(firsts) or firsts == sorted(firsts, reverse=True)):
        return axis.levels[trial.suggest_int(name, 0, last)]
    return axis.levels[trial.suggest_categorical(name, list(range(last + 1)))]


def optuna_module() -> Any:
    """Optuna, which says nothing; InputError without it."""
    try:
        optuna = import_module("optuna")
    except ImportError:
        rule = "a search needs Optuna, which is not installed"
        raise InputError(Problem("kbsim sweep run", rule, "search", remedy="pip install 'kernbench[search]'")) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class _Bisected:
    """The largest value of one axis whose results meet a condition, for each combination of the other axes.

    The condition must hold up to some value and not above it. Each step halves what is left; all combinations go together.
    """

    def __init__(self, spec: Spec) -> None:
        assert isinstance(spec.search, Largest)
        self.spec, self.search = spec, spec.search
        self._at = next(i for i, axis in enumerate(spec.axes) if axis.names == (self.search.axis,))
        self._levels = spec.axes[self._at].levels
        self._condition = Condition(self.search.meets)
        others = [axis.levels if i != self._at else ((None,),) for i, axis in enumerate(spec.axes)]
        self._places = [(machine, levels) for machine in spec.machine_of[0] for levels in product(*others)]
        self._holds = [-1] * len(self._places)  # position of the largest level known to meet it
        self._breaks = [len(self._levels)] * len(self._places)  # and of the smallest known not to
        self._asked: list[tuple[int, int]] = []

    def ask(self) -> list[Proposal]:
        open_ = [i for i in range(len(self._places)) if self._breaks[i] - self._holds[i] > 1]
        self._asked = [(i, (self._holds[i] + self._breaks[i]) // 2) for i in open_]
        return [self._proposal(i, level) for i, level in self._asked]

    def _proposal(self, i: int, level: int) -> Proposal:
        machine, levels = self._places[i]
        return Proposal(i, machine, (*levels[: self._at], self._levels[level], *levels[self._at + 1 :]))

    def tell(self, batch: Sequence[Proposal]) -> None:
        for (i, level), proposal in zip(self._asked, batch, strict=True):
            row, place = proposal.row, dict(zip(self.spec.names, proposal.values, strict=True))
            met = row is not None and row.status == "done" and keeps(row, place, (self._condition.text,))
            if met:
                self._holds[i] = level
            else:
                self._breaks[i] = level

    def found(self) -> list[tuple[dict[str, Any], Any]]:
        """For each combination the values of its axes, and the largest value; None if none meets the condition."""
        told = []
        several = len(self.spec.machine_of[0]) > 1
        for (machine, levels), level in zip(self._places, self._holds, strict=True):
            known = {} if not several else {"machine": self.spec.machines[machine].label}
            for axis, values in zip(self.spec.axes, levels, strict=True):
                if axis.names != (self.search.axis,):
                    known |= dict(zip(axis.names, values, strict=True))
            told.append((known, None if level < 0 else self._levels[level][0]))
        return told
