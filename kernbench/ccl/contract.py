"""The contract for the module of an algorithm (seed ADR-0050): the nine arguments of its kernel, its rings and its reference.

A module has these names:

- a function with the name of the algorithm, and `kernel`, which is the same function
- `kernel_args`
- `TOPO_NAME_TO_KIND`, and the kinds that it names
- `neighbours(kind, shape)`, which returns the rank in each direction
- `reference(inputs, kind, shape, slot_bytes)`
- `through_switches(kind, shape)`, if the algorithm uses switches
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from kernbench.common.dtypes import Array
from kernbench.components.builtin.switch_queue import REDUCE, SwitchQueueForm

QueueKey = tuple[int, str]  #: plane and direction, N, S, E or W
Table = Mapping[int, Mapping[QueueKey, tuple[int, str]]]  #: by rank and queue: the other rank, and its direction back


class Shape(NamedTuple):
    """The number of units at each level. The rank of a PE is `(sip * cubes + cube) * pes + pe`."""

    sips: int
    cubes: int  #: of each SIP
    pes: int  #: of each cube

    @property
    def ranks(self) -> int:
        return self.sips * self.cubes * self.pes

    def rank(self, sip: int, cube: int, pe: int) -> int:
        """Return the rank at a position."""
        return (sip * self.cubes + cube) * self.pes + pe

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return the SIP, the cube and the PE of a rank."""
        blocks, pe = divmod(rank, self.pes)
        return (*divmod(blocks, self.cubes), pe)

    def __str__(self) -> str:
        return "x".join(map(str, self))


class KernelArgs(NamedTuple):
    """The nine arguments of every kernel, in order. The tenth argument is `tl`."""

    in_ptr: int
    out_ptr: int
    n_elem: int  #: the requirement in docs/reference/ccl.md
    dtype: str
    sip_rank: int
    sip_size: int
    cube_rank: int  #: of the rank's SIP
    cube_size: int
    sip_topo_kind: int  #: RING, TORUS or MESH: how the SIPs are arranged, or all ranks where there is one SIP


def kernel_args(
    in_ptr: int,
    out_ptr: int,
    n_elem: int,
    dtype: str,
    sip_rank: int,
    sip_size: int,
    cube_rank: int,
    cube_size: int,
    sip_topo_kind: int,
) -> KernelArgs:
    """Return the arguments as the tuple that a kernel gets."""
    return KernelArgs(in_ptr, out_ptr, n_elem, dtype, sip_rank, sip_size, cube_rank, cube_size, sip_topo_kind)


def shape_of(sip_size: int, cube_size: int, tl: Any) -> Shape:
    """Return the shape of the group in which a kernel runs. The PEs per cube follow from the size of the group."""
    return Shape(sip_size, cube_size, tl.world_size // (sip_size * cube_size))


class Algorithm(Protocol):
    """A module that fulfils the contract."""

    TOPO_NAME_TO_KIND: Mapping[str, int]
    kernel: Callable[..., object]
    kernel_args: Callable[..., tuple[Any, ...]]

    def neighbours(self, kind: int, shape: Shape) -> Table: ...

    def reference(self, inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> Sequence[Array]: ...


def switch_queues(algorithm: Algorithm, kind: int, shape: Shape, op: str) -> tuple[SwitchQueueForm, ...]:
    """Return the queues through switches that combine elements with this op. Most algorithms have none."""
    made = getattr(algorithm, "through_switches", None)
    return () if made is None else tuple(replace(one, op=op) for one in made(kind, shape))


def most_queues(table: Table, switched: Sequence[SwitchQueueForm] = ()) -> int:
    """Return the queues of the rank that has the most slots."""
    found = Counter({rank: len(queues) for rank, queues in table.items()})
    for one in switched:
        found.update((one.root,) if one.direction == REDUCE else (rank for rank in one.members if rank != one.root))
    return max(found.values(), default=0)


Range = tuple[int, int]  #: first element and number of elements
WIDTH = 4  #: messages of a ring in flight at a time, for large chunks
SEGMENT = 8  #: messages of a chunk that go over further rings together
LEAST_BYTES = 2048  #: a smaller message is not cut,
LEAST_MOVED_BYTES = 16384  #: nor this if nothing is added, because then no computation overlaps with other messages,
LEAST_FAR_BYTES = 5120  #: nor this on a ring over several SIPs, where a sender has a message's long way to wait before the next
#: Longer slots follow from links with many bytes in flight (`queue_sizes`). A chunk that fits into such a slot is not cut.
LONG_SLOT = 1 << 15


def cut(whole: Range, parts: int) -> list[Range]:
    """Divide a range into `parts` consecutive ranges of nearly equal length, the longer ones first."""
    first, count = whole
    least, longer = divmod(count, parts)
    found = []
    for number in range(parts):
        size = least + (number < longer)
        found.append((first, size))
        first += size
    return found


def pieces(most: int, itemsize: int, slot_bytes: int, far: bool = False, adds: bool = True) -> int:
    """Return the number of messages for a chunk of at most this many elements.

    The number is as small as the slots allow. But up to `WIDTH` messages are in flight at the same time if each has at least
    `LEAST_BYTES`. The bound is `LEAST_FAR_BYTES` on a ring over SIPs (`far`), and `LEAST_MOVED_BYTES` for messages that are
    only forwarded (not `adds`).

    Over SIPs with slots longer than `LONG_SLOT`, the result is 1 or at least `WIDTH`. A message over such a link takes about
    its latency. Two messages in turn would take two latencies in each step.
    """
    fewest = max(1, -(-most // max(1, slot_bytes // itemsize)))
    if far and slot_bytes > LONG_SLOT:
        return fewest if fewest == 1 else max(fewest, WIDTH)
    least = LEAST_FAR_BYTES if far else LEAST_BYTES if adds else LEAST_MOVED_BYTES
    return max(fewest, min(WIDTH, most * itemsize // least))


def segments(most: int, itemsize: int, slot_bytes: int) -> int:
    """Return the number of parts of a chunk that travels over several rings. The parts travel one after another."""
    return -(-pieces(most, itemsize, slot_bytes) // SEGMENT)
