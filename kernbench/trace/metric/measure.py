"""The metrics of a trace: utilisation, bandwidth, conflicts, phases, layers, waits, tokens, energy, roofline."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from kernbench.common.units import parse_rational
from kernbench.trace.events import Record
from kernbench.trace.metric.collect import PARTS, Collector, EngineSums, Group, patterns, window_of
from kernbench.trace.metric.figures import (
    Banks,
    Channel,
    Engine,
    Metrics,
    Roofline,
    Run,
    StageMetrics,
    Stall,
    Transfers,
)
from kernbench.trace.reader import Trace, positive

NEEDS_ACCESS = "bank conflict rate: it needs level access"
NEEDS_FULL = (
    "requests and denials by bank: they need level full",
    "waits for banks by job: they need level full (the engines' bank conflict cycles are here)",
)


def metrics(trace: Trace) -> Metrics:
    """Read a trace once and compute its metrics; the memory used does not grow with the length of the trace.

    If the file is truncated, the complete part is measured, and `run.broken` says where this part ends. If the file has only a
    window or some units, the metrics cover that window or these units.
    """
    sums = Collector(trace.meta, trace.path)
    sums.read(trace)
    window = window_of(trace.meta)
    end = max(sums.last, sums.sampled + 1) if trace.end is None else trace.end.cycles
    end = max(end if window is None else min(end, window[1]), sums.first)
    cycles = end - sums.first
    low, high = sampled = _sampled(trace, sums, end)
    channels = [
        Channel(c.unit, c.kind, high - low, c.read, c.write, c.busy, c.members, c.capacity) for c in sums.channels.values()
    ]
    return Metrics(
        run=_run(trace, sums, cycles, sampled),
        engines=tuple(_engines(sums, *sampled)),
        transfers=_transfers(sums, cycles),
        channels=tuple(c for c in channels if c.kind == "DRAM"),
        links=tuple(c for c in channels if c.kind == "NOC"),
        banks=_banks(sums, trace.meta),
        phases=tuple(_part(group, end) for group in sums.groups.phases.values()),
        layers=tuple(_part(group, end) for group in sums.groups.layers.values()),
        stalls=tuple(_stalls(sums, end)),
        tokens=sums.tokens.figures(dict(sorted(sums.completions.items()))),
        energy_pj=_energy(trace, sums, whole=window is None),
        roofline=_roofline(trace, sums, channels, cycles),
    )


def _sampled(trace: Trace, sums: Collector, end: int) -> tuple[int, int]:
    """The cycles that samples cover: whole windows; the last window is the last of the run or one that has ended."""
    window = trace.meta.window_cycles
    if not sums.counts["ENGINE_SAMPLE"] or window <= 0:
        return sums.first, end
    low = sums.first // window * window
    if trace.end is None:
        return low, max(sums.sampled + 1, low)
    return low, end if end == trace.end.cycles else max(end // window * window, low)


def _run(trace: Trace, sums: Collector, cycles: int, sampled: tuple[int, int]) -> Run:
    meta, end = trace.meta, trace.end
    missing = list(NEEDS_FULL) if meta.level == "summary" else []
    if meta.level != "access":
        missing.append(NEEDS_ACCESS if meta.level == "summary" else f"{NEEDS_ACCESS} (the share of denied requests is here)")
    elif patterns(meta) is not None:
        missing.append("bank conflict rate: it needs all units")
    elif sums.conflicts is not None and not sums.conflicts.known:
        missing.append("bank conflict rate: TRACE_META.units does not say where the banks of each scratchpad are")
    if patterns(meta) is not None:
        missing.append("engines, channels and links that the file leaves out (TRACE_META.filter)")
    if sampled != (sums.first, sums.first + cycles):
        missing.append(f"engines and channels outside cycles {sampled[0]:,} to {sampled[1]:,}: samples are of whole windows")
    if not sums.counts["ENGINE_SAMPLE"] and any(e.jobs for e in sums.engines.values() if e.kind == "DMA"):
        missing.append("what held DMA engines: the file has no samples, so a transfer counts as busy")
    return Run(
        program=meta.program,
        sim_id=meta.sim_id,
        level=meta.level,
        status="cut off" if end is None else end.status,
        broken="" if trace.broken is None else str(trace.broken),
        first=sums.first,
        cycles=cycles,
        freq_ghz=trace.freq_ghz,
        events=sum(sums.counts.values()),
        skipped=trace.skipped,
        counts=dict(sorted(sums.counts.items())),
        filter=meta.filter,
        warnings=dict(sorted(sums.codes["WARN"].items())),
        errors=dict(sorted(sums.codes["ERROR"].items())),
        missing=tuple(missing),
    )


def _engines(sums: Collector, low: int, high: int) -> Iterator[Engine]:
    sampled = bool(sums.counts["ENGINE_SAMPLE"])
    for engine in sums.engines.values():
        split = (engine.busy, engine.bank_conflict, engine.backpressure)
        if not sampled:
            active = engine.active.until(high)
            split = (active - engine.held, engine.held, 0)
        queued = engine.queued - engine.running
        yield Engine(engine.unit, engine.kind, high - low, *split, engine.jobs, engine.work, engine.running, queued)


def _transfers(sums: Collector, cycles: int) -> Transfers:
    dma = [engine for engine in sums.engines.values() if engine.kind == "DMA"]
    return Transfers(
        ended=sum(engine.jobs for engine in dma),
        bytes=sum(engine.work for engine in dma),
        loaded=sums.moved["DRAM_TO_SRAM"],
        stored=sums.moved["SRAM_TO_DRAM"],
        between=sums.moved["SRAM_TO_SRAM"],
        open=len(sums.open_sizes),
        cycles=cycles,
    )


def _banks(sums: Collector, meta: Record) -> Banks:
    banks, told = list(sums.banks.values()), sums.conflicts
    return Banks(
        requests=[n for spm in banks for n in spm.requests],
        grants=[n for spm in banks for n in spm.grants],
        denials=[n for spm in banks for n in spm.denials],
        accesses=told.accesses if told is not None and told.known else None,
        conflicts=sums.counts["SRAM_CONFLICT"] if meta.level != "summary" else None,
    )


def _part(group: Group, end: int) -> StageMetrics:
    return StageMetrics(
        name=group.name,
        commands=group.commands,
        ended=group.ended,
        first=group.first,
        last=None if group.first is None else end if group.any.running else group.last,
        active=group.any.until(end),
        te=group.by_kind["TE"].until(end),
        ve=group.by_kind["VE"].until(end),
        dma=group.by_kind["DMA"].until(end),
        command_cycles=group.command_cycles,
        longest=group.longest,
        macs=group.macs,
        ops=group.ops,
        bytes=group.bytes,
        stalls=dict(sorted(group.stalls.items())),
    )


def _stalls(sums: Collector, end: int) -> Iterator[Stall]:
    """The waits by engine and reason; open waits count up to the end."""
    open_: dict[tuple[str, str], list[int]] = {}
    for (unit, _, reason, _), (_, begin) in sums.open_stalls.items():
        counted = open_.setdefault((unit, reason), [0, 0])
        counted[0] += 1
        counted[1] += max(end - begin, 0)
    for engine in sums.engines.values():
        for reason in sorted({*engine.stalls, *(r for unit, r in open_ if unit == engine.unit)}):
            episodes, cycles = engine.stalls.get(reason, (0, 0))
            more, until = open_.get((engine.unit, reason), (0, 0))
            yield Stall(engine.unit, reason, episodes + more, cycles + until, more)


def _energy(trace: Trace, sums: Collector, *, whole: bool) -> dict[str, Fraction]:
    """The energy in TRACE_END; for a window or a truncated file, the sum of the samples."""
    parts = dict(sums.energy)
    said = trace.end.energy_pj if whole and trace.end is not None else None
    if said is not None:
        try:
            parts = {part: parse_rational(said.get(part)) for part in PARTS}
        except ValueError:  # the energies are missing, or are written in another form
            parts = dict(sums.energy)
    return {**parts, "total": sum(parts.values(), Fraction(0))}


def _roofline(trace: Trace, sums: Collector, channels: list[Channel], cycles: int) -> Roofline:
    engines = sums.engines.values()
    dram = [channel for channel in channels if channel.kind == "DRAM"]
    macs = sum(engine.work for engine in engines if engine.kind == "TE")
    ops = sum(engine.work for engine in engines if engine.kind == "VE")
    return Roofline(
        ops=2 * macs + ops,
        bytes=sum(channel.bytes for channel in dram),
        cycles=cycles,
        peak=_peak(trace.path, trace.meta.units, [engine for engine in engines if engine.kind == "TE"]),
        bandwidth=sum((channel.capacity for channel in dram), Fraction(0)) or None,
    )


def _peak(path: str, units: list[dict[str, Any]], te: list[EngineSums]) -> Fraction | None:
    """Operations per cycle of all engines. A tensor engine counts with the rate of its jobs in a body cycle if that rate is
    higher."""
    body = sum(engine.body for engine in te)
    reached = Fraction(sum(engine.body_macs for engine in te), body) if body else Fraction(0)
    peak = Fraction(0)
    for i, unit in enumerate(units):
        if "macs_per_cycle" in unit:
            peak += 2 * max(positive(unit["macs_per_cycle"], path, f"units[{i}].macs_per_cycle"), reached)
        elif "ops_per_cycle" in unit:
            peak += positive(unit["ops_per_cycle"], path, f"units[{i}].ops_per_cycle")
    return peak or None
