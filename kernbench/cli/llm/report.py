"""The tables that `kbsim llm` prints about a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernbench.cli import widgets
from kernbench.cli.llm.plans import first_stage
from kernbench.cli.text import WAIT, Justify, duration, headed, percent, scaled, short, size_text, table, unit
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.workloads.llm.report import LlmReport, PhaseReport


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
        stage = first_stage(programs)
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
