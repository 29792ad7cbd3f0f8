"""`kernbench.run`: runs a bench or a program on a machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kernbench.api.answer import Answer, Row
from kernbench.api.arguments import check_flag, check_params, check_path
from kernbench.api.targets import DEFAULT_MACHINE, Config, Overrides, Target, bench_of, machine_of, name_of, program_of
from kernbench.cmdq import Program
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import temporary_folder
from kernbench.common.json_shapes import counted
from kernbench.common.look.palette import colour, resource_of
from kernbench.config import MachineConfig
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api.bench import Bench
from kernbench.runtime_api.report import BenchReport, report
from kernbench.sim_engine.engine import GraphEngine
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording.options import TraceOptions
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.summary import BoundShare, bank_conflicts, bound_share, engine_uses
from kernbench.trace.reader import open_trace
from kernbench.trace.timeline import JOBS, KINDS, Timeline, read_timeline
from kernbench.trace.writer import TraceFile

if TYPE_CHECKING:
    from kernbench.api.why import Explanation


@dataclass(frozen=True, eq=False, repr=False)
class Run(Answer):
    """A run that has ended, as `kernbench.run` returns it.

    Cycles are cycles of the machine's clock, and `t_ns` is in nanoseconds. `to_frame` has these tables:

    - `jobs`: one row for each job, with `id`, `opcode`, `unit`, `kind`, `phase`, `issue`, `start`, `end`, `cycles` [cycle],
      `bytes` and `work` [MAC or op].
    - `engines`: one row for each engine. The columns `busy`, `bank_conflict`, `backpressure` and `idle` [cycle] add up to the
      cycles of the run. Further columns are `utilisation` (a share of 1), `jobs`, and `work` [B, MAC or op].
    - `resources`: one row for each DRAM channel and link, with `bytes`, `bytes_per_cycle`, `capacity` [B/cycle] and
      `utilisation`.
    - `launches`: one row for each kernel launch of a bench.

    >>> import kernbench as kb
    >>> run = kb.run("llama2-7b-decode", config="npu_server")
    >>> run.status, run.cycles
    ('done', 129813)
    >>> run.to_frame("engines").shape
    (12, 9)
    """

    tables: ClassVar[tuple[str, ...]] = ("jobs", "engines", "resources", "launches")

    target: str  #: the target as the user named it
    machine: MachineConfig
    result: Result
    report: BenchReport | None  #: of a bench
    again: Callable[[], Machine] = field(repr=False)  #: makes the machine of the same run again, at cycle 0
    _capacities: dict[str, float] = field(default_factory=dict, repr=False)  # [byte/cycle]

    @property
    def status(self) -> str:
        """done, aborted (at `max_cycles`), deadlock, or failed."""
        return self.result.status

    @property
    def cycles(self) -> int:
        """[cycle] The duration of the whole run."""
        return self.result.cycles

    @property
    def t_ns(self) -> float:
        """[ns] The duration of the whole run."""
        return self.result.t_ns

    @property
    def verified(self) -> bool | None:
        """Whether all outputs of a bench match its reference; None without `verify`."""
        return None if self.report is None or self.report.verification is None else self.report.verification.ok

    @property
    def bound(self) -> BoundShare:
        """The highest lower bound of the run's cycles, and its name: a resource, an engine or `critical path`."""
        return bound_share(self.result) if self.report is None else self.report.bound

    @property
    def metrics(self) -> Row:
        """The run's numbers by name: `cycles`, `t_ns`, `bound` [cycle], `bound_by`, `bound_share`, `dram_bytes`, `energy_pj`,
        `dma_busy`, `te_busy`, `ve_busy` (means over engines, shares of 1), `bank_denials` (share of requests)."""
        found: Row = {"cycles": self.cycles, "t_ns": self.t_ns, "bound": self.bound.cycles, "bound_by": self.bound.name}
        counters = self.result.counters
        found |= {"bound_share": self.bound.share, "energy_pj": self.result.metrics["energy_pj"]["total"]}
        found["dram_bytes"] = sum(c["bytes"] for name, c in counters.items() if naming.counted(name) == "dram")
        uses = list(engine_uses(self.result))
        for kind in ("dma", "te", "ve"):
            shares = [use.utilisation for use in uses if use.kind == kind]
            found[f"{kind}_busy"] = math.fsum(shares) / len(shares) if shares else 0.0
        return found | {"bank_denials": bank_conflicts(self.result).rate}

    @property
    def headline(self) -> str:
        bound = self.bound
        near = f", {bound.share:.0%} of the {bound.kind} bound reached" if self.status == "done" and bound.cycles else ""
        took = f"{counted(self.cycles, 'cycle')}, {self.t_ns:,.6g} ns"
        return f"{self.target} on {self.machine.source}: {self.status}, {took}{near}"

    @contextmanager
    def traced(self, level: str = "summary") -> Iterator[Path]:
        """Run again with a trace of level `level` (`summary`, `full`, `access`). The file exists inside the `with` block
        only."""
        with temporary_folder("the trace") as folder:
            path = folder / "run.jsonl"
            write_trace(self.again(), path, level)
            yield path

    @cached_property
    def timeline(self) -> Timeline:
        """Every job with its times; the run is repeated once for it."""
        with self.traced() as path:
            return read_timeline(open_trace(path))

    def why(self) -> Explanation:
        """The causes of the cycles on the critical path. The run is repeated once, with a full trace."""
        return self._why

    @cached_property
    def _why(self) -> Explanation:
        from kernbench.api.why import explained

        with self.traced("full") as path:
            return explained(path, self.target, self.machine.source)

    def rows(self, table: str) -> list[Row]:
        if table == "jobs":
            return job_rows(self.timeline)
        if table == "engines":
            names = ("name", "kind", "utilisation", "busy", "bank_conflict", "backpressure", "idle", "jobs", "work")
            return [{name: getattr(use, name) for name in names} for use in engine_uses(self.result)]
        if table == "launches":
            return [] if self.report is None else [_launch(one) for one in self.report.launches]
        return [self._resource(name, c) for name, c in self.result.counters.items() if name in self._capacities]

    def _resource(self, name: str, counters: Row) -> Row:
        rate = counters["bytes"] / self.cycles if self.cycles else 0.0
        capacity = self._capacities[name]
        kind = naming.counted(name)
        return {"name": name, "kind": kind, "bytes": counters["bytes"], "bytes_per_cycle": rate, "capacity": capacity,
                "utilisation": rate / capacity}  # fmt: skip

    def draw(self, ax: Any) -> None:
        """Draw the timeline, with one lane for each engine."""
        from kernbench.api.notebook import lanes_of

        lanes = lanes_of(self.timeline)
        for row, lane in enumerate(lanes.shown):
            height = 0.8 / len(lane.tracks)
            for k, track in enumerate(lane.tracks):
                ax.broken_barh(track.bars, (row - 0.4 + height * k, height), color=colour(resource_of(lane.kind)), linewidth=0)
        ax.set_yticks(range(len(lanes.shown)), [lane.name for lane in lanes.shown])
        ax.set_ylim(len(lanes.shown) - 0.5, -0.5)
        ax.set_xlim(0, max(1, self.cycles))
        ax.set_xlabel("cycle")
        ax.set_title(self.headline, fontsize="medium", loc="left")

    def _repr_html_(self) -> str:
        """HTML with the status, the bound, a timeline with zoom, and the engines. The HTML loads nothing from elsewhere."""
        from kernbench.api.notebook import run_html

        return run_html(self, self.__dict__.get("_why"))


def run(
    target: Target,
    config: Config | None = None,
    overrides: Overrides = (),
    *,
    verify: bool = False,
    strict_wait: bool = False,
    trace: str | Path | None = None,
    trace_level: str = "full",
    allow_code: AllowCode = (),
    **params: Any,
) -> Run:
    """Run a bench or a program to its end, as `kbsim run` does.

    - `target`: the name of a bench (`gemm`) or of a workload (`llama2-7b-decode`), a file (.py, .json, .yaml, .kbp), a
      `Program`, a `Bench`, or a program as a dict.
    - `config`: the name of a preset or chip, a file, a dict or a machine. The default is the machine that the bench names,
      otherwise `npu_server`.
    - `overrides`: values of the machine, such as `["dram.channels=4"]` or `{"dram.channels": 4}`.
    - `params`: parameters of the bench.
    - `verify`: whether the outputs of a bench are compared with the outputs of its reference.
    - `strict_wait`: whether it is an error if a kernel uses a tensor before it has waited for the tensor.
    - `trace`: a file to which a trace with the detail `trace_level` is written.
    - `allow_code`: the same as in `load_config`.

    A run that stops at `max_cycles` or in a deadlock raises no error; the `status` of the result says how it ended. The
    function raises InputError for arguments that are not valid, and KernelFailed if the code of a kernel raises an exception.

    >>> import kernbench as kb
    >>> kb.run("gemm", config="npu_server", m=256, n=256, k=256).cycles < kb.run("gemm", config="npu_server").cycles
    True
    """
    bench = bench_of(target)
    check_params(run, params, () if bench is None else bench.params)
    check_flag("kernbench.run", "verify", verify)
    check_flag("kernbench.run", "strict_wait", strict_wait)
    if trace is not None:
        check_path("trace", trace, "the name of a file")
    TraceOptions(trace_level)  # refuses an unknown level, also if no trace is written
    machine = machine_of(config or (DEFAULT_MACHINE if bench is None else bench.machine), overrides, allow_code=allow_code)
    if bench is not None:
        return _run_bench(bench, machine, params, verify=verify, strict_wait=strict_wait, trace=trace, level=trace_level)
    wrong = [name for name, given in (("verify", verify), ("strict_wait", strict_wait), *params.items()) if given]
    if wrong:
        rule = f"{', '.join(wrong)} is only for benches, and {name_of(target)} is not a bench"
        raise InputError(Problem("kernbench.run", rule, remedy="leave it out"))
    return _run_program(program_of(target, machine), name_of(target), machine, trace=trace, level=trace_level)


def _run_program(program: Program, name: str, config: MachineConfig, *, trace: str | Path | None, level: str) -> Run:
    def again() -> Machine:
        return Machine(config, program)

    machine = again()
    write_trace(machine, trace, level)
    return Run(name, config, machine.result(), None, again, _capacities(machine))


def _run_bench(
    bench: Bench, config: MachineConfig, params: Row, *, verify: bool, strict_wait: bool, trace: str | Path | None, level: str
) -> Run:
    engine = GraphEngine(config, op_log=verify, strict_wait=strict_wait)
    machine = engine.prepare(bench, **params)
    write_trace(machine, trace, level)
    engine.check()
    found = report(engine, verify=verify)

    def again() -> Machine:
        return GraphEngine(config, op_log=False, strict_wait=strict_wait).prepare(bench, **params)

    return Run(bench.name, config, found.result, found, again, _capacities(machine))


def write_trace(machine: Machine, path: str | Path | None, level: str) -> None:
    """Run a machine to its end; with a path, write a trace there."""
    if path is None:
        machine.run()
        return
    with TraceFile(path) as file:
        tracing = machine.trace(file, TraceOptions(level))
        machine.run()
        tracing.close()


def _capacities(machine: Machine) -> dict[str, float]:
    plan = machine.plan
    return {name: float(capacity) for name, capacity in zip(plan.resources, plan.capacities, strict=True)}


def _launch(launch: Any) -> Row:
    pes = asdict(launch).pop("pes")
    return {
        "name": launch.name, "issued": launch.issued, "start": launch.start, "end": launch.end, "cycles": launch.cycles,
        "pes": len(pes),
    }  # fmt: skip


def job_rows(timeline: Timeline) -> list[Row]:
    """The jobs of a timeline, in order of their starts."""
    spans, commands = timeline.spans, timeline.commands
    wanted = [KINDS.index(kind) for kind in JOBS]
    found: list[Row] = []
    for k in range(len(spans)):
        if int(spans["kind"][k]) not in wanted:
            continue
        span = spans.row(k)
        command = commands.row(span["command"]) if "command" in span else {}
        found.append(
            {
                "id": command.get("cmd_id"),
                "opcode": command.get("cmd_type"),
                "unit": timeline.units[span["unit"]].name,
                "kind": KINDS[span["kind"]].lower(),
                "phase": command.get("phase"),
                "issue": span.get("issue"),
                "start": span["start"],
                "end": None if span["open"] else span["end"],
                "cycles": span["end"] - span["start"],
                "bytes": command.get("bytes"),
                "work": command.get("work"),
            }
        )
    return sorted(found, key=lambda row: (row["start"], row["id"] or 0))
