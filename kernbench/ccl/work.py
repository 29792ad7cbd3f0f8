"""How much work a size is before it runs: messages of all ranks together, and bytes of this computer's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernbench.ccl.arranged import grid_rings, level_rings, rings_with
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.cuts import pieces, segments
from kernbench.ccl.exchange import steps_of
from kernbench.ccl.measure import Asked
from kernbench.common.dtypes import dtype_of
from kernbench.common.units import ceil_div

#: [s] of CPU time a message: measured with messages of 32 KiB between 8 ranks; sizes that are done say it better.
PACE, CHECKED_PACE = 0.00015, 0.0008

Form = Callable[[Asked, int], int]


def messages(asked: Asked, count: int) -> tuple[int, bool]:
    """How many messages a count takes, and whether that is all: of an algorithm that is not the package's it is the least that
    can be, as each rank has to send its share in messages of a slot at most."""
    form = FORMS.get(asked.entry.module)
    if form is not None:
        return form(asked, count), True
    collective, ranks = COLLECTIVES[asked.entry.collective], asked.group.size
    size = max(collective.has(count, ranks), collective.gets(count, ranks)) * _itemsize(asked)
    return ceil_div(collective.bus_factor(ranks) * size * ranks, _slot(asked)), False


def memory(asked: Asked, count: int) -> int:
    """[B] of this computer's memory that the elements of a count take.

    Measured: random elements are made in wide types, and of verified ones four copies of what ranks have and two of what they
    get are there at a time (inputs, the host's tensor, the log's snapshots and replay, the reference).
    """
    collective, ranks, itemsize = COLLECTIVES[asked.entry.collective], asked.group.size, _itemsize(asked)
    has, gets = collective.has(count, ranks), collective.gets(count, ranks)
    made = has * ((4 if dtype_of(asked.dtype).kind == "float" else 8) + itemsize)
    return made + (ranks * (4 * has + 2 * gets) * itemsize if asked.check else 0)


class Forecast:
    """How long sizes will take: by their messages, at the pace of the last size that was long enough to tell."""

    def __init__(self, asked: Asked, counts: Sequence[int]) -> None:
        self.messages = [messages(asked, count)[0] for count in counts]
        self.pace = CHECKED_PACE if asked.check else PACE
        self.done = 0

    def took(self, seconds: float) -> None:
        """The next size is done."""
        if seconds >= 1 and self.messages[self.done]:
            self.pace = seconds / self.messages[self.done]
        self.done += 1

    @property
    def left(self) -> int:
        """Messages of the sizes that are not done."""
        return sum(self.messages[self.done :])

    @property
    def seconds(self) -> float:
        """What those will take."""
        return self.left * self.pace


def _itemsize(asked: Asked) -> int:
    return dtype_of(asked.dtype).bits // 8


def _slot(asked: Asked) -> int:
    assert asked.queues.slot_bytes is not None
    return asked.queues.slot_bytes


def _cut(asked: Asked, count: int, flat: bool = True, adds: bool = True) -> int:
    """Messages of a block, along the flat ring or another one."""
    far = flat and asked.group.shape.sips > 1
    return pieces(count, _itemsize(asked), _slot(asked), far, adds) if count else 0


def _round(asked: Asked, count: int, times: int, flat: bool = True) -> int:
    """Of blocks of all ranks, so many times round the flat ring, or another one of all."""
    ranks = asked.group.size
    return times * (ranks - 1) * min(ranks, count) * _cut(asked, ceil_div(count, ranks), flat)


def _levels(asked: Asked, sizes: Sequence[int], count: int) -> int:
    """Of sums over rings of these sizes, one after the other: each rank sends its chunks of each level twice round."""
    sizes = [size for size in sizes if size > 1]
    if not sizes or not count:
        return 0
    if len(sizes) == 1 and sizes[0] == asked.group.size:
        return _round(asked, count, 2, flat=False)
    chunk = ceil_div(count, sizes[0])
    many = segments(chunk, _itemsize(asked), _slot(asked))
    chunk, found = ceil_div(chunk, many), 0
    for size, after in zip(sizes, (*sizes[1:], 0), strict=True):
        found += 2 * (size - 1) * _cut(asked, chunk, flat=False)
        chunk = ceil_div(chunk, after) if after else 0
    return found * many * asked.group.size


def _halves(asked: Asked, count: int) -> tuple[int, int]:
    return ceil_div(count, 2), count // 2


def _torus(asked: Asked, count: int) -> int:
    group = asked.group
    across, down = (level[0].size for level in grid_rings(group.kind, group.shape))
    if 1 < group.shape.sips < group.size:
        return _levels(asked, (across, down), count)
    first, second = _halves(asked, count)
    return _levels(asked, (across, down), first) + _levels(asked, (down, across), second)


def _hierarchical(asked: Asked, count: int) -> int:
    group = asked.group
    return _levels(asked, [ring.size for ring in rings_with(0, level_rings(group.kind, group.shape))], count)


def _halving_doubling(asked: Asked, count: int) -> int:
    ranks = asked.group.size
    steps = steps_of(ranks)
    spare = ranks - (1 << steps)
    most = max(1, _slot(asked) // _itemsize(asked)) * (1 if spare or ranks == 1 else 2)
    return ceil_div(count, most) * (2 * steps * (1 << steps) + 2 * spare)


def _all_to_all(asked: Asked, count: int) -> int:
    ranks = asked.group.size
    hops = sum(range(1, ranks // 2 + 1)) + sum(range(1, (ranks + 1) // 2))
    return ranks * hops * _cut(asked, count, flat=False, adds=False)


def _along(asked: Asked, count: int, adds: bool = True) -> int:
    return (asked.group.size - 1) * _cut(asked, count, adds=adds)


def _shift(asked: Asked, count: int) -> int:
    return asked.group.size * _cut(asked, count, adds=False) if asked.group.size > 1 else 0


#: By module; where a chunk has elements for all of its messages these are exact.
FORMS: Mapping[str, Form] = {
    f"kernbench.ccl.algorithms.{name}": form
    for name, form in {
        "all_reduce_ring": lambda asked, count: _round(asked, count, 2),
        "all_reduce_bidirectional": lambda asked, count: sum(_round(asked, half, 2) for half in _halves(asked, count)),
        "all_reduce_halving_doubling": _halving_doubling,
        "all_reduce_torus": _torus,
        "all_reduce_hierarchical": _hierarchical,
        "all_gather_ring": lambda asked, count: asked.group.size * _along(asked, count, adds=False),
        "reduce_scatter_ring": lambda asked, count: asked.group.size * _along(asked, count),
        "broadcast_ring": _along,
        "reduce_ring": _along,
        "all_to_all_ring": _all_to_all,
        "send_recv_ring": _shift,
        "barrier_dissemination": lambda asked, count: asked.group.size * (asked.group.size - 1).bit_length(),
    }.items()
}
