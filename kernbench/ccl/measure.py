"""Measures collectives over a range of sizes, with one row for each size, as nccl-tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any, TypeAlias, cast

import msgspec

from kernbench.ccl.call import Call, Outcome, Queues, call_bench, call_machine, run_call
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import pieces, segments
from kernbench.ccl.group import Group, with_root
from kernbench.ccl.halving_doubling import steps_of
from kernbench.ccl.queue_sizes import ALONE, BESIDE, of_chips, sizes_for, sizes_in
from kernbench.ccl.reduction import SUM, Reduction
from kernbench.ccl.registry import Entry, Registry
from kernbench.ccl.rings import grid_rings, level_rings, rings_with
from kernbench.ccl.schedule import Schedule
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.free_memory import free_memory
from kernbench.common.units import ceil_div
from kernbench.config import SystemConfig
from kernbench.config.runtime import load_runtime
from kernbench.runtime_api.allocator import ALIGNMENT
from kernbench.runtime_api.bench import Bench
from kernbench.sim_engine.engine import Around
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.summary import roofs
from kernbench.triton_emu.queues import MAX_BYTES, MAX_SLOTS

Progress: TypeAlias = Callable[[Machine], None]


@dataclass(frozen=True, slots=True)
class InPlace:
    """The result of one size for a call in place, in which elements and results share memory."""

    cycles: int
    time_us: float
    algbw: float  #: [GB/s]
    busbw: float  #: [GB/s]
    wrong: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one size."""

    size: int  #: [B] the larger of a rank's input and its output
    count: int  #: [element] the kernel's `n_elem`
    dtype: str
    redop: str  #: sum, max, ...; none for a collective without reduction
    root: int  #: -1: there is none
    cycles: int
    time_us: float
    algbw: float  #: [GB/s] size over time
    busbw: float  #: [GB/s] the bytes that each rank must send at least, divided by the time
    wrong: int | None  #: elements that differ from the reference in any bit; None: not verified
    bound: str  #: the busiest resource: a link, a channel, or the engines of a PE
    bound_share: float  #: of the time
    unreceived: tuple[dict[str, Any], ...]  #: warnings about messages that were never received
    in_place: InPlace | None = None  #: None: it was not asked for, or the collective has none


class HostCost(msgspec.Struct, frozen=True):
    """The time of each launch of a collective beside the steps between ranks, from a runtime profile."""

    profile: str
    before_ns: Fraction  #: of the host before the kernel begins
    kernel_ns: Fraction  #: of the device in the kernel, in addition to the steps
    beside_ns: Fraction  #: of the host while the kernel runs
    after_ns: Fraction  #: of the host after the kernel

    @classmethod
    def of(cls, name: str, collective: str) -> HostCost:
        """Return the cost from a profile name or a file. Raises InputError if there is no such profile and no such file."""
        profile = load_runtime(name)
        kind = (collective, "collective")
        kernel, after = Fraction(profile.collective_ns), Fraction(profile.sync_ns)
        return cls(name, profile.launch(*kind), kernel, profile.behind(*kind), after)

    def seconds(self, alone: Fraction) -> Fraction:
        """Return the time [s] of a launch whose ranks take `alone` seconds."""
        nano = Fraction(1, 10**9)
        return self.before_ns * nano + max(alone + self.kernel_ns * nano, self.beside_ns * nano) + self.after_ns * nano


@dataclass(frozen=True)
class CclRequest:
    """The parameters of a measurement."""

    config: SystemConfig
    group: Group
    entry: Entry
    dtype: str
    queues: Queues
    check: bool
    seed: int = 0
    root: int = 0
    warmup: int = 0  #: launches before those that are timed
    iters: int = 1  #: launches whose mean is the time
    in_place: bool = False  #: each size is run in place too
    redop: str = "sum"  #: the operation, if the collective reduces
    host: HostCost | None = None  #: None: times are those of the ranks alone
    channels: int = 0  #: cores of each PE that it occupies


def sizes_between(first: int, last: int, factor: int, step: int = 0) -> Iterator[int]:
    """Return the sizes from the first to the last, each `factor` times the size before, or with `step` larger by `step`.

    A factor of 1 gives only the first size.
    """
    size = first
    while size <= last:
        yield size
        if not step and factor < 2:
            return
        size = size + step if step else size * factor


def queues_of(
    registry: Registry,
    entry: Entry,
    slots: int | None = None,
    slot_bytes: int | None = None,
    tier: str | None = None,
    protocol: str | None = None,
    *,
    config: SystemConfig | None = None,
    group: Group | None = None,
    shares: bool = False,
) -> Queues:
    """Return the default queues of an algorithm. Without an algorithm, because the tuner chooses it, return the given
    parameters.

    With a machine and a group whose ranks are chips, the default sizes follow from the links (`queue_sizes`). Algorithms from
    files of users keep the sizes of their files. `shares` says whether queues of other groups may be in a scratchpad.
    """
    if entry.registry is not None:
        return Queues(slots, slot_bytes, tier, protocol)
    own = slots or entry.slots or registry.slots, slot_bytes or entry.slot_bytes or registry.slot_bytes
    computed = entry.module.startswith("kernbench.") and COLLECTIVES[entry.collective].moves
    if config is not None and group is not None and computed and of_chips(config, group):
        own = sizes_for(config, group, entry, slots, slot_bytes, own[1], BESIDE if shares else ALONE)
    elif config is not None and group is not None and (tier or registry.tier) == "tcm" and slots is slot_bytes is None:
        own = sizes_in(config, group, entry, *own, BESIDE if shares else 2 * ALONE)
    return Queues(*own, tier or registry.tier, protocol)


def resolved(request: CclRequest, count: int) -> CclRequest:
    """Return the measurement with the algorithm, the protocol and the queues that the tuner chooses for this count."""
    registry, queues = request.entry.registry, request.queues
    if registry is None and not chooses_protocol(request):
        return request
    from kernbench.ccl.tuner import tuner_of  # it simulates by this module

    if registry is None:
        assert queues.slots is not None and queues.slot_bytes is not None and queues.tier is not None
        alone = Registry((request.entry,), queues.slots, queues.slot_bytes, queues.tier)
        tuner = tuner_of(request.config, _rooted(request), alone, queues)
        protocol = tuner.protocol(request.entry, count, request.dtype, request.channels)
        return replace(request, queues=replace(queues, protocol=protocol))
    tuner = tuner_of(request.config, _rooted(request), registry, queues)
    choice = tuner.choose(request.entry.collective, count, request.dtype, request.channels)
    entry = registry.find(request.entry.collective, choice.name)
    chosen = choice.protocols[choice.name] if has_protocols(request.config) else queues.protocol
    return replace(request, entry=entry, queues=replace(tuner.queues(entry), protocol=chosen))


def has_protocols(config: SystemConfig) -> bool:
    """Return whether the machine file has protocols."""
    return config.pe.ipcq.protocols is not None


def chooses_protocol(request: CclRequest) -> bool:
    """Return whether the tuner can choose between protocols."""
    return request.queues.protocol is None and len(request.config.pe.ipcq.protocol_names) > 1


def _rooted(request: CclRequest) -> Group:
    """Return the ranks in an order that begins with the root."""
    return with_root(request.group, request.root) if request.root else request.entry.seen(request.group)


def counts_of(request: CclRequest, first: int, last: int, factor: int, step: int = 0) -> list[int]:
    """Return the `n_elem` of the kernel for each size. It is 1 for a collective without elements."""
    collective, itemsize = COLLECTIVES[request.entry.collective], dtype_of(request.dtype).bits // 8
    if not collective.moves:
        return [1]
    found = (collective.count_of(nbytes, request.group.size, itemsize) for nbytes in sizes_between(first, last, factor, step))
    multiple = request.entry.multiple()
    return list(dict.fromkeys(ceil_div(count, multiple) * multiple for count in found))


def bytes_of(request: CclRequest, count: int) -> int:
    """Return the size [B] of a row: the larger of a rank's input and its output."""
    collective, ranks = COLLECTIVES[request.entry.collective], request.group.size
    if not collective.moves:
        return 0
    return max(collective.has(count, ranks), collective.gets(count, ranks)) * (dtype_of(request.dtype).bits // 8)


def row(
    request: CclRequest, count: int, progress: Progress | None = None, around: Around = nullcontext
) -> tuple[Row | None, Outcome]:
    """Return the result of one count, or None if the run did not end. Raises InputError and KernelFailed as `call.run_call`."""
    request = resolved(request, count)
    collective = COLLECTIVES[request.entry.collective]
    call = _call(request, count)
    only_in_place = request.entry.only_in_place
    if only_in_place:
        call = replace(call, in_place=collective)
    how: dict[str, Any] = {"check": request.check, "seed": request.seed, "warmup": request.warmup, "iters": request.iters}
    outcome = run_call(request.config, call, collective, request.queues, **how, progress=progress, around=around)
    if outcome.status != "done":
        return None, outcome
    there = None
    if request.in_place and only_in_place:
        there = InPlace(outcome.cycles, *_speed(request, count, outcome), outcome.wrong)
    elif request.in_place and collective.in_place and request.entry.also_in_place:
        second = run_call(
            request.config, replace(call, in_place=collective), collective, request.queues, **how, progress=progress
        )
        if second.status != "done":
            return None, second
        there = InPlace(second.cycles, *_speed(request, count, second), second.wrong)
    result = outcome.engine.machine.result()
    top = roofs(result, outcome.engine.machine.plan)[0]
    time_us, algbw, busbw = _speed(request, count, outcome)
    made = Row(
        size=bytes_of(request, count),
        count=count if collective.moves else 0,
        dtype=request.dtype,
        redop=request.redop if collective.reduces else "none",
        root=request.root if collective.rooted else -1,
        cycles=outcome.cycles,
        time_us=time_us,
        algbw=algbw,
        busbw=busbw,
        wrong=outcome.wrong,
        bound=top.name,
        bound_share=top.cycles / outcome.whole if outcome.whole else 0.0,
        unreceived=tuple(one for one in result.warnings if one["code"] == "UNRECEIVED"),
        in_place=there,
    )
    return made, outcome


def _speed(request: CclRequest, count: int, outcome: Outcome) -> tuple[float, float, float]:
    """Return the time [us], the algorithm bandwidth and the bus bandwidth [GB/s]. An algorithm without work takes no time."""
    seconds = float(outcome.exact) / (float(request.config.freq_ghz) * 1e9)
    if request.host is not None:
        seconds = float(request.host.seconds(Fraction(seconds)))
    speed = bytes_of(request, count) / seconds / 1e9 if seconds else 0.0
    factor = COLLECTIVES[request.entry.collective].bus_factor(request.group.size)
    return seconds * 1e6, speed, speed * float(factor)


def machine_of(request: CclRequest, count: int) -> Machine:
    """Return the machine for one count at cycle 0, without a log. Raises InputError as `call.call_machine`."""
    request = resolved(request, count)
    return call_machine(request.config, _call(request, count), COLLECTIVES[request.entry.collective], request.queues)


def bench_of(request: CclRequest, count: int) -> Bench:
    """Return one count as a bench, with random elements for each rank."""
    request = resolved(request, count)
    collective, call = COLLECTIVES[request.entry.collective], _call(request, count)
    if request.entry.only_in_place:
        call = replace(call, in_place=collective)
    return call_bench(call, collective, request.queues, request.seed)


def _call(request: CclRequest, count: int) -> Call:
    assert request.queues.slot_bytes is not None
    group = _rooted(request)
    collective = COLLECTIVES[request.entry.collective]
    reduction = Reduction(request.redop) if collective.reduces else SUM
    made = request.entry.load()
    slot_bytes = request.queues.slot_bytes
    how: dict[str, Any] = {"reduction": reduction, "collective": collective, "channels": request.channels}
    return Call(request.entry.full_name, made, group, count, request.dtype, slot_bytes, **how)


def row_json(row: Row, request: CclRequest) -> dict[str, Any]:
    """Return a row as plain JSON, with `in_place` if the measurement has it."""
    found = asdict(row)
    if not request.in_place:
        del found["in_place"]
    return found


def csv_text(rows: Sequence[tuple[CclRequest, Row]]) -> str:
    """Return all rows as CSV with a header. Results in place have separate columns."""
    import csv
    import io

    made = io.StringIO()
    names = [field.name for field in fields(Row) if field.name not in ("unreceived", "in_place")]
    places = [field.name for field in fields(InPlace)]
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(["collective", "algorithm", "machine", "ranks", *names, *(f"in_place_{name}" for name in places)])
    for request, row in rows:
        there = [getattr(row.in_place, name) if row.in_place is not None else "" for name in places]
        about = [request.entry.collective, request.entry.name, request.config.source, request.group.size]
        writer.writerow([*about, *(getattr(row, name) for name in names), *there])
    return made.getvalue()


def to_json(
    request: CclRequest, counts: Sequence[int], rows: list[Row], status: str = "done", message: str = ""
) -> dict[str, Any]:
    """Return a measurement as plain JSON: the sizes that are done, and the sizes that are missing after an error."""
    group = request.group
    timed = {"warmup": request.warmup, "iters": request.iters} if (request.warmup, request.iters) != (0, 1) else {}
    named = has_protocols(request.config) or request.queues.protocol is not None
    runs = [resolved(request, max(1, one.count)) for one in rows]
    return {
        "status": status,
        **({"message": message} if message else {}),
        "collective": request.entry.collective,
        "algorithm": request.entry.name,
        "machine": request.config.source,
        "ranks": group.size,
        "shape": list(group.shape),
        "topology": group.kind_name,
        "queues": {key: value for key, value in asdict(request.queues).items() if key != "protocol" or named},
        "checked": request.check,
        **({"algorithms": [one.entry.name for one in runs]} if request.entry.registry else {}),
        **({"protocols": [one.queues.protocol for one in runs]} if chooses_protocol(request) else {}),
        **timed,
        **({} if request.host is None else {"runtime": request.host.profile}),
        **({"channels": request.channels} if request.channels else {}),
        "rows": [row_json(one, request) for one in rows],
        "unfinished": [bytes_of(request, count) for count in counts[len(rows) :]],
    }


#: [s] of CPU time a message: measured with messages of 32 KiB between 8 ranks; sizes that are done say it better.
PACE, CHECKED_PACE = 0.00015, 0.0008

Form = Callable[[CclRequest, int], int]


def messages(request: CclRequest, count: int) -> tuple[int, bool]:
    """Return the number of messages of a count, and whether the number is exact.

    For algorithms of users, the number is a lower bound: each rank sends its share in messages of at most one slot.
    """
    request = resolved(request, count)
    form = FORMS.get(request.entry.module)
    if form is not None:
        return form(request, count), True
    large = request.entry.name == "direct" and request.group.size**2 > MAX_PAIRS
    schedule = None if large or request.entry.module.endswith(".py") else schedule_of(request.entry, request.group)
    if schedule is not None:
        moved = count if COLLECTIVES[request.entry.collective].moves else 1
        slots, slot_bytes = request.queues.slots or 1, _slot(request)
        most = schedule.lane_bytes(slots, slot_bytes, request.config.pe.spm.size_bytes)
        return schedule.messages(moved, _itemsize(request), slot_bytes, most), True
    collective, ranks = COLLECTIVES[request.entry.collective], request.group.size
    size = max(collective.has(count, ranks), collective.gets(count, ranks)) * _itemsize(request)
    return ceil_div(collective.bus_factor(ranks) * size * ranks, _slot(request)), False


MAX_PAIRS = 1 << 17  #: a schedule in which all ranks exchange messages with all others is not made to be counted beyond this


def schedule_of(entry: Entry, group: Group) -> Schedule | None:
    """Return the schedule of an algorithm, or None if the algorithm has no schedule."""
    made = getattr(entry.load(), "schedule", None)
    return None if made is None else cast(Schedule, made(group.kind, group.shape))


def launched(request: CclRequest) -> int:
    """Return how often a size is launched, in place and not in place."""
    twice = request.in_place and COLLECTIVES[request.entry.collective].in_place
    return (request.warmup + request.iters) * (2 if twice else 1)


def memory(request: CclRequest, count: int) -> int:
    """Return the bytes of host memory that the elements of a count take.

    The factors are measured. Random elements are made in wide types. A verified run holds four copies of the elements and two
    copies of the results at the same time: inputs, the tensor of the host, snapshots and replay of the log, and the reference.
    """
    collective, ranks, itemsize = COLLECTIVES[request.entry.collective], request.group.size, _itemsize(request)
    has, gets = collective.has(count, ranks), collective.gets(count, ranks)
    made = has * ((4 if dtype_of(request.dtype).kind == "float" else 8) + itemsize)
    return made + (ranks * (4 * has + 2 * gets) * itemsize if request.check else 0)


class Forecast:
    """The estimated run time of sizes, from their messages and the rate of the last size that ran long enough to measure."""

    def __init__(self, request: CclRequest, counts: Sequence[int]) -> None:
        self.messages = [messages(request, count)[0] * launched(request) for count in counts]
        self.pace = CHECKED_PACE if request.check else PACE
        self.done = 0

    def took(self, seconds: float) -> None:
        """Record the run time [s] of the next size."""
        if seconds >= 1 and self.messages[self.done]:
            self.pace = seconds / self.messages[self.done]
        self.done += 1

    @property
    def left(self) -> int:
        """The number of messages of the sizes that are not done."""
        return sum(self.messages[self.done :])

    @property
    def seconds(self) -> float:
        """Return the estimated run time [s] of these sizes."""
        return self.left * self.pace


def _itemsize(request: CclRequest) -> int:
    return dtype_of(request.dtype).bits // 8


def _slot(request: CclRequest) -> int:
    assert request.queues.slot_bytes is not None
    return request.queues.slot_bytes


def _cut(request: CclRequest, count: int, flat: bool = True, adds: bool = True) -> int:
    """Return the number of messages of a block, along the flat ring or along another ring."""
    far = flat and request.group.shape.sips > 1
    return pieces(count, _itemsize(request), _slot(request), far, adds) if count else 0


def _round(request: CclRequest, count: int, times: int, flat: bool = True) -> int:
    """Return the number of messages for blocks of all ranks that travel around a ring of all ranks `times` times."""
    ranks = request.group.size
    return times * (ranks - 1) * min(ranks, count) * _cut(request, ceil_div(count, ranks), flat)


def _levels(request: CclRequest, sizes: Sequence[int], count: int) -> int:
    """Return the number of messages of sums over rings of these sizes in sequence.

    Each rank sends its chunks of each level around the ring twice.
    """
    sizes = [size for size in sizes if size > 1]
    if not sizes or not count:
        return 0
    if len(sizes) == 1 and sizes[0] == request.group.size:
        return _round(request, count, 2, flat=False)
    chunk = ceil_div(count, sizes[0])
    many = segments(chunk, _itemsize(request), _slot(request))
    chunk, found = ceil_div(chunk, many), 0
    for size, after in zip(sizes, (*sizes[1:], 0), strict=True):
        found += 2 * (size - 1) * _cut(request, chunk, flat=False)
        chunk = ceil_div(chunk, after) if after else 0
    return found * many * request.group.size


def _halves(request: CclRequest, count: int) -> tuple[int, int]:
    return ceil_div(count, 2), count // 2


def _torus(request: CclRequest, count: int) -> int:
    group = request.group
    across, down = (level[0].size for level in grid_rings(group.kind, group.shape))
    if 1 < group.shape.sips < group.size:
        return _levels(request, (across, down), count)
    first, second = _halves(request, count)
    return _levels(request, (across, down), first) + _levels(request, (down, across), second)


def _hierarchical(request: CclRequest, count: int) -> int:
    group = request.group
    return _levels(request, [ring.size for ring in rings_with(0, level_rings, group.kind, group.shape)], count)


def _halving_doubling(request: CclRequest, count: int) -> int:
    ranks = request.group.size
    steps = steps_of(ranks)
    spare = ranks - (1 << steps)
    most = max(1, _slot(request) // _itemsize(request)) * (1 if spare or ranks == 1 else 2)
    return ceil_div(count, most) * (2 * steps * (1 << steps) + 2 * spare)


def _all_to_all(request: CclRequest, count: int) -> int:
    ranks = request.group.size
    hops = sum(range(1, ranks // 2 + 1)) + sum(range(1, (ranks + 1) // 2))
    return ranks * hops * _cut(request, count, flat=False, adds=False)


def _along(request: CclRequest, count: int, adds: bool = True) -> int:
    return (request.group.size - 1) * _cut(request, count, adds=adds)


def _shift(request: CclRequest, count: int) -> int:
    return request.group.size * _cut(request, count, adds=False) if request.group.size > 1 else 0


#: By module; exact if each message of a chunk has elements.
FORMS: Mapping[str, Form] = {
    f"kernbench.ccl.algorithms.{name}": form
    for name, form in {
        "all_reduce_ring": lambda request, count: _round(request, count, 2),
        "all_reduce_bidirectional": lambda request, count: sum(_round(request, half, 2) for half in _halves(request, count)),
        "all_reduce_halving_doubling": _halving_doubling,
        "all_reduce_torus": _torus,
        "all_reduce_hierarchical": _hierarchical,
        "all_gather_ring": lambda request, count: request.group.size * _along(request, count, adds=False),
        "reduce_scatter_ring": lambda request, count: request.group.size * _along(request, count),
        "broadcast_ring": _along,
        "reduce_ring": _along,
        "all_to_all_ring": _all_to_all,
        "send_recv_ring": _shift,
        "barrier_dissemination": lambda request, count: request.group.size * (request.group.size - 1).bit_length(),
    }.items()
}


GIB = 1 << 30
MAX_HELD = 8 * GIB  #: [B] of elements; numpy has them in wider types while they are made and compared


def check_room(request: CclRequest, counts: Sequence[int]) -> None:
    """Raise InputError for sizes or queues that do not fit into memory, before any memory is reserved."""
    for count in counts if request.entry.registry is not None or chooses_protocol(request) else counts[:1]:
        _check_slots(resolved(request, count))
    largest = max(counts)
    _check_held(request, bytes_of(request, largest))
    _check_slice(request, largest)
    free, needed = free_memory(), memory(request, largest)
    if free is not None and needed > free:
        rule = f"it takes about {needed / GIB:,.1f} GiB of this computer's memory, and {free / GIB:,.1f} GiB are free"
        remedy = "take a smaller size" + (", fewer ranks, or --no-check" if request.check else "")
        raise InputError(Problem("kbsim ccl run", rule, "size", bytes_of(request, largest), remedy))


def slot_room(config: SystemConfig, queues: Queues) -> int:
    """Return the bytes of a slot in memory: the longest message in whole lines of its protocol."""
    nbytes, one = queues.slot_bytes or 0, config.pe.ipcq.protocol(queues.protocol or "simple")
    if one is None or one.data_bytes == one.line_bytes:
        return nbytes
    return ceil_div(nbytes, one.data_bytes) * one.line_bytes


def _check_slots(request: CclRequest) -> None:
    """Check that an element fits into a slot, and that the slots of a queue fit into a scratchpad."""
    slots, nbytes = request.queues.slots or 0, request.queues.slot_bytes or 0
    room = slot_room(request.config, request.queues)
    least = dtype_of(request.dtype).bits // 8
    if COLLECTIVES[request.entry.collective].moves and nbytes < least:
        rule = f"an element of {request.dtype} has {least}, and a slot has to hold one"
        raise InputError(Problem("kbsim ccl run", rule, "--slot-bytes", nbytes))
    spm = request.config.pe.spm
    there = spm.num_banks * spm.bank_size_bytes
    wanted = request.queues.tier == "tcm" and slots <= MAX_SLOTS and nbytes <= MAX_BYTES  # more is refused of any queue
    if wanted and slots * room > there:
        rule = f"{slots:,} slots take {slots * room:,} bytes of a PE's scratchpad of {there:,}"
        remedy = "use fewer or smaller slots (--slots, --slot-bytes), or --tier hbm"
        raise InputError(Problem("kbsim ccl run", rule, "--slot-bytes", nbytes, remedy))


def _check_held(request: CclRequest, nbytes: int) -> None:
    """Raise InputError for more elements than the host memory holds: of all ranks if they are verified, otherwise of one rank.
    """
    held = nbytes * (request.group.size if request.check else 1)
    if held > MAX_HELD:
        whose = f"those of {request.group.size} ranks" if request.check else "those of a rank"
        size, most = f"{held / GIB:,.0f} GiB", MAX_HELD // GIB
        rule = f"its elements are held while it runs, {whose} are {size}, and at most {most} are taken"
        remedy = "take a smaller size" + (", or --no-check, which holds those of one rank" if request.check else "")
        raise InputError(Problem("kbsim ccl run", rule, "size", nbytes, remedy))


def _check_slice(request: CclRequest, count: int) -> None:
    """Check that the elements and results of a rank fit into the HBM slice of its PE."""
    collective, ranks = COLLECTIVES[request.entry.collective], request.group.size
    itemsize, there = dtype_of(request.dtype).bits // 8, request.config.slice_bytes
    has, gets = (each * itemsize for each in (collective.has(count, ranks), collective.gets(count, ranks)))
    taken = ceil_div(has, ALIGNMENT) * ALIGNMENT + gets
    if taken > there:
        rule = f"a rank's elements and results take {taken:,} bytes, and a PE's slice of the HBM has {there:,}"
        raise InputError(Problem("kbsim ccl run", rule, "size", bytes_of(request, count), "take a smaller size"))
