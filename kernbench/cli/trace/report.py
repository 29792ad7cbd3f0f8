"""`kbsim trace report`: a trace as a page, or one of its views as a picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Quiet
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from kernbench.trace.reader import Trace
    from kernbench.trace.timeline import Timeline


class View(StrEnum):
    """Views that are drawn as pictures."""

    GANTT = "gantt"
    HEATMAP = "heatmap"
    PHASES = "phases"
    ROOFLINE = "roofline"


class Lanes(StrEnum):
    """The meaning of a lane of the Gantt chart."""

    ENGINE = "engine"
    COMMAND = "command"


class By(StrEnum):
    """The meaning of colours: phases or points."""

    PHASE = "phase"
    LAYER = "layer"
    TENANT = "tenant"
    OPCODE = "opcode"


FORMS = {".svg": "svg", ".png": "png"}


def report(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A trace: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)],
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="Trace to show below the first trace, on the same time axis.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The file to write: an .html file, or with --view an .svg or .png "
            "file.", show_default=False
        ),
    ] = None,
    view: Annotated[
        View | None,
        typer.Option(
            "--view", metavar="VIEW", help=f"Draw only this view, as a picture: {', '.join(View)}.", show_default=False
        ),
    ] = None,
    cycles: Annotated[
        str | None,
        typer.Option("--cycles", metavar="FROM:TO", help="Show only events that overlap these cycles.", show_default=False),
    ] = None,
    lanes: Annotated[Lanes | None, typer.Option("--lanes", help="The rows of --view gantt.", show_default=False)] = None,
    by: Annotated[
        By | None,
        typer.Option("--by", help="With --view: group the commands by this field. The view gantt gives each group a colour, "
            "the view phases draws a bar for each group, and the view roofline draws a point for each group.",
            show_default=False),
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --view: use dark colours.")] = False,
    quiet: Quiet = False,
) -> int:
    """Write one or two traces as an HTML page that needs no network, or draw one view of a trace as a picture."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.trace.reader import open_trace
    from kernbench.trace.timeline import read_timeline

    if other is not None and other.lower().endswith((".html", ".htm")):
        rule = "this is a page, and a second trace is expected here"
        raise InputError(Problem("kbsim trace report", rule, "FILE", other, f"to write a page to this file: --out {other}"))
    target = _target(file, other, out, view)
    _check(view, lanes, by, dark)
    check_apart((target,), (file,) if other is None else (file, other))
    check_writable(target)
    wanted = None if cycles is None else _cycles(cycles)
    if other is not None:
        if view is not None:
            raise InputError(Problem("kbsim trace report", "it draws one trace, and two are given", "--view", view.value))
        return _pair((file, other), target, wanted)
    trace = open_trace(file)
    timeline = read_timeline(trace, wanted)
    data = _drawn(trace, timeline, view, target, lanes or Lanes.ENGINE, by or By.PHASE, dark)
    write_whole(target, data)
    if not quiet:
        output.note(f"{target}: {counted(len(timeline.spans), 'span')}, {len(data):,} bytes")
    if trace.broken is None:
        return output.OK
    output.note(f"error: {file}: {trace.broken}")
    return output.REFUSED


def _drawn(trace: Trace, timeline: Timeline, view: View | None, target: Path, lanes: Lanes, by: By, dark: bool) -> bytes:
    """The page, or the picture in the format of the file ending."""
    if view is None:
        from kernbench.trace.report import report_html
        from kernbench.trace.why import explain_or_error

        return report_html(timeline, explain_or_error(trace))
    from kernbench.trace.report.plots import picture

    form = FORMS[target.suffix.lower()]
    return picture(timeline, view.value, form, lanes=lanes.value, coloured=by.value, by=by.value, dark=dark)


def _target(file: str, other: str | None, out: Path | None, view: View | None) -> Path:
    """The output file: `--out`, or a file beside the trace. InputError if its ending does not fit."""
    from kernbench.common.errors import InputError, Problem

    if out is None:
        stem = _stem(file) if other is None else f"{_stem(file)}_{_stem(other)}"
        out = Path(file).with_name(stem + (".html" if view is None else f".{view}.svg"))
    endings = (".html", ".htm") if view is None else tuple(FORMS)
    if out.suffix.lower() not in endings:
        remedy = "--view draws pictures" if view is None and out.suffix.lower() in FORMS else ""
        raise InputError(
            Problem("kbsim trace report", f"the file name must end in {' or '.join(endings)}", "--out", str(out), remedy)
        )
    return out


def _stem(file: str) -> str:
    """The name of a trace without its endings."""
    stem = Path(file).name
    for ending in (".gz", ".zst", ".jsonl", ".trace"):
        stem = stem.removesuffix(ending)
    return stem


def _pair(files: tuple[str, str], target: Path, cycles: tuple[int, int] | None) -> int:
    """Write the page of two traces."""
    from kernbench.common.files import write_whole
    from kernbench.trace.reader import open_trace
    from kernbench.trace.report.pair import pair_html
    from kernbench.trace.timeline import read_timeline
    from kernbench.trace.why import explain_or_error

    traces = [open_trace(file) for file in files]
    timelines = [read_timeline(trace, cycles) for trace in traces]
    data = pair_html(timelines, [explain_or_error(trace) for trace in traces])
    write_whole(target, data)
    output.note(f"{target}: {counted(sum(len(one.spans) for one in timelines), 'span')}, {len(data):,} bytes")
    broken = [trace for trace in traces if trace.broken is not None]
    for trace in broken:
        output.note(f"error: {trace.path}: {trace.broken}")
    return output.REFUSED if broken else output.OK


def _check(view: View | None, lanes: Lanes | None, by: By | None, dark: bool) -> None:
    """Refuse options without effect."""
    from kernbench.common.errors import InputError, Problem

    given = {"--lanes": lanes is not None, "--by": by is not None, "--dark": dark}
    useful = (
        {View.GANTT: {"--lanes", "--by", "--dark"}, View.HEATMAP: {"--dark"}}.get(view, {"--by", "--dark"}) if view else set()
    )
    for name, is_given in given.items():
        if is_given and name not in useful:
            rule = "the page has a switch for that" if view is None else f"it means nothing for --view {view}"
            raise InputError(Problem("kbsim trace report", rule, name))


def _cycles(text: str) -> tuple[int, int]:
    """`FROM:TO` as numbers; each of them is optional."""
    from kernbench.common.errors import InputError, Problem

    first, _, last = text.partition(":")
    digits = [part.strip().replace(",", "").replace("_", "") for part in (first, last)]
    if ":" in text and all(part == "" or (part.isdecimal() and part.isascii() and len(part) < 19) for part in digits):
        low, high = int(digits[0] or 0), int(digits[1] or 2**62)
        if low < high:
            return low, high
    remedy = f"write {text.replace('-', ':')}" if text.replace("-", "").isdecimal() and text.count("-") == 1 else ""
    raise InputError(Problem("kbsim trace report", "it must be FROM:TO, with FROM below TO", "--cycles", text, remedy))
