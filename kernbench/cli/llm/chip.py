"""`kbsim llm --runtime`: a language model on a real chip, by the kernels and the host software of a runtime profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernbench.cli import output, widgets
from kernbench.cli.text import Justify, duration, percent, short, table, unit
from kernbench.cli.trace.tables import safe
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.cli.llm.options import LlmOptions
    from kernbench.config import NpuConfig
    from kernbench.workloads.llm.model import Model
    from kernbench.workloads.serving.generation import Generation, PhaseTimes

AXES = ("w", "a", "kv", "prompt", "batch", "tp")  #: what --compare takes on a chip
MAX_OPERATIONS = 12  #: rows of a table


def check_options(given: Mapping[str, bool]) -> None:
    """InputError if an option is given that the kernels of a chip do not take."""
    wrong = [name for name, there in given.items() if there]
    if wrong:
        rule = "with --runtime, the steps of a chip are its kernels in sequence, without programs, layouts or pages"
        raise InputError(Problem("kbsim llm", rule, wrong[0], remedy=f"leave out {', '.join(wrong)}, or leave out --runtime"))


def run_cases(cases: Sequence[tuple[Mapping[str, int], LlmOptions]], runtime: str, *, as_json: bool, quiet: bool) -> int:
    """Run one case, or compare several, and show them."""
    from kernbench.cli.target import load_machine
    from kernbench.config.runtime import load_runtime
    from kernbench.workloads.models.files import load_model
    from kernbench.workloads.serving.board import LLM
    from kernbench.workloads.serving.generation import generate
    from kernbench.workloads.serving.machine_step import bits_on_chip, check_bits_on_chip

    first = cases[0][1]
    model = load_model(first.model)
    machine = load_machine(first.config, first.overrides, quiet=quiet, allow_code=first.allow_code)
    profile = load_runtime(runtime)
    phases = ("prefill", "decode") if first.phase == "both" else (first.phase,)
    found = []
    for label, options in cases:
        check_bits_on_chip("kbsim llm", options.a, options.kv, ("--a", "--kv"))
        bits = bits_on_chip(model, options.w, options.a, options.kv)
        made = generate(
            model, machine, profile, prompt=options.prompt, tokens=options.tokens, batch=options.batch, tp=options.tp,
            phases=phases, spelling=LLM, **bits,
        )  # fmt: skip
        found.append((label, options, bits, made))
    if as_json:
        about = {"model": model.name, "machine": machine.source, "runtime": runtime}
        runs = [
            {"case": dict(label), "prompt": options.prompt, "batch": options.batch, "tp": options.tp}
            | _letters(bits)
            | made.to_dict()
            for label, options, bits, made in found
        ]
        output.show_json({"status": "done", **about, **(runs[0] if not found[0][0] else {"runs": runs})})
    elif not quiet and found[0][0]:
        output.show(_comparison([(label, made) for label, _, _, made in found]))
    elif not quiet:
        _, options, bits, made = found[0]
        output.show(_summary(made, options, bits, model, machine, runtime))
    return output.OK


def _summary(
    made: Generation, options: LlmOptions, bits: Mapping[str, int], model: Model, machine: NpuConfig, runtime: str
) -> Iterator[RenderableType]:
    head = [f"{short(made.tokens_per_s)} tokens/s"]
    head += [f"{name} {duration(ns, 4)}" for name, ns in (("TPOT", made.tpot_ns), ("TTFT", made.ttft_ns)) if ns is not None]
    yield widgets.Text("  ".join(head), "bold")
    chips = f"{options.tp} x {machine.source}" if options.tp > 1 and machine.chip is not None else machine.source
    if machine.chip is None:
        chips = f"{counted(options.tp, 'chip')} of {machine.source}"
    work = f"{counted(options.batch, 'sequence')} with a prompt of {counted(options.prompt, 'token')}"
    decoded = f", {counted(options.tokens, 'token')} decoded" if made.tpot_ns is not None else ""
    widths = "".join(f"{letter.upper()}{width}" for letter, width in _letters(bits).items())
    yield widgets.Text(f"{safe(model.name, 40)} {widths} on {chips}, runtime {safe(runtime, 40)}: {work}{decoded}")
    sizes = (made.weight_bytes + made.kv_bytes, made.memory_bytes, made.weight_bytes, made.kv_bytes)
    held, memory, weights, kv = (unit(size, "B") for size in sizes)
    each = " of each chip" if options.tp > 1 else ""
    yield widgets.Text(f"{held} of {memory} of DRAM{each}: {weights} of weights, {kv} of keys and values", "dim")
    yield ""
    yield _phases(made)
    for phase in made.phases:
        yield ""
        yield _operations(phase)


def _letters(bits: Mapping[str, int]) -> dict[str, int]:
    """The bits by the names of their options."""
    return {"w": bits["weight_bits"], "a": bits["activation_bits"], "kv": bits["kv_bits"]}


def _phases(made: Generation) -> Any:
    columns: list[tuple[str, Justify]] = [("phase", "left")]
    columns += [(name, "right") for name in ("steps", "tokens", "time", "tokens/s", "launches", "host a step")]
    ahead = "ahead of the device" if made.runs_ahead else "and waits for the device"
    found = table("Phases", columns, f"the host launches kernels {ahead}")
    for one in made.phases:
        found.add_row(
            one.phase, f"{one.steps:,}", f"{one.tokens:,}", duration(one.ns, 4), short(one.tokens / one.ns * 1e9),
            duration(one.launches_ns, 3), duration(one.steps_ns / one.steps, 3),
        )  # fmt: skip
    return found


def _operations(phase: PhaseTimes) -> Any:
    """The operations of one step, those of equal name and time together, the longest first."""
    after = f" after {counted(phase.context, 'token')}" if phase.phase == "decode" else ""
    columns: list[tuple[str, Justify]] = [("kernel", "left"), ("shape", "left"), ("launches", "right"), ("each", "right")]
    columns += [("share", "right"), ("limit", "left")]
    found = table(f"Kernels of a {phase.phase} step{after}", columns, f"{duration(phase.device_ns, 4)} in sequence")
    order = sorted(phase.operations, key=lambda op: -op.count * op.ns)
    for op in order[:MAX_OPERATIONS]:
        share = op.count * op.ns / phase.device_ns if phase.device_ns else 0.0
        found.add_row(op.name, op.shape, f"{op.count:,}", duration(op.ns, 4), percent(share), op.limit)
    return found


def _comparison(runs: Sequence[tuple[Mapping[str, int], Generation]]) -> list[RenderableType]:
    names = list(runs[0][0])
    first = runs[0][1]
    latencies = [name for name, ns in (("TTFT", first.ttft_ns), ("TPOT", first.tpot_ns)) if ns is not None]
    columns: list[tuple[str, Justify]] = [(name, "right") for name in (*names, "tokens/s", *latencies, "weights", "KV")]
    found = table("Comparison", [*columns, ("longest kernels", "left")])
    found.columns[-1].no_wrap = False
    for label, made in runs:
        times = [duration(ns, 4) for ns in (made.ttft_ns, made.tpot_ns) if ns is not None]
        longest = max(made.phases[-1].operations, key=lambda op: op.count * op.ns)
        found.add_row(
            *(f"{label[name]:,}" for name in names), short(made.tokens_per_s), *times, unit(made.weight_bytes, "B"),
            unit(made.kv_bytes, "B"), f"{longest.name}: {longest.limit}",
        )  # fmt: skip
    return [found]
