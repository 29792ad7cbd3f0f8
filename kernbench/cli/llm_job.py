"""What `kbsim llm` does with what it is asked: machine, model and bits put together, runs, programs, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli import output
from kernbench.cli.machines import warn_of_values
from kernbench.cli.options import max_cycles_of
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.cli.tracing import Traced
    from kernbench.sim_engine.tracing import TraceOptions
    from kernbench.workloads.llm_report import LlmReport
    from kernbench.workloads.llm_shards import Reduction
    from kernbench.workloads.llm_steps import LlmPrograms

COMPARED = ("w", "a", "kv", "prompt", "batch", "page", "tp")
MOST_RUNS = 64


@dataclass(frozen=True)
class Asked:
    """The options of a run."""

    model: str
    config: str
    overrides: tuple[str, ...]
    allow_code: tuple[str, ...]
    phase: str
    prompt: int
    tokens: int
    batch: int
    layers: int | None
    w: int | None = None
    a: int | None = None
    kv: int | None = None
    policy: Path | None = None
    page: int = 0
    tp: int = 1
    reduction: Reduction = "direct"

    def with_bits(
        self, w: int | None, a: int | None, kv: int | None, policy: Path | None, page: int, tp: int, reduction: Reduction
    ) -> Asked:
        """The same with these."""
        return replace(self, w=w, a=a, kv=kv, policy=policy, page=page, tp=tp, reduction=reduction)

    def programs(self) -> LlmPrograms:
        """Everything lowered to a plan. InputError where something does not fit."""
        from kernbench.config import load_config
        from kernbench.workloads.llm_steps import PHASES, Job, LlmPrograms
        from kernbench.workloads.model_files import load_model
        from kernbench.workloads.precision import load_precision, uniform_precision

        bits = {"w": self.w, "a": self.a, "kv": self.kv}
        model = load_model(self.model)
        stated = model.stated
        precision = uniform_precision(stated, **bits) if self.policy is None else load_precision(self.policy, stated, **bits)
        phases = PHASES if self.phase == "both" else tuple(phase for phase in PHASES if phase == self.phase)
        job = Job(
            prompt=self.prompt,
            tokens=self.tokens,
            batch=self.batch,
            layers=self.layers,
            phases=phases,
            page_tokens=self.page,
            shards=self.tp,
            reduction=self.reduction,
        )
        machine = load_config(self.config, list(self.overrides), allow_code=self.allow_code)
        limit = max_cycles_of(self.overrides, machine)
        return LlmPrograms(model, precision, machine, job, max_cycles=limit)


def check_files(
    files: dict[str, Path | None], plot: Path | None, read: Sequence[str | Path | None], traced: Traced, *, compared: bool
) -> None:
    """Refuse, before any work, files that would not be written, or over what is `read`: InputError says why.

    So are options of a trace without one.
    """
    from kernbench.common.files import check_apart, check_writable

    wanted = {f"--{name.replace('_', '-')}": path for name, path in files.items() if path is not None}
    if "--emit" in wanted and "--trace" in wanted:
        raise _refused("with --emit nothing is run, so there is no trace", "--trace", wanted["--trace"])
    if compared:
        for option, path in wanted.items():
            raise _refused("a comparison writes a plot alone", option, path, "leave it out, or run that case by itself")
    if plot is not None and plot.suffix.lower() not in (".svg", ".png"):
        raise _refused("its name must end in .svg or .png", "--plot", plot)
    live_map = files["live_map"]
    if live_map is not None and live_map.suffix.lower() != ".svg":
        raise _refused("its name must end in .svg", "--live-map", live_map)
    for place in (*wanted.values(), plot):
        if place is not None:
            check_writable(place)
    check_apart((*wanted.values(), plot), read)
    traced.options("kbsim llm", files["trace"])


def _tell_notes(asked: Asked, quiet: bool) -> None:
    """What of the model's file is not used."""
    from kernbench.workloads.model_files import load_model

    for note in () if quiet else load_model(asked.model).notes:
        output.note(f"warning: {note}")


def _refused(rule: str, option: str, path: Path, remedy: str = "") -> InputError:
    return InputError(Problem("kbsim llm", rule, option, str(path), remedy))


def run_job(
    asked: Asked, files: dict[str, Path | None], traced: Traced, *, reuse: bool, as_json: bool, quiet: bool
) -> LlmReport | None:
    """Runs it and writes the `files` that are wanted; None where a program was wanted instead of a run.

    `traced`: what was said of the trace.
    """
    programs = asked.programs()
    _tell_notes(asked, quiet)
    warn_of_values(programs.target, quiet=quiet)
    if files["live_map"] is not None:
        _draw_live_map(programs, files["live_map"], quiet=quiet or as_json)
    if files["emit"] is not None:
        write_program(programs, files["emit"], as_json=as_json, quiet=quiet)
        return None
    if files["trace"] is not None:
        write_trace(programs, files["trace"], traced.options("kbsim llm", files["trace"]), quiet=quiet or as_json)
    return run_one(programs, reuse=reuse, quiet=quiet or as_json)


def _draw_live_map(programs: LlmPrograms, path: Path, *, quiet: bool) -> None:
    from kernbench.common.files import write_whole
    from kernbench.workloads.live_map import live_map_svg

    step = programs.steps[-1]
    write_whole(path, live_map_svg(programs.plan(programs.shapes[0], step).scratchpad).encode())
    if not quiet:
        output.note(f"{path}: the buffers of a layer in {step.phase}")


def run_one(programs: LlmPrograms, *, reuse: bool, quiet: bool) -> LlmReport:
    """Runs it, with a bar on a terminal."""
    from kernbench.cli.progress import counting_bar
    from kernbench.workloads.llm_report import report_of
    from kernbench.workloads.llm_run import run_llm

    with counting_bar(not quiet, "segments") as progress:
        return report_of(run_llm(programs, reuse=reuse, progress=progress))


def write_program(programs: LlmPrograms, path: Path, *, as_json: bool, quiet: bool) -> None:
    """Writes all of it as one program."""
    from kernbench.cli.render_program import tell_written
    from kernbench.cmdq import check_program
    from kernbench.config import NpuConfig

    program = programs.whole_program()
    if isinstance(programs.target, NpuConfig):
        check_program(program, programs.target)
    program.save(path)
    layouts = ""
    if programs.added is not None:
        tables = ", ".join(f"{{t_max: {kv.t_max}, head_dim: {kv.head_dim}}}" for kv in programs.machine.kv_layouts)
        layouts = f"kv_layouts=[{tables}]"
    tell_written(path, len(program), programs.machine.source, layouts, as_json=as_json, quiet=quiet)


def write_trace(programs: LlmPrograms, path: Path, options: TraceOptions | None, *, quiet: bool) -> None:
    """Runs all of it as one program, for its trace."""
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.tracing import traced
    from kernbench.sim_engine.machine import Machine

    machine = Machine(programs.target, programs.whole_program())
    with traced(machine, path, options), progress_bar(not quiet) as progress:
        machine.run(progress=progress)


def compare_runs(asked: Asked, wanted: Sequence[str], plot: Path | None, *, as_json: bool, quiet: bool) -> int:
    """Runs each combination of the values, and shows them side by side."""
    from kernbench.cli.llm_compare import comparison_table, draw_comparison

    axes = [_axis(text) for text in wanted]
    for i, (name, _) in enumerate(axes):
        if name in [other for other, _ in axes[:i]]:
            raise InputError(Problem("--compare", f"{name} is compared twice", remedy="give all its values at once"))
    cases = _cases(asked, axes)
    _tell_notes(asked, quiet)
    every = [(label, case.programs()) for label, case in cases]
    warn_of_values(every[0][1].target, quiet=quiet)
    found = [(label, run_one(programs, reuse=True, quiet=quiet or as_json)) for label, programs in every]
    if plot is not None:
        draw_comparison(found, plot)
    if as_json:
        output.show_json({"status": "done", "runs": [{"case": label, **report.to_dict()} for label, report in found]})
    elif not quiet:
        output.show([comparison_table(found)])
    return output.OK


def _axis(text: str) -> tuple[str, list[int]]:
    name, _, values = text.partition("=")
    if name not in COMPARED:
        raise InputError(Problem("--compare", f"it must be WHAT=V,V,... with WHAT one of {', '.join(COMPARED)}", "WHAT", name))
    numbers = values.split(",")
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
        raise InputError(Problem("--compare", "its values must be whole numbers with commas between them", name, values))
    return name, [int(number) for number in numbers]


def _cases(asked: Asked, axes: Sequence[tuple[str, list[int]]]) -> list[tuple[dict[str, int], Asked]]:
    """Every combination, the last axis fastest."""
    if not axes:
        raise InputError(Problem("kbsim llm", "a plot is of a comparison", "--plot", remedy="add --compare"))
    cases: list[tuple[dict[str, int], Asked]] = [({}, asked)]
    for name, values in axes:
        cases = [({**label, name: value}, _changed(case, name, value)) for label, case in cases for value in values]
    if len(cases) > MOST_RUNS:
        raise InputError(Problem("--compare", f"at most {MOST_RUNS} combinations are run", "combinations", len(cases)))
    return cases


def _changed(asked: Asked, name: str, value: int) -> Asked:
    changes: dict[str, int] = {name: value}
    return replace(asked, **changes)  # type: ignore[arg-type]  # a field of COMPARED is an int
