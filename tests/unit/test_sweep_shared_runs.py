"""Processes of a sweep share runs through a file, which may also be absent or damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernbench.sweep import shared_runs
from kernbench.sweep.executors.pool import Pool
from kernbench.sweep.points import points_of
from kernbench.sweep.runner import run_missing
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.targets.llm import Simulated
from kernbench.sweep.work import Context, Work

RUN = Simulated("done", 7, 2, "ab", {"te_busy": 0.1, "energy_pj": 3, "bound_by": "x"}, {"cycles": 5})


@pytest.fixture(autouse=True)
def _new() -> Iterator[None]:
    shared_runs._database.cache_clear()
    yield
    shared_runs._database.cache_clear()


def test_another_process_takes_what_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shared_runs.FOLDER, str(tmp_path))
    made: list[int] = []

    def make() -> Simulated:
        made.append(1)
        return RUN

    for _ in range(3):
        assert shared_runs.shared(("a", 1), Simulated, make) == RUN
        shared_runs._database.cache_clear()  # as another process
    assert len(made) == 1
    shared_runs.shared(("a", 2), Simulated, make)
    assert len(made) == 2


def test_without_a_file_everything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shared_runs.FOLDER, raising=False)
    assert [shared_runs.shared("key", int, lambda k=k: k) for k in (1, 2)] == [1, 2]  # type: ignore[misc]
    shared_runs._database.cache_clear()
    (tmp_path / "runs.sqlite").write_bytes(b"no database" * 100)
    monkeypatch.setenv(shared_runs.FOLDER, str(tmp_path))
    assert [shared_runs.shared("key", int, lambda k=k: k) for k in (1, 2)] == [1, 2]  # type: ignore[misc]


def test_a_sweep_on_two_processes_has_the_rows_of_one(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "schema: kernbench/sweep/1\ntargets: [{llm: llama2-7b, params: {prompt: 4, tokens: 1, layers: 1, phase: decode}}]\n"
        "machine: npu_server\naxes:\n  spm.bank_size_bytes: [524288, 589824, 655360]\n  dram.t_setup_cycles: [100, 120]\n",
        encoding="utf-8",
    )
    spec = load_spec(path)
    points = points_of(spec)
    with Store.write(tmp_path / "s.sqlite") as store:
        run_missing(points.points, store, Pool(Context.of(spec), 2, spec.limits))
        rows = store.rows([point.task.key for point in points.points])
    work = Work.of(Context.of(spec))
    for point in points.points:
        alone = work.run(point.task)
        both = rows[point.task.key]
        assert (alone.cycles, alone.jobs_hash, alone.metrics) == (both.cycles, both.jobs_hash, both.metrics)
