"""`kernbench.sweep`: runs many points, and shows which axes their results depend on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from kernbench.api.answer import Answer, Row, html_block, html_table
from kernbench.api.arguments import check_count, check_kind, check_mapping, check_path, names_checked
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import parse_rational
from kernbench.config.allowed_code import AllowCode
from kernbench.sweep.executors.choice import executor_for
from kernbench.sweep.goals import goal_value
from kernbench.sweep.points import points_of
from kernbench.sweep.report.analysis import Influence, influences, pareto, ranked
from kernbench.sweep.report.page import page_bytes
from kernbench.sweep.report.table import Entry, SweepTable, dicts, plain_text, read_table
from kernbench.sweep.runner import run_missing
from kernbench.sweep.search import Search
from kernbench.sweep.spec import SCHEMA
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.store.sweeps import keep_sweep


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult(Answer):
    """A sweep and its results, as `kernbench.sweep` and `kernbench.read_sweep` return them.

    `to_frame` has these tables:

    - `points`: one row for each point, with `target`, `machine`, the axes, `status`, `cycles`, `ns` and the numbers of the run.
    - `axes`: one row for each axis, with `share` and `best`. The share is the share of the variance of the first goal that the
      values of the axis explain, and `best` is the best value of the axis.

    >>> import kernbench as kb
    >>> found = kb.sweep("gemm", {"te.engines": [1, 2], "param.m": [128, 256]}, config="npu_mobile", threads=None, jobs=1)
    >>> len(found), found.best["te.engines"], found.best["param.m"]
    (4, 2, 128)
    """

    tables: ClassVar[tuple[str, ...]] = ("points", "axes")

    table: SweepTable

    def __len__(self) -> int:
        return len(self.table.entries)

    @property
    def goal(self) -> tuple[str, str]:
        """The first goal: a column, and `min` or `max`."""
        return self.table.goals[0]

    @property
    def best(self) -> Row:
        """The best point by the first goal: its axes, and the goal. InputError if no point is done."""
        found = ranked(self.table, self.goal)
        if not found:
            raise InputError(Problem(self.table.name, "no point of the sweep is done, so there is no best point"))
        return self._point(found[0])

    @property
    def front(self) -> list[Row]:
        """The Pareto front: no other point is at least as good as these by every goal, and better by one goal."""
        return [self._point(entry) for entry in pareto(self.table, self.table.goals)]

    def _point(self, entry: Entry) -> Row:
        assert entry.row is not None
        known = {"ns": float(parse_rational(entry.row.ns or 0)), "cycles": entry.row.cycles, **entry.row.metrics}
        goals = [name for name, _ in self.table.goals]
        computed = {name: value for name in goals if name not in known and (value := goal_value(entry.row, name)) is not None}
        known |= {name: float(value) for name, value in computed.items()}
        return self.table.place(entry) | {name: known[name] for name in goals}

    @property
    def metrics(self) -> Row:
        """The number of points by status, and the best value of the first goal as `best`, if a point is done."""
        counts: Row = {}
        for entry in self.table.entries:
            counts[entry.status] = counts.get(entry.status, 0) + 1
        return counts | ({"best": self.best[self.goal[0]]} if ranked(self.table, self.goal) else {})

    @property
    def headline(self) -> str:
        if not ranked(self.table, self.goal):
            return f"{self.table.name}: {len(self)} points, none of them done"
        best, axes = self.best, self._influences()
        place = ", ".join(f"{name}={plain_text(best[name])}" for name in self.table.names if name in best)
        most = f"; {axes[0].name} matters most" if axes else ""
        return f"{self.table.name}: {len(self)} points; best {self.goal[0]} {best[self.goal[0]]:,.6g} at {place}{most}"

    def _influences(self) -> Sequence[Influence]:
        return influences(self.table, self.goal)

    def rows(self, table: str) -> list[Row]:
        if table == "points":
            return [{**row, "ns": None if row["ns"] is None else float(parse_rational(row["ns"]))} for row in dicts(self.table)]
        return [{"axis": one.name, "share": one.share, "best": one.best, "gain": one.gain} for one in self._influences()]

    def draw(self, ax: Any) -> None:
        """Draw the first goal over the axis that matters most, with one point for each run."""
        axes, goal = self._influences(), self.goal[0]
        done = ranked(self.table, self.goal)
        name = axes[0].name if axes else (self.table.names or ("target",))[0]
        values = [self.table.place(entry).get(name, entry.number) for entry in done]
        numbers = all(isinstance(value, (int, float)) for value in values)
        across = values if numbers else [plain_text(value) for value in values]
        ax.scatter(across, [self._point(one)[goal] for one in done], s=18)
        ax.set_xlabel(name)
        ax.set_ylabel(goal)
        ax.set_title(self.headline, fontsize="medium", loc="left")

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the page of `kbsim sweep report` to this file, without the explanations of `why`. InputError if the file
        cannot be written.
        """
        from kernbench.common.files import check_writable, write_whole

        check_writable(path)
        write_whole(Path(path), page_bytes(self.table, self.table.goals, {}))

    def _repr_html_(self) -> str:
        rows = [self._point(entry) for entry in ranked(self.table, self.goal)]
        return html_block(f"<p><b>{escape(self.headline)}</b></p>", html_table(rows, 20))


@names_checked
def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    axes: Mapping[str, Any] | None = None,
    *,
    config: str | os.PathLike[str] | Sequence[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    goals: Mapping[str, str] | None = None,
    store: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    allow_code: AllowCode = (),
) -> SweepResult:
    """Run every point of a sweep that has no result yet, as `kbsim sweep run` does.

    - `spec`: a file or a dict of `kernbench/sweep/1`. With `axes`, it is the target: the name of a bench or workload, a file,
      or a mapping as in a sweep file (`{"llm": "llama2-7b"}`).
    - `axes`: values of the machine (`dram.channels`) or parameters (`param.m`), each with a list or a range.
    - `config`: a preset or a file, or several of them.
    - `overrides`: values that hold for all points.
    - `goals`: the metrics and their directions, such as `{"ns": "min"}`.
    - `store`: a file in which results are stored and looked up. Without it, results are not stored.
    - `jobs`: the number of processes; the default is one for each processor.
    - `threads`: the number of threads of this process, instead of processes. Only programs can use threads.
    - `allow_code`: the same as in `load_config`.

    The function raises InputError in the same cases as `kbsim sweep run`.

    >>> import kernbench as kb
    >>> kb.sweep("llama2-7b-decode", {"dram.channels": [2, 4]}, config="npu_mobile", threads=1).best["dram.channels"]
    4
    """
    check_kind("spec", spec, (str, os.PathLike, Mapping), "a file or a mapping, or with axes the name of a target")
    check_mapping("axes", axes, "a mapping such as {\"dram.channels\": [2, 4]}")
    check_mapping("overrides", overrides, "a mapping such as {\"dram.channels\": 4}")
    check_mapping("goals", goals, "a mapping such as {\"ns\": \"min\"}")
    check_kind("config", config, (str, os.PathLike, Sequence, type(None)), "the name or file of a machine, or a list of them")
    for name, number in (("jobs", jobs), ("threads", threads)):
        check_count("kernbench.sweep", name, number)
    given = _spec_of(spec, axes, config, overrides, goals)
    read = load_spec(given, allow_code=allow_code)
    chosen = executor_for(read, jobs=jobs, threads=threads, dask=False, scheduler=None)
    with TemporaryDirectory(prefix="kernbench-") as folder, Store.write(store or Path(folder) / "sweep.sqlite") as opened:
        if read.search is not None:
            Search(read, opened, chosen).run()
        else:
            points = points_of(read)
            keep_sweep(opened, points)
            run_missing(points.points, opened, chosen, budget=read.budget)
        return SweepResult(read_table(opened, read.name))


@names_checked
def read_sweep(store: str | os.PathLike[str], name: str | None = None) -> SweepResult:
    """Return the results of an earlier sweep, read from its store.

    `store` is the file in which the sweep stored its results. If the store has several sweeps, `name` selects one. The function
    raises InputError for an unknown store or sweep.

    >>> import kernbench as kb
    >>> kb.read_sweep("nowhere.sqlite")
    Traceback (most recent call last):
    kernbench.common.errors.InputError: nowhere.sqlite: there is no such store; to make a store, use kbsim sweep run
    """
    check_path("store", store, "the file of a store")
    with Store.read(store) as opened:
        return SweepResult(read_table(opened, name))


def _spec_of(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    axes: Mapping[str, Any] | None,
    config: str | os.PathLike[str] | Sequence[str] | None,
    overrides: Mapping[str, Any] | None,
    goals: Mapping[str, str] | None,
) -> str | os.PathLike[str] | Mapping[str, Any]:
    """The spec in the form that `load_spec` takes."""
    more = {"config": config, "overrides": overrides, "goals": goals}
    if axes is None:
        wrong = [name for name, value in more.items() if value is not None]
        if wrong:
            rule = f"{', '.join(wrong)} is only valid together with axes, because a sweep file has its own keys for it"
            raise InputError(Problem("kernbench.sweep", rule, remedy="give axes, or set it in the sweep file"))
        return spec
    target = spec if isinstance(spec, Mapping) else os.fspath(spec)
    made: dict[str, Any] = {"schema": SCHEMA, "targets": [target], "axes": dict(axes)}
    if config is not None:
        made["machine"] = os.fspath(config) if isinstance(config, (str, os.PathLike)) else list(config)
    if overrides is not None:
        made["set"] = dict(overrides)
    if goals is not None:
        made["goals"] = dict(goals)
    return made
