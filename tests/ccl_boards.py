"""The tuner's choices on boards: five collectives in f16 at 16 sizes from 32 B to 64 MiB, on 2, 4 and 8 chips.

    python -m tests.ccl_boards --seconds 600 a100_8x     # simulates what is not in the cache for ten minutes
    python -m tests.ccl_boards --seconds 0               # only prints the table of what is in the cache

Each size is 2.64 times the size before. Algorithms whose estimate is more than 3.5 times the lowest one are not simulated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest
from kernbench.ccl.registry import Entry, read_registry
from kernbench.ccl.tuner import Tuner, known_times
from kernbench.common.parse_cache import cache_folder
from kernbench.config import SystemConfig, board_names, load_config
from kernbench.sim_engine.result import MODEL_VERSION
from tests.ccl_grid import Measured, Times, measured, simulate

REGISTRY = read_registry()
LAST = 64 << 20
SIZES = tuple(round(32 * (LAST / 32) ** (k / 15)) for k in range(16))
FIVE = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
WITHIN = 3.5


@dataclass(frozen=True)
class Point:
    """Some chips of a board, a collective and a size [B]."""

    board: str
    ranks: int
    collective: str
    size: int

    def tuner(self) -> Tuner:
        """Of the chips."""
        return _tuner(self.board, self.ranks)

    @property
    def count(self) -> int:
        """`n_elem`."""
        return COLLECTIVES[self.collective].count_of(self.size, self.ranks, 2)

    @property
    def entries(self) -> list[Entry]:
        """The algorithms that are simulated."""
        one = self.tuner()
        found = one.choose(self.collective, self.count, "f16").cycles
        return [entry for entry in one.candidates(self.collective) if found[entry.name] <= WITHIN * min(found.values())]

    def request(self, entry: Entry) -> CclRequest:
        """A run of an algorithm, without elements."""
        one = self.tuner()
        return CclRequest(one.config, one.group, entry, "f16", one.queues(entry), check=False)

    def key(self, entry: Entry) -> str:
        """Of the cycles of an algorithm, in the cache."""
        one, queues = self.tuner(), self.tuner().queues(entry)
        return f"{MODEL_VERSION} {one.config.digest()} {one.group.shape} {entry.full_name} {queues} {self.size}"

    def __str__(self) -> str:
        return f"{self.board} {self.ranks} {self.collective} {self.size:,} B"


@cache
def _tuner(board: str, ranks: int) -> Tuner:
    config = load_config(board, kind=SystemConfig)
    group = group_of(config, Shape(ranks, 1, 1))
    return Tuner(config, group, REGISTRY, known_times(config.digest(), group))


def points(boards: Sequence[str], ranks: Sequence[int] = (8, 4, 2)) -> list[Point]:
    """All points of these boards."""
    return [
        Point(board, number, collective, size)
        for board in boards
        for number in ranks
        if number <= load_config(board).shape[0]
        for collective in FIVE
        for size in SIZES
    ]


def report(found: Sequence[Measured], worst: int) -> Iterator[str]:
    """A line for each group, and the points with the largest losses."""
    for board, ranks in dict.fromkeys((one.point.board, one.point.ranks) for one in found):
        losses = [one.loss for one in found if (one.point.board, one.point.ranks) == (board, ranks)]
        yield f"| `{board}` | {ranks} | {len(losses)} | {sum(one > 0.05 for one in losses)} | {max(losses):.1%} |"
    for one in sorted(found, key=lambda one: -one.loss)[:worst]:
        if one.loss > 0.05:
            yield str(one)


def main() -> None:
    """Simulate for a time, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = cache_folder("ccl")
    parser.add_argument("boards", nargs="*", metavar="BOARD", help="by default all")
    parser.add_argument("--cache", type=Path, default=None if home is None else home / "boards.jsonl")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--worst", type=int, default=20)
    options = parser.parse_args()
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    times, whole = Times.read(options.cache), points(options.boards or board_names())
    simulate(times, whole, options.seconds)
    print(*report(list(measured(whole, times)), options.worst), sep="\n")


if __name__ == "__main__":
    main()
