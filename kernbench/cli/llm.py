"""`kbsim llm`: a language model on a machine: tokens a second, and why."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import AnyConfig, Json, Overrides, Quiet

if TYPE_CHECKING:
    from kernbench.workloads.llm_steps import LlmPrograms

DEFAULT_MACHINE = "npu_server"
_Bits = typer.Option(metavar="BITS", show_default=False)


class Phases(StrEnum):
    """Which phases are run."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"


def llm(
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME|FILE", help="A model's name, or a Hugging Face config.json.")
    ] = "llama2-7b",
    config: AnyConfig = DEFAULT_MACHINE,
    overrides: Overrides = None,
    phase: Annotated[Phases, typer.Option("--phase", help="What to run; decode begins behind the prompt.")] = Phases.BOTH,
    prompt: Annotated[int, typer.Option("--prompt", metavar="N", help="Tokens of the prompt.")] = 128,
    tokens: Annotated[int, typer.Option("--tokens", metavar="N", help="Tokens to decode, of each sequence.")] = 16,
    batch: Annotated[int, typer.Option("--batch", metavar="N", help="Sequences at a time.")] = 1,
    layers: Annotated[
        int | None, typer.Option("--layers", metavar="N", help="Only the first N layers.", show_default="all")
    ] = None,
    w: Annotated[int | None, typer.Option("--w", metavar="BITS", help="Bits of weights.", show_default="4")] = None,
    a: Annotated[int | None, typer.Option("--a", metavar="BITS", help="Bits of activations.", show_default="8")] = None,
    kv: Annotated[int | None, typer.Option("--kv", metavar="BITS", help="Bits of the KV cache.", show_default="4")] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Bits by role, layer and head, in YAML.", show_default=False),
    ] = None,
    page: Annotated[int, typer.Option("--page", metavar="N", help="Tokens of a page of the KV cache; 0: no pages.")] = 0,
    tp: Annotated[int, typer.Option("--tp", metavar="N", help="PEs of a system that share the model.")] = 1,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="WHAT=V,V,...",
            help="Run once for each value of w, a, kv, prompt, batch, page or tp, and show them side by side. May be repeated.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the comparison: .svg or .png.", show_default=False),
    ] = None,
    emit: Annotated[
        Path | None,
        typer.Option("--emit", metavar="FILE", help="Write all of it as one program, and run nothing.", show_default=False),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Run all of it as one program too, for its trace.", show_default=False),
    ] = None,
    live_map: Annotated[
        Path | None,
        typer.Option("--live-map", metavar="FILE", help="Draw a layer's scratchpad buffers as .svg.", show_default=False),
    ] = None,
    no_reuse: Annotated[
        bool, typer.Option("--no-reuse", help="Simulate every layer of every step: slower, the same result.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a language model on a machine, and say how many tokens a second it makes, and why."""
    from kernbench.cli.llm_job import Asked, compare_runs, run_one, write_program, write_trace

    asked = Asked(model, config or DEFAULT_MACHINE, tuple(overrides or ()), phase.value, prompt, tokens, batch, layers)
    asked = asked.with_bits(w, a, kv, policy, page, tp)
    if compare:
        return compare_runs(asked, compare, plot, as_json=as_json, quiet=quiet)
    programs = asked.programs()
    if live_map is not None:
        _draw_live_map(programs, live_map)
    if emit is not None:
        return write_program(programs, emit)
    if trace is not None:
        write_trace(programs, trace, quiet=quiet)
    report = run_one(programs, reuse=not no_reuse, quiet=quiet or as_json)
    if as_json:
        output.show_json(report.to_dict())
    elif not quiet:
        from kernbench.cli.render_llm import llm_summary

        output.show(llm_summary(report))
    return output.OK


def _draw_live_map(programs: LlmPrograms, path: Path) -> None:
    from kernbench.common.files import check_writable, write_whole
    from kernbench.workloads.live_map import live_map_svg

    check_writable(path)
    step = programs.steps[-1]
    write_whole(path, live_map_svg(programs.plan(programs.shapes[0], step).scratchpad).encode())
    sys.stderr.write(f"{path}: the buffers of a layer in {step.phase}\n")
