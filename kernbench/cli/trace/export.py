"""`kbsim trace export`: a trace in another format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.text import Justify, table
from kernbench.cli.text import unit as unit_text
from kernbench.trace.exporters.selection import KINDS, SelectedTrace, Selection, Size, estimate
from kernbench.trace.exporters.write import Format, TimeUnit


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A trace: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="OUT", help="The file to write. A file that ends in .gz or .zst is "
            "compressed.", show_default=False),
    ] = None,
    to: Annotated[
        Format | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help=f"The format: {', '.join(Format)}.",
            show_default="by the name of OUT: .json is chrome, .pftrace perfetto",
        ),
    ] = None,
    time: Annotated[
        TimeUnit | None,
        typer.Option(
            "--time",
            help="Unit of time in chrome, perfetto and otlp files. With cycles, "
            "each nanosecond in the file stands for one cycle of the run.",
            show_default="ns",
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="Send the spans to an OpenTelemetry collector.", show_default=False),
    ] = None,
    protocol: Annotated[
        Protocol | None, typer.Option("--protocol", help="With --endpoint: the transport protocol of "
            "OTLP.", show_default="http")
    ] = None,
    origin: Annotated[
        int | None,
        typer.Option(
            "--origin",
            metavar="NS",
            min=0,
            max=2**62,
            help="With otlp: the time of cycle 0, as nanoseconds since 1 January 1970.",
            show_default="0",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="KINDS", help=f"Export only these kinds of events: {', '.join(KINDS)}.", show_default="all"
        ),
    ] = None,
    without: Annotated[
        str | None, typer.Option("--without", metavar="KINDS", help="Leave these kinds out.", show_default=False)
    ] = None,
    layer: Annotated[
        str | None, typer.Option("--layer", metavar="N,...", help="Export only commands of these layers.", show_default="all")
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option("--phase", metavar="NAME,...", help="Export only commands of these phases.", show_default="all"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the approximate size of the export, and write nothing.")] =
        False,
    as_json: Json = False,
) -> int:
    """Export a trace as Chrome JSON, Perfetto protobuf, CSV, Parquet, OpenTelemetry spans, or self-contained JSON Lines."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_apart
    from kernbench.trace.exporters.write import TIMED
    from kernbench.trace.exporters.write import export as write

    if endpoint is not None:
        return _send(file, endpoint, protocol or Protocol.HTTP, out, to, time, origin or 0, as_json=as_json)
    if protocol is not None:
        raise InputError(
            Problem("kbsim trace export", "this option is only valid with --endpoint", "--protocol", protocol.value)
        )
    if out is None:
        rule = "there is nowhere to write to"
        raise InputError(Problem("kbsim trace export", rule, remedy="add --out FILE, or --endpoint URL for a collector"))
    form = format_of(out) if to is None else to
    if origin is not None and form is not Format.OTLP:
        raise InputError(Problem("kbsim trace export", "this option is only valid with --to otlp", "--origin", origin))
    if time is not None and form not in TIMED:
        rule = f"--to {form.value} has both cycles and nanoseconds"
        raise InputError(Problem("kbsim trace export", rule, "--time", time.value))
    selection = selection_of(only, without, layer, phase)
    if form is Format.JSONL and not selection.is_whole:
        given = next(name for name, one in zip(SELECTING, (only, without, layer, phase), strict=True) if one is not None)
        rule = "--to jsonl writes a trace, and a trace must be complete"
        remedy = "choose what is recorded with kbsim run --trace-only"
        raise InputError(Problem("kbsim trace export", rule, given, remedy=remedy))
    check_apart((out,), (file,))
    unit = TimeUnit.NS if time is None else time
    trace = SelectedTrace(file, selection)
    if dry_run or Path(file).stat().st_size >= LARGE:
        size = None if form in UNSIZED else estimate(file, selection, form, unit)
        if dry_run:
            return _show_size(size, out, form, as_json=as_json)
        if size is not None and size.total >= PRINTED:
            output.note(f"{out}: about {unit_text(size.total, 'B')}{_packed(out)}, {_largest(size)}")
    counts = write(trace, form, out, unit, origin or 0)
    if as_json:
        broken = None if trace.broken is None else str(trace.broken)
        output.show_json({"out": str(out), "format": form.value, **counts, "broken": broken})
    else:
        from kernbench.common.json_shapes import counted

        output.note(f"{out}: {', '.join(counted(count, name[:-1]) for name, count in counts.items())}")
    if trace.broken is None:
        return output.OK
    output.note(f"error: {file}: {trace.broken}")
    return output.REFUSED


class Protocol(StrEnum):
    """How a collector is spoken to."""

    HTTP = "http"
    GRPC = "grpc"


def _send(
    file: str,
    endpoint: str,
    protocol: Protocol,
    out: Path | None,
    to: Format | None,
    time: TimeUnit | None,
    origin: int,
    *,
    as_json: bool,
) -> int:
    """Send a whole trace to a collector."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.json_shapes import counted
    from kernbench.trace.exporters.otlp import collector, emit
    from kernbench.trace.reader import open_trace

    if out is not None:
        raise InputError(Problem("kbsim trace export", "--out and --endpoint cannot be used together", "--endpoint", endpoint))
    if to not in (None, Format.OTLP):
        raise InputError(
            Problem("kbsim trace export", "--endpoint needs --to otlp, the format of collectors", "--to", to.value)
        )
    trace = open_trace(file)
    counts = emit(trace, collector(endpoint, protocol.value), time or TimeUnit.NS, origin)
    if as_json:
        broken = None if trace.broken is None else str(trace.broken)
        output.show_json({"endpoint": endpoint, "protocol": protocol.value, **counts, "broken": broken})
    else:
        output.note(f"{endpoint}: {', '.join(counted(count, name[:-1]) for name, count in counts.items())}")
    if trace.broken is None:
        return output.OK
    output.note(f"error: {file}: {trace.broken}")
    return output.REFUSED


UNSIZED = (Format.PARQUET, Format.OTLP)  #: whose sizes are not those of their events added up
SELECTING = ("--only", "--without", "--layer", "--phase")
LARGE = 200_000  #: [B] of a trace from which on the size of its export is estimated before it is written
PRINTED = 20_000_000  #: [B] of an export from which on its size is printed before it is written


def selection_of(only: str | None, without: str | None, layer: str | None, phase: str | None) -> Selection:
    """The options as a selection; InputError for an unknown kind, a layer that is not a number, or if nothing is left."""
    from kernbench.common.errors import InputError, Problem

    kinds = set(KINDS) if only is None else set(_kinds("--only", only))
    kinds -= set() if without is None else set(_kinds("--without", without))
    if not kinds:
        raise InputError(Problem("kbsim trace export", "it leaves nothing", "--without", without))
    layers = None
    if layer is not None:
        parts = [part.strip() for part in layer.split(",")]
        if not all(part.isdecimal() and part.isascii() and len(part) < 10 for part in parts):
            raise InputError(
                Problem("kbsim trace export", "it must be a list of layer numbers such as 0,1,2", "--layer", layer)
            )
        layers = frozenset(map(int, parts))
    phases = None if phase is None else frozenset(part.strip() for part in phase.split(","))
    return Selection(frozenset(kinds), layers, phases)


def _kinds(option: str, text: str) -> list[str]:
    from kernbench.common.errors import InputError, Problem

    found = [part.strip() for part in text.split(",")]
    if set(found) <= set(KINDS):
        return found
    raise InputError(Problem("kbsim trace export", f"it must be some of {', '.join(KINDS)}, with commas", option, text))


def _largest(size: Size) -> str:
    """The kind of event with the most bytes, and the option that leaves it out."""
    kind = max(size.nbytes, key=lambda one: size.nbytes[one])
    return f"{size.nbytes[kind] / max(1, size.total):.0%} of it {kind}: --without {kind} leaves them out"


def _packed(out: Path) -> str:
    return " before compression" if out.suffix.lower() in (".gz", ".zst") else ""


def _show_size(size: Size | None, out: Path, form: Format, *, as_json: bool) -> int:
    """What `--dry-run` prints: events and bytes by kind."""
    from kernbench.common.errors import InputError, Problem

    if size is None:
        rule = f"--to {form.value} is written as a whole: its size is known only then"
        raise InputError(Problem("kbsim trace export", rule, "--dry-run"))
    if as_json:
        kinds = {kind: {"events": count, "bytes": size.nbytes[kind]} for kind, count in size.events.items()}
        output.show_json({"out": str(out), "format": form.value, "bytes": size.total, "rest": size.rest, "kinds": kinds})
        return output.OK
    columns: list[tuple[str, Justify]] = [("kind", "left"), ("events", "right"), ("size", "right")]
    made = table("By kind", columns)
    for kind, count in size.events.items():
        made.add_row(kind, f"{count:,}", unit_text(size.nbytes[kind], "B"))
    output.show([widgets.Text(f"{out}: about {unit_text(size.total, 'B')}{_packed(out)}"), made])
    return output.OK


#: Ends of names, without `.gz` and `.zst`, and the format of such a file.
ENDINGS = {
    ".json": Format.CHROME,
    ".pftrace": Format.PERFETTO,
    ".perfetto-trace": Format.PERFETTO,
    ".pb": Format.PERFETTO,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".jsonl": Format.JSONL,
    ".otlp": Format.OTLP,
}


def format_of(out: Path) -> Format:
    """The format implied by a file name; InputError if it implies none."""
    from kernbench.common.errors import InputError, Problem

    name = out.with_suffix("") if out.suffix.lower() in (".gz", ".zst") else out
    found = ENDINGS.get(name.suffix.lower())
    if found is None:
        formats = f"for another name, give the format with --to: {', '.join(Format)}"
        rule = f"the file name must end in {', '.join(ENDINGS)}; {formats}"
        raise InputError(Problem("kbsim trace export", rule, "--out", str(out)))
    return found
