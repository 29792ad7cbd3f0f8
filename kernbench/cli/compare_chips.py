"""`kbsim compare --runtime`: a language model on several chips, as the kernels and the host software of a runtime profile."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernbench.cli import output, widgets
from kernbench.cli.text import LIMIT, Justify, duration, short, table
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.workloads.serving.generation import Generation, PhaseTimes

PARAMETERS = ("prompt", "tokens", "batch", "tp", "w", "a", "kv", "phase")  #: the parameters that `--set` accepts
MAX_KERNELS = 12  #: rows of a table


def compare_chips(
    target: str, named: Mapping[str, str], settings: Sequence[str], runtime: str, *, kernels: bool, as_json: bool, quiet: bool,
    allow_code: Sequence[str],
) -> int:  # fmt: skip
    """Run the model on each chip, and show the results beside each other."""
    from kernbench.analysis.case import ModelCase
    from kernbench.cli.target import find_case, load_machine
    from kernbench.config.runtime import load_runtime
    from kernbench.workloads.llm.params import PARAMS, checked_params
    from kernbench.workloads.serving.board import COMPARE
    from kernbench.workloads.serving.generation import generate
    from kernbench.workloads.serving.machine_step import bits_on_chip, check_bits_on_chip

    case, rest = find_case(target, settings)
    if not isinstance(case, ModelCase):
        rule = "a runtime profile runs the kernels of a language model, and the target is none"
        remedy = "name a model, such as llama3-8b; for one operation: kbsim op OPERATION -c CHIP --runtime NAME"
        raise InputError(Problem("kbsim compare", rule, "TARGET", target, remedy))
    model, values = case.model, checked_params(target, case.params)
    others = [name for name, value in values.items() if name not in PARAMETERS and value != PARAMS[name][0]]
    if others:
        rule = "with --runtime, the steps of a chip are its kernels in sequence, without programs, layouts or pages"
        raise InputError(Problem("kbsim compare", rule, others[0], values[others[0]], f"leave out {', '.join(others)}"))
    check_bits_on_chip("kbsim compare", values["a"], values["kv"], ("a", "kv"))
    bits = bits_on_chip(model, values["w"], values["a"], values["kv"])
    profile, phases = load_runtime(runtime), ("prefill", "decode") if values["phase"] == "both" else (values["phase"],)
    sizes = {name: values[name] for name in ("prompt", "tokens", "batch", "tp")}
    machines = {name: load_machine(source, rest, quiet=quiet, allow_code=allow_code) for name, source in named.items()}
    runs = {
        name: generate(model, machine, profile, phases=phases, spelling=COMPARE, **sizes, **bits)
        for name, machine in machines.items()
    }
    if as_json:
        letters = {letter: bits[f"{word}_bits"] for letter, word in (("w", "weight"), ("a", "activation"), ("kv", "kv"))}
        about = {"target": model.name, "runtime": runtime, "sentence": sentence(model.name, runs), **sizes, **letters}
        each = [
            {"name": name, "machine": machines[name].source, "t_ns": whole_ns(run), "speedup": speedup(runs, name)}
            | run.to_dict()
            for name, run in runs.items()
        ]
        output.show_json({**about, "fastest": min(runs, key=lambda name: whole_ns(runs[name])), "machines": each})
    elif not quiet:
        output.show(_comparison(model.name, runs, output.console(sys.stdout).width, kernels=kernels))
    return output.OK


def whole_ns(run: Generation) -> float:
    """[ns] of all phases."""
    return sum(one.ns for one in run.phases)


def speedup(runs: Mapping[str, Generation], name: str) -> float:
    """The time on the first chip over the time on this one."""
    return whole_ns(next(iter(runs.values()))) / whole_ns(runs[name])


def sentence(model: str, runs: Mapping[str, Generation]) -> str:
    """The answer in one sentence."""
    order = sorted(runs, key=lambda name: whole_ns(runs[name]))
    factor = whole_ns(runs[order[-1]]) / whole_ns(runs[order[0]])
    return f"{model}: {order[0]} is {factor:.3g} times as fast as {order[-1]}"


def kernel_times(phase: PhaseTimes) -> dict[tuple[str, str], float]:
    """[ns] of the kernels of the step that is shown, those of equal name and shape together."""
    found: dict[tuple[str, str], float] = {}
    for op in phase.operations:
        found[op.name, op.shape] = found.get((op.name, op.shape), 0.0) + op.count * op.ns
    return found


def _comparison(model: str, runs: Mapping[str, Generation], width: int, *, kernels: bool) -> Iterator[RenderableType]:
    yield widgets.Text(sentence(model, runs), LIMIT)
    yield ""
    yield _chips(runs)
    for phase in next(iter(runs.values())).phases if kernels else ():
        yield ""
        yield _kernels(phase.phase, runs, width)


def _chips(runs: Mapping[str, Generation]) -> Any:
    first = next(iter(runs.values()))
    latencies = [name for name, ns in (("TTFT", first.ttft_ns), ("TPOT", first.tpot_ns)) if ns is not None]
    columns: list[tuple[str, Justify]] = [("machine", "left"), *((name, "right") for name in (*latencies, "tokens/s", "speed"))]
    made = table("Machines", columns)
    for name, run in runs.items():
        times = [duration(ns, 4) for ns in (run.ttft_ns, run.tpot_ns) if ns is not None]
        made.add_row(name, *times, short(run.tokens_per_s), f"{speedup(runs, name):.2f} x")
    return made


def _kernels(phase: str, runs: Mapping[str, Generation], width: int) -> Any:
    """The kernels of a step: one row for each kernel, and one column for each machine that fits."""
    fit = max(2, (width - 36) // 12)
    shown = dict(list(runs.items())[:fit])
    note = f"{counted(len(runs) - fit, 'more machine')} in --json" if len(runs) > fit else ""
    columns: list[tuple[str, Justify]] = [("kernel", "left"), ("shape", "left"), *((name, "right") for name in shown)]
    made = table(f"Kernels of a {phase} step, all launches", columns, note)
    phases = {name: one for name, run in shown.items() if (one := run.phase(phase)) is not None}
    times = {name: kernel_times(one) for name, one in phases.items()}
    keys = dict.fromkeys(key for some in times.values() for key in some)
    order = sorted(keys, key=lambda key: -max(some.get(key, 0.0) for some in times.values()))
    for name, shape in order[:MAX_KERNELS]:
        made.add_row(name, shape, *(duration(some.get((name, shape), 0.0), 4) for some in times.values()))
    rest = order[MAX_KERNELS:]
    if rest:
        sums = (sum(some.get(key, 0.0) for key in rest) for some in times.values())
        made.add_row(counted(len(rest), "other kernel"), "", *(duration(ns, 4) for ns in sums))
    made.add_row("host between steps", "", *(duration(one.steps_ns / one.steps, 4) for one in phases.values()))
    return made
