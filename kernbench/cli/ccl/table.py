"""The tables of `kbsim ccl`: its algorithms, and the rows of a run in the columns of nccl-tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kernbench.cli import widgets
from kernbench.cli.bench import wait_table
from kernbench.cli.summary import warnings
from kernbench.cli.text import BAD, WAIT, WIDE, broken, percent, size_text, status_text, table
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.ccl.measure import CclRequest, InPlace, Row
    from kernbench.ccl.registry import Registry
    from kernbench.sim_engine.result import Result

PACKAGE = "kernbench.ccl.algorithms"  #: modules in it are shown without it
MODULE = 24  # characters of a module name for which a line of 80 columns has room
MAX_QUEUES = 4  # most queues with messages that were never received in a report
#: Names, units and widths.
SIZE = (("size", "(B)", 11),)
KIND = (("count", "(elements)", 11), ("type", "", 7), ("redop", "", 7), ("root", "", 6))
RESULT = (("time", "(us)", 10), ("algbw", "(GB/s)", 9), ("busbw", "(GB/s)", 9), ("#wrong", "", 8))
NARROW = (("time", "(us)", 9), ("algbw", "(GB/s)", 9), ("busbw", "(GB/s)", 8), ("#wrong", "", 7))
WHOLE = sum(width for _, _, width in (*SIZE, *KIND, *RESULT, *RESULT))  #: of lines with results in place


def columns(request: CclRequest, width: int) -> tuple[tuple[str, str, int], ...]:
    """The columns of a run: the size, and the results, out of place and in place if both are measured.

    In place, a narrow terminal leaves out the columns that the lines above the table already give.
    """
    if not request.in_place:
        return (*SIZE, *KIND, *RESULT)
    if width >= WHOLE:
        return (*SIZE, *KIND, *RESULT, *RESULT)
    return (*SIZE, *NARROW, *NARROW)


def protocol_name(key: str | None) -> str:
    """The name in NCCL_PROTO."""
    from kernbench.config.system.parts import PROTOCOLS

    return "auto" if key is None else PROTOCOLS[key]


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


def head(request: CclRequest, width: int) -> Iterator[widgets.Text]:
    """The header: what runs, and the columns."""
    from kernbench.ccl.measure import chooses_protocol, has_protocols

    group, queues = request.group, request.queues
    sips, cubes, pes = group.shape
    where = f"{counted(sips, 'SIP')} x {counted(cubes, 'cube')} x {counted(pes, 'PE')}, {group.arranged}"
    built = f"queues of {counted(queues.slots or 0, 'slot')} of {size_text(queues.slot_bytes or 0)} in {queues.tier}"
    if request.queues.protocol is not None and has_protocols(request.config):
        built = f"{protocol_name(request.queues.protocol)}, {built}"
    name = request.entry.full_name
    if request.entry.registry is not None:
        both = " and protocol" if chooses_protocol(request) else ""
        name, built = request.entry.collective, f"the tuner chooses each algorithm{both}"
        if not both and has_protocols(request.config):
            built = f"{protocol_name(request.queues.protocol)}, {built}"
    elif chooses_protocol(request):
        built = f"the tuner chooses each protocol; {built}"
    yield widgets.Text(f"# {name} of {counted(group.size, 'rank')} on {request.config.source}")
    yield widgets.Text(f"# {where}; {built}", "dim")
    if request.entry.only_in_place:
        yield widgets.Text("# in place, as its file says", "dim")
    if (request.warmup, request.iters) != (0, 1):
        yield widgets.Text(f"# mean of {counted(request.iters, 'iteration')} after {request.warmup:,} to warm up", "dim")
    if request.host is not None:
        host = request.host
        parts = [
            (host.before_ns, "before the kernel"), (host.kernel_ns, "in the kernel outside its steps"),
            (host.beside_ns, "of the host in parallel"), (host.after_ns, "after the kernel"),
        ]  # fmt: skip
        costs = ", ".join(f"{_number(float(ns) / 1e3)} us {where}" for ns, where in parts if ns) or "no time"
        yield widgets.Text(f"# each launch with {host.profile}: {costs}", "dim")
    shown = columns(request, width)
    if request.in_place:
        if KIND[0] not in shown:
            root = f", root {request.root}" if _rooted(request) else ""
            yield widgets.Text(f"# {request.dtype}, {_redop(request)}{root}", "dim")
        each = sum(width for _, _, width in shown[-len(RESULT) :])
        before = sum(width for _, _, width in shown) - 2 * each
        yield widgets.Text("#" + " " * (before - 1) + f"{'out of place':>{each}}{'in place':>{each}}", "dim")
    yield widgets.Text("#" + "".join(f"{name:>{width}}" for name, _, width in shown)[1:])
    yield widgets.Text("#" + "".join(f"{unit:>{width}}" for _, unit, width in shown)[1:].rstrip(), "dim")


def _rooted(request: CclRequest) -> bool:
    from kernbench.ccl.collectives import COLLECTIVES

    return COLLECTIVES[request.entry.collective].rooted


def _redop(request: CclRequest) -> str:
    from kernbench.ccl.collectives import COLLECTIVES

    return request.redop if COLLECTIVES[request.entry.collective].reduces else "no reduction"


def line(row: Row, request: CclRequest, width: int) -> widgets.Text:
    """One size."""
    shown = columns(request, width)
    cells = [str(row.size)]
    if KIND[0] in shown:
        cells += [str(row.count), row.dtype, row.redop, str(row.root)]
    made = widgets.Text()
    results: list[Row | InPlace | None] = [row, row.in_place] if request.in_place else [row]
    for result in results:
        if result is None:
            cells += ["N/A"] * len(RESULT)
        else:
            cells += [_number(result.time_us), _number(result.algbw), _number(result.busbw)]
            cells.append("N/A" if result.wrong is None else f"{result.wrong:,}")
    wrong = [False] * (len(cells) - len(RESULT) * len(results))
    for result in results:
        wrong += [False] * (len(RESULT) - 1) + [result is not None and bool(result.wrong)]
    for cell, bad, (_, _, size) in zip(cells, wrong, shown, strict=True):
        made.append(f"{cell:>{size}}", f"bold {BAD}" if bad else "")
    return made


def wrong_elements(rows: Sequence[Row]) -> int:
    """How many elements of all sizes are wrong, in place and out of it."""
    return sum((row.wrong or 0) + ((row.in_place.wrong or 0) if row.in_place else 0) for row in rows)


def notes(rows: Sequence[Row], algorithm: str = "") -> Iterator[widgets.Text]:
    """The bottleneck of each group of sizes, and the problems of the sizes; `algorithm`: its name, if there are several."""
    if not rows:
        return
    yield from _busiest(rows, algorithm)
    yield from _unreceived(rows)
    wrong = wrong_elements(rows)
    if wrong:
        yield widgets.Text(f"# {counted(wrong, 'element')} {'is' if wrong == 1 else 'are'} wrong", f"bold {BAD}")


def chosen(request: CclRequest, rows: Sequence[Row], label: str = "") -> Iterator[widgets.Text]:
    """The tuner's choices for the runs `label`: one line for consecutive sizes with the same algorithm and protocol."""
    runs = f" for {label}" if label else ""
    from kernbench.ccl.measure import chooses_protocol, resolved

    def choice(row: Row) -> str:
        made = resolved(request, max(1, row.count))
        return f"{made.entry.name}, {protocol_name(made.queues.protocol)}" if chooses_protocol(request) else made.entry.name

    if request.entry.registry is None and not chooses_protocol(request):
        return
    for name, group in groupby(rows, choice):
        yield widgets.Text(f"# chosen{runs} up to {list(group)[-1].size:,} B: {name}", "dim")


def average(rows: Sequence[Row]) -> Iterator[widgets.Text]:
    """The mean bus bandwidth of all rows, in place and out of it."""
    values = [row.busbw for row in rows] + [row.in_place.busbw for row in rows if row.in_place is not None]
    if values:
        yield widgets.Text(f"# average bus bandwidth {_number(sum(values) / len(values))} GB/s")


def slot_advice(request: CclRequest, rows: Sequence[Row]) -> Iterator[widgets.Text]:
    """Larger slots, if a ring's messages on their way are fewer bytes than a link between SIPs holds, and the link idles."""
    from kernbench.ccl.contract import WIDTH
    from kernbench.ccl.measure import resolved
    from kernbench.config.system.dimensions import sip_links

    if not rows or request.group.shape.sips == 1:
        return
    row, found = rows[-1], sip_links(request.config).values()
    link = max(found, key=lambda one: one.cycles * one.bytes_per_cycle)
    slot = resolved(request, max(1, row.count)).queues.slot_bytes
    held = int(2 * link.cycles * link.bytes_per_cycle)  # until the credit of a message is back
    rate = float(link.bytes_per_cycle * request.config.freq_ghz)
    if slot is None or 4 * WIDTH * slot >= held or row.size < request.group.size * WIDTH * slot or row.busbw > rate / 2:
        return
    larger = 1 << (-(-held // WIDTH) - 1).bit_length()
    if 4 * 32 * larger > request.config.pe.spm.size_bytes:  # two queues, and as much room for the kernel
        return
    yield widgets.Text(
        f"# {WIDTH} messages of {size_text(slot)} on their way fill {percent(WIDTH * slot / held)} of a link between SIPs; "
        f"for long messages: --slots 32 --slot-bytes {size_text(larger).replace(' ', '')}", WAIT,
    )  # fmt: skip


def _busiest(rows: Sequence[Row], algorithm: str) -> Iterator[widgets.Text]:
    """The bottleneck and its share of the time: one line for consecutive sizes with the same bottleneck."""
    groups = [list(group) for _, group in groupby(rows, lambda row: row.bound)]
    of = f"{algorithm}: " if algorithm else ""
    for group in groups:
        shares = list(dict.fromkeys(percent(share) for share in sorted(row.bound_share for row in group)))
        upto = f" up to {group[-1].size:,} B" if len(groups) > 1 else ""
        yield widgets.Text(f"# {of}busiest{upto}: {group[0].bound}, {' to '.join(shares[:1] + shares[1:][-1:])}", "dim")


def _unreceived(rows: Sequence[Row]) -> Iterator[widgets.Text]:
    """Messages that nobody received, of the largest size that has some."""
    for row in [row for row in rows if row.unreceived][-1:]:
        for one in row.unreceived[:MAX_QUEUES]:
            yield widgets.Text(f"# {row.size:,} B: {one['message']}", f"bold {WAIT}")
        more = len(row.unreceived) - MAX_QUEUES
        if more > 0:
            yield widgets.Text(f"# and of {counted(more, 'queue')} more (all are in --json)", f"bold {WAIT}")


def unfinished(status: str, done: int, request: int) -> widgets.Text:
    """A line for a run that did not finish all sizes."""
    return widgets.Text(f"# {status}: {done} of {counted(request, 'size')} done", f"bold {WAIT}")


def ended(result: Result) -> Iterator[RenderableType]:
    """Why a run did not finish."""
    yield status_text(result.status).append(f"  in cycle {result.cycles:,}")
    if result.status == "deadlock":
        yield from wait_table(result)
    yield from warnings(result)


def _number(value: float) -> str:
    """Two decimals, or three for a small number."""
    return f"{value:.2f}" if value >= 10 or value == 0 else f"{value:.3f}"
