"""`kbsim llm --compare`: runs that differ in some options, as a table and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbench.cli import output
from kernbench.cli.endings import answering
from kernbench.cli.llm.options import COMPARED, LlmOptions, print_notes
from kernbench.cli.llm.run import run_one
from kernbench.cli.mistakes import option_meant
from kernbench.cli.target import note_chips, note_machine
from kernbench.cli.text import duration, scaled, short, table, unit
from kernbench.cli.values import count_of
from kernbench.common.errors import ABSENT, InputError, Problem, shown

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.common.look.palette import Theme
    from kernbench.workloads.llm.report import LlmReport


MAX_RUNS = 64  #: combinations of the values, at most


def compare_runs(
    options: LlmOptions, wanted: Sequence[str], plot: Path | None, theme: Theme, *, as_json: bool, quiet: bool
) -> int:
    """Run each combination of the values, and compare the runs."""

    axes = [axis(text) for text in wanted]
    for i, (name, _) in enumerate(axes):
        if name in [other for other, _ in axes[:i]]:
            raise InputError(Problem("--compare", f"{name} is compared twice", remedy="give all its values at once"))
    cases = cases_of(options, axes)
    print_notes(options, quiet)
    every = [(label, case.programs()) for label, case in cases]
    note_machine(every[0][1].target, quiet=quiet)
    note_chips([every[0][1].target], quiet=quiet)
    found = [(label, run_one(programs, reuse=True, quiet=quiet or as_json)) for label, programs in every]
    if as_json:
        output.show_json({"status": "done", "runs": [{"case": label, **report.to_dict()} for label, report in found]})
    elif not quiet:
        output.show([comparison_table(found)])
    if plot is not None:
        with answering(as_json):
            draw_comparison(found, plot, theme)
    return output.OK


def axis(text: str, known: Sequence[str] = COMPARED) -> tuple[str, list[int]]:
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


def cases_of(options: LlmOptions, axes: Sequence[tuple[str, list[int]]]) -> list[tuple[dict[str, int], LlmOptions]]:
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
