"""`kbsim llm`: a language model on a machine: tokens a second, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernbench.cli import llm_options as options
from kernbench.cli import output
from kernbench.cli.options import AllowCode, Config, Json, Overrides, Quiet, Walk
from kernbench.cli.tracing import TraceCycles, Traced, TraceLevel, TraceWindow

if TYPE_CHECKING:
    from kernbench.workloads.llm_report import LlmReport


def llm(
    model: options.ModelName = "llama2-7b",
    config: Config = "npu_server",
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    phase: options.Phase = options.Phases.BOTH,
    prompt: options.Prompt = 128,
    tokens: options.Tokens = 16,
    batch: options.Batch = 1,
    layers: options.Layers = None,
    w: options.WeightBits = None,
    a: options.ActivationBits = None,
    kv: options.KvBits = None,
    policy: options.Policy = None,
    page: options.Page = 0,
    tp: options.Parallel = 1,
    reduce: options.Reduce = options.Reductions.DIRECT,
    compare: options.Compare = None,
    plot: options.Plot = None,
    emit: options.Emit = None,
    trace: options.Trace = None,
    trace_level: TraceLevel = None,
    trace_window: TraceWindow = None,
    trace_cycles: TraceCycles = None,
    live_map: options.LiveMap = None,
    no_reuse: options.NoReuse = False,
    walk: Walk = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a language model on a machine, and say how many tokens a second it makes, and why."""
    from kernbench.cli.llm_job import Asked, check_files, compare_runs, run_job

    asked = Asked(model, config, tuple(overrides or ()), tuple(allow_code or ()), phase.value, prompt, tokens, batch, layers)
    asked = asked.with_bits(w, a, kv, policy, page, tp, reduce.value)
    files, traced = {"emit": emit, "trace": trace, "live_map": live_map}, Traced(trace_level, trace_window, trace_cycles)
    check_files(files, plot, (model, config, policy), traced, compared=bool(compare))
    if compare or plot is not None:
        return compare_runs(asked, compare or [], plot, as_json=as_json, quiet=quiet)
    report = run_job(asked, files, traced, reuse=not no_reuse, as_json=as_json, quiet=quiet)
    return _shown(report, as_json=as_json, quiet=quiet)


def _shown(report: LlmReport | None, *, as_json: bool, quiet: bool) -> int:
    """Of a run; None where a program was written. The exit code."""
    from kernbench.cli.render_llm import llm_summary

    if report is not None and as_json:
        output.show_json(report.to_dict())
    elif report is not None and not quiet:
        output.show(llm_summary(report))
    return output.OK
