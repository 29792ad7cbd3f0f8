"""Collectives as targets of a sweep: what `kbsim ccl run` says, point by point."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.ccl.call import Queues
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import CclRequest, row
from kernbench.ccl.registry import read_registry
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from kernbench.sweep.points import points_of
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.targets.ccl import CclTarget
from kernbench.sweep.targets.target import target_of
from kernbench.sweep.work import Work
from tests.sweep_samples import run_spec, write_spec

HEAD = "schema: kernbench/sweep/1\nmachine: single_cube\n"
CALLS = """\
targets:
- {ccl: all_reduce, params: {algo: ring, ranks: 4, dtype: f32, slots: 4, slot_bytes: 2 KiB, tier: tcm}, verify: true}
axes:
  param.size: [512, 8192]
  cube.mesh.link.bytes_per_cycle: [32, 128]
"""


class Here:
    """Runs tasks one after the other, in this process."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def results(self, tasks):  # type: ignore[no-untyped-def]
        for task in tasks:
            yield self._work.run(task)


def test_points_are_what_the_command_measures(tmp_path: Path) -> None:
    path = write_spec(tmp_path, HEAD + CALLS)
    spec = load_spec(path)
    run_spec(path, tmp_path / "s.sqlite", Here(Work(spec.targets, spec.machines)))  # type: ignore[arg-type]
    points = points_of(spec).points
    with Store.read(tmp_path / "s.sqlite") as store:
        rows = store.rows([point.task.key for point in points])
    seen = []
    for point in points:
        nbytes, link = point.values
        config = load_config("single_cube", {"cube.mesh.link.bytes_per_cycle": link}, kind=SystemConfig)
        group = group_of(config, shape_for(config, 4), None)
        entry = read_registry().find("all_reduce", "ring")
        made, outcome = row(CclRequest(config, group, entry, "f32", Queues(4, 2048, "tcm"), False), nbytes // 4)
        assert made is not None
        found = rows[point.task.key]
        assert (found.status, found.jobs, found.metrics["verified"]) == ("done", 4, True)
        assert found.cycles == outcome.engine.get_timing_result().cycles
        assert found.metrics["busbw"] == made.busbw
        seen.append((found.cycles, found.jobs_hash))
    assert len(set(seen)) == 4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("{ccl: all_sum}", "all_sum"),
        ("{ccl: all_reduce, params: {algo: star}}", "star"),
        ("{ccl: all_reduce, params: {ranks: 1}}", "all_reduce: ranks = 1, but it must be an integer of at least 2"),
        ("{ccl: all_reduce, params: {tier: l2}}", "all_reduce: tier = l2, but it must be one of tcm, sram, hbm"),
        ("{ccl: all_reduce, params: {size: many}}", "all_reduce: size = many, but"),
        ("{ccl: all_reduce, params: {size: 9999 TiB}}", "size = 9999 TiB, but it must be 1 byte to 1 TiB"),
        ("{ccl: all_reduce, params: {count: 4}}", "count = 4, but there is no such parameter; there are algo, ranks, size,"),
    ],
)
def test_what_is_no_call_is_refused(call: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"s\.yaml:3:") as error:
        load_spec(write_spec(tmp_path, f"{HEAD}targets: [{call}]\n"))
    assert said in str(error.value).replace('"', "")


def test_it_travels_and_shares_no_process() -> None:
    target = target_of({"ccl": "barrier", "label": "b", "params": {}, "verify": False})
    assert not target.native
    assert target_of(target.plain()).fingerprint() == target.fingerprint()


def test_without_a_name_the_tuner_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each size; and times that the user simulated make other points, because they can change choices."""
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))
    config, target = load_config("single_cube", kind=SystemConfig), CclTarget("c", "all_reduce", {"ranks": 8})
    before = target.fingerprint()
    points = [{"size": size, "algo": algo} for algo in (None, "ring") for size in (64, 1 << 16)]
    cycles = [target.simulate(config, point)["cycles"] for point in points]
    assert cycles[0] < cycles[2] and cycles[1] <= cycles[3]
    (tmp_path / "ccl").mkdir()
    (tmp_path / "ccl" / "times.json").write_text("{}", encoding="utf-8")
    assert target.fingerprint() != before
