"""Memory of large machines in huge pages (docs/adr/0079-huge-pages.md)."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import kernbench as kb
from kernbench.analysis.probe import patterns
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.config import load_config
from kernbench_core.state.python_memory import huge_pages, memory_of

SMAPS = Path("/proc/self/smaps")
ASKS = Path("/sys/kernel/mm/transparent_hugepage/enabled")
has_huge_pages = pytest.mark.skipif(not ASKS.exists(), reason="the system has no huge pages on request")


def asking() -> int:
    """[KiB] The memory of this process that asks for huge pages."""
    total = size = 0
    for line in SMAPS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1])
        elif line.startswith("VmFlags:") and "hg" in line.split():
            total += size
    return total


def machine_of(pes: int) -> kb.Machine:
    """A program of two transfers on a system of 8 or 128 PEs."""
    program = kb.Program("two")
    return kb.Machine({8: "single_cube", 128: "sip_4x4"}[pes], program, whole=True)


@has_huge_pages
def test_the_tables_of_a_large_machine_ask_for_huge_pages_until_it_is_gone() -> None:
    gc.collect()
    before = asking()
    large = machine_of(128)
    assert asking() >= before + 8 * 1024
    del large
    gc.collect()
    assert asking() == before


@has_huge_pages
def test_the_tables_of_a_small_machine_ask_for_none() -> None:
    gc.collect()
    before = asking()
    small = machine_of(8)
    assert asking() == before
    assert small.status == "running"


@has_huge_pages
def test_objects_ask_for_huge_pages_only_inside_the_block() -> None:
    before = asking()
    with huge_pages():
        inside = [bytes(100) + bytes([number % 251]) for number in range(400_000)]  # 60 MB, more than what is free now
        assert asking() > before
    held = asking()
    outside = [bytes(100) + bytes([number % 251]) for number in range(800_000)]
    assert asking() <= held
    assert [one[-1] for one in inside[::9999]] == [number % 251 for number in range(0, 400_000, 9999)]
    assert len(outside) == 800_000


def test_objects_of_a_block_live_on_after_it_and_their_memory_is_used_again() -> None:
    kept = []
    for turn in range(6):
        with huge_pages(), huge_pages():
            made = [(turn, number) for number in range(150_000)]
        kept.append(made[::1000])
        del made
    assert all(one == [(turn, number) for number in range(0, 150_000, 1000)] for turn, one in enumerate(kept))


def test_the_block_ends_after_an_error() -> None:
    with pytest.raises(KeyError), memory_of(1024):
        raise KeyError("inside")
    with memory_of(8), memory_of(1024):
        assert [object() for _ in range(10_000)]


def test_a_large_machine_continues_from_a_snapshot_and_ends_as_in_the_plain_walk() -> None:
    config, program = load_config("sip_4x4"), kb.Program("all at once")
    next(one for one in patterns(config) if one.name == "all_one_slice").moves(program, 16384)
    whole, plain, first, second = (
        kb.Machine(config, program, whole=True, walk=walk) for walk in ("fast", "plain", "fast", "fast")
    )
    whole.run()
    plain.run()
    first.run(until=f"cycle:{whole.cycle // 2}")
    second._core.restore(first._core.snapshot())
    second.run()
    assert whole.status == plain.status == second.status == "done"
    assert whole._core.digest() == plain._core.digest() == second._core.digest()


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "recursive_doubling"])
def test_collectives_take_as_long_and_are_right_in_both_walks(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 ranks of a machine of 128 PEs, whose tables grow when queues are installed."""
    registry, config = read_registry(), load_config("sip_4x4")
    entry = registry.find("all_reduce", algorithm)
    found = set()
    for walk in ("fast", "plain"):
        monkeypatch.setenv("KERNBENCH_WALK", walk)
        group = group_of(config, shape_for(config, 64))
        one, _ = row(CclRequest(config, group, entry, "f16", queues_of(registry, entry), True), 1000)
        assert one is not None
        found.add((one.cycles, one.wrong))
    assert len(found) == 1
    assert found.pop()[1] == 0
