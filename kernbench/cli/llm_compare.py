"""Runs of a language model side by side: a table, and a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbench.cli.text import duration, scaled, short, table, unit
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.workloads.llm_report import LlmReport

Runs = Sequence[tuple[dict[str, int], "LlmReport"]]
_COLOURS = ("#4269d0", "#ff725c", "#3ca951")  # weights, KV, activations: told apart also by those who see few colours


def comparison_table(runs: Runs) -> Table:
    """A row a run; of the decode phase where there is one, else of the prefill."""
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


def draw_comparison(runs: Runs, path: Path) -> None:
    """Tokens a second, and DRAM bytes a token by role, a bar a run. InputError where matplotlib is missing."""
    from kernbench.common.files import write_whole

    write_whole(path, comparison_picture(runs, path.suffix.lower().removeprefix(".")))


def comparison_picture(runs: Runs, form: str) -> bytes:
    """The picture; the same runs and matplotlib make the same bytes."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        remedy = "pip install 'kernbench[plot]'"
        raise InputError(Problem("kbsim llm --plot", "matplotlib is not installed", remedy=remedy)) from None
    labels = [", ".join(f"{name} {value:,}" for name, value in label.items()) for label, _ in runs]
    phases = [list(report.phases.values())[-1] for _, report in runs]
    rates = [report.tokens_per_s or report.rate(phase) for (_, report), phase in zip(runs, phases, strict=True)]
    totals = [phase.per_token(sum(phase.total.bytes.values())) for phase in phases]
    scale, prefix = (1e9, "GB") if max(totals) >= 1e9 else (1e6, "MB")
    with matplotlib.rc_context({"svg.hashsalt": "kernbench", "svg.fonttype": "none", "text.usetex": False, "font.size": 10}):
        figure = Figure(figsize=(10, 1.8 + 0.34 * len(runs)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        places = range(len(runs))
        left.bar_label(left.barh(places, rates, color="#4269d0"), [short(rate) for rate in rates], padding=3, fontsize=9)
        left.margins(x=0.12)  # for the numbers
        left.set_yticks(places, labels)
        left.invert_yaxis()
        left.set_xlabel("tokens/s")
        starts = [0.0] * len(runs)
        for role, colour in zip(("weights", "kv", "activations"), _COLOURS, strict=True):
            sizes = [phase.per_token(phase.total.bytes[role]) / scale for phase in phases]
            bars = right.barh(places, sizes, left=starts, color=colour, label={"kv": "KV"}.get(role, role))
            starts = [start + size for start, size in zip(starts, sizes, strict=True)]
        right.bar_label(bars, [unit(total, "B") for total in totals], padding=3, fontsize=9)
        right.margins(x=0.16)
        right.set_xlabel(f"DRAM bytes a token [{prefix}]")
        figure.legend(*right.get_legend_handles_labels(), frameon=False, fontsize=9, ncols=3, loc="outside upper right")
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        data = io.BytesIO()
        metadata = {"Date": None, "Creator": "kernbench"} if form == "svg" else {"Software": "kernbench"}
        figure.savefig(data, format=form, metadata=metadata, dpi=144)
    return data.getvalue()
