"""A grid of 219 points by which the choices of the tuner are measured: 2 to 256 ranks, 32 B to 64 MiB, and topologies of SIPs.

    python -m tests.ccl_grid --seconds 600   # simulates what is not in the cache for ten minutes, the shortest runs first
    python -m tests.ccl_grid --seconds 0     # only prints the table of what is in the cache
    python -m tests.ccl_grid --drawn 7       # 200 other points, drawn from this seed: more shapes, and larger sizes

A point is a group, a collective and a size. Each candidate of the tuner is simulated, and its cycles are kept in the cache
directory (`KERNBENCH_CACHE`), by the content of the machine. The choice of a point is compared with its best candidate.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Protocol

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest, messages, row
from kernbench.ccl.registry import Entry, read_registry
from kernbench.ccl.tuner import Tuner, known_times
from kernbench.common.parse_cache import cache_folder
from kernbench.config import SystemConfig, load_config
from kernbench.sim_engine.result import MODEL_VERSION

REGISTRY = read_registry()
MIB = 1 << 20
AR, AG, RS, BC, RD, ALL_TO_ALL = "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"
SUMS, FIVE, SIX = (AR, AG, RS), (AR, AG, RS, BC, RD), (AR, AG, RS, BC, RD, ALL_TO_ALL)
ROWS = "system.rows=2"
SWITCH = "system.kind=switch"
RING_AND_SWITCH = (
    "system.kind=dimensions",
    "system.dimensions=[{kind: ring, size: 4, link: {bytes_per_cycle: 100, cycles: 50}}, "
    "{kind: switch, size: 2, link: {bytes_per_cycle: 25, cycles: 300}, switch: {cycles: 70}}]",
)
THREE = (
    "system.kind=dimensions",
    "system.dimensions=[{kind: ring, size: 2, link: {bytes_per_cycle: 200, cycles: 30}}, "
    "{kind: fully_connected, size: 4, link: {bytes_per_cycle: 50, cycles: 200}}, {kind: switch, size: 2}]",
    "system.sips=16",
)
#: Name of the topology, machine, overrides, shape, sizes [B] and collectives. No time of the package is of one of these sizes.
GRID: Sequence[tuple[str, str, tuple[str, ...], tuple[int, int, int], tuple[int, ...], tuple[str, ...]]] = (
    ("cube", "single_cube", (), (1, 1, 2), (32, 20_000, 64 * MIB), SUMS),
    ("cube", "single_cube", (), (1, 1, 4), (32, 12_000, 700_000), (AR, AG, RS, BC)),
    ("cube", "single_cube", (), (1, 1, 6), (700, 40_000), SIX),
    ("cube", "single_cube", (), (1, 1, 8), (150, 20_000, 2 * MIB), SIX),
    ("cubes", "two_sips", (), (1, 2, 6), (300, 9000, 60_000), (AR, AG, RS, ALL_TO_ALL)),
    ("cubes", "sip_4x4", (), (1, 4, 8), (300, 5000, 60_000), (AR, AG, RS, BC)),
    ("cubes", "sip_4x4", (), (1, 8, 8), (300, 60_000), (AR, AG, RS, BC)),
    ("cubes", "sip_4x4", (), (1, 16, 8), (300, 60_000), SUMS),
    ("ring", "two_sips", (), (2, 4, 8), (300, 5000, 60_000), SUMS),
    ("ring", "pod_8sip", (), (8, 1, 1), (300, 60_000, 1_000_000), FIVE),
    ("ring", "pod_8sip", (), (2, 16, 8), (32, 30_000), (AR, AG)),
    ("ring", "pod_8sip", (), (2, 16, 8), (64 * MIB,), (AR,)),
    ("torus", "pod_8sip", ("system.kind=torus", ROWS), (8, 1, 2), (32, 5000, 60_000), (AR, AG, RS, BC)),
    ("mesh", "pod_8sip", ("system.kind=mesh", ROWS), (8, 1, 4), (32, 60_000), SUMS),
    ("switch", "pod_8sip", (SWITCH,), (8, 1, 1), (300, 9000, 300_000), FIVE),
    ("switch", "pod_8sip", (SWITCH,), (8, 1, 4), (300, 60_000), SUMS),
    ("fat tree", "pod_8sip", ("system.kind=fat_tree", ROWS), (8, 1, 2), (32, 9000, 300_000), SUMS),
    ("dragonfly", "pod_8sip", ("system.kind=dragonfly", ROWS), (8, 1, 1), (300, 20_000, 300_000), SUMS),
    ("rails", "pod_8sip", ("system.kind=rails", ROWS), (8, 1, 2), (300, 20_000, 300_000), SUMS),
    ("all to all", "pod_8sip", ("system.kind=all_to_all", "system.sips=4"), (4, 1, 1), (300, 20_000), (AR, AG)),
    ("dimensions", "pod_8sip", RING_AND_SWITCH, (8, 1, 1), (300, 20_000, 300_000), SUMS),
    ("dimensions", "pod_8sip", RING_AND_SWITCH, (8, 1, 4), (300, 60_000), (AR, AG)),
    ("dimensions", "pod_8sip", THREE, (16, 1, 1), (300, 60_000), SUMS),
    ("adding switch", "pod_8sip", (SWITCH, "system.switch.reduce=true"), (8, 1, 1), (300, 9000, 60_000, 1_000_000), SUMS),
)


#: Name of the topology, machine, overrides, and shapes of the points that are drawn.
DRAWN: Sequence[tuple[str, str, tuple[str, ...], tuple[tuple[int, int, int], ...]]] = (
    ("cube", "single_cube", (), tuple((1, 1, pes) for pes in range(2, 9))),
    ("cubes", "two_sips", (), ((1, 2, 8), (1, 4, 4), (1, 4, 8), (1, 2, 3), (1, 4, 1))),
    ("cubes", "sip_4x4", (), ((1, 2, 4), (1, 16, 1), (1, 16, 2), (1, 4, 4), (1, 16, 8), (1, 8, 4))),
    ("ring", "two_sips", (), ((2, 1, 1), (2, 4, 1), (2, 4, 2), (2, 1, 8))),
    ("ring", "pod_8sip", (), ((8, 1, 1), (4, 1, 1), (8, 1, 2), (8, 2, 2), (8, 16, 1), (2, 16, 8))),
    ("torus", "pod_8sip", ("system.kind=torus", ROWS), ((8, 1, 1), (8, 1, 4), (8, 4, 2))),
    ("mesh", "pod_8sip", ("system.kind=mesh", ROWS), ((8, 1, 1), (8, 2, 2))),
    ("switch", "pod_8sip", (SWITCH,), ((8, 1, 1), (8, 1, 2), (8, 4, 1), (8, 1, 8))),
    ("fat tree", "pod_8sip", ("system.kind=fat_tree", ROWS), ((8, 1, 1), (8, 1, 4))),
    ("dragonfly", "pod_8sip", ("system.kind=dragonfly", ROWS), ((8, 1, 1), (8, 1, 2))),
    ("rails", "pod_8sip", ("system.kind=rails", ROWS), ((8, 1, 1), (8, 1, 4))),
    ("all to all", "pod_8sip", ("system.kind=all_to_all", "system.sips=4"), ((4, 1, 1), (4, 1, 4), (4, 4, 2))),
    ("dimensions", "pod_8sip", RING_AND_SWITCH, ((8, 1, 1), (8, 1, 2))),
    ("dimensions", "pod_8sip", THREE, ((16, 1, 1), (16, 1, 2))),
    ("adding switch", "pod_8sip", (SWITCH, "system.switch.reduce=true"), ((8, 1, 1), (8, 1, 4))),
)


class Simulated(Protocol):
    """A group, a collective and a size, of this grid or of another one."""

    collective: str

    @property
    def count(self) -> int: ...

    @property
    def entries(self) -> Sequence[Entry]: ...

    def tuner(self) -> Tuner: ...

    def request(self, entry: Entry) -> CclRequest: ...

    def key(self, entry: Entry) -> str: ...


@dataclass(frozen=True)
class Point:
    """A group, a collective and a size [B]."""

    topology: str
    machine: str
    overrides: tuple[str, ...]
    shape: Shape
    size: int
    collective: str

    def tuner(self) -> Tuner:
        """Of the group; the same one for all its points."""
        return _tuner(self.machine, self.overrides, self.shape)

    @property
    def count(self) -> int:
        """`n_elem`."""
        return COLLECTIVES[self.collective].count_of(self.size, self.tuner().group.size, 2)

    @property
    def entries(self) -> list[Entry]:
        """The algorithms among which the tuner chooses."""
        return list(self.tuner().candidates(self.collective))

    def request(self, entry: Entry) -> CclRequest:
        """A run of an algorithm, without elements."""
        one = self.tuner()
        return CclRequest(one.config, one.group, entry, "f16", one.queues(entry), check=False)

    def key(self, entry: Entry) -> str:
        """Of the cycles of an algorithm, in the cache."""
        one = self.tuner()
        return f"{MODEL_VERSION} {one.config.digest()} {one.group.shape} {entry.full_name} {self.size}"

    def __str__(self) -> str:
        return f"{self.topology} {self.shape} {self.collective} {self.size:,} B"


@cache
def _tuner(machine: str, overrides: tuple[str, ...], shape: Shape) -> Tuner:
    config = load_config(machine, overrides, kind=SystemConfig)
    group = group_of(config, shape)
    return Tuner(config, group, REGISTRY, known_times(config.digest(), group))


def points() -> list[Point]:
    """All points of the grid."""
    return [
        Point(topology, machine, overrides, Shape(*shape), size, collective)
        for topology, machine, overrides, shape, sizes, collectives in GRID
        for collective in collectives
        for size in sizes
    ]


def drawn(seed: int, count: int = 200) -> list[Point]:
    """Points at random; the logarithm of the size is uniform."""
    random, found = Random(seed), []
    while len(found) < count:
        topology, machine, overrides, shapes = random.choice(DRAWN)
        shape = Shape(*random.choice(shapes))
        size = max(32, int(2 ** random.uniform(5, 26)) // 2 * 2)
        collective = random.choice([AR, AR, AG, RS, BC, RD, ALL_TO_ALL])
        found.append(Point(topology, machine, overrides, shape, size, collective))
    return list(dict.fromkeys(found))


@dataclass
class Times:
    """Cycles that were simulated, by the keys of points, in a file with a line each."""

    path: Path | None = None
    cycles: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Times:
        """Those of a file, if it exists."""
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return cls(path, dict(json.loads(line) for line in lines))

    def simulate(self, point: Simulated, entry: Entry) -> int:
        """Of an algorithm; it is simulated if it is not known."""
        key = point.key(entry)
        if key not in self.cycles:
            made, outcome = row(point.request(entry), point.count)
            assert made is not None, outcome.status
            self.cycles[key] = made.cycles
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as out:
                    out.write(json.dumps([key, made.cycles]) + "\n")
        return self.cycles[key]

    def of(self, point: Simulated) -> dict[str, int]:
        """By the name of an algorithm."""
        return {one.name: self.cycles[point.key(one)] for one in point.entries if point.key(one) in self.cycles}


@dataclass(frozen=True)
class Measured:
    """A point whose candidates have all been simulated."""

    point: Any  #: of this grid or of another one
    times: dict[str, int]
    estimates: dict[str, float]
    chosen: str

    @property
    def loss(self) -> float:
        """By how much the chosen algorithm is slower than the best one."""
        return self.times[self.chosen] / min(self.times.values()) - 1

    def __str__(self) -> str:
        each = ", ".join(f"{name} {said:,.0f}/{self.times[name]:,}" for name, said in self.estimates.items())
        return f"{self.loss:6.1%} {self.point}: {self.chosen}; estimated/simulated: {each}"


def measured(some: Iterable[Simulated], times: Times) -> Iterator[Measured]:
    """The points whose candidates are all known."""
    for point in some:
        found = times.of(point)
        if len(found) == len(point.entries):
            choice = point.tuner().choose(point.collective, point.count, "f16")
            estimates = {name: cycles for name, cycles in choice.cycles.items() if name in found}
            yield Measured(point, found, estimates, choice.name)


def simulate(times: Times, whole: Sequence[Simulated], seconds: float) -> None:
    """Simulate the algorithms of points for a time, those with the fewest messages first."""
    begin = time.monotonic()
    left = [(point, entry) for point in whole for entry in point.entries if point.key(entry) not in times.cycles]
    left.sort(key=lambda one: messages(one[0].request(one[1]), one[0].count)[0])
    for point, entry in left:
        if time.monotonic() - begin > seconds:
            break
        times.simulate(point, entry)


def report(found: Sequence[Measured], worst: int) -> Iterator[str]:
    """A line for each topology and for all, and the points with the largest losses."""
    for name in (*dict.fromkeys(one.point.topology for one in found), "all"):
        some = [one for one in found if name in (one.point.topology, "all")]
        losses = [one.loss for one in some]
        errors = [abs(said / one.times[entry] - 1) for one in some for entry, said in one.estimates.items()]
        near, far = sum(loss <= 0.05 for loss in losses), sum(loss > 0.2 for loss in losses)
        yield (
            f"{name:14} {near:3} of {len(some):3} within 5 % ({near / len(some):4.0%}), {far:2} above 20 %, "
            f"worst {max(losses):6.1%}; errors of estimates: median {median(errors):5.1%}, largest {max(errors):5.0%}"
        )
    for one in sorted(found, key=lambda one: -one.loss)[:worst]:
        if one.loss > 0.05:
            yield str(one)


def main() -> None:
    """Simulate for a time, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = cache_folder("ccl")
    parser.add_argument("--cache", type=Path, default=None if home is None else home / "grid.jsonl")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--drawn", type=int, metavar="SEED", help="points drawn from this seed, instead of those of the grid")
    options = parser.parse_args()
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    times, whole = Times.read(options.cache), points() if options.drawn is None else drawn(options.drawn)
    simulate(times, whole, options.seconds)
    found = list(measured(whole, times))
    print(f"{len(found)} of {len(whole)} points")
    print(*report(found, options.worst), sep="\n")


if __name__ == "__main__":
    main()
