"""What a collective takes, without a simulation: latencies of the machine's routes, messages and bytes, step by step.

The model is linear in features of a call: that it loads and stores, the latencies of its steps, its messages, and the time of
its bytes on the link of a PE, or on a link between SIPs, which all ranks of a SIP share, where that takes longer. Lanes that
follow each other cost only what the busiest rank or link does for each. The weights of the features (`weights`) were fitted to
simulations of the presets, for each algorithm; they depend on neither ranks nor sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import ceil, sqrt

from kernbench.ccl.contract import Shape, pieces
from kernbench.ccl.halving_doubling import steps_of
from kernbench.ccl.rings import MESH, RING, Levels, grid_of, grid_rings, level_rings
from kernbench.ccl.schedule import Schedule
from kernbench.common import naming
from kernbench.config import SystemConfig
from kernbench.config.system.links import SWITCHED
from kernbench.policy.routing.router import PathRouter
from kernbench.topology.builder import build_topology


@dataclass(frozen=True)
class Latencies:
    """[cycle] of a route from one PE to another: in a cube, from cube to neighbouring cube, from SIP to neighbouring SIP."""

    pe: int
    cube: int
    sip: int
    link: float  #: [B/cycle] of the link of a PE
    far_link: float = 0.0  #: [B/cycle] of a link between SIPs; 0 without any
    network: str = "ring"  #: `system.kind`, where the SIPs are no ring, mesh or torus

    @property
    def shared(self) -> float:
        """Cycles of a byte on a link between SIPs, in those of a byte on the link of a PE."""
        return self.link / self.far_link if self.far_link else 0.0

    def between(self, shape: Shape, kind: int, a: int, b: int) -> int:
        """From one rank to another: a route over several SIPs or cubes takes as often the latency of one."""
        (s, c, _), (t, d, _) = shape.place(a), shape.place(b)
        if s != t:
            return self.pe + self.sip * (1 if self.network in ONE_HOP else _hops(shape.sips, kind, s, t))
        return self.pe + self.cube * abs(c - d) if c != d else self.pe


    def links(self, shape: Shape, kind: int, a: int, b: int) -> Iterator[tuple[int, int]]:
        """The links on the way from one SIP to another. A switch is number -1."""
        if self.network == "all_to_all":
            return iter([(a, b)])
        if self.network in SWITCHED:
            return iter([(a, -1), (-1, b)])
        return _links(shape.sips, kind, a, b)


#: Kinds of systems whose SIPs are all equally far apart.
ONE_HOP = ("all_to_all", *SWITCHED)


def _hops(count: int, kind: int, a: int, b: int) -> int:
    """Hops between two SIPs: round a ring, or on a grid."""
    if kind == RING:
        far = abs(a - b)
        return min(far, count - far)
    cols = grid_of(count)[1]
    return max(1, abs(a // cols - b // cols) + abs(a % cols - b % cols))


def _links(count: int, kind: int, a: int, b: int) -> Iterator[tuple[int, int]]:
    """The links between SIPs on the way from one to another: round a ring in the shorter direction, or along a row and a
    column of a grid, over its edge where that is shorter on a torus.
    """
    rows, cols = (1, count) if kind == RING else grid_of(count)
    row, col = divmod(a, cols)
    for size, here, there, along in ((cols, col, b % cols, True), (rows, row, b // cols, False)):
        forward = (there - here) % size
        wraps = kind != MESH
        step = 1 if (forward * 2 <= size if wraps else there > here) else -1
        while here != there:
            after = (here + step) % size
            yield (row * cols + here, row * cols + after) if along else (here * cols + b % cols, after * cols + b % cols)
            here = after


def latencies(config: SystemConfig) -> Latencies:
    """The latencies of a machine, by three of its routes."""
    router = PathRouter(build_topology(config))

    def cycles(a: str, b: str) -> int:
        return router.route(router.find_path(f"{a}.{naming.PE_DMA}", f"{b}.{naming.PE_TCM}")).cycles

    sips, cubes, pes = config.shape
    here = naming.place(0, cube=0, pe=0)
    near = cycles(here, naming.place(0, cube=0, pe=1)) if pes > 1 else 1
    across = cycles(here, naming.place(0, cube=1, pe=0)) - near if cubes > 1 else 0
    far = cycles(here, naming.place(1, cube=0, pe=0)) - near if sips > 1 else 0
    far_link = float(config.system.link.bytes_per_cycle) if sips > 1 else 0.0
    link = float(config.pe.link.bytes_per_cycle)
    return Latencies(near, max(0, across), max(0, far), link, far_link, config.system.kind)


@dataclass(frozen=True)
class Step:
    """A step of the slowest rank: latency, messages that it sends or receives, and their share of the bytes of `n_elem`."""

    latency: int
    messages: int
    share: float  #: or more, if a link between SIPs takes longer for all that goes over it


@dataclass(frozen=True, eq=False)
class Outline:
    """The steps of an algorithm, and how its elements are cut."""

    steps: Sequence[Step]
    messages: int  #: of the busiest rank in a lane
    share: float  #: of the bytes of `n_elem` that the busiest rank sends and receives, plus those it loads and stores
    widest: float  #: share of the longest message
    far: bool
    adds: bool

    def features(self, nbytes: int, itemsize: int, slot_bytes: int, link: float) -> tuple[float, ...]:
        """Of `n_elem` elements of so many bytes: 1, cycles of latency, messages one after the other, cycles of the link.

        And the geometric mean of the last two, for messages whose bytes and commands take about as long.
        """
        longest = max(1, ceil(self.widest * nbytes / itemsize))
        lanes = pieces(longest, itemsize, slot_bytes, self.far, self.adds)
        lane = nbytes / lanes / link
        messages = self.once[1] + (lanes - 1) * self.messages
        busy = (self.once[2] + (lanes - 1) * self.share) * lane
        return 1.0, self.once[0], messages, busy, sqrt(messages * busy)

    def cycles(self, weights: Sequence[float], nbytes: int, itemsize: int, slot_bytes: int, link: float) -> float:
        """[cycle] of `n_elem` elements of so many bytes."""
        features = self.features(nbytes, itemsize, slot_bytes, link)
        return sum(weight * one for weight, one in zip(weights, features, strict=True))

    @cached_property
    def once(self) -> tuple[int, int, float]:
        """Latencies, messages and share of all steps of a lane."""
        steps = self.steps
        return sum(one.latency for one in steps), sum(one.messages for one in steps), sum(one.share for one in steps)


def outline_of(schedule: Schedule, shape: Shape, kind: int, times: Latencies) -> Outline:
    """The outline of a schedule."""
    steps: list[Step] = []
    unit = 1 / schedule.positions if schedule.vector else 1.0
    work = [[0, 0] for _ in range(schedule.ranks)]
    each_sip = shape.ranks // shape.sips
    carried: Counter[tuple[int, int]] = Counter()  # positions, by link between SIPs
    for step in schedule.steps:
        busy: dict[int, list[int]] = {}
        loads: Counter[tuple[int, int]] = Counter()
        latency = 0
        for one in step:
            a, b = one.source // each_sip, one.target // each_sip
            if a != b:
                for link in times.links(shape, kind, a, b):
                    loads[link] += len(one.sent)
            latency = max(latency, times.between(shape, kind, one.source, one.target))
            for rank, way in ((one.source, 0), (one.target, 1)):
                row = busy.setdefault(rank, [0, 0, 0, 0])
                row[way] += 1
                row[2 + way] += len(one.sent)
                work[rank][0] += 1
                work[rank][1] += len(one.sent)
        if busy:
            messages = max(max(row[0], row[1]) for row in busy.values())
            most = max(max(row[2], row[3]) for row in busy.values())
            carried.update(loads)
            steps.append(Step(latency, messages, max(most, max(loads.values(), default=0) * times.shared) * unit))
    each = max(work, key=lambda row: row[1], default=[0, 0])
    moved = (len(schedule.loads[0]) + len(schedule.stores[0])) * unit
    share = max((each[1] / 2) * unit + moved / 2, max(carried.values(), default=0) * times.shared * unit)
    return Outline(steps, each[0] // 2, share, schedule.widest * unit, schedule.far, schedule.adds)


Form = Callable[[Shape, int, Latencies], Outline]


def _ring(turns: int, share: Callable[[int], float], adds: bool = True) -> Form:
    """`turns` rounds of `n - 1` steps round the flat ring, each with a share of the elements."""

    def made(shape: Shape, kind: int, times: Latencies) -> Outline:
        n = shape.ranks
        far = shape.sips > 1
        step = Step(times.pe + (times.sip if far else times.cube if shape.cubes > 1 else 0), 1, share(n))
        steps = [step] * (turns * (n - 1))
        return Outline(steps, len(steps), len(steps) * share(n), share(n), far, adds)

    return made


def _levels(levels_of: Levels) -> Form:
    """All-reduce over rings in sequence."""

    def made(shape: Shape, kind: int, times: Latencies) -> Outline:
        steps: list[Step] = []
        share, widest, each_sip = 1.0, 0.0, shape.ranks // shape.sips
        for rings in levels_of(kind, shape):
            size = rings[0].size
            if size == 1:
                continue
            share /= size  # what is left of the elements goes to the next level
            widest = max(widest, share)
            loads: Counter[tuple[int, int]] = Counter()
            for ring in rings:
                for a, b in pairwise((*ring.members, ring.members[0])):
                    if a // each_sip != b // each_sip:
                        loads.update(times.links(shape, kind, a // each_sip, b // each_sip))
            hops = list(pairwise((*rings[0].members, rings[0].members[0]))) if loads else [rings[0].members[:2]]
            latency = max(times.between(shape, kind, a, b) for a, b in hops)
            steps += [Step(latency, 1, share * max(1.0, times.shared * max(loads.values(), default=0)))] * (2 * (size - 1))
        total = sum(one.share for one in steps)
        return Outline(steps, len(steps), total, widest or 1.0, False, True)

    return made


def _halves(shape: Shape, kind: int, times: Latencies) -> Outline:
    n, steps = shape.ranks, []
    for k in range(steps_of(n)):
        latency = times.between(shape, kind, 0, min(1 << k, n - 1))
        each_sip = n // shape.sips
        crossing = times.shared * each_sip * max(1, (1 << k) // each_sip) if shape.sips > 1 and 1 << k >= each_sip else 0.0
        steps += [Step(latency, 1, max(1.0, crossing) / (2 << k))] * 2
    spare = n - (1 << steps_of(n))
    if spare:
        steps += [Step(times.pe, 1, 1.0)] * 2
    total = sum(one.share for one in steps)
    return Outline(steps, len(steps), total, 1.0 if spare else 0.5, shape.sips > 1, True)


def _chain(shape: Shape, kind: int, times: Latencies) -> Outline:
    half = shape.ranks // 2
    step = Step(times.pe + (times.sip if shape.sips > 1 else times.cube if shape.cubes > 1 else 0), 1, 1.0)
    return Outline([step] * half, 2, 2.0, 1.0, shape.sips > 1, True)


def _around(shape: Shape, kind: int, times: Latencies) -> Outline:
    n = shape.ranks
    hops = sum(range(1, n // 2 + 1))
    step = Step(times.pe + (times.sip if shape.sips > 1 else 0), 1, 1.0)
    return Outline([step] * min(hops, 2 * n), hops, float(hops), 1.0, False, False)


def _shift(shape: Shape, kind: int, times: Latencies) -> Outline:
    return Outline([Step(times.pe + times.sip, 1, 1.0)], 1, 1.0, 1.0, shape.sips > 1, False)


def _signals(shape: Shape, kind: int, times: Latencies) -> Outline:
    far = [1 << k for k in range((shape.ranks - 1).bit_length())]
    return Outline([Step(times.between(shape, kind, 0, one), 1, 0.0) for one in far], 1, 0.0, 1.0, False, False)


FORMS: Mapping[str, Form] = {
    "all_reduce_ring": _ring(2, lambda n: 1 / n),
    "all_reduce_bidirectional": _ring(2, lambda n: 1 / n),
    "all_reduce_halving_doubling": _halves,
    "all_reduce_torus": _levels(grid_rings),
    "all_reduce_hierarchical": _levels(level_rings),
    "all_gather_ring": _ring(1, lambda n: 1.0, adds=False),
    "reduce_scatter_ring": _ring(1, lambda n: 1.0),
    "broadcast_ring": _chain,
    "reduce_ring": _chain,
    "all_to_all_ring": _around,
    "send_recv_ring": _shift,
    "barrier_dissemination": _signals,
}


@cache
def form_of(full_name: str, shape: Shape, kind: int, times: Latencies) -> Outline | None:
    """The outline of an algorithm with a closed form; None for others."""
    made = FORMS.get(full_name)
    return None if made is None else made(shape, kind, times)
