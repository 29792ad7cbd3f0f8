"""The command `kbsim llm`: checks its options, and runs, compares or searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.llm.compare import axis, cases_of, compare_runs
from kernbench.cli.llm.layouts import search_layouts
from kernbench.cli.llm.options import (
    ActivationBits,
    Batch,
    Compare,
    Emit,
    Experts,
    HostProfile,
    KvBits,
    Layers,
    LiveMap,
    LlmOptions,
    Micro,
    ModelName,
    NoReuse,
    OwnRows,
    Page,
    Parallel,
    Phase,
    Phases,
    Plot,
    Policy,
    Predict,
    Prefetch,
    Prompt,
    RankKind,
    RankKinds,
    Ranks,
    Reduce,
    Reductions,
    Replicas,
    Routes,
    Search,
    SearchDivisions,
    Seed,
    ShowPlan,
    Source,
    Stages,
    Tokens,
    Trace,
    WeightBits,
    refused,
)
from kernbench.cli.llm.plans import show_plans
from kernbench.cli.llm.report import llm_summary
from kernbench.cli.llm.run import run_job
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
)
from kernbench.cli.tracing import Traced
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.cli.tracing import Traced
    from kernbench.common.look.palette import Theme
    from kernbench.workloads.llm.report import LlmReport


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
    search_divisions: SearchDivisions = False,
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
    options = replace(options, prefetch_experts=prefetch_experts, search_divisions=search_divisions)
    files, traced = {"emit": emit, "trace": trace, "live_map": live_map}, Traced(trace_level, trace_window, trace_cycles)
    check_files(files, plot, (model, config, policy), traced, compared=bool(compare))
    if dark and plot is None and live_map is None:
        raise InputError(Problem("kbsim llm", "it is for pictures", "--dark", remedy="add --plot or --live-map"))
    theme: Theme = "dark" if dark else "light"
    if runtime is not None:
        from kernbench.cli.llm.chip import AXES, check_options, run_cases

        others = {
            "--source": source, "--layers": layers,
            "--policy": policy, "--page": page, "--rank": rank.value != "pe", "--pp": pp > 1, "--micro-batches": micro_batches,
            "--dp": dp > 1, "--cp": cp > 1, "--sp": sp, "--parallel": parallel, "--reduce": reduce.value != "direct",
            "--ep": ep, "--prefetch-experts": prefetch_experts, "--search-divisions": search_divisions, "--mtp": mtp,
            "--routing": routing != "even", "--plot": plot, "--emit": emit, "--trace": trace, "--live-map": live_map,
            "--no-reuse": no_reuse, "--plan": plan, "--walk": walk,
        }  # fmt: skip
        check_options({name: bool(value) for name, value in others.items()})
        cases = cases_of(options, [axis(text, AXES) for text in compare]) if compare else [({}, options)]
        return run_cases(cases, runtime, as_json=as_json, quiet=quiet)
    if parallel is not None:
        return search_layouts(options, compared=bool(compare) or plot is not None, files=files, as_json=as_json, quiet=quiet)
    if plan:
        unused = {"--compare": compare, "--plot": plot, **{f"--{name.replace('_', '-')}": path for name, path in files.items()}}
        if option := next((name for name, value in unused.items() if value), ""):
            raise InputError(Problem("kbsim llm", "--plan runs nothing", option, remedy=f"leave out --plan or {option}"))
        return show_plans(options.programs(), as_json=as_json, quiet=quiet)
    if compare or plot is not None:
        return compare_runs(options, compare or [], plot, theme, as_json=as_json, quiet=quiet)
    report = run_job(options, files, traced, theme, reuse=not no_reuse, as_json=as_json, quiet=quiet)
    return _shown(report, as_json=as_json, quiet=quiet)


def check_files(
    files: dict[str, Path | None], plot: Path | None, read: Sequence[str | Path | None], traced: Traced, *, compared: bool
) -> None:
    """Refuse, before any work, output files that would not be written or that are also inputs (`read`). Raises InputError.

    Trace options without --trace are refused too.
    """
    from kernbench.common.files import check_apart, check_writable

    wanted = {f"--{name.replace('_', '-')}": path for name, path in files.items() if path is not None}
    if "--emit" in wanted and "--trace" in wanted:
        raise refused("--emit runs nothing, so there is no trace", "--trace", wanted["--trace"])
    if compared:
        for option, path in wanted.items():
            raise refused(
                "a comparison writes only a plot", option, path, "leave the option out, or run a single case without --compare"
            )
    if plot is not None and plot.suffix.lower() not in (".svg", ".png"):
        raise refused("the file name must end in .svg or .png", "--plot", plot)
    live_map = files["live_map"]
    if live_map is not None and live_map.suffix.lower() != ".svg":
        raise refused("the file name must end in .svg", "--live-map", live_map)
    for place in (*wanted.values(), plot):
        if place is not None:
            check_writable(place)
    check_apart((*wanted.values(), plot), read)
    traced.options("kbsim llm", files["trace"])


def _shown(report: LlmReport | None, *, as_json: bool, quiet: bool) -> int:
    """Show a run (None: a program was written), and return the exit code."""

    if report is not None and as_json:
        output.show_json(report.to_dict())
    elif report is not None and not quiet:
        output.show(llm_summary(report))
    return output.OK
