"""Collectives over sizes: a row each, as nccl-tests prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from kernbench.ccl.call import Call, Queues
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.group import Group
from kernbench.ccl.registry import Entry, Registry
from kernbench.ccl.single import Outcome, call_machine, run_call
from kernbench.common.dtypes import dtype_of
from kernbench.config import SystemConfig
from kernbench.sim_engine.engine import Around
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.roofline import roofs

Progress: TypeAlias = Callable[[Machine], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One size."""

    size: int  #: [B] of what a rank has or gets, whichever is more
    count: int  #: [element] the kernel's `n_elem`
    dtype: str
    redop: str  #: sum or none
    root: int  #: -1: there is none
    cycles: int
    time_us: float
    algbw: float  #: [GB/s] size over time
    busbw: float  #: [GB/s] what each rank sends at least, over time
    wrong: int | None  #: elements that differ from the reference in any bit; None: not verified
    bound: str  #: what was asked of most: a link, a channel, or the engines of a PE
    bound_share: float  #: of the time
    unreceived: tuple[dict[str, Any], ...]  #: the run's warnings of messages that nobody received


@dataclass(frozen=True)
class Asked:
    """What is run."""

    config: SystemConfig
    group: Group
    entry: Entry
    dtype: str
    queues: Queues
    check: bool
    seed: int = 0


def sizes_between(first: int, last: int, factor: int) -> Iterator[int]:
    """Sizes from the first, each so many times the one before, up to the last. With a factor of 1 the first alone."""
    size = first
    while size <= last:
        yield size
        if factor < 2:
            return
        size *= factor


def queues_of(
    registry: Registry, entry: Entry, slots: int | None = None, slot_bytes: int | None = None, tier: str | None = None
) -> Queues:
    """The queues of an algorithm where no others are given."""
    return Queues(
        slots or entry.slots or registry.slots,
        slot_bytes or entry.slot_bytes or registry.slot_bytes,
        tier or registry.tier,
    )


def counts_of(asked: Asked, first: int, last: int, factor: int) -> list[int]:
    """The kernel's `n_elem` of each size, where it is another one; of a collective without elements 1."""
    collective, itemsize = COLLECTIVES[asked.entry.collective], dtype_of(asked.dtype).bits // 8
    if not collective.moves:
        return [1]
    found = (collective.count_of(nbytes, asked.group.size, itemsize) for nbytes in sizes_between(first, last, factor))
    return list(dict.fromkeys(found))


def bytes_of(asked: Asked, count: int) -> int:
    """The size of a row [B]: of what a rank has or gets, whichever is more."""
    collective, ranks = COLLECTIVES[asked.entry.collective], asked.group.size
    if not collective.moves:
        return 0
    return max(collective.has(count, ranks), collective.gets(count, ranks)) * (dtype_of(asked.dtype).bits // 8)


def row(
    asked: Asked, count: int, progress: Progress | None = None, around: Around = nullcontext
) -> tuple[Row | None, Outcome]:
    """One count: what it came to, None where the run did not end. InputError and KernelFailed as `single.run_call`."""
    collective = COLLECTIVES[asked.entry.collective]
    ranks = asked.group.size
    how: dict[str, Any] = {"check": asked.check, "seed": asked.seed, "progress": progress, "around": around}
    outcome = run_call(asked.config, _call(asked, count), collective, asked.queues, **how)
    if outcome.status != "done":
        return None, outcome
    size = bytes_of(asked, count)
    seconds = outcome.cycles / (float(asked.config.freq_ghz) * 1e9)
    speed = size / seconds / 1e9 if seconds else 0.0  # an algorithm that does nothing takes no time
    result = outcome.engine.machine.result()
    top = roofs(result, outcome.engine.machine.plan)[0]
    made = Row(
        size=size,
        count=count if collective.moves else 0,
        dtype=asked.dtype,
        redop="sum" if collective.reduces else "none",
        root=0 if collective.rooted else -1,
        cycles=outcome.cycles,
        time_us=seconds * 1e6,
        algbw=speed,
        busbw=speed * float(collective.bus_factor(ranks)),
        wrong=outcome.wrong,
        bound=top.name,
        bound_share=top.cycles / outcome.cycles if outcome.cycles else 0.0,
        unreceived=tuple(one for one in result.warnings if one["code"] == "UNRECEIVED"),
    )
    return made, outcome


def machine_of(asked: Asked, count: int) -> Machine:
    """One count on its machine at cycle 0, without a log. InputError as `single.call_machine`."""
    return call_machine(asked.config, _call(asked, count), COLLECTIVES[asked.entry.collective], asked.queues)


def _call(asked: Asked, count: int) -> Call:
    assert asked.queues.slot_bytes is not None
    return Call(asked.entry.full_name, asked.entry.load(), asked.group, count, asked.dtype, asked.queues.slot_bytes)


def to_json(asked: Asked, counts: Sequence[int], rows: list[Row], status: str = "done", message: str = "") -> dict[str, Any]:
    """A run as plain JSON: the sizes that are done, and those that are not where something ended it before."""
    group = asked.group
    return {
        "status": status,
        **({"message": message} if message else {}),
        "collective": asked.entry.collective,
        "algorithm": asked.entry.name,
        "machine": asked.config.source,
        "ranks": group.size,
        "shape": list(group.shape),
        "topology": group.kind_name,
        "queues": asdict(asked.queues),
        "checked": asked.check,
        "rows": [asdict(one) for one in rows],
        "unfinished": [bytes_of(asked, count) for count in counts[len(rows) :]],
    }
