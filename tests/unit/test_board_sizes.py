"""Collectives on boards by size: more bytes never take less time, and the bus bandwidth does not fall for long messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest, Row, counts_of, queues_of, resolved, row
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import Tuner
from kernbench.common.dtypes import dtype_of
from kernbench.config import SystemConfig, board_names, load_config

KIB, MIB = 1 << 10, 1 << 20
REGISTRY = read_registry()
MOVING = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all")
NEAR = 0.95  #: of the highest bus bandwidth of smaller sizes, if it is steady
FREE = 0.8  #: of the highest bus bandwidth of smaller sizes, also if only their messages find free slots
MOSTLY = 4  #: times as many lanes as slots, so that most lanes wait for credits
GROUPS = [(name, ranks) for name in board_names() for ranks in (2, 4, 8) if ranks <= load_config(name).shape[0]]


def requested(board: str, ranks: int, collective: str, algorithm: str | None = None, dtype: str = "f16") -> CclRequest:
    config = load_config(board, kind=SystemConfig)
    group, entry = group_of(config, Shape(ranks, 1, 1)), REGISTRY.find(collective, algorithm)
    return CclRequest(config, group, entry, dtype, queues_of(REGISTRY, entry, config=config, group=group), check=False)


def scanned(request: CclRequest, count: int) -> Row:
    made, _ = row(request, count)
    assert made is not None
    return made


def steady(request: CclRequest, count: int) -> bool:
    """Whether the bandwidth should not fall for longer messages.

    A schedule cuts its elements into lanes. The first lanes find free slots, and later lanes wait for credits. If a rank has
    only four slots, the first lanes therefore reach a bandwidth that longer messages cannot keep.
    """
    request = resolved(request, count)
    outline = Tuner(request.config, request.group, REGISTRY).outline(request.entry)
    slots, slot_bytes, itemsize = request.queues.slots, request.queues.slot_bytes, dtype_of(request.dtype).bits // 8
    assert outline is not None and slots is not None and slot_bytes is not None
    return outline.full or outline.lanes(count * itemsize, itemsize, slots, slot_bytes) > MOSTLY * slots


def falls(request: CclRequest, counts: Sequence[int], near: float = NEAR) -> list[str]:
    """The sizes at which the time or the bus bandwidth falls."""
    found, highest, best = [], 0.0, 0.0
    for (before, last), (one, _) in pairwise((scanned(request, count), count) for count in counts):
        highest = max(highest, before.busbw)
        best = max(best, before.busbw) if steady(request, last) else best
        if one.cycles < before.cycles or one.busbw < max(near * best, FREE * highest):
            text = f"{one.size:,} B: {one.cycles:,} cycles, {one.busbw:.1f} GB/s"
            found.append(f"{text}; {before.size:,} B: {before.cycles:,} cycles; highest bandwidth before: {highest:.1f} GB/s")
    return found


@pytest.mark.parametrize("name", board_names())
def test_an_all_reduce_takes_longer_for_more_bytes(name: str) -> None:
    ranks = max(ranks for board, ranks in GROUPS if board == name)
    request = requested(name, ranks, "all_reduce")
    assert falls(request, counts_of(request, 32 * KIB, 2 * MIB, 8)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("collective", MOVING)
@pytest.mark.parametrize(("name", "ranks"), GROUPS)
def test_more_bytes_take_longer_and_long_messages_keep_their_bandwidth(name: str, ranks: int, collective: str) -> None:
    """The choices of the tuner, and each chosen algorithm at all larger sizes than the first one for which it is chosen."""
    request = requested(name, ranks, collective)
    counts = counts_of(request, 4 * KIB, 64 * MIB, 4)
    assert falls(request, counts) == []
    first: dict[str, int] = {}
    for count in counts:
        first.setdefault(resolved(request, count).entry.name, count)
    for algorithm, least in first.items():
        alone = requested(name, ranks, collective, algorithm)
        assert falls(alone, [count for count in counts if count >= least]) == [], algorithm


@pytest.mark.nightly
@pytest.mark.parametrize("name", board_names())
def test_a_very_long_all_reduce_keeps_its_bandwidth(name: str) -> None:
    """Up to 1 GiB. If a chip sends many messages over a link at the same time, they arrive together. After hundreds of them,
    half of the chips then waited for the other half, and the bandwidth fell.
    """
    ranks = max(ranks for board, ranks in GROUPS if board == name)
    request = requested(name, ranks, "all_reduce", dtype="f32")
    assert falls(request, counts_of(request, 64 * MIB, 1024 * MIB, 4)) == []
    ring = requested(name, ranks, "all_reduce", "ring", "f32")
    assert falls(ring, counts_of(ring, 64 * MIB, 1024 * MIB, 16)) == []
