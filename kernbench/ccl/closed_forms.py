"""Outlines in closed form, for algorithms without a schedule: rings, levels, grids, halving and doubling, chains, barriers.

The share of a lane is a sum over all that passes the link of the busiest PE: elements that the PE loads, sends, receives and
stores. A step has the elements that it sends and receives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kernbench.ccl.contract import Shape
from kernbench.ccl.cost import MESSAGE, PASSES, Outline, Step
from kernbench.ccl.group_routes import Routes
from kernbench.ccl.halving_doubling import ACTIVE, steps_of
from kernbench.ccl.rings import Levels, Ring, flat_ring, grid_rings, level_rings

Form = Callable[[Shape, int, Routes], Outline]


IN_AND_OUT = 2.0  #: elements that a rank of an all-reduce loads and stores, as a share of `n_elem`


def _hops_of(rings: Sequence[Ring]) -> Iterator[tuple[int, int]]:
    """Return all ranks of the rings, each with the next rank in its ring."""
    return ((a, b) for ring in rings for a, b in pairwise((*ring.members, ring.members[0])))


def _waits(share: float, far: float) -> float:
    """Return by how much longer the busiest link between SIPs takes than the link of a PE, which each byte passes twice.

    `share` are the elements of a PE, and `far` those on the link between SIPs, in the time of the link of a PE.
    """
    return max(0.0, far - PASSES * share)


def _outline(
    steps: Sequence[Step], messages: int, memory: float, widest: float, far: bool, adds: bool, sending: float = 0.0, **how: Any
) -> Outline:
    """Return the outline of steps of a rank that also loads and stores `memory` elements, as a share of `n_elem`."""
    share, waits = sum(one.share for one in steps) + memory, sum(one.waits for one in steps)
    return Outline(steps, messages, share, widest, far, adds, sending, **{"waits": waits, **how})


def _both_ways(ring: Ring) -> list[tuple[int, int]]:
    """Return all hops of a ring, and the same hops in the opposite direction."""
    return [hop for a, b in _hops_of([ring]) for hop in ((a, b), (b, a))]


def _latency(ring: Ring, routes: Routes) -> tuple[float, float]:
    """Return the latency [cycle] of a step, and the cycles in which the rank with the longest hop has its limit of messages in
    flight.

    No rank waits for the longest hop in each step, because a chunk crosses that hop once per round.
    """
    hops = [routes.between(a, b) for a, b in _hops_of([ring])]
    return sum(hops) / len(hops), max(hops) / routes.times.at_once


def _ring(
    turns: int, share: Callable[[int], float], memory: Callable[[int], float], adds: bool = True, both: bool = False
) -> Form:
    """Return the outline of `turns` rounds of `n - 1` steps along the flat ring.

    `share` gives the elements of each step, and `memory` those that a rank loads and stores. With `adds`, the messages of the
    first round are added. With `both`, half of the elements travel in each direction.
    """

    def made(shape: Shape, kind: int, routes: Routes) -> Outline:
        n, ring = shape.ranks, flat_ring(kind, shape)
        moved, hops, ways = share(n), _both_ways(ring) if both else _hops_of([ring]), 1 + both
        waits = _waits(moved, routes.times.shared * routes.loads(hops) * moved / ways)
        (latency, sending), count = _latency(ring, routes), turns * (n - 1)
        steps = [Step(latency, ways, PASSES * moved, waits)] * count
        how: dict[str, Any] = {"worked": (n - 1) * moved if adds else 0.0}
        how |= {"reused": count, "held": count * sending * routes.times.at_once}
        sending += (ways - 1) * latency / routes.times.at_once  # only one direction crosses the longest hop
        return _outline(steps, ways * count, memory(n), moved / ways, shape.sips > 1, adds, count * sending, **how)

    return made


def _levels(levels_of: Levels, form: str = "") -> Form:
    """Return the outline of an all-reduce over several rings in sequence."""

    def made(shape: Shape, kind: int, routes: Routes) -> Outline:
        return _outline_of_levels([_in_sequence(levels_of(kind, shape), 1.0, routes)], form, routes)

    return made


@dataclass(frozen=True)
class _Level:
    """A reduce-scatter over rings of the same size, and later an all-gather over the same rings."""

    rings: Sequence[Ring]
    latency: float  #: of a step
    share: float  #: of `n_elem` in each message


def _in_sequence(levels: Sequence[Sequence[Ring]], share: float, routes: Routes) -> list[_Level]:
    """Return the levels of a part of the elements that travels over several rings in sequence, without rings of one rank."""
    found = []
    for rings in levels:
        size = rings[0].size
        if size > 1:
            share /= size  # the remaining elements go to the next level
            some = rings[:: max(1, len(rings) // SOME_RINGS)]
            found.append(_Level(rings, max(_latency(ring, routes)[0] for ring in some), share))
    return found


def _outline_of_levels(parts: Sequence[Sequence[_Level]], form: str, routes: Routes) -> Outline:
    """Return the outline of parts of the elements that travel at the same time. All parts have the same number of steps."""
    halfway = [[level for level in part for _ in range(level.rings[0].size - 1)] for part in parts]
    made: dict[tuple[int, ...], Step] = {}  # by the levels of the parts
    steps = []
    for some in zip(*([*there, *reversed(there)] for there in halfway), strict=True):
        key = tuple(map(id, some))
        if key not in made:
            made[key] = _step(some, routes)
        steps.append(made[key])
    messages = sum(one.messages for one in steps)
    widest = max((level.share for part in parts for level in part), default=1.0)
    turns = 2 if len(parts[0]) > 1 else 1  # over several rings, messages of the all-gather are copied
    worked = sum(turns * (level.rings[0].size - 1) * level.share for part in parts for level in part)
    return _outline(steps, messages, IN_AND_OUT, widest, False, True, form=form, worked=worked)


def _step(some: Sequence[_Level], routes: Routes) -> Step:
    """Return a step in which parts of the elements travel over their own rings at the same time.

    All parts use the same queues in one order, so each waits for the slowest ring.
    """
    share, (first, *others) = sum(one.share for one in some), some
    more = [(_hops_of(one.rings), one.share / first.share) for one in others]
    far = routes.times.shared * first.share * routes.loads(_hops_of(first.rings), *more)
    return Step(max(one.latency for one in some), len(some), PASSES * share, _waits(share, far))


def _grid(shape: Shape, kind: int, routes: Routes) -> Outline:
    """Return the outline of an all-reduce over a grid.

    Two halves of the elements travel along rows and along columns at the same time, unless only the columns cross SIPs. The two
    forms contend for the links of PEs in different ways, so each form has weights of its own.
    """
    if 1 < shape.sips < shape.ranks:
        return _levels(grid_rings, ROWS_FIRST)(shape, kind, routes)
    across, down = grid_rings(kind, shape)
    return _outline_of_levels([_in_sequence(order, 0.5, routes) for order in ((across, down), (down, across))], "", routes)


ROWS_FIRST = " (rows first)"  #: the form of an all-reduce over a grid in which all elements travel along rows first


SOME_RINGS = 64  #: of the same size whose latencies are compared; the slowest one counts
SOME_PAIRS = 4096  #: number of pairs of ranks whose latencies are compared; more than machines have


def _halves(shape: Shape, kind: int, routes: Routes) -> Outline:
    """Return the outline of halving and doubling. Each step exchanges elements over twice the distance of the step before."""
    n, steps, sending = shape.ranks, [], 0.0
    spare = n - (1 << steps_of(n))
    ranks = [*range(0, 2 * spare, 2), *range(2 * spare, n)]
    for k in range(steps_of(n)):
        pairs = [(rank, ranks[number ^ (1 << k)]) for number, rank in enumerate(ranks)]
        latency = max(routes.between(a, b) for a, b in pairs[:: max(1, n // SOME_PAIRS)])
        moved = 1 / (2 << k)
        steps += [Step(latency, 1, PASSES * moved, _waits(moved, routes.times.shared * routes.loads(pairs) * moved))] * 2
        sending += 2 * latency / routes.times.at_once
    if spare:  # a rank sends all elements to its neighbour, and gets the sums back
        steps += [Step(routes.times.pe, 1, PASSES / 2)] * 2
    widest, at_once = 1.0 if spare else 0.5, routes.times.at_once
    worked = 2.0 - 2.0 / (n - spare) + bool(spare)  # halves are added, and halves of the sums are copied
    how: dict[str, Any] = {"full": True, "window": ACTIVE, "abreast": at_once, "in_turn": True, "worked": worked}
    # While a PE loads and stores other lanes, the links between SIPs carry bytes for which the steps wait.
    how["waits"] = max(0.0, sum(one.waits for one in steps) - IN_AND_OUT)
    return _outline(steps, len(steps), IN_AND_OUT, widest, shape.sips > 1, True, sending, **how)


def _chain(adds: bool) -> Form:
    """Return the outline of a chain from rank 0 along the flat ring in both directions, to the middle.

    With `adds`, the messages travel to rank 0, and each rank adds its elements.
    """

    def made(shape: Shape, kind: int, routes: Routes) -> Outline:
        half, ring = shape.ranks // 2, flat_ring(kind, shape)
        latency, sending = _latency(ring, routes)
        far = routes.times.shared * routes.loads(_both_ways(ring))
        steps = [Step(latency, 1, PASSES, _waits(1.0, far))] * half
        how: dict[str, Any] = {"worked": float(min(2, half)), "chained": float(half)} if adds else {}
        busy = IN_AND_OUT + min(2, shape.ranks - 1)  # rank 0 loads and stores, and has one or two neighbours
        how["waits"] = max(0.0, far - busy)
        how |= {"held": sending * routes.times.at_once, "ends": half * latency}
        return Outline(steps, 2, busy, 1.0, shape.sips > 1, True, sending, **how)

    return made


def _around(shape: Shape, kind: int, routes: Routes) -> Outline:
    """Return the outline of an exchange along the flat ring, in which elements travel the distance to their destination."""
    n, ring = shape.ranks, flat_ring(kind, shape)
    far = routes.times.shared * routes.loads(_both_ways(ring))
    (latency, longest), at_once = _latency(ring, routes), routes.times.at_once
    # The blocks of a rank that travel in each step: those that have to go further, east and west.
    travelling = [(n // 2 - step, max(0, (n - 1) // 2 - step)) for step in range(n // 2)]
    steps = []
    for ways in travelling:
        many = sum(ways)
        # A rank sends a block when it has used the next one that travels the same way.
        turns = max(one / (one - 1) if one > 1 else 1.0 for one in ways)
        waits = _waits(many, many * far / 2)
        # While a rank has its limit of messages in flight, its engines begin and end other messages.
        in_flight = latency * many / at_once - MESSAGE * many
        steps.append(Step(max(latency * turns, in_flight), many, PASSES * float(many), waits))
    hops = sum(map(sum, travelling))
    sending = hops * (latency / at_once + longest) / 2  # half of the messages of a rank beside the longest hop cross it
    east = sum(one for one, _ in travelling)
    how: dict[str, Any] = {"reused": east, "held": east * longest * at_once}
    return _outline(steps, hops, 2.0 * n, 1.0, False, False, sending, **how)


def _shift(shape: Shape, kind: int, routes: Routes) -> Outline:
    return Outline([Step(routes.times.pe + routes.times.sip, 1, 1.0)], 1, 1.0, 1.0, shape.sips > 1, False)


def _signals(shape: Shape, kind: int, routes: Routes) -> Outline:
    far = [1 << k for k in range((shape.ranks - 1).bit_length())]
    return Outline([Step(routes.between(0, one), 1, 0.0) for one in far], 1, 0.0, 1.0, False, False)


FORMS: Mapping[str, Form] = {
    "all_reduce_ring": _ring(2, lambda n: 1 / n, lambda n: IN_AND_OUT),
    "all_reduce_bidirectional": _ring(2, lambda n: 1 / n, lambda n: IN_AND_OUT, both=True),
    "all_reduce_halving_doubling": _halves,
    "all_reduce_torus": _grid,
    "all_reduce_hierarchical": _levels(level_rings),
    "all_gather_ring": _ring(1, lambda n: 1.0, lambda n: 1.0 + n, adds=False),
    "reduce_scatter_ring": _ring(1, lambda n: 1.0, lambda n: n + 1.0),
    "broadcast_ring": _chain(adds=False),
    "reduce_ring": _chain(adds=True),
    "all_to_all_ring": _around,
    "send_recv_ring": _shift,
    "barrier_dissemination": _signals,
}


def form_of(full_name: str, shape: Shape, kind: int, routes: Routes) -> Outline | None:
    """Return the outline of an algorithm with a closed form, and None for other algorithms."""
    made = FORMS.get(full_name)
    return None if made is None else made(shape, kind, routes)
