"""Results of runs are kept on disk by content: found by other processes, never damaged, never those of another key or build."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernbench.common import kept_results
from kernbench.common.kept_results import FILE, FOLDER, build_digest, kept_result
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sweep.executors.pool import Pool
from kernbench.sweep.points import points_of
from kernbench.sweep.runner import run_missing
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.targets.llm import SIMULATED, LlmTarget, Simulated
from kernbench.sweep.work import Context, Work
from kernbench.workloads.llm import emitted, run, steps
from kernbench.workloads.llm.known import Kept, Known
from kernbench.workloads.llm.report import report_of
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from kernbench.workloads.parallel import programs as parallel
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.run import job_programs, run_model

RUN = Simulated("done", 7, 2, "ab", {"te_busy": 0.1, "energy_pj": 3, "bound_by": "x"}, {"cycles": 5})
TABLES: tuple[Known[Any], ...] = (
    SIMULATED, run.TALLIES, run.CYCLES, steps.REDUCED, parallel.HANDED, emitted.PROGRAMS
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path / "cache"))
    _another_process()
    yield tmp_path / "cache" / "results"
    _another_process()


def _another_process() -> None:
    """Forget what only this process knows."""
    kept_results._FILE.close()
    for table in TABLES:
        table.clear()


def _never() -> Any:
    raise AssertionError("it was kept")


def _kept(key: Any) -> bool:
    """Whether the result of a key is on disk; it is not kept if it was missing."""

    def missing() -> Any:
        raise KeyError

    try:
        return kept_result("k", key, Any, missing) is not None
    except KeyError:
        return False


def test_another_process_takes_what_was_made() -> None:
    assert kept_result("k", ("a", 1), Simulated, lambda: RUN) == RUN
    _another_process()
    assert kept_result("k", ("a", 1), Simulated, _never) == RUN
    assert not _kept(("a", 2)) and not _kept(("b", 1))
    assert kept_result("other kind", ("a", 1), int, lambda: 3) == 3


def test_without_a_cache_only_a_sweep_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_CACHE", "off")
    assert [kept_result("k", "key", int, lambda k=k: k) for k in (1, 2)] == [1, 2]  # type: ignore[misc]
    with kept_results.shared_results() as variables:
        monkeypatch.setenv(FOLDER, variables[FOLDER])
        assert [kept_result("k", "key", int, lambda k=k: k) for k in (1, 2)] == [1, 1]  # type: ignore[misc]
    assert not Path(variables[FOLDER]).exists()
    monkeypatch.delenv(FOLDER)
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))
    with kept_results.shared_results() as variables:
        assert variables == {}


def test_without_a_place_for_temporary_files_a_sweep_shares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setenv("KERNBENCH_CACHE", "off")
    monkeypatch.setattr(kept_results, "TemporaryDirectory", refuse)
    with kept_results.shared_results() as variables:
        assert variables == {}


def test_an_exception_is_not_kept() -> None:
    assert not _kept("key")
    assert kept_result("k", "key", int, lambda: 1) == 1


@pytest.mark.parametrize("name", kept_results._SETTINGS)
def test_runs_of_other_code_paths_are_not_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_result("k", "key", int, lambda: 1)
    monkeypatch.setenv(name, "plain")
    assert not _kept("key")


def test_another_build_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of equal size and time of modification, but other content, makes another build."""
    package = tmp_path / "package_of_test"
    package.mkdir()
    source = package / "__init__.py"
    source.write_text("a = 1\n")
    os.utime(source, ns=(1, 1))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(kept_results, "_PACKAGES", (package.name,))
    build_digest.cache_clear()
    try:
        before = build_digest()
        build_digest.cache_clear()
        assert build_digest() == before
        time.sleep(0.02)  # a file system may tell times in steps of 10 ms
        source.write_text("a = 2\n")
        os.utime(source, ns=(1, 1))
        build_digest.cache_clear()
        assert build_digest() != before
    finally:
        build_digest.cache_clear()


def test_the_sources_and_the_core_belong_to_the_build() -> None:
    found = {path for package in kept_results._PACKAGES for path in _files_of(package)}
    for module in (kept_results, run, Machine):
        name = getattr(module, "__module__", None) or module.__name__
        assert any(path.endswith(name.replace(".", "/") + suffix) for path in found for suffix in (".py", ".so")), name
    assert any("kernbench_core" in path and path.endswith(".so") for path in found)
    assert any(path.endswith("npu_server.yaml") for path in found)


def _files_of(package: str) -> list[str]:
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return [line.split(" ")[0] for folder in spec.submodule_search_locations for line in kept_results._files(folder)]


def test_damage_is_a_miss(home: Path) -> None:
    """Random bytes are changed and cut off; every answer is right, and the file works again afterwards."""
    chance = random.Random(5)
    for turn in range(60):
        for key in range(8):
            assert kept_result("k", key, list[int], lambda key=key: [key] * 40) == [key] * 40  # type: ignore[misc]
        kept_results._FILE.close()
        data = bytearray((home / FILE).read_bytes())
        for _ in range(chance.choice((1, 1, 40))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if turn % 4 == 0:
            del data[chance.randrange(len(data)) :]
        (home / FILE).write_bytes(data)
        for key in range(8):
            assert kept_result("k", key, list[int], lambda key=key: [key] * 40) == [key] * 40  # type: ignore[misc]
    (home / FILE).write_bytes(b"no database" * 100)
    kept_results._FILE.close()
    assert kept_result("k", 1, int, lambda: 1) == 1
    assert kept_result("k", 1, int, _never) == 1


def _rewritten(home: Path, *statements: str) -> None:
    kept_results._FILE.close()
    with sqlite3.connect(home / FILE) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS number, x AS key, x AS value FROM c"


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE results", f"CREATE VIEW results AS {ENDLESS}"),
        ("CREATE TRIGGER more AFTER INSERT ON results BEGIN DELETE FROM results; END",),
        ("DROP TABLE results", "CREATE TABLE results (key, value)"),
        ("UPDATE results SET value = 'text'",),
        ("UPDATE results SET value = 7",),
        ("UPDATE results SET value = zeroblob(900000)",),
        ("UPDATE results SET value = zeroblob(9000000)",),
        ("UPDATE results SET key = key || value",),
    ],
)
def test_a_forged_file_is_a_miss(home: Path, statements: tuple[str, ...]) -> None:
    kept_result("k", "key", int, lambda: 1)
    _rewritten(home, *statements)
    assert kept_result("k", "key", int, lambda: 2) == 2
    assert kept_result("k", "key", int, _never) == 2


def test_a_result_of_another_key_or_form_is_a_miss(home: Path) -> None:
    kept_result("k", "one", int, lambda: 1)
    kept_result("k", "two", int, lambda: 2)
    _rewritten(home, "UPDATE results SET value = (SELECT value FROM results WHERE number = 1)")
    assert kept_result("k", "two", int, lambda: 2) == 2
    kept_result("k", "text", str, lambda: "x")
    assert kept_result("k", "text", int, lambda: 5) == 5


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe", "file as folder", "read-only"])
def test_a_place_that_cannot_be_used_is_no_cache(home: Path, kind: str) -> None:
    if kind == "file as folder":
        home.parent.mkdir()
        home.write_text("")
    else:
        home.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(home / FILE)
    if kind == "folder":
        (home / FILE).mkdir()
    if kind == "link to a pipe":
        os.mkfifo(home / "pipe")
        (home / FILE).symlink_to(home / "pipe")
    if kind == "read-only" and os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    if kind == "read-only":
        home.chmod(0o500)
    assert [kept_result("k", "key", int, lambda k=k: k) for k in (1, 2)] == [1, 2]  # type: ignore[misc]


def test_a_folder_that_is_deleted_during_a_run_is_made_again(home: Path) -> None:
    kept_result("k", 1, int, lambda: 1)
    (home / FILE).unlink()
    (home / f"{FILE}-journal").unlink(missing_ok=True)
    home.rmdir()
    for key in (2, 3, 4):
        assert kept_result("k", key, int, lambda key=key: key) == key  # type: ignore[misc]
    _another_process()
    assert kept_result("k", 4, int, _never) == 4


def test_the_file_is_bounded_and_the_oldest_results_go_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_results, "MAX_KEPT", 1 << 16)
    monkeypatch.setattr(kept_results, "_AT_ONCE", 10)
    monkeypatch.setattr(kept_results, "LARGEST", 4000)
    for key in range(150):
        kept_result("k", key, str, lambda key=key: "x" * 1000 + str(key))  # type: ignore[misc]
    assert (home / FILE).stat().st_size <= (1 << 16) + 16_384
    there = [_kept(key) for key in range(150)]
    assert there[149] and not there[0] and there == sorted(there)
    kept_result("k", "large", str, lambda: "x" * 4001)
    assert not _kept("large")


def _children(count: int, work: Callable[[int], None]) -> list[int]:
    """Processes that do this work, each with its number."""
    found = []
    for number in range(count):
        child = os.fork()
        if not child:
            try:
                work(number)
            finally:
                os._exit(0)
        found.append(child)
    return found


def test_several_processes_write_at_once() -> None:
    kept_result("k", "parent", int, lambda: 1)  # the parent has the file open

    def work(number: int) -> None:
        for key in range(40):
            kept_result("k", (number, key), int, lambda key=key: key)  # type: ignore[misc]

    for child in _children(3, work):
        assert os.waitpid(child, 0)[1] == 0
    assert kept_result("k", "parent", int, _never) == 1
    assert all(_kept((number, key)) for number in range(3) for key in range(40))


def test_a_killed_process_leaves_a_file_that_works(home: Path) -> None:
    def work(number: int) -> None:
        key = 0
        while True:
            kept_result("k", (number, key), str, lambda: "x" * 3000)
            key += 1

    for turn in range(4):
        (child,) = _children(1, lambda _, turn=turn: work(turn))  # type: ignore[misc]
        limit = time.monotonic() + 20
        while not _kept((turn, turn + 1)) and time.monotonic() < limit:
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert _kept((turn, turn + 1))
    kept_results._FILE.close()
    with sqlite3.connect(home / FILE) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


def test_machines_with_code_of_users_keep_nothing(home: Path) -> None:
    table = Kept[int](4, "k", int)
    for override in ("spm.arbiter=mine:Arbiter", None):
        config = load_config("npu_mobile", [override] if override else [])
        table.clear()
        assert table.of(config, "key", lambda: 1) == 1
        assert home.exists() == (override is None)
    system = load_config("single_cube", ["components.pe_gemm.impl=mine:Gemm"])
    table.clear()
    assert table.of(system, "key", lambda: 2) == 2


JOBS = {
    "an NPU": ("npu_server", Job(prompt=4, tokens=1, layers=1, phases=("decode",)), Layout()),
    "shards": ("two_sips", Job(prompt=4, tokens=1, layers=1, phases=("decode",), shards=2, reduction="auto"), Layout(2)),
    "stages": ("two_sips", Job(prompt=4, tokens=1, layers=2, phases=("decode",)), Layout(1, 2)),
}


def _reported(machine: str, job: Job, layout: Layout) -> str:
    programs = job_programs(load_model("gpt2"), uniform_precision(), load_config(machine), job, layout)
    return repr(report_of(run_model(programs)).to_dict())


def _row(machine: str, job: Job, layout: Layout) -> str:
    params = {"prompt": 4, "tokens": 1, "layers": job.layers, "phase": "decode", "tp": layout.tp, "pp": layout.pp}
    return repr(LlmTarget("model", "gpt2", params).simulate(load_config(machine), {}))


@pytest.mark.parametrize("job", list(JOBS))
@pytest.mark.parametrize("made", [_reported, _row])
def test_a_job_that_was_run_simulates_nothing(
    job: str, made: Callable[[str, Job, Layout], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setenv("KERNBENCH_CACHE", "off")
        plain = made(*JOBS[job])
    _another_process()
    assert made(*JOBS[job]) == plain
    for table in TABLES:
        for key in table._values:
            _check_described(key)
    _another_process()
    monkeypatch.setattr(Machine, "run", lambda self: _never())
    assert made(*JOBS[job]) == plain


def _check_described(key: Any) -> None:
    """The `repr` of a key describes it completely, and is equal in all processes: sets have another order in each process."""
    assert not isinstance(key, (set, frozenset)) and not callable(key), key
    if dataclasses.is_dataclass(key):
        for field in dataclasses.fields(key):
            assert field.repr or not field.compare, (key, field.name)
            _check_described(getattr(key, field.name))
    elif isinstance(key, msgspec.Struct):
        assert not key.__struct_config__.repr_omit_defaults, key
        for name in key.__struct_fields__:
            _check_described(getattr(key, name))
    elif isinstance(key, (tuple, list)):
        for one in key:
            _check_described(one)
    elif isinstance(key, dict):
        _check_described(list(key.items()))
    else:
        assert " object at 0x" not in repr(key)


def test_a_sweep_on_two_processes_has_the_rows_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_CACHE", "off")
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
