"""Estimates of `kbsim ccl tune --estimate` against simulations, on each kind of network between SIPs.

    python -m tests.ccl_networks --seconds 600   # simulates what is not in the cache for ten minutes, the shortest runs first
    python -m tests.ccl_networks --seconds 0     # only prints the table of what is in the cache

Each SIP has one cube with one rank. A network is estimated from a machine of its own size. One of 64 SIPs is also estimated
from a machine of 16 SIPs with rows of the same length, or on a grid with as many rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import by_nodes, group_of, kind_of
from kernbench.ccl.measure import CclRequest
from kernbench.ccl.registry import Entry, read_registry
from kernbench.ccl.tuner import Estimated, Tuner, known_times
from kernbench.common.parse_cache import cache_folder
from kernbench.config import SystemConfig, load_config
from kernbench.sim_engine.result import MODEL_VERSION
from tests.ccl_grid import Times, simulate

REGISTRY = read_registry()
SMALL = ("sip.rows=1", "sip.cols=1", "cube.pes=2")
SIZES = {"all_reduce": (1 << 10, 1 << 14, 1 << 18, 1 << 20), "all_gather": (1 << 14, 1 << 18), "all_to_all": (1 << 14, 1 << 18)}
SIPS = (8, 16, 32, 64)
ROWS = {8: 2, 16: 4, 32: 4, 64: 8}
WITH_ROWS = ("torus", "mesh", "dragonfly", "fat_tree", "rails")  #: the first two are grids; a row of the others is a node
LINK = "link: {bytes_per_cycle: 50, cycles: 200}"
WITHIN = 4.0  #: algorithms whose estimate is so many times the lowest one are not simulated


def _hypercube(sips: int) -> str:
    return ", ".join(f"{{kind: ring, size: 2, {LINK}}}" for _ in range(sips.bit_length() - 1))


def _mixed(sips: int) -> str:
    return f"{{kind: ring, size: 4, {LINK}}}, {{kind: switch, size: {sips // 4}, {LINK}, switch: {{cycles: 100}}}}"


def _three(sips: int) -> str:
    inner = f"{{kind: ring, size: 2, {LINK}}}, {{kind: fully_connected, size: 4, {LINK}}}"
    return f"{inner}, {{kind: switch, size: {sips // 8}, {LINK}}}" if sips > 8 else inner


def overrides_of(network: str, sips: int, rows: int = 0) -> tuple[str, ...] | None:
    """The settings of a machine with this network, or None if no machine has so many SIPs in it. `rows` 0: the usual number."""
    if network in ("hypercube", "ring x switch", "three dimensions"):
        if network == "hypercube" and sips > 32:
            return None  # at most five dimensions
        made = {"hypercube": _hypercube, "ring x switch": _mixed, "three dimensions": _three}[network](sips)
        return (*SMALL, f"system.sips={sips}", "system.kind=dimensions", f"system.dimensions=[{made}]")
    if network == "adding switch":
        return (*SMALL, f"system.sips={sips}", "system.kind=switch", "system.switch.reduce=true")
    grid = (f"system.rows={rows or ROWS[sips]}",) if network in WITH_ROWS else ()
    return (*SMALL, f"system.sips={sips}", f"system.kind={network}", *grid)


NETWORKS = (
    *("ring", "torus", "mesh", "all_to_all", "dragonfly", "switch", "adding switch", "fat_tree", "rails"),
    *("hypercube", "ring x switch", "three dimensions"),
)


@dataclass(frozen=True)
class Point:
    """A network, a collective and a size [B]."""

    network: str
    sips: int
    collective: str
    size: int

    def tuner(self) -> Tuner:
        """Of the whole machine."""
        return _tuner(self.network, self.sips)

    @property
    def count(self) -> int:
        """`n_elem`."""
        return COLLECTIVES[self.collective].count_of(self.size, self.sips, 2)

    @property
    def estimates(self) -> dict[str, float]:
        """[cycle] By algorithm, from a machine of this size."""
        return dict(self.tuner().choose(self.collective, self.count, "f16").cycles)

    @property
    def from_smaller(self) -> dict[str, float]:
        """[cycle] By algorithm, from a machine of 16 SIPs."""
        one = _smaller(self.network, self.sips)
        return {} if one is None else dict(one.choose(self.collective, self.count, "f16").cycles)

    @property
    def entries(self) -> list[Entry]:
        """The algorithms that are simulated."""
        found, one = self.estimates, self.tuner()
        least = min(found.values())
        return [entry for entry in one.candidates(self.collective) if found[entry.name] <= WITHIN * least]

    def request(self, entry: Entry) -> CclRequest:
        """A run of an algorithm, without elements."""
        one = self.tuner()
        return CclRequest(one.config, one.group, entry, "f16", one.queues(entry), check=False)

    def key(self, entry: Entry) -> str:
        """Of the cycles of an algorithm, in the cache."""
        one = self.tuner()
        return f"{MODEL_VERSION} {one.config.digest()} {one.group.shape} {entry.full_name} {self.size}"


@cache
def _tuner(network: str, sips: int) -> Tuner:
    config = load_config("pod_8sip", overrides_of(network, sips) or (), kind=SystemConfig)
    group = group_of(config, Shape(sips, 1, 1))
    return Tuner(config, group, REGISTRY, known_times(config.digest(), group))


@cache
def _smaller(network: str, sips: int) -> Tuner | None:
    given = overrides_of(network, 16, rows=2 if network in WITH_ROWS[2:] else 8)
    if sips != 64 or given is None:
        return None
    config, shape = load_config("pod_8sip", given, kind=SystemConfig), Shape(sips, 1, 1)
    return Tuner(config, by_nodes(config, Estimated(shape, kind_of(config, shape, None), (), ())), REGISTRY)


def points(sips: Sequence[int] = SIPS) -> list[Point]:
    """All points."""
    return [
        Point(network, number, collective, size)
        for network in NETWORKS
        for number in sips
        if overrides_of(network, number) is not None
        for collective, sizes in SIZES.items()
        for size in sizes
    ]


@dataclass(frozen=True)
class Error:
    """An estimate and the simulated time."""

    point: Point
    algorithm: str
    cycles: int
    estimate: float
    smaller: float | None  #: the estimate from a smaller machine

    @property
    def error(self) -> float:
        """Of the estimate, relative to the simulated time."""
        return self.estimate / self.cycles - 1

    def __str__(self) -> str:
        one = self.point
        about = f"{one.network} {one.sips} {one.collective} {one.size:,} B {self.algorithm}"
        more = "" if self.smaller is None else f", from a smaller machine {self.smaller:,.0f}"
        return f"{self.error:+6.1%} {about}: estimated {self.estimate:,.0f}, simulated {self.cycles:,}{more}"


def errors(some: Sequence[Point], times: Times) -> Iterator[Error]:
    """The errors of all algorithms that are simulated."""
    for point in some:
        found, smaller = point.estimates, point.from_smaller
        for entry in point.entries:
            if point.key(entry) in times.cycles:
                cycles = times.cycles[point.key(entry)]
                yield Error(point, entry.name, cycles, found[entry.name], smaller.get(entry.name))


def report(found: Sequence[Error], worst: int) -> Iterator[str]:
    """A line for each network, and the largest errors."""
    for name in (*NETWORKS, "all"):
        some = [one for one in found if name in (one.point.network, "all")]
        if not some:
            continue
        each, far = [abs(one.error) for one in some], [one.smaller / one.cycles - 1 for one in some if one.smaller is not None]
        more = f"; from 16 SIPs: median {median(map(abs, far)):5.1%}, largest {max(map(abs, far)):5.1%}" if far else ""
        above = sum(one > 0.15 for one in each)
        yield f"{name:16} {len(some):4} median {median(each):5.1%}, above 15 % {above:3}, largest {max(each):5.1%}{more}"
    for one in sorted(found, key=lambda one: -abs(one.error))[:worst]:
        yield str(one)


def main() -> None:
    """Simulate for a time, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = cache_folder("ccl")
    parser.add_argument("--cache", type=Path, default=None if home is None else home / "networks.jsonl")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--sips", type=int, nargs="+", default=SIPS)
    parser.add_argument("--worst", type=int, default=20)
    options = parser.parse_args()
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    times, whole = Times.read(options.cache), points(options.sips)
    simulate(times, whole, options.seconds)
    print(*report(list(errors(whole, times)), options.worst), sep="\n")


if __name__ == "__main__":
    main()
