"""Collectives as a person reads them: the columns of nccl-tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.render import warnings
from kernbench.cli.render_bench import wait_table
from kernbench.cli.text import percent, size_text, status_text, table
from kernbench.common.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.ccl.measure import Asked, Row
    from kernbench.ccl.registry import Registry
    from kernbench.sim_engine.result import Result

PACKAGE = "kernbench.ccl.algorithms"  #: modules in it are shown without it
MOST_QUEUES = 4  # with messages that nobody received
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


def algorithm_list(registry: Registry) -> Iterator[RenderableType]:
    """What `kbsim ccl list` prints."""
    columns = ("collective", "algorithm", "topologies", "module")
    made = table("Algorithms", [(name, "left") for name in columns])
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"  # the end of a name tells modules apart
    last = ""
    for one in registry.entries:
        shown = one.collective if one.collective != last else ""
        last = one.collective
        made.add_row(Text(shown, "bold"), one.name, ", ".join(one.topologies), one.module.removeprefix(PACKAGE))
    yield made
    yield Text(f"queues: {counted(registry.slots, 'slot')} of {size_text(registry.slot_bytes)} in {registry.tier}", "dim")
    for one in registry.entries:
        if one.slots or one.slot_bytes:
            slots, nbytes = one.slots or registry.slots, one.slot_bytes or registry.slot_bytes
            yield Text(f"of {one.full_name}: {counted(slots, 'slot')} of {size_text(nbytes)}", "dim")


def head(asked: Asked) -> Iterator[Text]:
    """What is run, and the columns."""
    group, queues = asked.group, asked.queues
    sips, cubes, pes = group.shape
    where = f"{counted(sips, 'SIP')} x {counted(cubes, 'cube')} x {counted(pes, 'PE')}, {group.kind_name}"
    built = f"queues of {counted(queues.slots or 0, 'slot')} of {size_text(queues.slot_bytes or 0)} in {queues.tier}"
    yield Text(f"# {asked.entry.full_name} of {counted(group.size, 'rank')} on {asked.config.source}")
    yield Text(f"# {where}; {built}", "dim")
    yield Text("#" + "".join(f"{name:>{width}}" for name, _, width in COLUMNS)[1:])
    yield Text("#" + "".join(f"{unit:>{width}}" for _, unit, width in COLUMNS)[1:].rstrip(), "dim")


def line(row: Row) -> Text:
    """One size."""
    wrong = "N/A" if row.wrong is None else f"{row.wrong:,}"
    cells = (str(row.size), str(row.count), row.dtype, row.redop, str(row.root), _number(row.time_us), _number(row.algbw))
    texts = [f"{cell:>{width}}" for cell, (_, _, width) in zip((*cells, _number(row.busbw)), COLUMNS, strict=False)]
    return Text("".join(texts)).append(f"{wrong:>{COLUMNS[-1][2]}}", "bold red" if row.wrong else "")


def verdict(rows: Sequence[Row]) -> Iterator[Text]:
    """What the sizes come to, and what the largest asked for most."""
    if not rows:
        return
    mean = sum(row.busbw for row in rows) / len(rows)
    yield Text(f"# average bus bandwidth {_number(mean)} GB/s")
    yield from _busiest(rows)
    yield from _unreceived(rows)
    if any(row.wrong for row in rows):
        wrong = sum(row.wrong or 0 for row in rows)
        yield Text(f"# {counted(wrong, 'element')} {'is' if wrong == 1 else 'are'} wrong", "bold red")


def _busiest(rows: Sequence[Row]) -> Iterator[Text]:
    """What was asked of most, and for which share of the time: a line for sizes one after the other that agree on it."""
    groups = [list(group) for _, group in groupby(rows, lambda row: row.bound)]
    for group in groups:
        shares = list(dict.fromkeys(percent(share) for share in sorted(row.bound_share for row in group)))
        upto = f" to {group[-1].size:,} B" if len(groups) > 1 else ""
        yield Text(f"# busiest{upto}: {group[0].bound}, {' to '.join(shares[:1] + shares[1:][-1:])}", "dim")


def _unreceived(rows: Sequence[Row]) -> Iterator[Text]:
    """Messages that nobody received, of the largest size that has some."""
    for row in [row for row in rows if row.unreceived][-1:]:
        for one in row.unreceived[:MOST_QUEUES]:
            yield Text(f"# {row.size:,} B: {one['message']}", "bold yellow")
        more = len(row.unreceived) - MOST_QUEUES
        if more > 0:
            yield Text(f"# and of {counted(more, 'queue')} more (all are in --json)", "bold yellow")


def unfinished(status: str, done: int, asked: int) -> Text:
    """Not all sizes are there."""
    return Text(f"# {status}: {done} of {counted(asked, 'size')} done", "bold yellow")


def ending(result: Result) -> Iterator[RenderableType]:
    """Why a run did not come to its end."""
    yield status_text(result.status).append(f"  in cycle {result.cycles:,}")
    if result.status == "deadlock":
        yield from wait_table(result)
    yield from warnings(result)


def _number(value: float) -> str:
    """Two digits behind the point, three of a small one."""
    return f"{value:.2f}" if value >= 10 or value == 0 else f"{value:.3f}"
