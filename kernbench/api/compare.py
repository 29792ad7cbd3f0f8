"""`kernbench.compare`: one target on several machines, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from kernbench.api.answer import Answer, Row, html_block, html_table
from kernbench.api.run import Run, run
from kernbench.api.targets import Config, Overrides, Target, machine_of, name_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.look.palette import colour
from kernbench.config.allowed_code import AllowCode

LEAST = 0.02  #: of the longer run, for a difference between two groups to be told
MOST_REASONS = 3


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Answer):
    """Runs of one target, by the names of their machines. `kernbench.compare` makes it.

    Tables of `to_frame`: `machines`, a row a machine: `machine`, `status`, `cycles`, `t_ns`, `speedup` (time of the first
    machine over that of this one) and the numbers of `Run.metrics`; `why`: the time [ns] of each group of the critical path on
    each machine, for which every run is repeated with a trace.

    >>> import kernbench as kb
    >>> found = kb.compare("llama2-7b-decode", ["npu_mobile", "npu_server"])
    >>> found.fastest, found.to_frame()["machine"].to_list()
    ('npu_server', ['npu_mobile', 'npu_server'])
    """

    tables: ClassVar[tuple[str, ...]] = ("machines", "why")

    target: str
    runs: Mapping[str, Run]  #: by the name of the machine, in the order in which they were given

    def __getitem__(self, machine: str) -> Run:
        """The run on a machine, by its name; KeyError where there is none."""
        return self.runs[machine]

    @property
    def first(self) -> str:
        """The machine that others are compared with."""
        return next(iter(self.runs))

    @property
    def fastest(self) -> str:
        """The machine with the least time, of those on which the run is done; the first where it is done on none."""
        done = [name for name, one in self.runs.items() if one.status == "done"]
        return min(done, key=lambda name: self.runs[name].t_ns, default=self.first)

    @property
    def metrics(self) -> Row:
        """[ns] of each machine."""
        return {name: one.t_ns for name, one in self.runs.items()}

    @property
    def headline(self) -> str:
        slowest = max(self.runs, key=lambda name: self.runs[name].t_ns)
        fast, slow = self.runs[self.fastest], self.runs[slowest]
        if slowest == self.fastest or not fast.t_ns:
            return f"{self.target}: all machines take the same time"
        return f"{self.target}: {self.fastest} is {slow.t_ns / fast.t_ns:.3g} times as fast as {slowest}"

    def why(self) -> str:
        """What takes more or less time than on the first machine: a line a machine. Runs are repeated with a trace."""
        return "\n".join(self._difference(name) for name in self.runs if name != self.first)

    def _difference(self, name: str) -> str:
        before, after = self._times(self.first), self._times(name)
        whole = max(self.runs[name].t_ns, self.runs[self.first].t_ns)
        changes = {group: after.get(group, 0.0) - before.get(group, 0.0) for group in {**before, **after}}
        told = sorted((one for one in changes.items() if abs(one[1]) >= LEAST * whole), key=lambda one: -abs(one[1]))
        words = [f"{group} {change:+,.0f} ns" for group, change in told[:MOST_REASONS]]
        return f"{name} against {self.first}: {', '.join(words) or 'no group differs by much'}"

    def _times(self, name: str) -> dict[str, float]:
        """[ns] of each group of a machine's critical path."""
        found = self.runs[name]
        scale = found.t_ns / found.cycles if found.cycles else 0.0
        return {group: cycles * scale for group, cycles in found.why().metrics.items()}

    def rows(self, table: str) -> list[Row]:
        if table == "machines":
            base = self.runs[self.first].t_ns
            return [
                {"machine": name, "status": one.status, "cycles": one.cycles, "t_ns": one.t_ns,
                 "speedup": base / one.t_ns if one.t_ns else None}
                | {key: value for key, value in one.metrics.items() if key not in ("cycles", "t_ns")}
                for name, one in self.runs.items()
            ]  # fmt: skip
        every = {name: self._times(name) for name in self.runs}
        groups = dict.fromkeys(group for times in every.values() for group in times)
        return [{"group": group} | {name: times.get(group, 0.0) for name, times in every.items()} for group in groups]

    def draw(self, ax: Any) -> None:
        """A bar a machine: its time."""
        names = list(self.runs)
        bars = ax.barh(names, [self.runs[name].t_ns for name in names], color=colour("accent"))
        ax.bar_label(bars, [f"{self.runs[name].cycles:,} cycles" for name in names], padding=4)
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
    """Run a target on several machines: names, files, dicts or machines, or a mapping of names of your own to them.

    `overrides` and `params` hold for all of them, and everything else is as of `run`. InputError as of `run`, for fewer than
    two machines, and for two of one name.

    >>> import kernbench as kb
    >>> found = kb.compare("gemm", {"1 TE": {"te": {"engines": 1}}, "2 TE": {"te": {"engines": 2}}}, m=256, n=256, k=256)
    >>> found["2 TE"].cycles < found["1 TE"].cycles
    True
    """
    named: dict[str, Config] = {}
    for name, config in configs.items() if isinstance(configs, Mapping) else ((_name(one), one) for one in configs):
        if name in named:
            raise InputError(Problem("kernbench.compare", f"two machines are called {name}", remedy="give a mapping of names"))
        named[name] = config
    if len(named) < 2:
        raise InputError(Problem("kernbench.compare", "it takes two machines or more", "configs", list(named)))
    runs = {
        name: run(target, machine_of(config, overrides, allow_code=allow_code), allow_code=allow_code, **params)
        for name, config in named.items()
    }
    return Comparison(name_of(target), runs)


def _name(config: Config) -> str:
    return config if isinstance(config, str) else machine_of(config).source
