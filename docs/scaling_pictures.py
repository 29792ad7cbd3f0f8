"""Draws how decode of some layers of Llama-3-8B scales over the PEs of a cube, for the guide to layouts."""

from __future__ import annotations

from functools import cache

from quick import QUICK, shown_model

from kernbench.common.look.palette import THEMES, Theme, slots
from kernbench.common.look.plots import saved, settings
from kernbench.config import load_config
from kernbench.workloads.llm.report import report_of
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.run import job_programs, run_model

#: In a quick build the curves have two points, of fewer layers.
PES = (1, 2) if QUICK else (1, 2, 4, 8)
BATCH, LAYERS = 8, 2 if QUICK else 8
#: By name: the layout of so many PEs.
WAYS = {
    "--tp": lambda pes: Layout(tp=pes),
    "--pp": lambda pes: Layout(pp=pes),
    "--dp": lambda pes: Layout(dp=pes),
}


@cache  # the curves meet at their ends
def rate(layout: Layout, batch: int) -> float:
    """Decoded tokens per second."""
    job = Job(prompt=128, tokens=2, batch=batch, layers=LAYERS, phases=("decode",))
    programs = job_programs(load_model(shown_model("llama3-8b")), uniform_precision(), load_config("single_cube"), job, layout)
    return report_of(run_model(programs)).tokens_per_s or 0.0


def curves(*, weak: bool) -> dict[str, list[float]]:
    """Tokens per second by layout. Strong scaling: the same batch on more PEs; weak: a batch that grows with them."""
    return {name: [rate(way(pes), BATCH * pes // PES[-1] if weak else BATCH) for pes in PES] for name, way in WAYS.items()}


def scaling_pictures() -> dict[str, str]:
    """File name: SVG."""
    found = {"strong": curves(weak=False), "weak": curves(weak=True)}
    return {f"scaling_{kind}_{theme}.svg": picture(rows, kind, theme) for kind, rows in found.items() for theme in THEMES}


def picture(rows: dict[str, list[float]], kind: str, theme: Theme) -> str:
    """One picture; the same rows make the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(settings(theme)):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        axes = figure.subplots()
        for (name, values), colour, mark in zip(rows.items(), slots(theme), "os^", strict=False):
            axes.plot(PES, values, marker=mark, color=colour, label=name)
        first = next(iter(rows.values()))[0]
        axes.plot(PES, [first * pes for pes in PES], linestyle=":", color=axes.xaxis.label.get_color(), label="in proportion")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(PES, [str(pes) for pes in PES])
        ticks = [first * 2**k for k in range(len(PES))]
        axes.set_yticks(ticks, [f"{tick:,.0f}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("PEs")
        axes.set_ylabel("tokens/s")
        batch = f"batch {BATCH}" if kind == "strong" else f"batch {BATCH // PES[-1]} for each PE"
        axes.set_title(f"{kind} scaling, {batch}")
        axes.grid(visible=True)
        axes.legend()
        return saved(figure, "svg").decode()
