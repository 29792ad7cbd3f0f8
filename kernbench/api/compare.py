"""`kernbench.compare`: one target on several machines, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from kernbench.analysis.case import Outcome
from kernbench.analysis.compare import Compared, compare_machines
from kernbench.api.answer import Answer, Row, html_block, html_table
from kernbench.api.arguments import check_kind
from kernbench.api.targets import DEFAULT_MACHINE, Config, Overrides, Target, case_of, machine_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.look.palette import colour
from kernbench.config.allowed_code import AllowCode
from kernbench.config.load import preset_names


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Answer):
    """Runs of one target on several machines, as `kernbench.compare` returns them.

    `to_frame` has these tables:

    - `machines`: one row for each machine, with `machine`, `status`, `cycles`, `t_ns`, `speedup` and the numbers of
      `Run.metrics`. The speedup is the time on the first machine divided by the time on this machine.
    - `why`: the time [ns] of each cause on the critical path, for each machine. For this table, every run is repeated with a
      trace.

    >>> import kernbench as kb
    >>> found = kb.compare("llama2-7b-decode", ["npu_mobile", "npu_server"])
    >>> found.fastest, found.to_frame()["machine"].to_list()
    ('npu_server', ['npu_mobile', 'npu_server'])
    """

    tables: ClassVar[tuple[str, ...]] = ("machines", "why")

    found: Compared

    def __getitem__(self, machine: str) -> Outcome:
        """The result on one machine (`cycles`, `t_ns`, `status`, `bounds`, `metrics`). KeyError for an unknown name."""
        return self.found.outcomes[machine]

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.found.target

    @property
    def first(self) -> str:
        """The machine with which the other machines are compared."""
        return self.found.first

    @property
    def fastest(self) -> str:
        """The machine with the least time among those on which the run is done; the first machine if there is none."""
        return self.found.fastest

    @property
    def metrics(self) -> Row:
        """[ns] The time on each machine."""
        return {name: one.t_ns for name, one in self.found.outcomes.items()}

    @property
    def headline(self) -> str:
        return self.found.sentence

    def why(self) -> str:
        """One line for each machine: the causes that take more or less time than on the first machine. The runs are repeated
        with a trace.
        """
        return "\n".join(self._difference(name) for name in self.found.outcomes if name != self.first)

    def _difference(self, name: str) -> str:
        words = [f"{change.cause} {change.ns:+,.0f} ns" for change in self.found.changes(name)]
        return f"{name} against {self.first}: {', '.join(words) or 'no cause differs by much'}"

    def rows(self, table: str) -> list[Row]:
        outcomes = self.found.outcomes
        if table == "machines":
            return [
                {"machine": name, "status": one.status, "cycles": one.cycles, "t_ns": one.t_ns,
                 "speedup": self.found.speedup(name)}
                | {key: value for key, value in one.metrics.items() if key not in ("cycles", "t_ns")}
                for name, one in outcomes.items()
            ]  # fmt: skip
        every = {name: self.found.times(name) for name in outcomes}
        causes = dict.fromkeys(cause for times in every.values() for cause in times)
        return [{"cause": cause} | {name: times.get(cause, 0.0) for name, times in every.items()} for cause in causes]

    def draw(self, ax: Any) -> None:
        """Draw one bar for the time of each machine."""
        outcomes = self.found.outcomes
        bars = ax.barh(list(outcomes), [one.t_ns for one in outcomes.values()], color=colour("accent"))
        ax.bar_label(bars, [f"{one.cycles:,} cycles" for one in outcomes.values()], padding=4)
        ax.invert_yaxis()
        ax.margins(x=0.2)
        ax.set_xlabel("ns")
        ax.set_title(self.headline, fontsize="medium", loc="left")

    def _repr_html_(self) -> str:
        columns = ("machine", "status", "cycles", "t_ns", "speedup", "bound", "bound_by", "bound_share")
        rows = [{name: row[name] for name in columns} for row in self.rows("machines")]
        return html_block(f"<p><b>{escape(self.headline)}</b></p>", html_table(rows))


def compare(
    target: Target,
    configs: Iterable[Config] | Mapping[str, Config],
    overrides: Overrides = (),
    *,
    allow_code: AllowCode = (),
    **params: Any,
) -> Comparison:
    """Run a target on several machines, and compare the runs.

    - `target` and `params`: the same as in `whatif`, so a language model or a graph is also possible. `params` hold for all
      machines.
    - `configs`: names, files, dicts or machines, or a mapping from names of your choice to machines.
    - `overrides`: values that hold for all machines.
    - `allow_code`: the same as in `load_config`.

    The function raises InputError in the same cases as `run`, for fewer than two machines, and for two machines with the same
    name.

    >>> import kernbench as kb
    >>> found = kb.compare("gemm", {"1 TE": {"te": {"engines": 1}}, "2 TE": {"te": {"engines": 2}}}, m=256, n=256, k=256)
    >>> found["2 TE"].cycles < found["1 TE"].cycles
    True
    """
    if isinstance(configs, (str, os.PathLike)):
        rule = "a comparison needs a list of at least two machines"
        given = os.fspath(configs)
        names = [name.strip() for name in given.split(",") if name.strip()]
        if len(names) < 2:
            names = [given, next(name for name in (DEFAULT_MACHINE, *preset_names()) if name != given)]
        raise InputError(Problem("compare", rule, "configs", given, f"give {names}"))
    check_kind("configs", configs, Iterable, "a list of machines or a mapping from names to machines")
    named: dict[str, Config] = {}
    for name, config in configs.items() if isinstance(configs, Mapping) else ((_name(one), one) for one in configs):
        if name in named:
            raise InputError(
                Problem(
                    "compare", f"two machines are called {name}", remedy="give a mapping from different names to the machines"
                )
            )
        named[name] = config
    machines = {name: machine_of(config, overrides, allow_code=allow_code) for name, config in named.items()}
    return Comparison(compare_machines(case_of(target, params, allow_code=allow_code, function=compare), machines))


def _name(config: Config) -> str:
    return config if isinstance(config, str) else machine_of(config).source
