"""What is said of a size before it runs: its messages are those that are sent, its memory, and how long it will take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CHECKED_PACE, FORMS, PACE, CclRequest, Forecast, memory, messages, queues_of, row, schedule_of
from kernbench.ccl.registry import read_registry
from kernbench.common.free_memory import free_memory
from kernbench.config import SystemConfig, load_config

REGISTRY = read_registry()


def request(name: str, shape: Shape, *, topo: str | None = None, dtype: str = "f16", check: bool = False) -> CclRequest:
    entry = next(one for one in REGISTRY.entries if one.full_name == name)
    keys = ["system.kind=switch", "system.switch.reduce=true"] if entry.through_switches else []
    config = load_config("two_sips", keys, kind=SystemConfig)
    return CclRequest(config, group_of(config, shape, topo), entry, dtype, queues_of(REGISTRY, entry), check)


@pytest.mark.parametrize("entry", REGISTRY.entries, ids=lambda entry: str(entry.full_name))
@pytest.mark.parametrize(("shape", "count"), [(Shape(1, 1, 6), 20_000), (Shape(2, 2, 2), 40_000), (Shape(2, 1, 1), 64)])
def test_messages_are_those_that_are_sent(entry: object, shape: Shape, count: int) -> None:
    """Of elements of many messages, of few, and of ranks that are no power of two."""
    one = request(entry.full_name, shape)  # type: ignore[attr-defined]
    found, outcome = row(one, count if entry.collective != "barrier" else 1)  # type: ignore[attr-defined]
    assert found is not None
    rings = outcome.engine.machine.queues.rings  # a message through a switch is counted once
    assert messages(one, count) == (sum(ring.sent for ring in rings if ring.switch is None or ring is ring.switch.lead), True)


@pytest.mark.parametrize(("name", "topo"), [("all_reduce_hierarchical", "mesh"), ("all_reduce_torus", "torus")])
def test_messages_over_a_grid(name: str, topo: str) -> None:
    one = request(name, Shape(2, 2, 4), topo=topo, dtype="f32")
    _, outcome = row(one, 3000)
    assert messages(one, 3000) == (sum(ring.sent for ring in outcome.engine.machine.queues.rings), True)


def test_all_algorithms_of_the_package_are_known() -> None:
    group = group_of(load_config("two_sips", kind=SystemConfig), Shape(1, 1, 2))
    assert {one.module for one in REGISTRY.entries if schedule_of(one, group) is None} == set(FORMS)


def test_of_another_algorithm_the_least_is_known() -> None:
    """Eight ranks send 7/4 MiB each, in messages of 32 KiB at most."""
    one = request("all_reduce_ring", Shape(1, 1, 8))
    other = replace(one, entry=replace(one.entry, module="mine.py"))
    assert messages(other, 1 << 19) == (8 * 56, False) and messages(one, 1 << 19) == (8 * 56, True)


def test_memory_by_hand() -> None:
    """Of a MiB of f16: random f32 elements and what they become; verified, six MiB a rank more."""
    mib, one = 1 << 20, request("all_reduce_ring", Shape(1, 1, 8))
    assert memory(one, mib // 2) == 3 * mib
    assert memory(replace(one, check=True), mib // 2) == 3 * mib + 8 * 6 * mib
    assert memory(replace(one, dtype="u8"), mib) == 9 * mib


def test_a_forecast_takes_the_pace_of_sizes_that_are_long_enough() -> None:
    one, each = request("all_reduce_ring", Shape(1, 1, 8)), 8 * 14
    forecast = Forecast(one, [1 << 13, 1 << 17, 1 << 19])
    assert forecast.messages == [each, 4 * each, 4 * each]
    assert forecast.seconds == 9 * each * PACE
    forecast.took(0.9)  # too short to tell
    assert forecast.seconds == 8 * each * PACE
    forecast.took(448.0)
    assert (forecast.left, forecast.seconds) == (4 * each, 4 * each)
    assert Forecast(replace(one, check=True), [1 << 13]).seconds == each * CHECKED_PACE


def test_free_memory_is_the_least_of_all_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert free_memory(tmp_path) is None
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:       9000 kB\nMemAvailable:   1000 kB\n")
    assert free_memory(tmp_path) == 1000 << 10
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("1000\n")
    (group / "memory.max").write_text("max\n")
    assert free_memory(tmp_path) == 1000 << 10
    (group / "memory.max").write_text("801000\n")
    assert free_memory(tmp_path) == 800_000
    (tmp_path / "proc/self/statm").write_text("10 5 1 0 0 0 0\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (12 * resource.getpagesize(), -1))
    assert free_memory(tmp_path) == 2 * resource.getpagesize()
    monkeypatch.undo()
    here = free_memory()
    assert here is None or here > 0
