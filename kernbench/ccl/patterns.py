"""Communication patterns as steps of schedules: Bruck's pattern, trees, direct exchange, and exchange along axes.

Positions are blocks by rank, unless a function says otherwise. A `gather` pattern begins with each rank's own block and ends
with all blocks on every rank. The same messages in the reverse order, with sums instead of copies, are a reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import product
from math import prod

from msgspec.structs import replace

from kernbench.ccl.contract import Shape
from kernbench.ccl.halving_doubling import number_of, steps_of
from kernbench.ccl.rings import RING, combining_of_kind, grid_of, sizes_of_kind
from kernbench.ccl.schedule import Message, Schedule, Step, SwitchMessage

TOGETHER = 16  #: messages of a rank in one step of a direct exchange


def backwards(steps: Sequence[Step], adds: bool = True) -> list[Step]:
    """Return the messages in the reverse order and direction. A gather becomes a reduction, or without `adds` a scatter."""
    return [[_backwards(one, adds) for one in reversed(list(step))] for step in reversed(steps)]


def _backwards(one: Message | SwitchMessage, adds: bool) -> Message | SwitchMessage:
    if isinstance(one, SwitchMessage):
        return SwitchMessage(one.root, one.members, one.stored, one.sent, not one.combines)
    return Message(one.target, one.source, one.stored, one.sent, adds)


def powers(ranks: int) -> list[int]:
    """Return the powers of two that are less than the number of ranks."""
    return [1 << k for k in range((ranks - 1).bit_length())]


def bruck_gather(ranks: int) -> list[Step]:
    """Return the `log2 n` steps of Bruck's all-gather. In step `k`, a rank sends its first `2 ** k` blocks to the rank `2 ** k`
    before it.
    """
    steps: list[Step] = []
    for far in powers(ranks):
        many = min(far, ranks - far)
        step = []
        for rank in range(ranks):
            blocks = tuple(sorted((rank + one) % ranks for one in range(many)))
            step.append(Message(rank, (rank - far) % ranks, blocks, blocks))
        steps.append(step)
    return steps


def pat_gather(ranks: int) -> list[Step]:
    """Return the steps of parallel aggregated trees: Bruck's steps, but with the longest distance first, when a rank has one
    block.
    """
    steps: list[Step] = []
    have = [0]  # distances of the blocks that every rank has
    for far in reversed(powers(ranks)):
        given = [one for one in have if one + far < ranks]
        step = []
        for rank in range(ranks):
            blocks = tuple(sorted((rank + one) % ranks for one in given))
            step.append(Message(rank, (rank - far) % ranks, blocks, blocks))
        steps.append(step)
        have += [one + far for one in given]
    return steps


def direct_gather(ranks: int) -> list[Step]:
    """Return the single step in which every rank sends its block to each other rank."""
    return [
        [Message(rank, (rank + far) % ranks, (rank,), (rank,)) for far in some for rank in range(ranks)]
        for some in _together(ranks)
    ]


def _together(ranks: int) -> list[range]:
    return [range(first, min(first + TOGETHER, ranks)) for first in range(1, ranks, TOGETHER)]


def axes_of(shape: Shape, kind: int = RING) -> list[int]:
    """Return the levels of a group that have several units: SIPs, cubes of a SIP, PEs of a cube. Ranks are numbered in this
    order. SIPs in dimensions have a level for each dimension, the last dimension first.
    """
    sips = reversed(sizes_of_kind(kind) or (shape.sips,))
    return [size for size in (*sips, shape.cubes, shape.pes) if size > 1]


def grid_axes(ranks: int) -> list[int]:
    """Return the rows and columns of a grid that is as square as possible."""
    return [size for size in grid_of(ranks) if size > 1]


def _places(axes: Sequence[int]) -> list[tuple[int, ...]]:
    return list(product(*map(range, axes)))


def axis_gather(axes: Sequence[int]) -> list[Step]:
    """Return the steps of an all-gather along one axis after another, the first axis first.

    In each step, a rank sends all of its blocks to all other ranks of its line. A block crosses the first axis once for each
    other unit; the collected blocks then cross the later axes.
    """
    steps: list[Step] = []
    places = _places(axes)
    number = {place: rank for rank, place in enumerate(places)}
    for axis, size in enumerate(axes):
        step = []
        for rank, place in enumerate(places):
            blocks = tuple(number[*before, *place[axis:]] for before in _places(axes[:axis]))
            for far in range(1, size):
                other = (*place[:axis], (place[axis] + far) % size, *place[axis + 1 :])
                step.append(Message(rank, number[other], blocks, blocks))
        steps.append(step)
    return steps


def switch_gather(shape: Shape, kind: int = RING) -> list[Step]:
    """Return the steps of an all-gather through switches.

    Each rank's block first goes to the ranks in the same position on all other SIPs, and then along the axes inside each SIP.
    In dimensions, the block first goes along the dimension whose switches copy messages, and then along the other axes.
    """
    sizes, number = sizes_of_kind(kind) or (shape.sips,), combining_of_kind(kind) or 0
    sips = range(sizes[number])
    each = prod(sizes[:number]) * shape.cubes * shape.pes  # ranks that differ only in an inner axis

    def rank(place: int, sip: int) -> int:
        """The rank of a place, which is a number without the dimension of the switches."""
        outer, inner = divmod(place, each)
        return (outer * len(sips) + sip) * each + inner

    steps: list[Step] = []
    if len(sips) > 1:
        places = [tuple(rank(place, sip) for sip in sips) for place in range(shape.ranks // len(sips))]
        steps.append(
            [SwitchMessage(root, members, (root,), (root,), combines=False) for members in places for root in members]
        )
    others = (*reversed(sizes[number + 1 :]), *reversed(sizes[:number]), shape.cubes, shape.pes)
    for step in axis_gather([size for size in others if size > 1]):
        blocks = [(one, tuple(rank(at, sip) for at in one.sent for sip in sips)) for one in step if isinstance(one, Message)]
        steps.append([Message(rank(one.source, sip), rank(one.target, sip), at, at) for sip in sips for one, at in blocks])
    return steps


def axis_ring_gather(axes: Sequence[int], order: Sequence[int] | None = None, direction: int = 1) -> list[Step]:
    """Return the steps of `axis_gather` along rings. Each step forwards the blocks of the step before to the next rank of the
    line.

    `order` is the order of the axes; None means the first axis first. With `direction` -1, blocks go to the previous rank of
    the line.
    """
    steps: list[Step] = []
    places = _places(axes)
    number = {place: rank for rank, place in enumerate(places)}
    ways = range(len(axes)) if order is None else order
    for done, axis in enumerate(ways):
        size = axes[axis]
        for turn in range(size - 1):
            step = []
            for rank, place in enumerate(places):
                spans = [range(size) if k in ways[:done] else (place[k],) for k, size in enumerate(axes)]
                spans[axis] = ((place[axis] - direction * turn) % size,)
                blocks = tuple(number[one] for one in product(*spans))
                after = (*place[:axis], (place[axis] + direction) % size, *place[axis + 1 :])
                step.append(Message(rank, number[after], blocks, blocks))
            steps.append(step)
    return steps


def binomial(ranks: int, blocks: bool = False) -> list[Step]:
    """Return the `log2 n` steps from rank 0 to all ranks along a binomial tree, the longest distance first.

    The messages have position 0, or with `blocks` the blocks of the target and of its subtree.
    """
    steps: list[Step] = []
    for far in reversed(powers(ranks)):
        step = []
        for rank in range(0, ranks - far, 2 * far):
            at = tuple(range(rank + far, min(rank + 2 * far, ranks))) if blocks else (0,)
            step.append(Message(rank, rank + far, at, at))
        steps.append(step)
    return steps


def axis_broadcast(axes: Sequence[int]) -> list[Step]:
    """Return the steps from rank 0 along the first axis, then along the next axis in each line, with a binomial tree in each
    line.
    """
    steps: list[Step] = []
    places = _places(axes)
    number = {place: rank for rank, place in enumerate(places)}
    for axis, size in enumerate(axes):
        lines = [place for place in places if not any(place[axis:])]
        for step in binomial(size):
            steps.append(
                [
                    Message(
                        number[*line[:axis], one.source, *line[axis + 1 :]],
                        number[*line[:axis], one.target, *line[axis + 1 :]],
                        (0,),
                        (0,),
                    )
                    for line in lines
                    for one in step
                    if isinstance(one, Message)
                ]
            )
    return steps


def _tree(first: int, count: int, above: int, depth: int, edges: list[tuple[int, int, int]]) -> None:
    """Build a balanced tree in numeric order; append (parent, child, depth of the child) to `edges`."""
    half = 1 << (count.bit_length() - 1)
    root = first + half - 1
    if above >= 0:
        edges.append((above, root, depth))
    for start, many in ((first, half - 1), (first + half, count - half)):
        if many:
            _tree(start, many, root, depth + 1, edges)


def double_tree(members: Sequence[int], root: int | None = None) -> list[Step]:
    """Return the steps down two binary trees at once, with one position on each tree.

    The leaves of one tree are inner nodes of the other tree. `root` is a rank outside the trees that sends both positions to
    the two roots; None means that the roots have the positions.
    """
    count = len(members)
    if not count:
        return []
    edges: list[tuple[int, int, int]] = []
    _tree(0, count, -1, 0, edges)
    top = (1 << (count.bit_length() - 1)) - 1
    steps: list[list[Message]] = [[] for _ in range(max((depth for _, _, depth in edges), default=0))]
    for position in (0, 1):
        for parent, child, depth in edges:
            at = (position,)
            steps[depth - 1].append(Message(members[(parent + position) % count], members[(child + position) % count], at, at))
    if root is None:
        return list(steps)
    return [[Message(root, members[(top + position) % count], (position,), (position,)) for position in (0, 1)], *steps]


def exchange_by_axes(axes: Sequence[int]) -> list[Step]:
    """Return the steps of an all-to-all along one axis after another, the last axis first.

    Blocks for the same unit of an axis travel together. Positions are blocks by destination, and at the end by source.
    """
    steps: list[Step] = []
    places = _places(axes)
    number = {place: rank for rank, place in enumerate(places)}
    for axis in reversed(range(len(axes))):
        step = []
        for rank, place in enumerate(places):
            for far in range(1, axes[axis]):
                to = (place[axis] + far) % axes[axis]
                sent = tuple(k for k, one in enumerate(places) if one[axis] == to)
                stored = tuple(k for k, one in enumerate(places) if one[axis] == place[axis])
                step.append(Message(rank, number[*place[:axis], to, *place[axis + 1 :]], sent, stored))
        steps.append(step)
    return steps


# Schedules of whole collectives -------------------------------------------------------------------------------------------

Gather = Callable[[], list[Step]]


def _every(ranks: int) -> dict[int, int]:
    return {rank: rank for rank in range(ranks)}


def gather_schedule(ranks: int, steps: Sequence[Step], far: bool = False) -> Schedule:
    """Return the schedule of an all-gather of blocks."""
    return Schedule(ranks, ranks, steps, [{rank: 0} for rank in range(ranks)], [_every(ranks)] * ranks, far=far)


def reduce_scatter_schedule(ranks: int, steps: Sequence[Step], far: bool = False) -> Schedule:
    """Return the schedule of a reduce-scatter of blocks, from the messages of an all-gather."""
    return Schedule(ranks, ranks, backwards(steps), [_every(ranks)] * ranks, [{rank: 0} for rank in range(ranks)], far=far)


def vector_schedule(
    ranks: int,
    positions: int,
    steps: Sequence[Step],
    far: bool = False,
    loads: Iterable[int] | None = None,
    stores: Iterable[int] | None = None,
) -> Schedule:
    """Return the schedule of a vector with this number of positions.

    `loads` and `stores` are the ranks that load and store the vector; None means all ranks.
    """
    every = _every(positions)
    having, getting = set(range(ranks) if loads is None else loads), set(range(ranks) if stores is None else stores)
    return Schedule(
        ranks,
        positions,
        steps,
        [every if rank in having else {} for rank in range(ranks)],
        [every if rank in getting else {} for rank in range(ranks)],
        vector=True,
        far=far,
    )


@cache
def recursive_doubling(ranks: int, far: bool) -> Schedule:
    """Return the schedule of an all-reduce in which partners exchange all of their sums.

    The numbers of the partners in step `k` differ in bit `k`. If the number of ranks is not a power of two, some ranks first
    hand their elements to a neighbour, and get the result from that neighbour.
    """
    steps: list[Step] = []
    folded = [rank for rank in range(ranks) if number_of(rank, ranks) is None]
    if folded:
        steps.append([Message(rank, rank - 1, (0,), (0,), adds=True) for rank in folded])
    rank_of = {number_of(rank, ranks): rank for rank in range(ranks)}
    for k in range(steps_of(ranks)):
        numbers = range(1 << steps_of(ranks))
        steps.append([Message(rank_of[one], rank_of[one ^ 1 << k], (0,), (0,), adds=True) for one in numbers])
    if folded:
        steps.append([Message(rank - 1, rank, (0,), (0,)) for rank in folded])
    return vector_schedule(ranks, 1, steps, far)


@cache
def tree_all_reduce(ranks: int, far: bool) -> Schedule:
    """Return the schedule of an all-reduce up and down two trees, with half of the elements on each tree."""
    down = double_tree(range(ranks))
    return vector_schedule(ranks, 2, [*backwards(down), *down], far)


@cache
def direct_all_reduce(ranks: int, far: bool) -> Schedule:
    """Return the schedule of an all-reduce in two phases: each rank adds one part of all ranks, and sends the sum to all ranks.
    """
    gather = direct_gather(ranks)
    return vector_schedule(ranks, ranks, [*backwards(gather), *gather], far)


@cache
def torus_all_reduce(ranks: int, far: bool) -> Schedule:
    """Return the schedule of an all-reduce along the rings of a grid that is as square as possible.

    The elements are divided into parts, which go around at the same time (`torus_gather`).
    """
    gather = torus_gather(ranks)
    return vector_schedule(ranks, torus_parts(ranks) * ranks, [*backwards(gather), *gather], far)


def _torus_orders(ranks: int) -> list[tuple[tuple[int, ...], int]]:
    """Return the orders of the axes of a grid, each with each direction around its rings."""
    axes = grid_axes(ranks)
    orders = dict.fromkeys((tuple(range(len(axes))), tuple(reversed(range(len(axes))))))
    return list(product(orders, (1, -1) if max(axes, default=0) > 2 else (1,)))


def torus_parts(ranks: int) -> int:
    """Return the number of parts of a block that go different ways on a grid that is as square as possible."""
    return len(_torus_orders(ranks))


@cache
def torus_gather(ranks: int) -> list[Step]:
    """Return the steps of an all-gather along the rings of a grid that is as square as possible.

    A block is divided into parts, one for each order of the axes and each direction around the rings, so that the links of
    all neighbours are busy. Position `k * ranks + rank` is part `k` of the block of a rank.
    """
    axes = grid_axes(ranks)
    return _side_by_side([axis_ring_gather(axes, order, direction) for order, direction in _torus_orders(ranks)], ranks)


def _side_by_side(parts: Sequence[Sequence[Step]], ranks: int) -> list[Step]:
    """Return the steps of several patterns that run at the same time, each with its own positions."""
    return [
        [
            replace(one, sent=tuple(at + k * ranks for at in one.sent), stored=tuple(at + k * ranks for at in one.stored))
            for k, step in enumerate(steps)
            for one in step
        ]
        for steps in zip(*parts, strict=True)
    ]


@cache
def switch_all_reduce(shape: Shape, kind: int = RING) -> Schedule:
    """Return the schedule of an all-reduce within SIPs and through switches.

    Each rank receives one part of all other ranks, adds the parts, and sends the sum to all ranks.
    """
    gather = switch_gather(shape, kind)
    return vector_schedule(shape.ranks, shape.ranks, [*backwards(gather), *gather], shape.sips > 1)


@cache
def gathered_blocks(name: str, shape: Shape, kind: int = RING) -> Schedule:
    """Return the schedule of an all-gather with the named pattern."""
    return gather_schedule(shape.ranks, _gather_steps(name, shape, kind), shape.sips > 1)


@cache
def scattered_sums(name: str, shape: Shape, kind: int = RING) -> Schedule:
    """Return the schedule of a reduce-scatter with the named pattern."""
    return reduce_scatter_schedule(shape.ranks, _gather_steps(name, shape, kind), shape.sips > 1)


def _gather_steps(name: str, shape: Shape, kind: int) -> list[Step]:
    ranks = shape.ranks
    made: dict[str, Gather] = {
        "bruck": lambda: bruck_gather(ranks),
        "pat": lambda: pat_gather(ranks),
        "direct": lambda: direct_gather(ranks),
        "hierarchical": lambda: axis_gather(axes_of(shape, kind)),
        "switch": lambda: switch_gather(shape, kind),
        "torus": lambda: axis_ring_gather(axes_of(shape, kind) if shape.sips > 1 else grid_axes(ranks)),
    }
    return made[name]()


def _from_root(name: str, shape: Shape, kind: int) -> tuple[int, list[Step]]:
    """Return the number of positions of a vector, and the steps that bring them from rank 0 to all ranks."""
    if name == "tree":
        return 2, double_tree(range(1, shape.ranks), root=0)
    return 1, binomial(shape.ranks) if name == "binomial" else axis_broadcast(axes_of(shape, kind))


@cache
def from_root(name: str, shape: Shape, kind: int = RING) -> Schedule:
    """Return the schedule of a broadcast from rank 0."""
    positions, steps = _from_root(name, shape, kind)
    return vector_schedule(shape.ranks, positions, steps, shape.sips > 1, loads=[0])


@cache
def to_root(name: str, shape: Shape, kind: int = RING) -> Schedule:
    """Return the schedule of a reduce to rank 0."""
    positions, steps = _from_root(name, shape, kind)
    return vector_schedule(shape.ranks, positions, backwards(steps), shape.sips > 1, stores=[0])


@cache
def all_to_all(name: str, shape: Shape, kind: int = RING) -> Schedule:
    """Return the schedule of an all-to-all: a block from every rank to every other rank."""
    ranks, far = shape.ranks, shape.sips > 1
    every = [_every(ranks)] * ranks
    if name == "hierarchical":
        return Schedule(ranks, ranks, exchange_by_axes(axes_of(shape, kind)), every, every, far=far)
    if name == "direct":  # positions from `ranks` on are what arrives
        steps = [
            [
                Message(rank, (rank + far_) % ranks, ((rank + far_) % ranks,), (ranks + rank,))
                for far_ in some
                for rank in range(ranks)
            ]
            for some in _together(ranks)
        ]
        stores = [{one + (ranks if one != rank else 0): one for one in range(ranks)} for rank in range(ranks)]
        return Schedule(ranks, 2 * ranks, steps, every, stores, far=far)
    steps = []  # Bruck's: position `j` is for the rank `j` after this one, and at the end from the one `j` before
    for distance in powers(ranks):
        at = tuple(one for one in range(ranks) if one & distance)
        steps.append([Message(rank, (rank + distance) % ranks, at, at) for rank in range(ranks)])
    loads = [{one: (rank + one) % ranks for one in range(ranks)} for rank in range(ranks)]
    stores = [{one: (rank - one) % ranks for one in range(ranks)} for rank in range(ranks)]
    return Schedule(ranks, ranks, steps, loads, stores, far=far)


@cache
def rooted_blocks(name: str, shape: Shape, scatters: bool) -> Schedule:
    """Return the schedule of a scatter from rank 0, or of a gather to rank 0."""
    ranks = shape.ranks
    steps = (
        binomial(ranks, blocks=True)
        if name == "binomial"
        else [[Message(0, one, (one,), (one,)) for one in some] for some in _together(ranks)]
    )
    own, every = [{rank: 0} for rank in range(ranks)], [_every(ranks), *[{}] * (ranks - 1)]
    if scatters:
        return Schedule(ranks, ranks, steps, every, own, far=shape.sips > 1)
    return Schedule(ranks, ranks, backwards(steps, adds=False), own, every, far=shape.sips > 1)


@cache
def alternating_shift(shape: Shape) -> Schedule:
    """Return the schedule in which each rank sends its elements to the next rank: first the even ranks, then the odd ranks."""
    ranks = shape.ranks
    if ranks == 1:
        return Schedule(1, 2, [], [{0: 0}], [{0: 0}])
    steps = [[Message(one, (one + 1) % ranks, (0,), (1,)) for one in range(first, ranks, 2)] for first in (0, 1)]
    return Schedule(ranks, 2, steps, [{0: 0}] * ranks, [{1: 0}] * ranks, far=shape.sips > 1)


@cache
def barrier_tree(ranks: int) -> Schedule:
    """Return the schedule of a barrier: one position, which says that a rank has begun, up a binomial tree and down again."""
    steps = binomial(ranks)
    return vector_schedule(ranks, 1, [*backwards(steps), *steps])
