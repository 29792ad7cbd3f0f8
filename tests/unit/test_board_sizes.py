"""Collectives on boards by size: more bytes never take less time, and the bus bandwidth does not fall for long messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from kernbench.ccl.call import Queues
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest, Row, counts_of, resolved, row
from kernbench.ccl.registry import read_registry
from kernbench.config import SystemConfig, board_names, load_config

KIB, MIB = 1 << 10, 1 << 20
REGISTRY = read_registry()
MOVING = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all")
NEAR = 0.95  #: of the highest bus bandwidth of smaller sizes
GROUPS = [(name, ranks) for name in board_names() for ranks in (2, 4, 8) if ranks <= load_config(name).shape[0]]


def requested(board: str, ranks: int, collective: str, algorithm: str | None = None, dtype: str = "f16") -> CclRequest:
    config = load_config(board, kind=SystemConfig)
    entry = REGISTRY.find(collective, algorithm)
    return CclRequest(config, group_of(config, Shape(ranks, 1, 1)), entry, dtype, Queues(), check=False)


def scanned(request: CclRequest, counts: Iterable[int]) -> list[Row]:
    found = []
    for count in counts:
        made, _ = row(request, count)
        assert made is not None
        found.append(made)
    return found


def falls(rows: Sequence[Row]) -> list[str]:
    """The sizes at which the time or the bus bandwidth falls."""
    found, best = [], 0.0
    for before, one in pairwise(rows):
        best = max(best, before.busbw)
        if one.cycles < before.cycles or one.busbw < NEAR * best:
            text = f"{one.size:,} B: {one.cycles:,} cycles, {one.busbw:.1f} GB/s"
            found.append(f"{text}; {before.size:,} B: {before.cycles:,} cycles; highest bandwidth before: {best:.1f} GB/s")
    return found


@pytest.mark.parametrize("name", board_names())
def test_an_all_reduce_takes_longer_for_more_bytes(name: str) -> None:
    ranks = max(ranks for board, ranks in GROUPS if board == name)
    request = requested(name, ranks, "all_reduce")
    assert falls(scanned(request, counts_of(request, 32 * KIB, 2 * MIB, 8))) == []


@pytest.mark.nightly
@pytest.mark.parametrize("collective", MOVING)
@pytest.mark.parametrize(("name", "ranks"), GROUPS)
def test_more_bytes_take_longer_and_long_messages_keep_their_bandwidth(name: str, ranks: int, collective: str) -> None:
    """The choices of the tuner, and each chosen algorithm at all larger sizes than the first one for which it is chosen."""
    request = requested(name, ranks, collective)
    counts = counts_of(request, 4 * KIB, 64 * MIB, 4)
    assert falls(scanned(request, counts)) == []
    first: dict[str, int] = {}
    for count in counts:
        first.setdefault(resolved(request, count).entry.name, count)
    for algorithm, least in first.items():
        alone = requested(name, ranks, collective, algorithm)
        assert falls(scanned(alone, [count for count in counts if count >= least])) == [], algorithm


@pytest.mark.nightly
@pytest.mark.parametrize("name", board_names())
def test_a_very_long_all_reduce_keeps_its_bandwidth(name: str) -> None:
    """Up to 1 GiB. If a chip sends many messages over a link at the same time, they arrive together. After hundreds of them,
    half of the chips then waited for the other half, and the bandwidth fell.
    """
    ranks = max(ranks for board, ranks in GROUPS if board == name)
    request = requested(name, ranks, "all_reduce", dtype="f32")
    assert falls(scanned(request, counts_of(request, 64 * MIB, 1024 * MIB, 4))) == []
    ring = requested(name, ranks, "all_reduce", "ring", "f32")
    assert falls(scanned(ring, counts_of(ring, 64 * MIB, 1024 * MIB, 16))) == []
