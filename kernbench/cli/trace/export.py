"""`kbsim trace export`: a trace in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json
from kernbench.trace.exporters.write import Format, TimeUnit


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A trace: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="The file to write; .gz and .zst are compressed.", show_default=False),
    ],
    to: Annotated[
        Format | None,
        typer.Option("--to", help="The format.", show_default="by the name of OUT: .json is chrome, .pftrace perfetto"),
    ] = None,
    time: Annotated[
        TimeUnit | None,
        typer.Option(
            "--time", help="With chrome and perfetto: whether 1 ns in the file is a nanosecond or a cycle.", show_default="ns"
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Export a trace as Chrome JSON, Perfetto protobuf, CSV, Parquet, or self-contained JSON Lines."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_apart
    from kernbench.trace.exporters.write import TIMED
    from kernbench.trace.exporters.write import export as write
    from kernbench.trace.reader import open_trace

    form = format_of(out) if to is None else to
    if time is not None and form not in TIMED:
        rule = f"--to {form.value} has cycles and nanoseconds both"
        raise InputError(Problem("kbsim trace export", rule, "--time", time.value))
    check_apart((out,), (file,))
    trace = open_trace(file)
    counts = write(trace, form, out, TimeUnit.NS if time is None else time)
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


#: Ends of names, without `.gz` and `.zst`, and the format of such a file.
ENDINGS = {
    ".json": Format.CHROME,
    ".pftrace": Format.PERFETTO,
    ".perfetto-trace": Format.PERFETTO,
    ".pb": Format.PERFETTO,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".jsonl": Format.JSONL,
}


def format_of(out: Path) -> Format:
    """The format implied by a file name; InputError if it implies none."""
    from kernbench.common.errors import InputError, Problem

    name = out.with_suffix("") if out.suffix.lower() in (".gz", ".zst") else out
    found = ENDINGS.get(name.suffix.lower())
    if found is None:
        rule = f"its name must end in {', '.join(ENDINGS)}, or --to must say the format: {', '.join(Format)}"
        raise InputError(Problem("kbsim trace export", rule, "--out", str(out)))
    return found
