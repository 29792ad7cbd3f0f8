"""`kbsim trace why`: where the cycles of a run went, and what blocked it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.text import (
    BAD,
    BUSY,
    STALLED,
    WAIT,
    WIDE,
    WORK,
    Bar,
    Justify,
    duration,
    percent,
    short,
    status_text,
    table,
)
from kernbench.cli.trace.summary import TraceFile
from kernbench.cli.trace.tables import near, place_of, safe
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.trace.why import Story, Why
    from kernbench.trace.why.causes import CauseShare, Span
    from kernbench.trace.why.history import Command


def why(
    file: TraceFile,
    op: Annotated[
        int | None,
        typer.Option("--op", metavar="ID", min=0, help="Explain only this command.", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Show N rows of each table.")] = 12,
    energy: Annotated[
        bool, typer.Option("--energy", help="Also show the energy by part, as the command kbsim trace energy does.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Explain the time of a run: the critical path, the cost of each resource on the critical path, or the waits of one
    command.

    Record the trace with --trace-level full.
    """
    from kernbench.cli.trace.energy import USUAL, energy_tables
    from kernbench.trace.energy import energy_to_dict, ledger
    from kernbench.trace.reader import open_trace
    from kernbench.trace.why import explain
    from kernbench.trace.why.json import story_to_dict, why_to_dict

    trace = open_trace(file)
    found = explain(trace)
    story = None if op is None else found.story(op)
    spent = ledger(open_trace(file)) if energy else None
    groupings = USUAL.split(",")
    if as_json:
        plain = why_to_dict(found) if story is None else story_to_dict(found, story)
        output.show_json({**plain, **({} if spent is None else {"energy": energy_to_dict(spent, groupings, top)})})
    else:
        width = output.console(sys.stdout).width
        output.show(run_story(found, top, width) if story is None else command_story(found, story, top, width))
        if spent is not None:
            output.show(["", *energy_tables(spent, groupings, top, width)])
    if trace.broken is None:
        return output.OK
    output.note(f"error: {file}: {trace.broken}")
    return output.REFUSED


FEW_PARTS = 2  # parts of a row that are named on a wide terminal; a narrow one shows one
FEW_BLOCKERS = 4


def run_story(why: Why, most: int, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim trace why`: one sentence, the costs, and the longest spans of the critical path."""
    yield from _head(why)
    if not why.history.cycles:
        return
    yield ""
    yield widgets.Text(safe(why.sentence, 400))
    yield ""
    on_path = (part.resource for stretch in why.path for part in _parts(stretch.spans))
    place = place_of([*(cost.resource for cost in why.costs), *on_path])
    if place:
        yield widgets.Text(f"names are relative to {place[:-1]}", "dim")
    yield _cost_table(why, most, width, place)
    yield ""
    yield _path_table(why, most, width, place)


def command_story(why: Why, story: Story, most: int, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim trace why --op`: when and why the command became ready, and the causes of its cycles over time."""
    yield from _head(why)
    yield ""
    place = place_of([story.command.unit, *(part.resource for part in _parts(story.spans))])
    if place:
        yield widgets.Text(f"names are relative to {place[:-1]}", "dim")
    yield widgets.Text(_times(story, place))
    cycles = sum(span.cycles for span in story.spans)
    if cycles:
        share = f", {short(story.critical)} of them on the critical path" if story.critical else ", off the critical path"
        yield widgets.Text(f"{counted(cycles, 'cycle')} from readiness to end{share}")
        yield ""
        yield _totals_table(story, width, place)
        waits = _waits(story)
        if waits:
            yield ""
            yield _wait_table(waits, most, place)


def _head(why: Why) -> Iterator[widgets.Text]:
    history = why.history
    freq = history.freq_ghz
    text = status_text(history.status).append("  ").append(counted(history.cycles, "cycle"), "bold")
    yield text.append(f", {duration(float(history.cycles / freq))} at {float(freq):g} GHz")
    on_path = {stretch.command.id for stretch in why.path if stretch.command is not None}
    what = f"{safe(history.program, 40) or 'a program'}, {counted(len(history.commands), 'command')}"
    yield widgets.Text(f"{what}, {len(on_path):,} of them on the critical path")
    if history.broken:
        yield widgets.Text(f"the file breaks off at {history.broken}", BAD)


def _cost_table(why: Why, most: int, width: int, place: str) -> Table:
    shown, cycles = why.costs[:most], why.history.cycles
    legend = f"{BUSY} work  {STALLED} wait"
    note = f"the highest {most} of {len(why.costs)}" if len(why.costs) > most else legend
    columns: list[tuple[str, Justify]] = [("cause", "left"), ("of", "left"), ("", "left"), ("share", "right")]
    columns += [("cycles", "right"), ("commands", "right")]
    made = table("Critical path by cause", columns, note)
    for cost in shown:
        share = float(cost.cycles / cycles)
        made.add_row(
            cost.cause,
            near(cost.resource, place),
            _bar(cost.cause, share, width),
            widgets.Text(percent(share), "bold"),
            _cycles(cost.cycles),
            f"{cost.commands:,}",
        )
    return made


def _path_table(why: Why, most: int, width: int, place: str) -> Table:
    """The longest stretches, in the order of time."""
    from kernbench.trace.why import merged

    taken = [stretch for stretch in why.path if stretch.end > stretch.start]
    longest = sorted(taken, key=lambda stretch: (stretch.start - stretch.end, stretch.start))[:most]
    note = f"the longest {most} of {len(taken)}, in order of time" if len(taken) > most else "in order of time"
    columns: list[tuple[str, Justify]] = [("from", "right"), ("to", "right"), ("cycles", "right")]
    made = table("Critical path", [*columns, ("command", "left"), ("after", "left"), ("mostly", "left")], note)
    _wrap_last(made)
    for stretch in taken:
        if stretch in longest:
            name = "" if stretch.command is None else _name(stretch.command)
            span = (f"{stretch.start:,}", f"{stretch.end:,}", f"{stretch.end - stretch.start:,}")
            made.add_row(*span, name, stretch.after, _mostly(merged(stretch.spans), width, place))
    return made


def _times(story: Story, place: str) -> str:
    """Readiness, issue, start and end, in one sentence."""
    command, job = story.command, story.command.job
    unit = "" if command.unit == "control" else f" on {near(command.unit, place)}"
    text = f"{_name(command)}{unit}: "
    if story.ready is None:
        return f"{text}never ready"
    after = f" by {_name(story.after)}" if story.after is not None else ""
    text += f"ready at {story.ready:,}{after}"
    if job is None:
        return f"{text}, complete at once" if command.end is not None else f"{text}, never issued"
    text += f", issued at {job.issue:,}"
    text += f", started at {job.start:,}" if job.started else ", never started"
    return f"{text}, ended at {job.end:,}" if job.ended else f"{text}, not ended"


def _totals_table(story: Story, width: int, place: str) -> Table:
    from kernbench.trace.why import merged
    from kernbench.trace.why.causes import totals

    whole = sum(span.cycles for span in story.spans)
    columns: list[tuple[str, Justify]] = [("cause", "left"), ("of", "left"), ("", "left"), ("share", "right")]
    columns += [("cycles", "right"), ("in the way", "left")]
    made = table("Where its cycles went", columns, f"{BUSY} work  {STALLED} wait")
    _wrap_last(made)
    parts = merged(story.spans)
    for (cause, resource), cycles in totals(story.spans).items():
        share = float(cycles / whole)
        mine = [part for part in parts if (part.cause, part.resource) == (cause, resource)]
        bar = _bar(cause, share, width)
        cells = (bar, widgets.Text(percent(share), "bold"), _cycles(cycles), _blockers(mine))
        made.add_row(cause, near(resource, place), *cells)
    return made


def _wait_table(waits: Sequence[tuple[int, int, Sequence[CauseShare]]], most: int, place: str) -> Table:
    """The waits in order of time. If there are many, only the longest."""
    longest = sorted(waits, key=lambda wait: (-_sum(wait[2]), wait[0]))[:most]
    note = f"the longest {most} of {len(waits)}" if len(waits) > most else "in order of time"
    columns: list[tuple[str, Justify]] = [("from", "right"), ("to", "right"), ("waited", "right"), ("for", "left")]
    made = table("Waits", columns, note)
    _wrap_last(made)
    for start, end, parts in waits:
        if (start, end, parts) in longest:
            made.add_row(f"{start:,}", f"{end:,}", _cycles(_sum(parts)), _waited_for(parts, place))
    return made


def _waits(story: Story) -> list[tuple[int, int, Sequence[CauseShare]]]:
    """Intervals of equal waits: start, end, cause."""
    from kernbench.trace.why import merged
    from kernbench.trace.why.causes import WORK

    found: list[tuple[int, int, Sequence[CauseShare]]] = []
    for start, end, spans in _alike(story.spans):
        parts = [part for part in merged(spans) if part.cause not in WORK]
        if parts:
            found.append((start, end, parts))
    return found


def _parts(spans: Sequence[Span]) -> Iterator[CauseShare]:
    return (part for span in spans for part in span.parts)


def _wrap_last(made: Table) -> None:
    """Wrap the last column over several lines; the other columns are on its first line."""
    made.columns[-1].no_wrap = False


def _alike(spans: Sequence[Span]) -> Iterator[tuple[int, int, list[Span]]]:
    """Merge neighbours with the same causes, resources and blockers."""
    run: list[Span] = []
    for span in spans:
        if run and _kinds(run[-1]) != _kinds(span):
            yield run[0].start, run[-1].end, run
            run = []
        run.append(span)
    if run:
        yield run[0].start, run[-1].end, run


def _kinds(span: Span) -> set[tuple[str, str, tuple[int, ...], int | None]]:
    return {(part.cause, part.resource, part.by, part.bank) for part in span.parts}


def _mostly(parts: Sequence[CauseShare], width: int, place: str) -> str:
    """The largest parts in words: `75% share dram.ch0, 25% transfer dram.ch0`."""
    whole = _sum(parts)
    order = sorted(_by_cause(parts).items(), key=lambda item: -_sum(item[1]))
    few = FEW_PARTS if width >= WIDE else 1
    words = []
    for (cause, resource), some in order[:few]:
        share = "" if len(order) == 1 else f"{percent(float(_sum(some) / whole))} "
        words.append(f"{share}{cause} {near(resource, place)}")
    return ", ".join(words)


def _waited_for(parts: Sequence[CauseShare], place: str) -> str:
    """Causes, resources and commands in the way: `share dram.ch0 by 3: 12, 4: 12`."""
    words = []
    for (cause, resource), some in _by_cause(parts).items():
        bank = next((f"bank {part.bank} of " for part in some if part.bank is not None), "")
        name = near(resource, place)
        what = f"{bank}{name}" if cause == "bank" and bank else f"{cause} {bank}{name}"
        by = _blockers(some)
        words.append(what + (f" {by}" if by else ""))
    return ", ".join(words)


def _by_cause(parts: Sequence[CauseShare]) -> dict[tuple[str, str], list[CauseShare]]:
    found: dict[tuple[str, str], list[CauseShare]] = {}
    for part in parts:
        found.setdefault((part.cause, part.resource), []).append(part)
    return found


def _blockers(parts: Sequence[CauseShare]) -> str:
    """The blocking commands, the most expensive first, with their cycles if they are known for each."""
    found: dict[tuple[int, ...], Fraction] = {}
    for part in parts:
        if part.by:
            found[part.by] = found.get(part.by, Fraction(0)) + part.cycles
    order = sorted(found.items(), key=lambda item: -item[1])
    if len(order) == 1:
        return "by " + _some(order[0][0])
    words = [f"{_some(by)}: {_cycles(cycles)}" for by, cycles in order[:FEW_BLOCKERS]]
    more = f", {len(order) - FEW_BLOCKERS} more" if len(order) > FEW_BLOCKERS else ""
    return "by " + ", ".join(words) + more if words else ""


def _some(commands: tuple[int, ...]) -> str:
    few = "+".join(str(command) for command in commands[:FEW_BLOCKERS])
    return few + (f"+{len(commands) - FEW_BLOCKERS} more" if len(commands) > FEW_BLOCKERS else "")


def _name(command: Command) -> str:
    return f"{command.id} {safe(command.opcode, 24)}"


def _sum(parts: Sequence[CauseShare]) -> Fraction:
    return sum((part.cycles for part in parts), Fraction(0))


def _cycles(cycles: Fraction) -> str:
    """Cycles in few characters, with a decimal point if they are not an integer."""
    value = float(cycles)
    return short(cycles.numerator if cycles.denominator == 1 else value) if value >= 0.005 else "<0.01"


def _bar(cause: str, share: float, width: int) -> Bar:
    from kernbench.trace.why.causes import WORK as CAUSES_OF_WORK

    work = cause in CAUSES_OF_WORK
    return Bar([(share, BUSY if work else STALLED, WORK if work else WAIT)], 24 if width >= WIDE else 10)
