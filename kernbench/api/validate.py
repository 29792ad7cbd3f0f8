"""`kernbench.validate`: compares the simulator with closed forms and published figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kernbench.api.answer import Answer, Row
from kernbench.api.arguments import check_kind, names_checked
from kernbench.common.look.palette import colour
from kernbench.validate.page import headline
from kernbench.validate.run import Options, Runner, SuiteRun, chosen, run_suites


@dataclass(frozen=True, eq=False, repr=False)
class Validation(Answer):
    """The result of validation suites, as `kernbench.validate` returns it.

    The table of `to_frame` has one row for each comparison: `suite`, `case`, `expected` (the middle of a range), `simulated`,
    `unit`, `error` and `allowed` (both relative), and `verdict`.

    >>> import kernbench as kb
    >>> found = kb.validate("tensor")
    >>> found.ok, found.to_frame()["suite"].unique().to_list()
    (True, ['tensor'])
    """

    tables: ClassVar[tuple[str, ...]] = ("rows",)

    suites: tuple[SuiteRun, ...]

    @property
    def ok(self) -> bool:
        """Whether every error is within its tolerance."""
        return not any(suite.failed for suite in self.suites)

    @property
    def metrics(self) -> Row:
        """The largest relative error of each suite that ran, among the rows that have a tolerance."""
        judged = {suite.data.suite: [abs(row.error) for row in suite.rows if row.allowed is not None] for suite in self.suites}
        return {name: float(max(errors)) for name, errors in judged.items() if errors}

    @property
    def headline(self) -> str:
        return headline(list(self.suites))

    def rows(self, table: str) -> list[Row]:
        return [self._row(suite.data.suite, row.to_dict()) for suite in self.suites for row in suite.rows]

    def _row(self, suite: str, row: Row) -> Row:
        ends = row["expected"]
        expected = sum(ends) / 2 if isinstance(ends, list) else ends
        plain = {"suite": suite, "case": row["case"], "expected": float(expected), "simulated": float(row["ours"])}
        return plain | {name: row[name] for name in ("unit", "error", "allowed", "verdict")}

    def draw(self, ax: Any) -> None:
        """The error of each row, by suite."""
        for place, suite in enumerate(self.suites):
            marks = {"pass": ("o", colour("soft")), "fail": ("x", colour("fail")), "info": ("o", colour("other"))}
            for verdict, (marker, hue) in marks.items():
                errors = [float(row.error) for row in suite.rows if row.verdict == verdict]
                ax.scatter(errors, [place] * len(errors), s=14, marker=marker, color=hue)
        ax.axvline(0, color=colour("soft"), linewidth=0.8)
        ax.set_yticks(range(len(self.suites)), [suite.data.suite for suite in self.suites])
        ax.invert_yaxis()
        ax.set_xlabel("relative error")
        ax.set_title(self.headline, fontsize="medium", loc="left")


@names_checked
def validate(
    suites: str | Sequence[str] = (),
    *,
    quick: bool = False,
    scalesim: str | Path | None = None,
    topologies: str | Path | None = None,
    traces: str | Path | None = None,
    ramulator: str | Path | None = None,
    booksim: str | Path | None = None,
) -> Validation:
    """Run validation suites, by default all of them, as `kbsim validate` does.

    - `suites`: the names of suites.
    - `quick`: whether fewer rows of each kind are run.
    - `scalesim`: a Python interpreter that can import SCALE-Sim.
    - `topologies`: a folder of layers for SCALE-Sim.
    - `traces`: a folder of recorded NoC traces.
    - `ramulator`, `booksim`: folders with results of Ramulator 2 and BookSim2.

    Suites and rows that need such data are skipped without it. The function raises InputError for an unknown suite.

    >>> import kernbench as kb
    >>> kb.validate(["tensor", "vector"], quick=True).ok
    True
    """
    check_kind("suites", suites, (str, Sequence), "the name of a suite or a list of names")
    names = chosen([suites] if isinstance(suites, str) else list(suites))
    places = {"scalesim": scalesim, "topologies": topologies, "traces": traces, "ramulator": ramulator, "booksim": booksim}
    options = Options(quick=quick, **{name: None if place is None else Path(place) for name, place in places.items()})
    return Validation(tuple(run_suites(names, Runner(options))))
