"""Shortest paths by trying every path, and least weights by Bellman and Ford: slow and obvious."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise

#: (source, target): weight and length of an edge
Edges = Mapping[tuple[str, str], tuple[Fraction, Fraction]]
Path = tuple[str, ...]


def every_path(edges: Edges, source: str, target: str, closed: frozenset[str]) -> Iterator[Path]:
    """Every path without a node twice; nodes of `closed` are its ends or are not on it."""
    waiting: list[Path] = [(source,)]
    while waiting:
        path = waiting.pop()
        if path[-1] == target:
            yield path
        elif len(path) == 1 or path[-1] not in closed:
            waiting += [(*path, there) for here, there in edges if here == path[-1] and there not in path]


def shortest(
    edges: Edges, source: str, target: str, closed: frozenset[str], by_distance: bool, exits: frozenset[tuple[str, str]]
) -> Path | None:
    """The least by exits, then weight, then length (or the other way), then hops, then names; None where there is none."""

    def order(path: Path) -> tuple[int, Fraction, Fraction, int, Path]:
        steps = [edges[pair] for pair in pairwise(path)]
        weight = sum((step[0] for step in steps), Fraction(0))
        length = sum((step[1] for step in steps), Fraction(0))
        first, second = (length, weight) if by_distance else (weight, length)
        return sum(pair in exits for pair in pairwise(path)), first, second, len(path), path

    return min(every_path(edges, source, target, closed), key=order, default=None)


def least_weights(weights: Mapping[tuple[str, str], Fraction], target: str, closed: frozenset[str]) -> dict[str, Fraction]:
    """The least weight from every node with a path to `target`, not through a node of `closed`: until nothing gets less."""
    least = {target: Fraction(0)}
    changed = True
    while changed:
        changed = False
        for (here, there), weight in weights.items():
            if there in least and (there == target or there not in closed):
                found = least[there] + weight
                if here not in least or found < least[here]:
                    least[here] = found
                    changed = True
    return least
