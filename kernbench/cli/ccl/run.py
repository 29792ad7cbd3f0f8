"""`kbsim ccl run`: a collective over sizes, with the columns that users of nccl-tests read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.bench import wait_table
from kernbench.cli.ccl.list import Files
from kernbench.cli.ccl.plot import check_plot, draw
from kernbench.cli.endings import Ending, answering, ending_of
from kernbench.cli.options import AllowCode, Json, Overrides, Quiet, Walk
from kernbench.cli.progress import ProgressBar
from kernbench.cli.summary import warnings
from kernbench.cli.target import warn_of_values
from kernbench.cli.text import BAD, WAIT, WIDE, broken, percent, size_text, status_text, table
from kernbench.cli.tracing import (
    Report,
    TraceCycles,
    Traced,
    TraceLevel,
    TraceOnly,
    TraceTo,
    TraceWindow,
    check_page,
    reported,
)
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.common.units import parse_size_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from kernbench.ccl.call import Queues
    from kernbench.ccl.contract import Shape
    from kernbench.ccl.group import Group
    from kernbench.ccl.measure import Asked, Forecast, Row
    from kernbench.ccl.registry import Entry, Registry
    from kernbench.config import SystemConfig
    from kernbench.sim_engine.engine import Around
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.result import Result


Collective = Annotated[
    str, typer.Argument(metavar="COLLECTIVE", help="all_reduce, all_gather, ... (kbsim ccl list).", show_default=False)
]
Algo = Annotated[
    str | None,
    typer.Option(
        "--algo",
        "-a",
        metavar="NAME",
        help="The algorithm; auto: the tuner chooses one for each size.",
        show_default="the collective's first",
    ),
]
Ranks = Annotated[
    int | None, typer.Option("--ranks", "-n", min=1, metavar="N", help="Number of PEs that take part.", show_default="8")
]
GroupShape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar="SxCxP",
        help="Instead of --ranks: SIPs x cubes per SIP x PEs per cube, like 8x1x1.",
        show_default=False,
    ),
]
First = Annotated[
    str, typer.Option("--begin", "-b", metavar="SIZE", help="The smallest size: 4KiB, 8k, 1M, or a number of bytes.")
]
Last = Annotated[str | None, typer.Option("--end", "-e", metavar="SIZE", help="The largest size.", show_default="the first")]
Factor = Annotated[int, typer.Option("--factor", "-f", min=1, metavar="N", help="Factor between one size and the next.")]
DataType = Annotated[str, typer.Option("--dtype", "-d", metavar="TYPE", help="Element type: f32, f16, bf16, i32, ...")]
MachineOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="The machine: a preset's name, or a .yaml or .json file.",
        show_default="the smallest preset that has so many PEs",
    ),
]
Topo = Annotated[
    str | None,
    typer.Option(
        "--topo",
        metavar="KIND",
        help="Topology of the SIPs (with one SIP: of the ranks): ring, torus or mesh.",
        show_default="as the machine is",
    ),
]
Slots = Annotated[
    int | None, typer.Option("--slots", min=1, metavar="N", help="Number of slots of each queue.", show_default="ccl.yaml")
]
SlotBytes = Annotated[str | None, typer.Option("--slot-bytes", metavar="SIZE", help="Size of a slot.", show_default="ccl.yaml")]
Tier = Annotated[
    str | None,
    typer.Option("--tier", metavar="TIER", help="Memory that holds the slots: tcm, sram or hbm.", show_default="ccl.yaml"),
]
Check = Annotated[bool, typer.Option("--check/--no-check", help="Also compute the data, and compare it with the reference.")]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the random elements.")]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw bandwidth and time over size, as .svg or .png.", show_default=False),
]

_NAMES = {"half": "f16", "float": "f32", "bfloat16": "bf16", "int": "i32", "long": "i64", "char": "i8"}  # other programs' names


def size_of(option: str, text: str) -> int:
    """Bytes of `4KiB`, `4k`, `4K` or `4096`; InputError for another text."""
    rule = "it must be at least 1 byte and at most 1T"
    try:
        size = parse_size_text(text)
    except ValueError as error:
        size, rule = 0, str(error)
    if not 1 <= size <= 1 << 40:
        raise InputError(Problem("kbsim ccl run", rule, option, text))
    return size


def dtype_of(text: str) -> str:
    """An element type that collectives have; InputError for another one, with ours where it has a name elsewhere."""
    from kernbench.ccl.collectives import CCL_DTYPES

    if text not in CCL_DTYPES:
        plain = text.lower().replace("float", "f").replace("uint", "u").replace("int", "i").replace("fp", "f")
        meant = _NAMES.get(text.lower(), plain)
        remedy = f"did you mean {meant}?" if meant in CCL_DTYPES else ""
        raise InputError(Problem("kbsim ccl run", f"it must be one of {', '.join(CCL_DTYPES)}", "--dtype", text, remedy))
    return text


@dataclass
class Told:
    """Prints the rows of a run as they arrive."""

    asked: Asked
    counts: Sequence[int]  #: of all sizes
    as_json: bool
    quiet: bool
    plot: Path | None
    rows: list[Row] = field(default_factory=list)
    shown: int = 0  #: of the rows
    read: bool = True  #: somebody reads stdout

    def row(self, row: Row) -> None:
        """A size is done."""
        self.rows.append(row)
        if not (self.as_json or self.quiet):
            self._show_rows()

    def _show_rows(self) -> None:
        """Results that are not yet printed: one, or two if the last was interrupted. The header is printed with the first
        result, because a refused run has none.
        """

        lines: list[Text] = [] if self.shown else list(head(self.asked))
        lines += [line(row) for row in self.rows[self.shown :]]
        self.read = output.show(lines, whole=True) and self.read
        self.shown = len(self.rows)

    def end(self, ending: Ending, stopped: Result | None = None) -> None:
        """The summary of the finished sizes. `stopped`: the result of the size that did not end."""
        if self.as_json:
            from kernbench.ccl.measure import to_json

            found = to_json(self.asked, self.counts, self.rows, ending.status, ending.message)
            output.show_json(found if stopped is None else {**found, "result": stopped.to_dict()})
        elif not self.quiet:
            self._show_end(ending, stopped)
        if self.plot is not None and self.rows:
            draw(self.asked, self.rows, self.plot)

    def _show_end(self, ending: Ending, stopped: Result | None) -> None:

        if self.shown < len(self.rows) or (not self.rows and stopped is not None):
            self._show_rows()
        output.show(verdict(self.rows), whole=True)
        output.show(chosen(self.asked, self.rows), whole=True)
        if self.rows and ending.status != "done":
            output.show([unfinished(ending.status, len(self.rows), len(self.counts))], whole=True)
        if stopped is not None:
            output.show(ended(stopped))


RANKS = 8  # the default number
PRESETS = ("single_cube", "two_sips", "sip_4x4", "pod_8sip")  # from the smallest to the largest


def run(
    collective: Collective,
    algo: Algo = None,
    ranks: Ranks = None,
    shape: GroupShape = None,
    begin: First = "1K",
    end: Last = None,
    factor: Factor = 2,
    dtype: DataType = "f16",
    config: MachineOption = None,
    overrides: Overrides = None,
    topo: Topo = None,
    slots: Slots = None,
    slot_bytes: SlotBytes = None,
    tier: Tier = None,
    files: Files = None,
    allow_code: AllowCode = None,
    check: Check = True,
    seed: Seed = 0,
    plot: Plot = None,
    trace: TraceTo = None,
    report: Report = None,
    trace_level: TraceLevel = None,
    trace_window: TraceWindow = None,
    trace_cycles: TraceCycles = None,
    trace_only: TraceOnly = None,
    walk: Walk = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a collective between PEs for each size, and print its time, its bandwidths and the number of wrong elements."""
    from kernbench.ccl.measure import Asked, counts_of
    from kernbench.ccl.registry import read_registry

    registry = read_registry(*(files or []), allow_code=allow_code or ())
    entry = registry.find(collective, algo)
    machine, group = _group(entry, config, overrides or [], allow_code or (), ranks, shape, topo, quiet=quiet)
    queues, kind = _queues(registry, entry, slots, slot_bytes, tier), dtype_of(dtype)
    asked = Asked(machine, group, entry, kind, queues, check, seed)
    told = Told(asked, counts_of(asked, *_sizes(begin, end, factor)), as_json, quiet, plot)
    how = Traced(trace_level, trace_window, trace_cycles, trace_only)
    return _tell(told, registry, _watched(told, trace, report, how, (config, *(files or []))))


def _group(
    entry: Entry,
    config: str | None,
    overrides: list[str],
    allow_code: Sequence[str],
    ranks: int | None,
    shape: str | None,
    topo: str | None,
    *,
    quiet: bool = False,
) -> tuple[SystemConfig, Group]:
    """The machine and the ranks on it, arranged as an algorithm can have them."""
    from kernbench.ccl.group import group_of, shape_for
    from kernbench.config import load_config

    given = None if shape is None else _shape(shape)
    if given is not None and ranks is not None and ranks != prod(given):
        rule = f"--shape {shape} has {prod(given)} ranks: give one of the two, or the same number"
        raise InputError(Problem("kbsim ccl run", rule, "--ranks", ranks))
    names = PRESETS if config is None else (config,)
    for name in names:
        machine = load_config(name, overrides, allow_code=allow_code)
        try:
            group = group_of(machine, given or shape_for(machine, ranks or RANKS), topo)
            break
        except InputError:
            if name == names[-1]:
                raise
    if group.kind_name not in entry.topologies:
        rule = f"{entry.full_name} is for {', '.join(entry.topologies)}"
        raise InputError(Problem("kbsim ccl run", rule, "--topo", group.kind_name))
    warn_of_values(machine, quiet=quiet)
    return machine, group


def _queues(registry: Registry, entry: Entry, slots: int | None, slot_bytes: str | None, tier: str | None) -> Queues:
    from kernbench.ccl.measure import queues_of

    size = None if slot_bytes is None else size_of("--slot-bytes", slot_bytes)
    return queues_of(registry, entry, slots, size, tier)


def _sizes(begin: str, end: str | None, factor: int) -> tuple[int, int, int]:
    """The first and the last size, and the factor between two."""
    first = size_of("--begin", begin)
    last = first if end is None else size_of("--end", end)
    if last < first:
        raise InputError(Problem("kbsim ccl run", f"it must be at least the first size, {begin}", "--end", end))
    if last > first and factor == 1:
        raise InputError(Problem("kbsim ccl run", f"it must be at least 2 to come from {begin} to {end}", "--factor", factor))
    return first, last, factor


def _shape(text: str) -> Shape:
    from kernbench.ccl.contract import Shape

    parts = text.split("x")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        raise InputError(Problem("kbsim ccl run", "it must be three numbers like 8x1x1", "--shape", text))
    return Shape(*map(int, parts))


def _watched(told: Told, trace: Path | None, page: Path | None, traced: Traced, read: Sequence[str | Path | None]) -> Around:
    """The context of a run: its trace and page, if they are wanted. InputError if it is not possible."""
    from kernbench.common.files import check_apart, check_writable

    check_apart((told.plot, trace, page), read)
    for option, place in (("--trace", trace), ("--report", page)):
        if place is not None and len(told.counts) > 1:
            rule = f"a trace is of one size, and this run has {len(told.counts)}"
            raise InputError(Problem("kbsim ccl run", rule, option, str(place), "leave --end out"))
    if trace is not None:
        check_writable(trace)
    if page is not None:
        check_page("kbsim ccl run", page)
    return partial(reported, trace=trace, page=page, options=traced.options("kbsim ccl run", trace, page))


def _tell(told: Told, registry: Registry, around: Around) -> int:
    """Run one size after the other and print each result at once. Finished sizes are reported, however the run ends. The exit
    code.
    """
    from kernbench.ccl.measure import check_room

    if told.plot is not None:
        check_plot(told.plot)
    check_room(told.asked, told.counts)
    as_json = told.as_json
    try:
        stopped = _run_all(told, Outlook(told.asked, told.counts, registry, quiet=told.quiet), around)
    except (Exception, KeyboardInterrupt) as error:
        ending = ending_of(error)
        if ending.status == "refused" and not told.rows:
            raise  # nothing was run
        with answering(as_json):
            told.end(ending)
            raise
    status = "done" if stopped is None else stopped.status
    with answering(as_json):
        told.end(Ending(status), stopped)
    return output.ENDINGS[status] or int(any(row.wrong for row in told.rows))


def _run_all(told: Told, outlook: Outlook, around: Around) -> Result | None:
    """All sizes, until the reader is gone; also the result of one that did not end."""
    from kernbench.ccl.measure import row

    for count in told.counts:
        with outlook.size() as progress, _kernels_named(told.asked):
            made, outcome = row(told.asked, count, progress, around)
        if made is None:
            return outcome.engine.machine.result()
        told.row(made)
        if not told.read and told.plot is None:
            break
    return None


@contextmanager
def _kernels_named(asked: Asked) -> Iterator[None]:
    """An exception of a kernel is reported with its traceback and the line of the algorithm."""
    from kernbench.ccl.call import place_in
    from kernbench.sim_engine.engine import KernelFailed

    try:
        yield
    except KernelFailed as error:
        output.note(error.traceback.rstrip("\n"))
        place = place_in(asked.entry.load(), error.__cause__) if asked.entry.registry is None else ""
        if not place:
            raise
        said = f"{place}: {type(error.__cause__).__name__}: {error.__cause__}"
        raise KernelFailed({**error.failure, "message": said}, error.__cause__) from error


LONG = 60.0  # [s] shorter times are not reported


class Outlook:
    """Reports the time that is left if it is long, and again if the estimate doubles."""

    def __init__(self, asked: Asked, counts: Sequence[int], registry: Registry, *, quiet: bool) -> None:
        from kernbench.ccl.measure import Forecast, messages

        self.forecast = Forecast(asked, counts)
        self._asked, self._counts, self._registry, self._quiet = asked, counts, registry, quiet
        self._least = "" if messages(asked, counts[0])[1] else "at least "
        self._told = LONG / 2  # [s]

    @contextmanager
    def size(self) -> Iterator[Callable[[Machine], None] | None]:
        """The next size runs in here: what is left is reported before it, and a terminal sees how far it is."""
        if self.forecast.seconds > 2 * self._told and not self._quiet:
            self._told = self.forecast.seconds
            output.note(self._text())
        begin = time.monotonic()
        with message_bar(not self._quiet, self.forecast) as progress:
            yield progress
        self.forecast.took(time.monotonic() - begin)

    def _text(self) -> str:
        from kernbench.ccl.measure import bytes_of, memory

        done, counts = self.forecast.done, self._counts
        sizes = f"{bytes_of(self._asked, counts[-1]):,} B" if len(counts) - done == 1 else f"{len(counts) - done} sizes"
        work = f"{self._least}{self.forecast.left:,} messages between {self._asked.group.size:,} ranks"
        gib = memory(self._asked, max(counts)) / (1 << 30)
        room = f" and {gib:.1f} GiB of memory" if gib >= 1 else ""
        return (
            f"note: {sizes}: {work}, about {about(self.forecast.seconds)}{room}; "
            f"fewer ranks or a smaller size take less{self._better()}; Ctrl-C leaves the sizes that are done"
        )

    def _better(self) -> str:
        """Another algorithm of the collective that needs at most half as many messages."""
        from kernbench.ccl.measure import messages, queues_of

        asked, left = self._asked, self._counts[self.forecast.done :]
        found = []
        for entry in self._registry.entries:
            if entry.collective == asked.entry.collective and asked.group.kind_name in entry.topologies:
                other = replace(asked, entry=entry, queues=queues_of(self._registry, entry))
                each = [messages(other, count) for count in left]
                if all(exact for _, exact in each):
                    found.append((sum(number for number, _ in each), entry.name))
        best = min(found, default=(0, ""))
        if not best[1] or 2 * best[0] > self.forecast.left:
            return ""
        return f", --algo {best[1]} has {best[0]:,} messages"


def about(seconds: float) -> str:
    """A rounded time: `80 s`, `12 min`, `5 h`."""
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.0f} h"


@contextmanager
def message_bar(wanted: bool, forecast: Forecast) -> Iterator[Callable[[Machine], None] | None]:
    """A progress bar over messages, or None if it is not wanted or stderr is not a terminal."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = _MessageBar(forecast.messages[forecast.done])
    try:
        yield bar
    finally:
        bar.close()


class _MessageBar(ProgressBar):
    """The number of messages sent, out of those of this size."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total

    def __call__(self, machine: Machine) -> None:
        queues: Any = machine.queues
        sent = 0 if queues is None else sum(ring.sent for ring in queues.rings)
        self.counted(sent, max(sent, self._total), "messages")


PACKAGE = "kernbench.ccl.algorithms"  #: modules in it are shown without it
MODULE = 24  # characters of a module in a line, for which 80 columns have room
MOST_QUEUES = 4  # with messages that were never received
#: Names, units and widths.
COLUMNS = (
    ("size", "(B)", 11),
    ("count", "(elements)", 11),
    ("type", "", 7),
    ("redop", "", 7),
    ("root", "", 6),
    ("time", "(us)", 10),
    ("algbw", "(GB/s)", 9),
    ("busbw", "(GB/s)", 9),
    ("#wrong", "", 8),
)


def algorithm_list(registry: Registry, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim ccl list`, for a terminal of `width` columns."""
    columns = ("collective", "algorithm", "topologies", "module")
    made = table("Algorithms", [(name, "left") for name in columns])
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"  # modules are distinguished by the end of their names
    last = ""
    for one in registry.entries:
        shown = one.collective if one.collective != last else ""
        last = one.collective
        module = one.module.removeprefix(PACKAGE)
        module = module if width >= WIDE else broken(module, MODULE)
        made.add_row(widgets.Text(shown, "bold"), one.name, ", ".join(one.topologies), module)
    yield made
    yield widgets.Text(
        f"queues: {counted(registry.slots, 'slot')} of {size_text(registry.slot_bytes)} in {registry.tier}", "dim"
    )
    for one in registry.entries:
        if one.slots or one.slot_bytes:
            slots, nbytes = one.slots or registry.slots, one.slot_bytes or registry.slot_bytes
            yield widgets.Text(f"of {one.full_name}: {counted(slots, 'slot')} of {size_text(nbytes)}", "dim")


def head(asked: Asked) -> Iterator[widgets.Text]:
    """The header: what runs, and the columns."""
    group, queues = asked.group, asked.queues
    sips, cubes, pes = group.shape
    where = f"{counted(sips, 'SIP')} x {counted(cubes, 'cube')} x {counted(pes, 'PE')}, {group.kind_name}"
    built = f"queues of {counted(queues.slots or 0, 'slot')} of {size_text(queues.slot_bytes or 0)} in {queues.tier}"
    yield widgets.Text(f"# {asked.entry.full_name} of {counted(group.size, 'rank')} on {asked.config.source}")
    if asked.entry.registry is not None:
        built = "the tuner chooses the algorithm of each size, with its queues"
    yield widgets.Text(f"# {where}; {built}", "dim")
    yield widgets.Text("#" + "".join(f"{name:>{width}}" for name, _, width in COLUMNS)[1:])
    yield widgets.Text("#" + "".join(f"{unit:>{width}}" for _, unit, width in COLUMNS)[1:].rstrip(), "dim")


def line(row: Row) -> widgets.Text:
    """One size."""
    wrong = "N/A" if row.wrong is None else f"{row.wrong:,}"
    cells = (str(row.size), str(row.count), row.dtype, row.redop, str(row.root), _number(row.time_us), _number(row.algbw))
    texts = [f"{cell:>{width}}" for cell, (_, _, width) in zip((*cells, _number(row.busbw)), COLUMNS, strict=False)]
    return widgets.Text("".join(texts)).append(f"{wrong:>{COLUMNS[-1][2]}}", f"bold {BAD}" if row.wrong else "")


def verdict(rows: Sequence[Row]) -> Iterator[widgets.Text]:
    """Averages over all sizes, and the bottleneck of each group of sizes."""
    if not rows:
        return
    mean = sum(row.busbw for row in rows) / len(rows)
    yield widgets.Text(f"# average bus bandwidth {_number(mean)} GB/s")
    yield from _busiest(rows)
    yield from _unreceived(rows)
    if any(row.wrong for row in rows):
        wrong = sum(row.wrong or 0 for row in rows)
        yield widgets.Text(f"# {counted(wrong, 'element')} {'is' if wrong == 1 else 'are'} wrong", f"bold {BAD}")


def chosen(asked: Asked, rows: Sequence[Row]) -> Iterator[widgets.Text]:
    """What the tuner has chosen: one line for consecutive sizes with the same algorithm."""
    from kernbench.ccl.measure import resolved

    if asked.entry.registry is None:
        return
    for name, group in groupby(rows, lambda row: resolved(asked, max(1, row.count)).entry.name):
        yield widgets.Text(f"# chosen to {list(group)[-1].size:,} B: {name}", "dim")


def _busiest(rows: Sequence[Row]) -> Iterator[widgets.Text]:
    """The bottleneck and its share of the time: one line for consecutive sizes with the same bottleneck."""
    groups = [list(group) for _, group in groupby(rows, lambda row: row.bound)]
    for group in groups:
        shares = list(dict.fromkeys(percent(share) for share in sorted(row.bound_share for row in group)))
        upto = f" to {group[-1].size:,} B" if len(groups) > 1 else ""
        yield widgets.Text(f"# busiest{upto}: {group[0].bound}, {' to '.join(shares[:1] + shares[1:][-1:])}", "dim")


def _unreceived(rows: Sequence[Row]) -> Iterator[widgets.Text]:
    """Messages that nobody received, of the largest size that has some."""
    for row in [row for row in rows if row.unreceived][-1:]:
        for one in row.unreceived[:MOST_QUEUES]:
            yield widgets.Text(f"# {row.size:,} B: {one['message']}", f"bold {WAIT}")
        more = len(row.unreceived) - MOST_QUEUES
        if more > 0:
            yield widgets.Text(f"# and of {counted(more, 'queue')} more (all are in --json)", f"bold {WAIT}")


def unfinished(status: str, done: int, asked: int) -> widgets.Text:
    """A line for a run that did not finish all sizes."""
    return widgets.Text(f"# {status}: {done} of {counted(asked, 'size')} done", f"bold {WAIT}")


def ended(result: Result) -> Iterator[RenderableType]:
    """Why a run did not finish."""
    yield status_text(result.status).append(f"  in cycle {result.cycles:,}")
    if result.status == "deadlock":
        yield from wait_table(result)
    yield from warnings(result)


def _number(value: float) -> str:
    """Two decimals, or three for a small number."""
    return f"{value:.2f}" if value >= 10 or value == 0 else f"{value:.3f}"
