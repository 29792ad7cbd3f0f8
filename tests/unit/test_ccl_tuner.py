"""The tuner: choices without a simulation, against simulations of all algorithms."""

from __future__ import annotations

import time
from math import exp
from pathlib import Path
from typing import Any

import pytest

from kernbench.ccl import tuner as tuning
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Shape
from kernbench.ccl.cost import Latencies, outline_of
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import Asked, queues_of, resolved, row
from kernbench.ccl.patterns import vector_schedule
from kernbench.ccl.registry import AUTO, read_registry
from kernbench.ccl.rings import RING
from kernbench.ccl.schedule import Message
from kernbench.ccl.tuner import Estimated, Tuner, _error, known_times, read_times, save, simulate, tuner_of
from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config

REGISTRY = read_registry()


def tuner(machine: str, ranks: int, times: bool = True) -> Tuner:
    config = load_config(machine, kind=SystemConfig)
    group = group_of(config, shape_for(config, ranks))
    return Tuner(config, group, REGISTRY, known_times(config.digest(), group) if times else {})


def count_of(one: Tuner, collective: str, size: int) -> int:
    what = COLLECTIVES[collective]
    return what.count_of(size, one.group.size, 2) if what.moves else 1


def loss(one: Tuner, collective: str, size: int) -> float:
    """By how much the chosen algorithm is slower than the best one, simulated."""
    count = count_of(one, collective, size)
    choice, times = one.choose(collective, count, "f16"), {}
    for entry in one.candidates(collective):
        asked = Asked(one.config, one.group, entry, "f16", queues_of(REGISTRY, entry), check=False)
        made, _ = row(asked, count)
        assert made is not None
        times[entry.name] = made.cycles
    return float(times[choice.name] / min(times.values()) - 1)


#: Machine, ranks, collective and sizes [B] that were not simulated for the tuner.
SAMPLE = [
    (machine, ranks, collective, size)
    for machine, ranks in (("single_cube", 2), ("single_cube", 5), ("single_cube", 8))
    for collective, sizes in (
        ("all_reduce", (32, 300, 4096, 20_000, 200_000)),
        ("all_gather", (128, 20_000)),
        ("reduce_scatter", (4096, 200_000)),
        ("broadcast", (300, 20_000)),
        ("all_to_all", (4096, 20_000)),
    )
    for size in sizes
]


@pytest.mark.parametrize("ranks", [2, 8])
def test_choices_of_a_sample_are_good(ranks: int) -> None:
    """Where the times of presets are known. The whole sample runs nightly."""
    one = tuner("single_cube", ranks)
    found = [loss(one, "all_reduce", size) for size in (32, 4096)]
    assert max(found) <= 0.2


@pytest.mark.nightly
def test_choices_are_nearly_the_best() -> None:
    """Within 5 % of the best on 95 % of the points, and never more than 20 % off."""
    tuners: dict[Any, Tuner] = {}
    found = []
    for machine, ranks, collective, size in SAMPLE:
        one = tuners.setdefault((machine, ranks), tuner(machine, ranks))
        found.append(loss(one, collective, size))
    assert sum(one <= 0.05 for one in found) >= 0.95 * len(found) and max(found) <= 0.2, sorted(found)[-8:]


#: Machine, ranks and sizes [B] that no time of the package has; of the first three groups it has none.
GRID = (
    ("single_cube", 6, (200, 3000, 40_000, 300_000)),
    ("single_cube", 7, (200, 3000, 40_000, 300_000)),
    ("two_sips", 12, (300, 5000, 60_000)),
    ("sip_4x4", 16, (300, 5000, 60_000)),
    ("sip_4x4", 32, (300, 5000, 60_000)),
)


@pytest.mark.nightly
@pytest.mark.parametrize(("machine", "ranks", "sizes"), GRID)
def test_choices_of_a_grid_are_near_the_best(machine: str, ranks: int, sizes: tuple[int, ...]) -> None:
    """The aim is 95 % within 5 % and none above 20 %, which the estimates do not reach (docs/reference/ccl.md)."""
    one = tuner(machine, ranks)
    names = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "reduce")
    found = [loss(one, collective, size) for size in sizes for collective in names]
    assert sum(one <= 0.05 for one in found) >= 0.75 * len(found) and max(found) <= 0.25, sorted(found)[-8:]


@pytest.mark.parametrize("times", [False, True])
def test_a_choice_takes_less_than_a_millisecond(times: bool) -> None:
    """Once the outlines of a group are made."""
    one = tuner("two_sips", 16, times)
    one.choose("all_reduce", 1000, "f16")
    begin = time.process_time()
    for count in range(1, 51):
        one.choose("all_reduce", 64 * count, "f16")
    assert (time.process_time() - begin) / 50 < 1e-3


def test_estimates_are_corrected_by_groups_with_fewer_and_more_ranks() -> None:
    """At a known group they are its simulated times; between two groups, between their errors."""
    known = tuner("single_cube", 5)
    model = tuner("single_cube", 5, times=False)
    for name, rows in known.times.items():
        entry = next(one for one in REGISTRY.entries if one.full_name == name)
        for nbytes, cycles in rows if COLLECTIVES[entry.collective].moves else ():
            assert model.cycles(entry, nbytes // 2, 2) == pytest.approx(cycles, rel=1e-3), name
    points = [(2, [(64, 2.0), (1024, 1.0)]), (8, [(64, 0.5)])]
    assert exp(_error(points, 2, 256)) == pytest.approx(2**0.5)
    assert exp(_error(points, 4, 64)) == pytest.approx(1.0)
    assert exp(_error(points, 100, 1)) == pytest.approx(0.5)
    assert exp(_error(points, 1, 1 << 20)) == pytest.approx(1.0)
    assert _error([], 4, 64) == 0


def test_a_link_between_sips_is_shared_by_all_ranks_of_a_sip() -> None:
    """Eight ranks of a SIP that send at once to another take eight times as long on the link as one."""

    def share(targets: int) -> float:
        schedule = vector_schedule(16, 1, [[Message(one, one + 8, (0,), (0,)) for one in range(targets)]], loads=range(16))
        made = outline_of(schedule, Shape(2, 1, 8), RING, Latencies(10, 0, 200, link=128.0, far_link=64.0))
        return made.once[2]

    assert [share(1), share(4), share(8)] == [2.0, 8.0, 16.0]


def test_the_model_alone_is_near_simulations() -> None:
    """Of a group whose times did not come with the package: the median error of all algorithms at two sizes."""
    one, errors = tuner("single_cube", 6, times=False), []
    for size in (1024, 65536):
        for entry in one.candidates("all_reduce"):
            count = count_of(one, "all_reduce", size)
            made, _ = row(Asked(one.config, one.group, entry, "f16", queues_of(REGISTRY, entry), check=False), count)
            assert made is not None
            errors.append(abs(one.cycles(entry, count, 2) / made.cycles - 1))
    assert sorted(errors)[len(errors) // 2] < 0.2 and max(errors) < 0.6


def test_simulated_times_are_kept_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))
    one = tuner("single_cube", 4, times=False)
    before = one.choose("broadcast", 2048, "f16")
    said = list(simulate(one, "broadcast", [4096], "f16"))
    assert [entry.name for entry, *_ in said] == ["ring", "binomial", "tree", "hierarchical"] and not before.simulated
    after = one.choose("broadcast", 2048, "f16")
    assert after.simulated and after.cycles == pytest.approx({entry.name: cycles for entry, _, cycles, _ in said})
    path = tuning.place(one.config, one.group)
    assert path is not None and path.parent == tmp_path / "ccl"
    save(one, path)
    monkeypatch.setattr(tuning, "_TUNERS", {})
    assert tuner_of(one.config, one.group, REGISTRY).choose("broadcast", 2048, "f16") == after
    path.write_text("{", encoding="utf-8")
    assert read_times(path) == {}
    other = load_config("single_cube", ["pe.link.bytes_per_cycle=64"], kind=SystemConfig)
    assert tuning.place(other, one.group) != path


def test_auto_takes_what_the_tuner_chooses() -> None:
    one = tuner("single_cube", 8)
    entry = REGISTRY.find("all_reduce", AUTO)
    asked = Asked(one.config, one.group, entry, "f16", queues_of(REGISTRY, entry), check=True)
    names = {resolved(asked, count).entry.name for count in (16, 1 << 18)}
    assert len(names) == 2
    made, _ = row(asked, 100)
    assert made is not None and made.wrong == 0


def test_groups_that_no_machine_has_are_estimated() -> None:
    config = load_config("pod_8sip", kind=SystemConfig)
    one = Tuner(config, Estimated(Shape(1563, 8, 8), RING, (), ()), REGISTRY)
    begin = time.process_time()
    choice = one.choose("all_reduce", 1 << 19, "f16")
    assert time.process_time() - begin < 10
    assert set(choice.cycles) == {"ring", "bidirectional", "halving_doubling", "torus", "hierarchical"}
    assert choice.cycles["hierarchical"] < choice.cycles["ring"] / 10


def test_a_collective_without_a_known_algorithm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = tuner("single_cube", 2)
    monkeypatch.setattr(Tuner, "outline", lambda self, entry: None)
    with pytest.raises(InputError, match="no algorithm of all_reduce is known to the tuner for a ring; name one"):
        one.choose("all_reduce", 1, "f16")
