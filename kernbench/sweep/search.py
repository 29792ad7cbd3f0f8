"""Searches: points of a sweep are chosen by the results of earlier points.

Points are proposed in batches. A batch is proposed when all results of the previous batch are known. Therefore the points
depend only on the spec, and not on the computers that run them or on their speed. An interrupted search is repeated from its
first batch. Results in the store are not computed again, so the search quickly reaches the point where it was interrupted (ADR
57).
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

#: a search ends if this number times the number of trials is exceeded by proposals that are not points of the sweep
MAX_REFUSED = 20


@dataclass
class Proposal:
    """A combination of levels that a searcher proposes, and the result of the proposal."""

    number: int
    machine: int  #: index in the spec's machines
    levels: tuple[Level, ...]
    point: Point | None = None  #: None if conditions exclude the combination, or if it is not valid
    row: Row | None = None  #: None if the point was not run
    #: [goal] lower bound of a point that was not run because this bound is worse than the best result
    bound: Fraction | None = None

    @property
    def values(self) -> tuple[Any, ...]:
        """The values for the spec's names, in order."""
        return tuple(value for level in self.levels for value in level)


class Searcher(Protocol):
    """An algorithm that chooses points."""

    def ask(self) -> list[Proposal]:
        """The next batch; empty at the end of the search."""
        ...

    def tell(self, batch: Sequence[Proposal]) -> None:
        """Receive the results of a batch, in the order of the batch."""
        ...


@dataclass
class Searched:
    """The progress of a search."""

    points: Points
    outcome: Outcome
    proposals: int = 0
    pruned: int = 0  #: number of points that were not run because their lower bound was worse than the best result
    largest: list[tuple[dict[str, Any], Any]] = field(default_factory=list)  #: values of other axes, and the largest value


class Feed:
    """Tasks for an executor, which arrive in batches. An empty feed may get more tasks before its end."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def put(self, tasks: Sequence[Task]) -> None:
        """Append tasks."""
        self._tasks = self._tasks[::-1] + list(tasks)
        self._tasks.reverse()

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        if not self._tasks:
            raise StopIteration
        return self._tasks.pop()


class Search:
    """One search, run to its end or to its budget. `searched` is valid at any time."""

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
        self._best: Fraction | None = None  # best value of the goal if points are pruned; smaller is better
        self._writer = Writer(store, self.searched.outcome, stored)
        self._feed = Feed()
        self._begin = time.monotonic()

    def run(self) -> Searched:
        """Run the search. Points with results belong to the sweep in the store, also after an interrupt."""
        try:
            with closing(self.executor.results(self._feed)) as results:
                while not self.searched.outcome.stopped and (batch := self.searcher.ask()):
                    self._batch(batch, results)
                    self.searcher.tell(batch)
        except BaseException:
            with suppress(InputError):  # the store itself may have failed
                self._keep()
            raise
        self._keep()
        if isinstance(self.searcher, _Bisected):
            self.searched.largest = self.searcher.found()
        return self.searched

    def _keep(self) -> None:
        """Store the pending results and the points so far."""
        self.searched.outcome.points = len(self.searched.points)
        try:
            self._writer.write()
        finally:
            keep_sweep(self.store, self.searched.points)

    def _batch(self, batch: Sequence[Proposal], results: Iterator[Row | None]) -> None:
        """Run a batch and return its results."""
        self.searched.proposals += len(batch)
        wanted: dict[str, Task] = {}
        for proposal in batch:
            proposal.point = self._point(proposal)
            if proposal.point is not None and proposal.point.task.key not in self._rows:
                wanted[proposal.point.task.key] = proposal.point.task
        # Bounds are computed before the store is read, so that the searcher learns the same with any results of other sweeps in
        # the store.
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
        """Take the results that are in the store."""
        for key, row in self.store.sound_rows(list(wanted)).items():
            if row.ended or not self.retry:
                self._rows[key] = row
                self.searched.outcome.known += 1

    def _close(self, proposal: Proposal, pruned: dict[str, Fraction]) -> None:
        """Complete a proposal, and note whether its result is the best so far."""
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
        """The point; None if the proposal is not a point. InputError if the machine is not valid, unless the spec skips invalid
        machines."""
        if not place_holds(self.spec, 0, proposal.machine, proposal.values):
            return None
        try:
            return Point(0, proposal.values, self._keys.task(0, proposal.machine, proposal.values))
        except InputError as error:
            if not self.spec.skip_invalid:
                raise InputError([placed(self.spec, proposal.values, problem) for problem in error.problems]) from None
            return None

    def _hopeless(self, task: Task) -> Fraction | None:
        """The lower bound of a point that cannot be better than the best result."""
        search, target = self.spec.search, self.spec.targets[0]
        if not isinstance(search, Sampled) or not search.prune or self._best is None or self.spec.goals not in PRUNED:
            return None
        if not isinstance(target, (ProgramTarget, WorkloadTarget)):
            return None
        try:
            config = self.spec.machines[task.machine].again(task.settings)
            machine = target.longest(config, task.params)[1]
            cycles = machine.bounds.cycles
        except InputError:  # the run reports the error
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


#: Goals for which a lower bound of cycles can show that a point is not the best.
PRUNED = ((("ns", "min"),), (("cycles", "min"),))


def _score(row: Row, goal: tuple[str, str]) -> Fraction | None:
    """A row's number for a goal, where smaller is better."""
    value = goal_value(row, goal[0]) if row.status == "done" else None
    return None if value is None else -value if goal[1] == "max" else value


class _Drawn:
    """A search by a sampler of Optuna."""

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
        if self._left <= 0 or self._refused > MAX_REFUSED * self.search.trials:
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
        """The values that Optuna learns: the goals, or the bound of a point that was not run; nothing for a point without a
        result."""
        if proposal.bound is not None:
            return [float(proposal.bound)]
        if proposal.row is None or proposal.row.status != "done":
            return None
        values = [goal_value(proposal.row, name) for name, _ in self.spec.goals]
        return None if None in values else [float(value) for value in values if value is not None]


def _suggested(trial: Any, axis: Axis) -> Level:
    """A level of an axis: numbers are ordered, and all other values are categories."""
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
    """The module of Optuna with its log switched off; InputError if Optuna is not installed."""
    try:
        optuna = import_module("optuna")
    except ImportError:
        rule = "a search needs Optuna, which is not installed"
        raise InputError(Problem("kbsim sweep run", rule, "search", remedy="pip install 'kernbench[search]'")) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class _Bisected:
    """The largest value of one axis whose results meet a condition, for each combination of the other axes.

    The condition must hold up to some value, and must not hold above this value. Each step halves the remaining interval; all
    combinations advance together.
    """

    def __init__(self, spec: Spec) -> None:
        assert isinstance(spec.search, Largest)
        self.spec, self.search = spec, spec.search
        self._at = next(i for i, axis in enumerate(spec.axes) if axis.names == (self.search.axis,))
        self._levels = spec.axes[self._at].levels
        self._condition = Condition(self.search.meets)
        others = [axis.levels if i != self._at else ((None,),) for i, axis in enumerate(spec.axes)]
        self._places = [(machine, levels) for machine in spec.machine_of[0] for levels in product(*others)]
        self._holds = [-1] * len(self._places)  # position of the largest level for which the condition is known to hold
        # position of the smallest level for which the condition is known not to hold
        self._breaks = [len(self._levels)] * len(self._places)
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
        """For each combination, the values of its axes and the largest value; None if no value meets the condition."""
        pairs: list[tuple[dict[str, Any], Any]] = []
        several = len(self.spec.machine_of[0]) > 1
        for (machine, levels), level in zip(self._places, self._holds, strict=True):
            known = {} if not several else {"machine": self.spec.machines[machine].label}
            for axis, values in zip(self.spec.axes, levels, strict=True):
                if axis.names != (self.search.axis,):
                    known |= dict(zip(axis.names, values, strict=True))
            pairs.append((known, None if level < 0 else self._levels[level][0]))
        return pairs
