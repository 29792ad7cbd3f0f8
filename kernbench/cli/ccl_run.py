"""`kbsim ccl run`: a collective over sizes, with the columns that users of nccl-tests read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli import ccl_options as options
from kernbench.cli import output
from kernbench.cli.ccl_forecast import Outlook
from kernbench.cli.ccl_list import Files
from kernbench.cli.ccl_plot import check_plot
from kernbench.cli.ccl_told import Told
from kernbench.cli.endings import Ending, answering, ending_of
from kernbench.cli.machines import warn_of_values
from kernbench.cli.options import AllowCode, Json, Overrides, Quiet, Walk
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

if TYPE_CHECKING:
    from kernbench.ccl.call import Queues
    from kernbench.ccl.contract import Shape
    from kernbench.ccl.group import Group
    from kernbench.ccl.measure import Asked
    from kernbench.ccl.registry import Entry, Registry
    from kernbench.config import SystemConfig
    from kernbench.sim_engine.engine import Around
    from kernbench.sim_engine.result import Result

RANKS = 8  # where no one says how many
PRESETS = ("single_cube", "two_sips", "sip_4x4", "pod_8sip")  # from the smallest to the largest


def run(
    collective: options.Collective,
    algo: options.Algo = None,
    ranks: options.Ranks = None,
    shape: options.GroupShape = None,
    begin: options.First = "1K",
    end: options.Last = None,
    factor: options.Factor = 2,
    dtype: options.DataType = "f16",
    config: options.Machine = None,
    overrides: Overrides = None,
    topo: options.Topo = None,
    slots: options.Slots = None,
    slot_bytes: options.SlotBytes = None,
    tier: options.Tier = None,
    files: Files = None,
    allow_code: AllowCode = None,
    check: options.Check = True,
    seed: options.Seed = 0,
    plot: options.Plot = None,
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
    """Run a collective between PEs, size after size: its time, its bandwidths, and elements that are wrong."""
    from kernbench.ccl.measure import Asked, counts_of
    from kernbench.ccl.registry import read_registry

    registry = read_registry(*(files or []), allow_code=allow_code or ())
    entry = registry.find(collective, algo)
    machine, group = _group(entry, config, overrides or [], allow_code or (), ranks, shape, topo, quiet=quiet)
    queues, kind = _queues(registry, entry, slots, slot_bytes, tier), options.dtype_of(dtype)
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

    size = None if slot_bytes is None else options.size_of("--slot-bytes", slot_bytes)
    return queues_of(registry, entry, slots, size, tier)


def _sizes(begin: str, end: str | None, factor: int) -> tuple[int, int, int]:
    """The first and the last size, and the factor between two."""
    first = options.size_of("--begin", begin)
    last = first if end is None else options.size_of("--end", end)
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
    """What a run is inside of: its trace and page, where they are wanted. InputError where there can be none of it."""
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
    """Run size after size, each told as it comes; whatever ends them, what is done is told. The exit code."""
    from kernbench.ccl.room import check_room

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
    """All sizes, as long as somebody reads them; the result of one that did not end."""
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
    """What a kernel raises is told with its traceback, and with the line of the algorithm's own file."""
    from kernbench.ccl.blame import place_in
    from kernbench.sim_engine.engine import KernelFailed

    try:
        yield
    except KernelFailed as error:
        output.note(error.traceback.rstrip("\n"))
        place = place_in(asked.entry.load(), error.__cause__)
        if not place:
            raise
        said = f"{place}: {type(error.__cause__).__name__}: {error.__cause__}"
        raise KernelFailed({**error.failure, "message": said}, error.__cause__) from error
