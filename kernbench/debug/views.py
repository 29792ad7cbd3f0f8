"""The output of a session: each view is a list of lines or tables for a terminal, which is the same in the terminal program and
in a script."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from kernbench.common.look import palette
from kernbench.debug.expression import shown
from kernbench.debug.state import Bank, State, tensor_text
from kernbench.debug.waits import circle_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from kernbench.debug.session import Session
    from kernbench.sim_engine.run.state import EngineState, JobState

WORK, WAIT, LIMIT, DIM = (palette.style(name) for name in ("work", "wait", "limit", "soft"))
FAIL = palette.style("fail")
STATUS = {"done": palette.style("done"), "running": palette.style("running"), "aborted": palette.style("aborted")}
ACTIVITY = {"idle": DIM, "busy": WORK, "bank_conflict": WAIT, "backpressure": WAIT}
ROWS_OF_A_VIEW = 16  # rows of a view
AROUND = 2  # source lines before and after a kernel's line


def _grid(*justify: str) -> Table:
    """A table without lines: columns are `l` left, `r` right, or `w` wrapped."""
    made = Table.grid(padding=(0, 2, 0, 0))
    for one in justify:
        made.add_column(justify="right" if one == "r" else "left", no_wrap=one != "w", overflow="ellipsis")
    return made


def _more(count: int, what: str) -> Text:
    return Text(f"{count:,} more {what}{'' if count == 1 else 's'}", DIM)


def _since(cycle: int | None) -> str:
    return "" if cycle is None else f"since {cycle:,}"


def _rate(value: Fraction) -> str:
    return shown(value) + " B/cycle"


def head(session: Session) -> Text:
    """Status, cycle, target and machine in one line."""
    status = Text(session.status, STATUS.get(session.status, FAIL))
    text = Text.assemble(status, "  ", (f"cycle {session.cycle:,}", "bold"))
    return text.append(f"  {session.subject.name} on {session.subject.config.source}", DIM)


def place_of(state: State) -> str:
    """The common prefix of the names of all engines, up to a dot, which is not repeated in every line."""
    names = state.machine.plan.dma[: state.machine.plan.with_scratchpad]
    if len(names) < 2 or "." not in names[0]:
        return ""
    first, last = min(names).split("."), max(names).split(".")
    same = 0
    while same < min(len(first), len(last)) - 1 and first[same] == last[same]:
        same += 1
    return "".join(f"{part}." for part in first[:same])


def engines(session: Session) -> list[RenderableType]:
    """Every engine: its activity, its job, the remaining work, and the beginning of its wait."""
    state = session.state
    place = place_of(state)
    at_work = [one for one in state.peeked.engines if one.activity != "idle" or one.queue]
    rows = [row for engine in at_work[:ROWS_OF_A_VIEW] for row in _engine_rows(engine, engine.name.removeprefix(place))]
    out: list[RenderableType] = [Text(f"names are relative to {place[:-1]}", DIM)] if place else []
    if rows:
        out.append(Flexible(rows, "lllrl", 2))
    if len(at_work) > ROWS_OF_A_VIEW:
        out.append(_more(len(at_work) - ROWS_OF_A_VIEW, "engine"))
    idle = len(state.peeked.engines) - len(at_work)
    if idle:
        others = "no engine works" if not at_work else f"{idle:,} more {'is' if idle == 1 else 'are'} idle"
        out.append(Text(others, DIM))
    return out


class Flexible:
    """A table in which only the column `narrow` is cut if there is no room."""

    def __init__(self, rows: Sequence[Sequence[Text]], justify: str, narrow: int) -> None:
        self._rows, self._justify, self._narrow = rows, justify, narrow

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [max(row[k].cell_len for row in self._rows) for k in range(len(self._justify))]
        room = options.max_width - sum(widths) + widths[self._narrow] - 2 * (len(widths) - 1)
        made = _grid(*self._justify)
        for row in self._rows:
            cut = [cell.copy() for cell in row]
            cut[self._narrow].truncate(max(4, room), overflow="ellipsis")
            made.add_row(*cut)
        yield made


def _engine_rows(engine: EngineState, name: str) -> Iterable[Sequence[Text]]:
    """Name, activity, job, remaining work, and the wait or rate: one line for each job."""
    title, does = Text(name, "bold"), Text(engine.activity.replace("_", " "), ACTIVITY[engine.activity])
    queued = Text(f"  queue {len(engine.queue)}" if engine.queue else "", WAIT)
    nothing = Text("")
    if engine.entry is not None:
        left = "" if engine.body_left is None else f"{engine.body_left:,} cycles left"
        held = engine.held_since is not None
        last = Text(f"bank since {engine.held_since:,}" if held else _since(engine.started), WAIT if held else DIM)
        yield title, does, Text(_job_name(engine.entry, engine.opcode, engine.line)), Text(left), last.append(queued)
    elif not engine.jobs:
        yield title, does, nothing, nothing, queued
    for k, one in enumerate(engine.jobs[:4]):
        job, more = Text(_job_name(one.id, one.opcode, one.line)), Text(f"{one.bytes_left:,} B left")
        if k == 0:
            yield title, does, job, more, _job_wait(one).append(queued)
        else:
            yield nothing, nothing, job, more, _job_wait(one)
    if len(engine.jobs) > 4:
        yield nothing, nothing, _more(len(engine.jobs) - 4, "transfer"), nothing, nothing


def _job_name(number: int | None, opcode: str | None, line: str | None) -> str:
    name = f"{number} {opcode}" if number is not None and number >= 0 else str(opcode or "")
    return f"{name} {line}" if line else name


def _job_wait(job: JobState) -> Text:
    """The rate of a transfer, or the reason of its wait."""
    if job.joins_at is not None:
        return Text(f"latency to {job.joins_at:,}", DIM)
    held = [flow.held_since for flow in job.flows if flow.held_since is not None]
    if held:
        return Text(f"bank since {min(held):,}", WAIT)
    if job.stall is not None:
        return Text(f"{job.stall} {_since(job.stalled_since)}", WAIT)
    return Text(_rate(job.rate), WORK)


def queues(session: Session) -> list[RenderableType]:
    """Jobs in the queues of engines, and queues between PEs with their credits."""
    state = session.state
    place, out = place_of(state), list[Any]()
    made = _grid("l", "l", "w")
    waiting = [engine for engine in state.peeked.engines if engine.queue]
    for engine in waiting[:ROWS_OF_A_VIEW]:
        names = [str(one) if one >= 0 else "a command" for one in engine.queue]
        reasons = ", ".join(dict.fromkeys(one for one in engine.queue_stalls if one))
        text = ", ".join(names[:6]) + (f", {len(names) - 6} more" if len(names) > 6 else "")
        made.add_row(Text(engine.name.removeprefix(place), "bold"), Text(reasons, WAIT), text)
    if waiting:
        out.append(made)
    if len(waiting) > ROWS_OF_A_VIEW:
        out.append(_more(len(waiting) - ROWS_OF_A_VIEW, "queue"))
    rings = [one for one in state.queues.values() if one.used or one.waiting or one.received]
    if rings:
        table = _grid("l", "r", "r", "r", "r", "l")
        table.add_row(*(Text(name, DIM) for name in ("queue", "used", "credits", "in flight", "arrived", "to")))
        for one in rings[:ROWS_OF_A_VIEW]:
            style = WAIT if one.used >= one.slots else ""
            used = Text(f"{one.used}/{one.slots}", style)
            table.add_row(Text(one.name, "bold"), used, str(one.credits), str(one.in_flight), str(one.inbox), one.target)
        out.append(table)
        if len(rings) > ROWS_OF_A_VIEW:
            out.append(_more(len(rings) - ROWS_OF_A_VIEW, "queue"))
    return out or [Text("all queues are empty", DIM)]


def banks(session: Session) -> list[RenderableType]:
    """The banks with requests in the last cycle or with the most denials so far, and the flows that share channels and
    links."""
    state = session.state
    place, out = place_of(state), list[Any]()
    rows = [(name, i, bank) for name, found in state.banks.items() for i, bank in enumerate(found)]
    active = [row for row in rows if row[2].denials or row[2].granted or row[2].denied]
    active.sort(key=lambda row: (-(row[2].denied or 0), -row[2].denials, -(row[2].granted or 0), row[0], row[1]))
    if active:
        made = _grid("l", "r", "r", "r", "r")
        made.add_row(*(Text(name, DIM) for name in ("bank", "granted now", "denied now", "granted", "denied")))
        for name, i, bank in active[:8]:
            made.add_row(Text(f"{name.removeprefix(place)}.bank[{i}]", "bold"), *_bank_cells(bank))
        out.append(made)
        if len(active) > 8:
            out.append(_more(len(active) - 8, "bank"))
    members = [(name.removeprefix(place), count) for name, count in state.peeked.members.items() if count]
    if members:
        text = ", ".join(f"{name} {count}" for name, count in members[:10])
        more = f", {len(members) - 10} more" if len(members) > 10 else ""
        out.append(Text.assemble(("flows  ", DIM), text, more))
    return out or [Text("no bank is used, and no flow moves", DIM)]


def _bank_cells(bank: Bank) -> Iterable[Text]:
    yield Text("-" if bank.granted is None else str(bank.granted), WORK if bank.granted else DIM)
    yield Text("-" if bank.denied is None else str(bank.denied), WAIT if bank.denied else DIM)
    yield Text(f"{bank.grants:,}")
    yield Text(f"{bank.denials:,}", WAIT if bank.denials else DIM)


def source(session: Session) -> list[RenderableType]:
    """The present source lines of kernels, or the running and next entries of the program."""
    state = session.state
    if session.subject.program is not None:
        return _entries(state)
    running = session.timeline.live.engine
    assert running is not None
    files = {Path(name).name: name for name in running.activity.kernel_files()}
    at: dict[str, list[str]] = {}
    for kernel in state.kernels:
        if kernel.line:
            at.setdefault(kernel.line, []).append(kernel.pe)
    out: list[RenderableType] = []
    for line, pes in sorted(at.items(), key=lambda item: (-len(item[1]), item[0]))[:3]:
        name, _, number = line.rpartition(":")
        where = pes[0] if len(pes) == 1 else f"{len(pes)} PEs"
        out.append(Text.assemble((line, "bold"), (f"  {where}", DIM)))
        out += _lines(files.get(name) or _file_of(session, name), int(number))
    if len(at) > 3:
        out.append(_more(len(at) - 3, "line"))
    return out or [Text("no kernel runs", DIM)]


def _file_of(session: Session, name: str) -> str | None:
    """The file of a module of collectives, which contains the kernels of a collective."""
    import kernbench.ccl

    found = next(Path(kernbench.ccl.__path__[0]).rglob(name), None)
    return None if found is None else str(found)


def _lines(file: str | None, number: int) -> Iterable[RenderableType]:
    if file is None:
        return
    for at in range(max(1, number - AROUND), number + AROUND + 1):
        text = linecache.getline(file, at).rstrip()
        if text or at == number:
            here = at == number
            yield Text(f"{'>' if here else ' '} {at:4} {text}", "bold" if here else DIM, no_wrap=True, overflow="ellipsis")


def _entries(state: State) -> list[RenderableType]:
    program, (issue, start, end) = state.machine.rows, state.times
    made = _grid("l", "l", "l", "w")
    rows, later = 0, 0
    for entry in program.entries:
        k = entry.index
        if end[k] >= 0 and end[k] <= state.cycle:
            continue
        if rows >= ROWS_OF_A_VIEW or (issue[k] < 0 and later >= 4):
            break
        rows, later = rows + 1, later + (issue[k] < 0)
        what = Text("runs", WORK) if start[k] >= 0 else Text("issued", WAIT) if issue[k] >= 0 else Text("next", DIM)
        since = _since(int(start[k])) if start[k] >= 0 else _since(int(issue[k])) if issue[k] >= 0 else ""
        before = f"after {', '.join(map(str, entry.deps_before))}" if entry.deps_before and start[k] < 0 else ""
        made.add_row(Text(f"{entry.id} {entry.opcode}", "bold"), what, since, Text(before, DIM))
    done = int((end >= 0).sum())
    return (
        [made, Text(f"{done:,} of {len(program.entries):,} entries have ended", DIM)]
        if rows
        else [Text("all entries have ended", DIM)]
    )


def watches(session: Session) -> list[RenderableType]:
    """Watch expressions with their values, then breakpoints."""
    made = _grid("r", "w", "r")
    for k, (one, value) in enumerate(session.watched(), 1):
        made.add_row(Text(str(k), DIM), one.text, Text(shown(value), "bold"))
    out: list[RenderableType] = [made] if session.watches else []
    for k, point in enumerate(session.breakpoints, 1):
        out.append(Text.assemble((f"{k} ", DIM), ("break ", WAIT), point.text))
    return out or [Text("watch EXPR adds an expression, break EXPR a breakpoint", DIM)]


def tensors(session: Session, name: str = "") -> list[RenderableType]:
    """The tensors of a bench, or the values of one."""
    state = session.state
    if name:
        values, why = state.tensor(name)
        return [Text(why, WAIT) if values is None else Text(tensor_text(values))]
    if not state.tensor_names:
        return [Text("a program has no tensors: it moves bytes that have no values", DIM)]
    made = _grid("l", "w")
    for one in state.tensor_names[:ROWS_OF_A_VIEW]:
        values, why = state.tensor(one)
        made.add_row(Text(one, "bold"), Text("not known yet", WAIT) if values is None else tensor_text(values))
    return [made]


def waits(session: Session) -> list[RenderableType]:
    """The waits: the waiting object, and what it waits for."""
    found = session.waits()
    out: list[RenderableType] = []
    circle = circle_of(session.state)
    if circle and session.status == "deadlock":
        out.append(Text(circle, FAIL))
    out += [
        Text(one.text, FAIL if one.circle and session.status == "deadlock" else WAIT if k < ROWS_OF_A_VIEW else "")
        for k, one in enumerate(found[:ROWS_OF_A_VIEW])
    ]
    if len(found) > ROWS_OF_A_VIEW:
        out.append(_more(len(found) - ROWS_OF_A_VIEW, "wait"))
    return out or [Text("nothing waits", DIM)]


def happened(session: Session) -> list[RenderableType]:
    """The events of the last cycle."""
    found = session.here()
    out: list[RenderableType] = [Text(f"{one.text}{f'  {one.line}' if one.line else ''}") for one in found[:ROWS_OF_A_VIEW]]
    if len(found) > ROWS_OF_A_VIEW:
        out.append(_more(len(found) - ROWS_OF_A_VIEW, "event"))
    return out or [Text("no job started, ended or began to wait", DIM)]


View = Callable[["Session"], "list[RenderableType]"]
#: The views with a pane, by name: title and what is drawn.
VIEWS: dict[str, tuple[str, View]] = {
    "engines": ("Engines", engines),
    "queues": ("Queues", queues),
    "banks": ("Banks and flows", banks),
    "source": ("Source", source),
    "watches": ("Watches", watches),
    "waits": ("Waits", waits),
}
