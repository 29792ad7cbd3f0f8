"""`kbsim llm`: a language model on a machine: tokens a second, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.mistakes import option_meant
from kernbench.cli.options import (
    AllowCode,
    Config,
    Json,
    Overrides,
    Quiet,
    TraceCycles,
    TraceLevel,
    TraceWindow,
    Walk,
    max_cycles_of,
)
from kernbench.cli.target import note_chips, note_machine
from kernbench.cli.text import WAIT, Justify, duration, headed, percent, scaled, short, size_text, table, unit
from kernbench.cli.tracing import Traced
from kernbench.cli.values import count_of
from kernbench.common.errors import ABSENT, InputError, Problem, shown
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.cli.tracing import Traced
    from kernbench.common.look.palette import Theme
    from kernbench.config import NpuConfig, SystemConfig
    from kernbench.sim_engine.recording import TraceOptions
    from kernbench.workloads.llm.model import Model
    from kernbench.workloads.llm.reductions import Reduction
    from kernbench.workloads.llm.report import LlmReport, PhaseReport
    from kernbench.workloads.llm.steps import Job, LlmPrograms
    from kernbench.workloads.models.precision import Precision
    from kernbench.workloads.parallel.programs import ParallelPrograms
    from kernbench.workloads.parallel.search import Candidate as Found

COMPARED = ("w", "a", "kv", "prompt", "batch", "page", "tp", "cp", "pp", "dp", "micro_batches")


class Phases(StrEnum):
    """Which phases are run."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"


ModelName = Annotated[
    str, typer.Option("--model", "-m", metavar="NAME|FILE", help="A model's name, or a Hugging Face config.json.")
]
Phase = Annotated[Phases, typer.Option("--phase", help="Phases to run. Decode starts after the prompt.")]
Prompt = Annotated[int, typer.Option("--prompt", metavar="N", parser=count_of, help="Length of the prompt in tokens: 512, 8k.")]
Tokens = Annotated[int, typer.Option("--tokens", metavar="N", parser=count_of, help="Tokens to decode per sequence.")]
Source = Annotated[
    int,
    typer.Option(
        "--source",
        metavar="N",
        help="Number of tokens that an encoder reads for each sequence. With 0, a speech model reads 30 s of audio, and any "
        "other model reads as many tokens as --prompt gives.",
    ),
]
Batch = Annotated[int, typer.Option("--batch", metavar="N", help="Number of sequences in a batch.")]
Layers = Annotated[int | None, typer.Option("--layers", metavar="N", help="Run only the first N layers.", show_default="all")]
WeightBits = Annotated[int | None, typer.Option("--w", metavar="BITS", help="Bits of weights.", show_default="4")]
ActivationBits = Annotated[int | None, typer.Option("--a", metavar="BITS", help="Bits of activations.", show_default="8")]
KvBits = Annotated[int | None, typer.Option("--kv", metavar="BITS", help="Bits of the KV cache.", show_default="4")]
Policy = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="YAML file that sets the number of bits of tensors, by role, "
        "layer and head.",
        show_default=False)
]
Page = Annotated[
    int,
    typer.Option(
        "--page", metavar="N", help="Number of tokens in a page of the KV cache. The value 0 means a cache without pages."
    ),
]
Parallel = Annotated[int, typer.Option("--tp", metavar="N", help="Tensor parallelism: the number of PEs that share each "
    "layer of the model.")]
class RankKinds(StrEnum):
    """The meaning of one rank of --tp."""

    PE = "pe"
    CUBE = "cube"
    SIP = "sip"


RankKind = Annotated[RankKinds, typer.Option("--rank", help="Meaning of one rank in --tp: a PE, a cube or a SIP of a system. "
    "A cube or a SIP divides its share of each layer over all of its PEs.")]
Stages = Annotated[
    int,
    typer.Option(
        "--pp", metavar="N", help="Number of pipeline stages. Each pipeline stage runs a part of the layers on --tp PEs."
    ),
]
Micro = Annotated[
    int, typer.Option("--micro-batches", metavar="N", help="Number of parts (micro-batches) into which the batch is cut. "
        "Each pipeline stage works on one micro-batch at a time. With 0, the "
        "number of micro-batches equals the number of pipeline stages.")
]
Replicas = Annotated[int, typer.Option("--dp", metavar="N", help="Number of copies of the model. The copies share the batch.")]


Ranks = Annotated[int, typer.Option("--cp", metavar="N", help="Context parallelism: the number of ranks. Each rank holds a "
    "part of the tokens of each sequence, and the KV cache of these tokens. Each rank consists of --tp PEs and holds all "
    "weights.")]
OwnRows = Annotated[bool, typer.Option("--sp", help="Sequence parallelism: between the matrix products of a layer, each of the "
    "--tp PEs keeps only some rows of the activations. With --sp, a reduce-scatter and an all-gather replace each all-reduce.")]


class Searches(StrEnum):
    """How a layout is found."""

    AUTO = "auto"


Search = Annotated[
    Searches | None,
    typer.Option("--parallel", help="Run all layouts that fit the machine, and report which layout is the fastest and why. "
        "A layout is a choice of values for --tp, --cp, --pp, --dp and --sp.",
                 show_default=False),
]  # fmt: skip


class Reductions(StrEnum):
    """How PEs that share a model reduce partial sums."""

    DIRECT = "direct"
    RING = "ring"
    TORUS = "torus"
    TREE = "tree"
    RECURSIVE_DOUBLING = "recursive_doubling"
    AUTO = "auto"


Reduce = Annotated[
    Reductions,
    typer.Option(
        "--reduce",
        metavar="ALGO",
        help="Algorithm of the all-reduces between the --tp PEs: direct, ring, torus, tree, recursive_doubling, or auto (the "
        "fastest for each size).",
    ),
]
Experts = Annotated[bool, typer.Option("--ep", help="Expert parallelism: each of the --tp PEs holds some whole experts, "
    "instead of a part of every expert. With --dp, the experts are divided over the PEs of all copies of the model.")]
Prefetch = Annotated[bool, typer.Option("--prefetch-experts", help="Load the weights of all experts without waiting for the "
    "router. By default, the weights of an expert are loaded after the router has chosen the expert.")]
Predict = Annotated[bool, typer.Option("--mtp", help="Multi-token prediction: in each step, also run the blocks of the model "
    "that predict more than one token ahead.")]
Routes = Annotated[
    str,
    typer.Option(
        "--routing",
        metavar="even|uniform|zipf:S|FILE",
        help="How tokens choose experts. In a routing file, the key `shares` lists the share of the "
        "tokens that each expert gets.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed for the random routing of tokens to experts.")]
Compare = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="WHAT=V,V,...",
        help=f"Run once for each value V, and compare the runs. WHAT is one of {', '.join(COMPARED)}. May be repeated.",
        show_default=False,
    ),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the comparison as .svg or .png.", show_default=False)
]
Emit = Annotated[
    Path | None,
    typer.Option("--emit", metavar="FILE", help="Write the run as one program file, without running the program.",
        show_default=False),
]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Run the whole model once more as one program, and write the trace of this "
        "run.",
        show_default=False),
]
LiveMap = Annotated[
    Path | None,
    typer.Option("--live-map", metavar="FILE", help="Draw the scratchpad buffers of a layer, as an .svg file.",
        show_default=False),
]
ShowPlan = Annotated[
    bool, typer.Option("--plan", help="Show the plans that the planner compared for a layer, and the reason for its choice. "
        "The model is not run.")
]
HostProfile = Annotated[
    str | None, typer.Option("--runtime", metavar="NAME|FILE", show_default=False, help="For a chip or a board of chips: run "
        "the kernels of this runtime profile, and add the time of the host software. Without --runtime, kbsim plans the "
        "layers as for an NPU.")
]
NoReuse = Annotated[bool, typer.Option("--no-reuse", help="Simulate every layer of every step again, instead of reusing the "
    "result of an equal layer. Slower, same result.")]


def llm(
    model: ModelName = "llama2-7b",
    config: Config = "npu_server",
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    phase: Phase = Phases.BOTH,
    prompt: Prompt = 128,
    tokens: Tokens = 16,
    source: Source = 0,
    batch: Batch = 1,
    layers: Layers = None,
    w: WeightBits = None,
    a: ActivationBits = None,
    kv: KvBits = None,
    policy: Policy = None,
    page: Page = 0,
    tp: Parallel = 1,
    rank: RankKind = RankKinds.PE,
    pp: Stages = 1,
    micro_batches: Micro = 0,
    dp: Replicas = 1,
    cp: Ranks = 1,
    sp: OwnRows = False,
    parallel: Search = None,
    reduce: Reduce = Reductions.DIRECT,
    ep: Experts = False,
    prefetch_experts: Prefetch = False,
    mtp: Predict = False,
    routing: Routes = "even",
    seed: Seed = 0,
    runtime: HostProfile = None,
    compare: Compare = None,
    plot: Plot = None,
    emit: Emit = None,
    trace: Trace = None,
    trace_level: TraceLevel = None,
    trace_window: TraceWindow = None,
    trace_cycles: TraceCycles = None,
    live_map: LiveMap = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot or --live-map: use dark colours.")] = False,
    no_reuse: NoReuse = False,
    plan: ShowPlan = False,
    walk: Walk = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a language model on a machine, and report the tokens per second and what limits this rate."""

    options = LlmOptions(
        model, config, tuple(overrides or ()), tuple(allow_code or ()), phase.value, prompt, tokens, batch, layers
    )
    options = replace(options.with_bits(w, a, kv, policy, page, tp, reduce.value), ep=ep, mtp=mtp, routing=routing, seed=seed)
    options = replace(options, rank=rank.value, pp=pp, dp=dp, cp=cp, sp=sp, micro_batches=micro_batches, source=source)
    options = replace(options, prefetch_experts=prefetch_experts)
    files, traced = {"emit": emit, "trace": trace, "live_map": live_map}, Traced(trace_level, trace_window, trace_cycles)
    check_files(files, plot, (model, config, policy), traced, compared=bool(compare))
    if dark and plot is None and live_map is None:
        raise InputError(Problem("kbsim llm", "it is for pictures", "--dark", remedy="add --plot or --live-map"))
    theme: Theme = "dark" if dark else "light"
    if runtime is not None:
        from kernbench.cli.llm_chip import AXES, check_options, run_cases

        others = {
            "--source": source, "--layers": layers,
            "--policy": policy, "--page": page, "--rank": rank.value != "pe", "--pp": pp > 1, "--micro-batches": micro_batches,
            "--dp": dp > 1, "--cp": cp > 1, "--sp": sp, "--parallel": parallel, "--reduce": reduce.value != "direct",
            "--ep": ep, "--prefetch-experts": prefetch_experts, "--mtp": mtp, "--routing": routing != "even", "--plot": plot,
            "--emit": emit, "--trace": trace, "--live-map": live_map, "--no-reuse": no_reuse, "--plan": plan, "--walk": walk,
        }  # fmt: skip
        check_options({name: bool(value) for name, value in others.items()})
        cases = _cases(options, [_axis(text, AXES) for text in compare]) if compare else [({}, options)]
        return run_cases(cases, runtime, as_json=as_json, quiet=quiet)
    if parallel is not None:
        return search_layouts(options, compared=bool(compare) or plot is not None, files=files, as_json=as_json, quiet=quiet)
    if plan:
        return _show_plans(options.programs(), as_json=as_json)
    if compare or plot is not None:
        return compare_runs(options, compare or [], plot, theme, as_json=as_json, quiet=quiet)
    report = run_job(options, files, traced, theme, reuse=not no_reuse, as_json=as_json, quiet=quiet)
    return _shown(report, as_json=as_json, quiet=quiet)


def _show_plans(programs: LlmPrograms | ParallelPrograms, *, as_json: bool) -> int:
    """Show the plans that the planner compared for the first layer of each phase's first step."""
    from kernbench.workloads.planner import TENSORS, Candidate, compared_plans

    programs = _first_stage(programs)
    job, shape = programs.job, programs.shapes[0]
    _check_planned(programs, "--plan")
    summed = programs.sums_of(shape)
    steps = {step.phase: step for step in reversed(programs.steps)}
    found = {
        phase: compared_plans(shape, programs.machine, step.tokens, step.context, job.batch, job.page_tokens, summed)
        for phase, step in reversed(steps.items())
    }

    def facts(one: Candidate) -> dict[str, Any]:
        plan = one.plan
        head: dict[str, Any] = {"tile_bytes": one.level.tile_bytes, "tiles": one.level.weight_tiles, "verdict": one.verdict}
        if plan is None:
            return head | {"block_tokens": None, "resident": None, "least_cycles": None, "dram_bytes": None}
        stays = sorted(plan.resident)
        blocks = list(plan.block_tokens)
        return head | {
            "block_tokens": blocks, "resident": stays, "least_cycles": plan.least_cycles, "dram_bytes": plan.dram_bytes,
        }  # fmt: skip

    plans = {phase: [facts(one) for one in candidates] for phase, candidates in found.items()}
    if as_json:
        output.show_json({"model": programs.model.name, "machine": programs.machine.source, "plans": plans})
        return output.OK
    note = "a layer's products and transfers at full rate; the first within 5% of the best is used"
    columns: list[tuple[str, Justify]] = [(name, "left") for name in ("weights", "tokens", "stays")]
    columns += [("cycles", "right"), ("", "left")]
    for phase, rows in plans.items():
        made = table(f"Plans of a layer, {phase}", columns, note)
        for row in rows:
            blocks = ", ".join(map(str, dict.fromkeys(row["block_tokens"] or ())))
            cycles = "n/a" if row["least_cycles"] is None else f"{row['least_cycles']:,}"
            stays = "n/a" if row["resident"] is None else ", ".join(row["resident"]) or "nothing"
            stays = "all" if len(row["resident"] or ()) == len(TENSORS) else stays
            made.add_row(f"{row['tiles']} x {size_text(row['tile_bytes'])}", blocks, stays, cycles, row["verdict"])
        output.show([made])
    return output.OK


def _first_stage(programs: LlmPrograms | ParallelPrograms) -> LlmPrograms:
    """The programs of one group of PEs: of a pipeline those of the first stage."""
    from kernbench.workloads.llm.steps import LlmPrograms as OfOneGroup

    return programs if isinstance(programs, OfOneGroup) else programs.stage(0, programs.sizes[0])


def _check_planned(programs: LlmPrograms, option: str) -> None:
    """InputError if the layers are lowered part by part, which has no plan to show."""
    from kernbench.workloads.blocks.programs import BlockPrograms

    if isinstance(programs, BlockPrograms):
        rule = f"the layers of {programs.model.name} are lowered part by part, without a plan"
        raise InputError(Problem("kbsim llm", rule, option, remedy=f"run it without {option}"))


def _shown(report: LlmReport | None, *, as_json: bool, quiet: bool) -> int:
    """Show a run (None: a program was written), and return the exit code."""

    if report is not None and as_json:
        output.show_json(report.to_dict())
    elif report is not None and not quiet:
        output.show(llm_summary(report))
    return output.OK


MAX_RUNS = 64


@dataclass(frozen=True)
class LlmOptions:
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
    ep: bool = False
    prefetch_experts: bool = False
    mtp: bool = False
    routing: str = "even"
    seed: int = 0
    pp: int = 1
    dp: int = 1
    micro_batches: int = 0
    source: int = 0
    cp: int = 1
    sp: bool = False
    rank: str = "pe"

    def with_bits(
        self, w: int | None, a: int | None, kv: int | None, policy: Path | None, page: int, tp: int, reduction: Reduction
    ) -> LlmOptions:
        """The same with these."""
        return replace(self, w=w, a=a, kv=kv, policy=policy, page=page, tp=tp, reduction=reduction)

    def programs(self) -> LlmPrograms | ParallelPrograms:
        """Lower everything to a plan. InputError if something does not fit."""
        from kernbench.workloads.parallel.layout import Layout, layout_in_ranks
        from kernbench.workloads.parallel.run import job_programs

        model, precision, machine, job, limit = self.parts()
        layout = Layout(self.tp, self.pp, self.dp, self.micro_batches, self.cp, self.sp)
        layout = layout_in_ranks(layout, self.rank, machine)
        return job_programs(model, precision, machine, job, layout, max_cycles=limit)

    def parts(self) -> tuple[Model, Precision, NpuConfig | SystemConfig, Job, int | None]:
        """The model, its bits, the machine, the job and the limit. InputError if something is wrong with one of them."""
        from kernbench.config import load_config
        from kernbench.workloads.llm.steps import PHASES, Job
        from kernbench.workloads.models.files import load_model
        from kernbench.workloads.models.precision import load_precision, uniform_precision
        from kernbench.workloads.routing import routing_of

        bits = {"w": self.w, "a": self.a, "kv": self.kv}
        model = load_model(self.model)
        stated = model.stated
        precision = uniform_precision(stated, **bits) if self.policy is None else load_precision(self.policy, stated, **bits)
        phases = PHASES if self.phase == "both" else tuple(phase for phase in PHASES if phase == self.phase)
        job = Job(
            prompt=self.prompt,
            tokens=self.tokens,
            source=self.source,
            batch=self.batch,
            layers=self.layers,
            phases=phases,
            page_tokens=self.page,
            shards=self.tp,
            reduction=self.reduction,
            routing=routing_of(self.routing, self.seed),
            expert_parallel=self.ep,
            prefetch_experts=self.prefetch_experts,
            predicting=self.mtp,
        )
        machine = load_config(self.config, list(self.overrides), allow_code=self.allow_code)
        return model, precision, machine, job, max_cycles_of(self.overrides, machine)


def check_files(
    files: dict[str, Path | None], plot: Path | None, read: Sequence[str | Path | None], traced: Traced, *, compared: bool
) -> None:
    """Refuse, before any work, output files that would not be written or that are also inputs (`read`). Raises InputError.

    Trace options without --trace are refused too.
    """
    from kernbench.common.files import check_apart, check_writable

    wanted = {f"--{name.replace('_', '-')}": path for name, path in files.items() if path is not None}
    if "--emit" in wanted and "--trace" in wanted:
        raise _refused("--emit runs nothing, so there is no trace", "--trace", wanted["--trace"])
    if compared:
        for option, path in wanted.items():
            raise _refused(
                "a comparison writes only a plot", option, path, "leave the option out, or run a single case without --compare"
            )
    if plot is not None and plot.suffix.lower() not in (".svg", ".png"):
        raise _refused("the file name must end in .svg or .png", "--plot", plot)
    live_map = files["live_map"]
    if live_map is not None and live_map.suffix.lower() != ".svg":
        raise _refused("the file name must end in .svg", "--live-map", live_map)
    for place in (*wanted.values(), plot):
        if place is not None:
            check_writable(place)
    check_apart((*wanted.values(), plot), read)
    traced.options("kbsim llm", files["trace"])


def _print_notes(options: LlmOptions, quiet: bool) -> None:
    """Print which keys of the model's file are not used, and which of its bits an option replaces."""
    from kernbench.workloads.models.files import load_model

    if quiet:
        return
    model = load_model(options.model)
    for note in model.notes:
        output.note(f"warning: {note}")
    for name in ("w", "a", "kv"):
        given, stated = getattr(options, name), getattr(model.stated, name)
        if given is not None and stated is not None and given != stated:
            output.note(f"--{name} {given} is used instead of the {stated} bits in the file of {model.name}")


def _refused(rule: str, option: str, path: Path, remedy: str = "") -> InputError:
    return InputError(Problem("kbsim llm", rule, option, str(path), remedy))


def run_job(
    options: LlmOptions, files: dict[str, Path | None], traced: Traced, theme: Theme, *, reuse: bool, as_json: bool, quiet: bool
) -> LlmReport | None:
    """Run the job and write the requested `files`; None if a program was requested instead of a run.

    `traced`: the trace options.
    """
    programs = options.programs()
    _print_notes(options, quiet)
    note_machine(programs.target, quiet=quiet)
    note_chips([programs.target], quiet=quiet)
    if files["live_map"] is not None:
        _draw_live_map(programs, files["live_map"], theme, quiet=quiet or as_json)
    if files["emit"] is not None:
        write_program(programs, files["emit"], as_json=as_json, quiet=quiet)
        return None
    if files["trace"] is not None:
        write_trace(programs, files["trace"], traced.options("kbsim llm", files["trace"]), quiet=quiet or as_json)
    return run_one(programs, reuse=reuse, quiet=quiet or as_json)


def _draw_live_map(programs: LlmPrograms | ParallelPrograms, path: Path, theme: Theme, *, quiet: bool) -> None:
    from kernbench.common.files import write_whole
    from kernbench.workloads.layer.live_map import live_map_svg

    programs = _first_stage(programs)
    _check_planned(programs, "--live-map")
    step = programs.steps[-1]
    write_whole(path, live_map_svg(programs.plan(programs.shapes[0], step).scratchpad, theme=theme).encode())
    if not quiet:
        output.note(f"{path}: the buffers of a layer in {step.phase}")


def run_one(programs: LlmPrograms | ParallelPrograms, *, reuse: bool, quiet: bool) -> LlmReport:
    """Run the job, with a progress bar on a terminal."""
    from kernbench.cli.progress import counting_bar
    from kernbench.workloads.llm.report import report_of
    from kernbench.workloads.parallel.run import run_model

    with counting_bar(not quiet, "segments") as progress:
        return report_of(run_model(programs, reuse=reuse, progress=progress))


def write_program(programs: LlmPrograms | ParallelPrograms, path: Path, *, as_json: bool, quiet: bool) -> None:
    """Write the whole run as one program."""
    from kernbench.cli.program import report_written
    from kernbench.cmdq import check_program

    program = programs.whole_program()
    check_program(program, programs.target)
    program.save(path)
    layouts = ""
    if programs.added is not None:
        tables = ", ".join(f"{{t_max: {kv.t_max}, head_dim: {kv.head_dim}}}" for kv in programs.machine.kv_layouts)
        layouts = f"kv_layouts=[{tables}]"
    report_written(path, len(program), programs.machine.source, layouts, as_json=as_json, quiet=quiet)


def write_trace(programs: LlmPrograms | ParallelPrograms, path: Path, options: TraceOptions | None, *, quiet: bool) -> None:
    """Run everything as one program, to trace it."""
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.tracing import traced
    from kernbench.sim_engine.machine import Machine

    machine = Machine(programs.target, programs.whole_program())
    with traced(machine, path, options), progress_bar(not quiet) as progress:
        machine.run(progress=progress)


def compare_runs(
    options: LlmOptions, wanted: Sequence[str], plot: Path | None, theme: Theme, *, as_json: bool, quiet: bool
) -> int:
    """Run each combination of the values, and compare the runs."""

    axes = [_axis(text) for text in wanted]
    for i, (name, _) in enumerate(axes):
        if name in [other for other, _ in axes[:i]]:
            raise InputError(Problem("--compare", f"{name} is compared twice", remedy="give all its values at once"))
    cases = _cases(options, axes)
    _print_notes(options, quiet)
    every = [(label, case.programs()) for label, case in cases]
    note_machine(every[0][1].target, quiet=quiet)
    note_chips([every[0][1].target], quiet=quiet)
    found = [(label, run_one(programs, reuse=True, quiet=quiet or as_json)) for label, programs in every]
    if plot is not None:
        draw_comparison(found, plot, theme)
    if as_json:
        output.show_json({"status": "done", "runs": [{"case": label, **report.to_dict()} for label, report in found]})
    elif not quiet:
        output.show([comparison_table(found)])
    return output.OK


def _axis(text: str, known: Sequence[str] = COMPARED) -> tuple[str, list[int]]:
    name, _, values = text.partition("=")
    if name not in known:
        near = option_meant(f"--{name}", [f"--{one}" for one in known]).removeprefix("--")
        names = ", ".join(known)
        rule = f"runs cannot be compared by {shown(name)}; choose one of {names}"
        raise InputError(Problem("--compare", rule, remedy=f"did you mean {near}={values}?" if near else ""))
    try:
        numbers = [count_of(number) for number in values.split(",")]
    except ValueError:
        numbers = [-1]
    if not all(0 <= number < 10**9 for number in numbers):
        rule, example = "the values must be whole numbers separated by commas", "1k,2k,4k" if name == "prompt" else "1,2,4"
        raise InputError(Problem("--compare", rule, name, values or ABSENT, f"write --compare {name}={example}"))
    return name, numbers


def _cases(options: LlmOptions, axes: Sequence[tuple[str, list[int]]]) -> list[tuple[dict[str, int], LlmOptions]]:
    """Every combination, the last axis fastest."""
    if not axes:
        raise InputError(Problem("kbsim llm", "a plot is of a comparison", "--plot", remedy="add --compare prompt=1k,2k,4k"))
    cases: list[tuple[dict[str, int], LlmOptions]] = [({}, options)]
    for name, values in axes:
        cases = [({**label, name: value}, _changed(case, name, value)) for label, case in cases for value in values]
    if len(cases) > MAX_RUNS:
        raise InputError(
            Problem("--compare", f"the number of combinations must be at most {MAX_RUNS}", "combinations", len(cases))
        )
    return cases


def _changed(options: LlmOptions, name: str, value: int) -> LlmOptions:
    changes: dict[str, int] = {name: value}
    return replace(options, **changes)  # type: ignore[arg-type]  # a field of COMPARED is an int


def search_layouts(
    options: LlmOptions, *, compared: bool, files: dict[str, Path | None], as_json: bool, quiet: bool
) -> int:
    """Run the layouts that fit, and show them with the fastest first."""
    from kernbench.cli.progress import counting_bar
    from kernbench.workloads.parallel.search import search

    for option, path in files.items():
        if path is not None:
            raise _refused(
                "a search for a layout cannot write this file",
                f"--{option}",
                path,
                "run the search first, then the fastest layout",
            )
    if compared:
        raise InputError(
            Problem("kbsim llm", "the search compares layouts already", "--parallel", remedy="leave out --compare")
        )
    given = [name for name in ("tp", "cp", "pp", "dp", "sp") if getattr(options, name) > (name != "sp")]
    given += ["rank"] * (options.rank != "pe")
    if given:
        rule = f"the search finds {', '.join(f'--{name}' for name in given)} itself"
        raise InputError(Problem("kbsim llm", rule, "--parallel", "auto", "leave them out, or leave out --parallel"))
    model, precision, machine, job, limit = options.parts()
    _print_notes(options, quiet)
    note_machine(machine, quiet=quiet)
    with counting_bar(not (quiet or as_json), "layouts") as progress:
        found = search(model, precision, machine, job, max_cycles=limit, progress=progress)
    if as_json:
        output.show_json({
            "status": "done",
            "layouts": [
                {
                    **one.layout.to_dict(), "pes": one.layout.pes, "least_bytes": one.least_bytes, "estimate": one.estimate,
                    "cycles": one.cycles, "verdict": one.verdict,
                    "tokens_per_s": None if one.report is None else one.report.tokens_per_s,
                }
                for one in found
            ],
            "best": found[0].report.to_dict() if found[0].report is not None else None,
        })  # fmt: skip
    elif not quiet:
        output.show([layout_table(found)])
        if found[0].report is not None:
            output.show(["", *llm_summary(found[0].report)])
    return output.OK


SHOWN = 16  #: layouts of a table


def layout_table(found: Sequence[Found]) -> Table:
    """A row for each layout: those that ran, and the nearest estimates."""
    columns: list[tuple[str, Justify]] = [(name, "right") for name in ("tp", "cp", "pp", "dp", "PEs", "DRAM", "time")]
    note = f"{len(found):,} fit; DRAM: weights and caches of the fullest PE"
    made = table("Layouts", [*columns, ("tokens/s", "right"), ("", "left")], note)
    made.columns[-1].no_wrap = False
    for one in found[:SHOWN]:
        cut, report = one.layout, one.report
        time = rate = "n/a"
        if report is not None and one.cycles is not None:
            time = duration(report.ns(one.cycles), 4)
            rate = "n/a" if report.tokens_per_s is None else short(report.tokens_per_s)
        shards = f"{cut.tp:,} sp" if cut.sp else f"{cut.tp:,}"
        sizes = (shards, f"{cut.cp:,}", f"{cut.pp:,}", f"{cut.dp:,}", f"{cut.pes:,}", unit(one.least_bytes, "B"))
        made.add_row(*sizes, time, rate, one.verdict)
    return made


Runs = Sequence[tuple[dict[str, int], "LlmReport"]]


def comparison_table(runs: Runs) -> Table:
    """One row per run: the decode phase if there is one, else the prefill."""
    names = list(runs[0][0])
    columns: list[Any] = [(name, "right") for name in names]
    phases = runs[0][1].phases
    latencies = [name for name, phase in (("TTFT", "prefill"), ("TPOT", "decode")) if phase in phases]
    columns += [(name, "right") for name in ("tokens/s", *latencies, "B/token", "KV")]
    made = table("Comparison", [*columns, ("J/token", "right"), ("bound by", "left")])
    made.columns[-1].no_wrap = False
    for label, report in runs:
        phase = list(report.phases.values())[-1]
        rate = report.tokens_per_s or report.rate(phase)
        times = [duration(ns, 4) for ns in (report.ttft_ns, report.tpot_ns) if ns is not None]
        moved = phase.total.bytes
        nbytes = [unit(phase.per_token(count), "B") for count in (sum(moved.values()), moved["kv"])]
        energy = scaled(phase.per_token(sum(phase.total.energy_pj.values())), ("pJ", "nJ", "uJ", "mJ", "J"))
        made.add_row(*(f"{label[name]:,}" for name in names), short(rate), *times, *nbytes, energy, phase.reason)
    return made


def draw_comparison(runs: Runs, path: Path, theme: Theme) -> None:
    """Draw tokens per second, and DRAM bytes per token by role, with one bar for each run."""
    from kernbench.common.files import write_whole

    write_whole(path, comparison_picture(runs, path.suffix.lower().removeprefix("."), theme))


def comparison_picture(runs: Runs, form: str, theme: Theme = "light") -> bytes:
    """The picture; the same runs and version of matplotlib give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    from kernbench.common.look.palette import slots
    from kernbench.common.look.plots import saved, settings

    labels = [", ".join(f"{name} {value:,}" for name, value in label.items()) for label, _ in runs]
    phases = [list(report.phases.values())[-1] for _, report in runs]
    rates = [report.tokens_per_s or report.rate(phase) for (_, report), phase in zip(runs, phases, strict=True)]
    totals = [phase.per_token(sum(phase.total.bytes.values())) for phase in phases]
    scale, prefix = (1e9, "GB") if max(totals) >= 1e9 else (1e6, "MB")
    with matplotlib.rc_context(settings(theme)):
        figure = Figure(figsize=(10, 1.8 + 0.34 * len(runs)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        places = range(len(runs))
        left.bar_label(left.barh(places, rates, color=slots(theme)[0]), [short(rate) for rate in rates], padding=3)
        left.margins(x=0.12)  # for the numbers
        left.set_yticks(places, labels)
        left.invert_yaxis()
        left.set_xlabel("tokens/s")
        starts = [0.0] * len(runs)
        for role, colour in zip(("weights", "kv", "activations"), slots(theme), strict=False):
            sizes = [phase.per_token(phase.total.bytes[role]) / scale for phase in phases]
            bars = right.barh(places, sizes, left=starts, color=colour, label={"kv": "KV"}.get(role, role))
            starts = [start + size for start, size in zip(starts, sizes, strict=True)]
        right.bar_label(bars, [unit(total, "B") for total in totals], padding=3)
        right.margins(x=0.16)
        right.set_xlabel(f"DRAM bytes per token [{prefix}]")
        figure.legend(*right.get_legend_handles_labels(), ncols=3, loc="outside upper right")
        return saved(figure, form)


_JOULE = ("pJ", "nJ", "uJ", "mJ", "J")


def llm_summary(report: LlmReport) -> Iterator[RenderableType]:
    """The output of `kbsim llm`."""
    yield from _head(report)
    yield ""
    yield _phases(report)
    for phase in report.phases.values():
        yield ""
        yield from _why(phase)
    yield ""
    yield _bytes(report)
    if any(phase.kinds for phase in report.phases.values()):
        yield ""
        yield _segments(report)
    if any(phase.collectives for phase in report.phases.values()):
        yield ""
        yield _collectives(report)
    energy = [line for phase in report.phases.values() for line in _energy(phase)]
    energy += [line for phase in report.phases.values() for line in _cost(report, phase)]
    if energy:
        yield ""
        yield from energy


def _head(report: LlmReport) -> Iterator[widgets.Text]:
    run = report.run
    programs, job = run.programs, run.programs.job
    line = widgets.Text()
    if report.tokens_per_s is not None and report.tpot_ns is not None:
        line.append(f"{short(report.tokens_per_s)} tokens/s", "bold").append(f"  TPOT {duration(report.tpot_ns)}")
    if report.ttft_ns is not None:
        line.append("  " if line else "").append(f"TTFT {duration(report.ttft_ns)}", "" if line else "bold")
    yield line
    layers = programs.layers if programs.layers == programs.model.layers else f"{programs.layers} of {programs.model.layers}"
    batch = f"{counted(job.batch, 'sequence')} of " if job.batch > 1 else ""
    decoded = f", {counted(job.tokens, 'token')} decoded" if "decode" in job.phases else ""
    what = f"{batch}{counted(job.prompt, 'token')} of {'prompt' if 'prefill' in job.phases else 'context'}{decoded}"
    mixed = " mixed" if programs.precision.roles or programs.precision.layers else ""
    yield widgets.Text(f"{programs.model.name} {programs.shapes[0].precision}{mixed} on {programs.machine.source}: {what}")
    used = f"{size_text(-(-programs.dram.end // (1 << 20)) << 20)} of {size_text(programs.machine.dram.capacity_bytes)} of DRAM"
    pes = job.shards * job.groups if report.layout is None else report.layout.pes
    if pes > 1:
        used += f" on {'the fullest' if pes > job.shards * job.groups else 'each'} of {pes} PEs"
    simulated = f"simulated {run.simulated:,} of {counted(run.segments, 'segment')}"
    if not any(phase.kinds for phase in report.phases.values()):
        simulated = f"simulated {counted(run.segments, 'segment')}, step by step"
    yield widgets.Text(f"{layers} layers, {used}, {simulated}", "dim")
    if report.layout is not None:
        cut = report.layout
        if cut.rank_pes > 1:
            each = counted(cut.rank_pes, "PE")
            yield widgets.Text(f"{counted(cut.ranks, 'rank')} of tensor parallelism, each a {cut.rank} of {each}", "dim")
        micro = len(programs.sizes)  # type: ignore[union-attr]
        sizes = f"{counted(cut.dp, 'replica')} of {counted(cut.pp, 'stage')} of {counted(cut.tp * cut.cp, 'PE')}"
        yield widgets.Text(f"{sizes}, {micro} micro-batch{'es' * (micro > 1)}", "dim")
    if job.contexts > 1:
        stage = _first_stage(programs)
        share = f"{job.contexts} ranks of {counted(job.shards, 'PE')}; a rank keeps at most {stage.kept:,} of the "
        yield widgets.Text(f"{share}{stage.positions:,} tokens of a sequence", "dim")
    if programs.added is not None:
        layout = f"{{t_max: {programs.added.t_max}, head_dim: {programs.added.head_dim}}}"
        yield widgets.Text(f"no KV layout of the machine fits; added {layout}", WAIT)


def _phases(report: LlmReport) -> Table:
    numbers: list[tuple[str, Justify]] = [(name, "right") for name in ("cycles", "time", "tokens", "tokens/s", "TE use")]
    made = table("Phases", [("phase", "left"), *numbers, ("bound by", "left")])
    made.columns[-1].no_wrap = False
    for name, phase in report.phases.items():
        ns = report.ns(phase.total.cycles)
        rate = report.rate(phase)
        row = (name, f"{phase.total.cycles:,}", duration(ns, 4), f"{phase.tokens:,}", short(rate), percent(phase.te_use))
        made.add_row(*row, widgets.Text(phase.reason, "bold"))
    return made


def _why(phase: PhaseReport) -> Iterator[widgets.Text]:
    """The bounds compared with the achieved cycles."""
    cycles = phase.total.cycles
    name, bound = phase.limit
    floor = phase.floor
    text = headed(phase.phase.capitalize()).append(f"DRAM bandwidth bound {floor.dram_cycles:,} cycles, ")
    text.append(percent(floor.dram_cycles / cycles), "bold").append(f"; MAC bound {floor.mac_cycles:,}, ")
    yield text.append(percent(floor.mac_cycles / cycles), "bold")
    yield widgets.Text(f"bottleneck: {name}, {bound:,} cycles, {percent(bound / cycles)}", "dim")


def _bytes(report: LlmReport) -> Table:
    numbers: list[tuple[str, Justify]] = [(name, "right") for name in ("weights", "KV", "activations", "total", "at least")]
    made = table("DRAM bytes per token", [("phase", "left"), *numbers])
    for name, phase in report.phases.items():
        moved, floor = phase.total.bytes, phase.floor
        parts = [unit(phase.per_token(moved[role]), "B") for role in ("weights", "kv", "activations")]
        least = floor.weights + floor.kv + floor.activations
        made.add_row(name, *parts, *(unit(phase.per_token(total), "B") for total in (sum(moved.values()), least)))
    return made


def _segments(report: LlmReport) -> Table:
    numbers: list[tuple[str, Justify]] = [(name, "right") for name in ("count", "cycles each", "of phase")]
    columns: list[tuple[str, Justify]] = [("phase", "left"), ("segment", "left"), *numbers, ("bottleneck", "left")]
    made = table("Segments", [*columns, ("share", "right")])
    for name, phase in report.phases.items():
        for kind, (count, tally) in phase.kinds.items():
            limit, bound = tally.limit
            each, share = f"{round(tally.cycles / count):,}", percent(tally.cycles / phase.total.cycles / phase.stages)
            made.add_row(name, kind, f"{count:,}", each, share, limit, percent(bound / tally.cycles))
    return made


def _collectives(report: LlmReport) -> Table:
    columns: list[tuple[str, Justify]] = [("phase", "left"), ("collective", "left")]
    columns += [(name, "right") for name in ("PEs", "bytes", "count", "each alone", "exposed", "of step")]
    made = table("Collectives of the last step", columns, "exposed: the cycles by which they make the step longer")
    made.columns[1].no_wrap = False
    for name, phase in report.phases.items():
        for one in phase.collectives:
            what = one.name if one.algorithm == "send" else f"{one.name} {one.algorithm}"
            numbers = (f"{one.pes:,}", unit(one.nbytes, "B"), f"{one.count:,}", f"{one.each:,}", f"{one.exposed:,}")
            made.add_row(name, what, *numbers, percent(one.exposed / phase.step_cycles))
    return made


def _cost(report: LlmReport, phase: PhaseReport) -> Iterator[widgets.Text]:
    usd = report.usd_per_million_tokens(phase)
    if usd is not None:
        yield headed("Cost").append(f"${usd:.3g} per million tokens", "bold").append(f" of {phase.phase}")


def _energy(phase: PhaseReport) -> Iterator[widgets.Text]:
    parts = phase.total.energy_pj
    total = sum(parts.values())
    if total:
        largest = sorted((pj, name) for name, pj in parts.items() if pj >= total / 100)[::-1]
        shares = ", ".join(f"{name} {percent(pj / total)}" for pj, name in largest)
        text = headed("Energy").append(f"{scaled(phase.per_token(total), _JOULE)} per token", "bold")
        yield text.append(f" of {phase.phase}: {shares}")
