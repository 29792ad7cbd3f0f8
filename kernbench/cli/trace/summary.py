"""`kbsim trace summary`: the metrics of a trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.summary import banks_line, engine_table, resource_table
from kernbench.cli.text import BAD, WAIT, duration, headed, percent, rational, scaled, short, status_text, unit
from kernbench.cli.trace.tables import safe, stage_table, stall_table, track
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sim_engine.summary import EngineUse, ResourceUse
    from kernbench.trace.metric.figures import Banks, Channel, Metrics, Roofline, Run, Spread, Tokens


TraceFile = Annotated[str, typer.Argument(metavar="FILE", help="A trace: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)]


class Format(StrEnum):
    """Forms of the metrics."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def summary(
    file: TraceFile,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format", "-f", help="The output format. By default, the ending of the --out file sets the format; without "
            "--out, the output is a table.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The file to write: .json, .csv or .parquet.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Summarise a trace: utilisation, bandwidth, conflicts, phases, layers, stalls, tokens, energy, roofline."""
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.trace.metric.measure import metrics
    from kernbench.trace.reader import open_trace

    wanted = _format(form, out, as_json)
    if out is not None:
        check_writable(out)
    check_apart((out,), (file,))
    trace = open_trace(file)
    found = metrics(trace)
    if wanted is Format.TABLE:
        output.show(trace_summary(found, output.console(sys.stdout).width))
    elif out is None:
        output.write(_data(wanted, found).decode())
    else:
        write_whole(out, _data(wanted, found))
    if trace.broken is None:
        return output.OK
    output.note(f"error: {file}: {trace.broken}")
    return output.REFUSED


def _format(form: Format | None, out: Path | None, as_json: bool) -> Format:
    """The requested format; InputError if it is impossible."""
    from kernbench.common.errors import InputError, Problem

    where = "kbsim trace summary"
    if as_json:
        if form not in (None, Format.JSON):
            raise InputError(Problem(where, f"--json and --format {form} exclude each other"))
        form = Format.JSON
    if form is None:
        endings = {f".{kind}": kind for kind in Format if kind is not Format.TABLE}
        form = Format.TABLE if out is None else endings.get(out.suffix.lower(), Format.TABLE)
    if out is not None and form is Format.TABLE:
        remedy = "give --out a name that ends in .json, .csv or .parquet"
        raise InputError(Problem(where, "a table goes to stdout", remedy=remedy))
    if out is None and form is Format.PARQUET:
        raise InputError(Problem(where, "Parquet is no text", remedy="give --out FILE"))
    return form


def _data(form: Format, found: Metrics) -> bytes:
    import json

    from kernbench.trace.metric.tables import csv_text, parquet_bytes, to_dict

    if form is Format.PARQUET:
        return parquet_bytes(found)
    text = csv_text(found) if form is Format.CSV else json.dumps(to_dict(found)) + "\n"
    return text.encode()


def trace_summary(metrics: Metrics, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim trace summary`, for a terminal of `width` columns."""
    run = metrics.run
    yield from _headline(metrics)
    if run.cycles:
        yield ""
        yield engine_table([_engine_use(metrics, i) for i in range(len(metrics.engines))], width)
        yield ""
        yield _transfers(metrics)
        links = [link for link in metrics.links if link.bytes]
        shared = [[_resource_use(one, run.freq_ghz) for one in some] for some in (metrics.channels, links)]
        if any(shared):
            yield ""
            yield resource_table("DRAM channels and links", shared, width)
        yield from _banks(metrics.banks)
        for title, parts in (("Phases", metrics.phases), ("Layers", metrics.layers)):
            if any(part.name is not None and part.latency is not None for part in parts):
                yield ""
                yield stage_table(title, parts, width)
        if metrics.stalls:
            yield ""
            yield stall_table(metrics.stalls, width)
        yield from _lines(metrics)
    yield from _notes(metrics)


def _headline(metrics: Metrics) -> Iterator[widgets.Text]:
    run = metrics.run
    text = status_text(safe(run.status, 20)).append("  ").append(counted(run.cycles, "cycle"), "bold")
    text.append(f", {duration(float(run.ns))} at {float(run.freq_ghz):g} GHz")
    if run.first:
        text.append(f", from cycle {run.first:,} on")
    yield text
    yield widgets.Text(f"{safe(run.program, 40) or 'a program'}, {counted(run.events, 'event')} at level {safe(run.level, 20)}")
    if run.broken:
        yield widgets.Text(f"the file breaks off at {run.broken}", BAD)


def _engine_use(metrics: Metrics, index: int) -> EngineUse:
    from kernbench.sim_engine.summary import EngineUse

    engine = metrics.engines[index]
    queued = {stall.reason: stall.cycles for stall in metrics.stalls if stall.unit == engine.unit}
    return EngineUse(
        name=track(engine.unit),
        kind=engine.kind.lower(),
        busy=engine.busy,
        bank_conflict=engine.bank_conflict,
        backpressure=engine.backpressure,
        idle=engine.idle,
        queue_full=queued.get("queue_full", 0),
        priority_deferred=queued.get("priority_deferred", 0),
        jobs=engine.jobs,
        work=engine.work,
    )


def _resource_use(channel: Channel, freq_ghz: Fraction) -> ResourceUse:
    from kernbench.sim_engine.summary import ResourceUse

    name = track(channel.unit)
    return ResourceUse(name, channel.bytes, channel.busy, channel.cycles, channel.capacity, freq_ghz)


def _transfers(metrics: Metrics) -> widgets.Text:
    transfers = metrics.transfers
    text = headed("DMA").append(f"{counted(transfers.ended, 'transfer')}, {unit(transfers.bytes, 'B')}: ")
    text.append(f"{short(float(transfers.bandwidth))} B/cycle", "bold")
    if metrics.run.freq_ghz != 1:
        text.append(f", {short(float(transfers.bandwidth * metrics.run.freq_ghz))} GB/s")
    text.append(f"; {unit(transfers.loaded, 'B')} in, {unit(transfers.stored, 'B')} out")
    text.append(f", {unit(transfers.between, 'B')} between scratchpads" if transfers.between else "")
    return text.append(f"; {transfers.open:,} not ended" if transfers.open else "")


def _banks(banks: Banks) -> Iterator[RenderableType]:
    from kernbench.sim_engine.summary import BankConflicts

    if not banks.requests:
        return
    denials = banks.denials
    worst = max(range(len(denials)), key=lambda bank: (denials[bank], -bank))
    of_worst = (worst, banks.requests[worst], denials[worst]) if denials[worst] else (None, 0, 0)
    yield ""
    yield banks_line(BankConflicts(sum(banks.requests), sum(denials), *of_worst))
    if banks.conflict_rate is not None and banks.accesses:
        text = f"{banks.conflicts:,} of {banks.accesses:,} accesses by bank, direction and cycle"
        yield headed("Conflict rate").append(percent(float(banks.conflict_rate)), "bold").append(f"  ({text})")


def _lines(metrics: Metrics) -> Iterator[RenderableType]:
    """The metrics that take one line each."""
    lines = [*_token_lines(metrics.tokens, metrics.run), *_energy_line(metrics), *_roofline(metrics.roofline)]
    if lines:
        yield ""
        yield from lines


def _token_lines(tokens: Tokens, run: Run) -> Iterator[widgets.Text]:
    if tokens.count or tokens.prompt:
        text = headed("Tokens").append(f"{short(tokens.count)} decoded", "bold")
        text.append(f" after {short(tokens.prompt)} of the prompt" if tokens.prompt else "")
        yield text.append("" if tokens.latency is None else f"; latency {_spread(tokens.latency)}")
    times = [(name, cycles) for name, cycles in (("TTFT", tokens.ttft), ("TPOT", tokens.tpot)) if cycles is not None]
    for name, cycles in times:
        yield headed(name).append(f"{short(float(cycles))} cycles, {duration(float(cycles / run.freq_ghz))}")
    if tokens.gap is not None:
        yield headed("Between tokens").append(_spread(tokens.gap))
    if tokens.completions:
        parts = ", ".join(f"{count:,} {status}" for status, count in tokens.completions.items())
        yield headed("Completions").append(safe(parts, 60))


def _spread(spread: Spread) -> str:
    """Median and tail of latencies."""
    if spread.least == spread.most:
        return f"{short(spread.most)} cycles"
    return f"p50 {short(spread.p50)}, p99 {short(spread.p99)}, most {short(spread.most)} cycles"


def _energy_line(metrics: Metrics) -> Iterator[widgets.Text]:
    total = metrics.energy_pj["total"]
    if total <= 0:
        return
    text = headed("Energy").append(scaled(float(total), ("pJ", "nJ", "uJ", "mJ", "J")), "bold")
    if metrics.run.cycles:
        text.append(f" at {scaled(float(total / metrics.run.ns), ('mW', 'W', 'kW'))}")
    parts = [(pj, name) for name, pj in metrics.energy_pj.items() if name != "total" and pj >= total / 100]
    parts.sort(reverse=True)
    yield text.append(": " + ", ".join(f"{name} {percent(float(pj / total))}" for pj, name in parts))


def _roofline(roof: Roofline) -> Iterator[widgets.Text]:
    if not roof.ops or roof.peak is None or roof.bound is None:
        return
    text = headed("Roofline").append(f"{roof.bound} bound", "bold")
    if roof.intensity is not None and roof.ridge is not None:
        text.append(f": {_three(roof.intensity)} op/B, ridge at {_three(roof.ridge)}")
    if roof.roof:
        text.append(f"; {short(float(roof.attained))} of {short(float(roof.roof))} op/cycle ")
        text.append(f"({percent(float(roof.attained / roof.roof))})")
    yield text


def _three(value: Fraction) -> str:
    return rational(value) if value.denominator == 1 and value < 1000 else short(float(value))


def _notes(metrics: Metrics) -> Iterator[RenderableType]:
    """Warnings and errors by code, and which metrics this file cannot give."""
    run = metrics.run
    lines: list[widgets.Text] = []
    for title, codes, style in (("Errors", run.errors, f"bold {BAD}"), ("Warnings", run.warnings, f"bold {WAIT}")):
        if codes:
            text = ", ".join(f"{count:,} {safe(code, 24)}" for code, count in codes.items())
            lines.append(widgets.Text.assemble((title, style), "  ", text))
    lines += [widgets.Text(f"not in this file: {what}", "dim") for what in run.missing]
    if run.skipped:
        lines.append(
            widgets.Text(f"{counted(run.skipped, 'event')} of types that only a newer kernbench knows were skipped", "dim")
        )
    yield from _spaced(lines)


def _spaced(lines: Sequence[widgets.Text]) -> Iterator[RenderableType]:
    if lines:
        yield ""
        yield from lines
