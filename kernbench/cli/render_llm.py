"""A run of a language model as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.text import Justify, duration, headed, percent, scaled, short, size_text, table, unit
from kernbench.common.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.workloads.llm_report import LlmReport, PhaseReport

_JOULE = ("pJ", "nJ", "uJ", "mJ", "J")


def llm_summary(report: LlmReport) -> Iterator[RenderableType]:
    """What `kbsim llm` prints."""
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
    energy = [line for phase in report.phases.values() for line in _energy(phase)]
    if energy:
        yield ""
        yield from energy


def _head(report: LlmReport) -> Iterator[Text]:
    run = report.run
    programs, job = run.programs, run.programs.job
    line = Text()
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
    yield Text(f"{programs.model.name} {programs.shapes[0].precision}{mixed} on {programs.machine.source}: {what}")
    used = f"{size_text(-(-programs.dram.end // (1 << 20)) << 20)} of {size_text(programs.machine.dram.capacity_bytes)} of DRAM"
    if job.shards > 1:
        used += f" on each of {job.shards} PEs"
    simulated = f"{counted(run.simulated, 'segment')} simulated for {run.segments:,}"
    if not any(phase.kinds for phase in report.phases.values()):
        simulated = f"{counted(run.segments, 'segment')} simulated, step by step"
    yield Text(f"{layers} layers, {used}, {simulated}", "dim")
    if programs.added is not None:
        layout = f"{{t_max: {programs.added.t_max}, head_dim: {programs.added.head_dim}}}"
        yield Text(f"the machine has no fitting KV layout; taken as one more: {layout}", "yellow")


def _phases(report: LlmReport) -> Table:
    numbers: list[tuple[str, Justify]] = [(name, "right") for name in ("cycles", "time", "tokens", "tokens/s", "TE use")]
    made = table("Phases", [("phase", "left"), *numbers, ("bound by", "left")])
    made.columns[-1].no_wrap = False
    for name, phase in report.phases.items():
        ns = report.ns(phase.total.cycles)
        rate = report.rate(phase)
        row = (name, short(phase.total.cycles), duration(ns, 4), f"{phase.tokens:,}", short(rate), percent(phase.te_use))
        made.add_row(*row, Text(phase.reason, "bold"))
    return made


def _why(phase: PhaseReport) -> Iterator[Text]:
    """The bounds beside what was achieved."""
    cycles = phase.total.cycles
    name, bound = phase.limit
    floor = phase.floor
    text = headed(phase.phase.capitalize()).append(f"DRAM bandwidth bound {short(floor.dram_cycles)}, ")
    text.append(percent(floor.dram_cycles / cycles), "bold").append(f"; MAC bound {short(floor.mac_cycles)}, ")
    yield text.append(percent(floor.mac_cycles / cycles), "bold").append(f" of {short(cycles)} cycles")
    yield Text(f"busiest in this program: {name}, {short(bound)}, {percent(bound / cycles)}", "dim")


def _bytes(report: LlmReport) -> Table:
    numbers: list[tuple[str, Justify]] = [(name, "right") for name in ("weights", "KV", "activations", "total", "at least")]
    made = table("DRAM bytes a token", [("phase", "left"), *numbers])
    for name, phase in report.phases.items():
        moved, floor = phase.total.bytes, phase.floor
        parts = [unit(phase.per_token(moved[role]), "B") for role in ("weights", "kv", "activations")]
        least = floor.weights + floor.kv + floor.activations
        made.add_row(name, *parts, *(unit(phase.per_token(total), "B") for total in (sum(moved.values()), least)))
    return made


def _segments(report: LlmReport) -> Table:
    numbers: list[tuple[str, Justify]] = [(name, "right") for name in ("count", "cycles each", "of phase")]
    columns: list[tuple[str, Justify]] = [("phase", "left"), ("segment", "left"), *numbers, ("most asked of", "left")]
    made = table("Segments", [*columns, ("share", "right")])
    for name, phase in report.phases.items():
        for kind, (count, tally) in phase.kinds.items():
            limit, bound = tally.limit
            each, share = short(round(tally.cycles / count)), percent(tally.cycles / phase.total.cycles)
            made.add_row(name, kind, f"{count:,}", each, share, limit, percent(bound / tally.cycles))
    return made


def _energy(phase: PhaseReport) -> Iterator[Text]:
    parts = phase.total.energy_pj
    total = sum(parts.values())
    if total:
        largest = sorted((pj, name) for name, pj in parts.items() if pj >= total / 100)[::-1]
        shares = ", ".join(f"{name} {percent(pj / total)}" for pj, name in largest)
        text = headed("Energy").append(f"{scaled(phase.per_token(total), _JOULE)} a token", "bold")
        yield text.append(f" of {phase.phase}: {shares}")
