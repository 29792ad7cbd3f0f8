"""Pools, threads and clusters: the same table from each, and what happens to runs that go wrong."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.sweep.executors.choice import executor_for
from kernbench.sweep.executors.pool import Pool, can_fork
from kernbench.sweep.points import points_of
from kernbench.sweep.runner import in_shard
from kernbench.sweep.spec import Limits
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.store import Store
from kernbench.sweep.work import Context, Work
from tests.sweep_samples import children, run_spec, table_of, write_spec

BENCHES = '''\
"""Benches that do not end well."""

import os
import time

from kernbench.runtime_api import bench


@bench(name="bad", description="ends as its parameter says", params={"how": "well"})
def run(ctx):
    if ctx.params["how"] == "raise":
        raise ValueError("as asked")
    if ctx.params["how"] == "sleep":
        time.sleep(60)
    if ctx.params["how"] == "die":
        os._exit(3)
    if ctx.params["how"] == "eat":
        bytearray(4 << 30)
'''
BAD = """\
schema: kernbench/sweep/1
targets: [bad.py]
axes: {param.how: [well, raise, sleep, die, eat]}
limits: {seconds: 2, memory: 1 GiB}
"""
TILES = "schema: kernbench/sweep/1\ntargets: [tiles.json]\nmachine: small.yaml\n"


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")


def by_copies(path: Path, jobs: int = 1) -> Pool:
    spec = load_spec(path)
    return Pool(Context.of(spec), jobs, spec.limits, fork=True)


def by_pool(path: Path, jobs: int = 1) -> Pool:
    spec = load_spec(path, allow_code=path.parent)
    return Pool(Context.of(spec), jobs, spec.limits, spec.allowed_code)


def test_pool_copies_and_threads_give_the_same_table(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    assert run_spec(path, tmp_path / "threads.sqlite").ran == 6
    assert run_spec(path, tmp_path / "pool.sqlite", by_pool(path, 2)).ran == 6
    assert run_spec(path, tmp_path / "copies.sqlite", by_copies(path, 2)).ran == 6
    table = table_of(tmp_path / "pool.sqlite")
    assert table == table_of(tmp_path / "threads.sqlite") and table.count(b",done,") == 6
    assert table == table_of(tmp_path / "copies.sqlite")
    assert run_spec(path, tmp_path / "pool.sqlite", by_pool(path)).ran == 0


@on_linux
def test_a_copy_leaves_the_files_of_its_parent(tmp_path: Path) -> None:
    """It has the null device, the messages on stderr and its connection, but no file of the store and no other worker's."""
    path = write_spec(tmp_path)
    looked: list[int] = []
    before = children(os.getpid())  # multiprocessing's resource tracker, if an earlier test used it
    pool = by_copies(path, 2)

    class Look:
        def results(self, tasks):  # type: ignore[no-untyped-def]
            for row in pool.results(tasks):
                for child in set(children(os.getpid())) - {*before} if not looked else ():
                    until = time.monotonic() + 20  # a copy may be about to close them
                    while files_of(child) != [os.devnull, os.devnull, "socket"] and time.monotonic() < until:
                        time.sleep(0.01)
                    assert files_of(child) == [os.devnull, os.devnull, "socket"]
                    looked.append(child)
                yield row

    with (tmp_path / "mine").open("w"):
        assert run_spec(path, tmp_path / "s.sqlite", Look()).ran == 6
    assert len(looked) == 2


def files_of(process: int) -> list[str]:
    """The open files of a process but for stderr, and for what opens the null device again."""
    found = {}
    for one in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since the directory was listed
            found[one.name] = str(one.readlink()).partition(":")[0]
    return [found.pop("0", ""), found.pop("1", ""), *sorted(found[name] for name in found if name != "2")]


@on_linux
def test_copies_have_the_machines_of_the_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_spec(write_spec(tmp_path))
    points = points_of(spec)
    pool = executor_for(spec, jobs=1, threads=None, dask=False, scheduler=None)
    monkeypatch.setattr("kernbench.sweep.machines.load_config", None)  # a machine cannot be made again
    assert [row.status for row in pool.results(point.task for point in points.points) if row is not None] == ["done"] * 6


@on_linux
def test_a_process_with_threads_is_not_copied() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    alone = threading.active_count() == 1
    thread.start()
    try:
        assert not can_fork()
    finally:
        done.set()
        thread.join()
    assert can_fork() == alone


def test_code_of_users_is_run_in_new_processes(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("schema: kernbench/sweep/1\ntargets: [bad.py]\n", encoding="utf-8")
    (tmp_path / "bad.py").write_text(BENCHES, encoding="utf-8")
    for path, copied in ((tmp_path / "b.yaml", False), (write_spec(tmp_path), True)):
        chosen = executor_for(load_spec(path, allow_code=tmp_path), jobs=1, threads=None, dask=False, scheduler=None)
        assert isinstance(chosen, Pool) and chosen.fork is copied


def test_the_hash_is_of_every_job(tmp_path: Path) -> None:
    """Two machines on which the program takes as long, but not every job: the rows tell them apart."""
    text = TILES + "axes: {ve.init_cycles: [8, 9], energy.static_mw: [1, 2]}\n"
    run_spec(write_spec(tmp_path, text), tmp_path / "s.sqlite")
    hashes = [line.split(b",")[9] for line in table_of(tmp_path / "s.sqlite").splitlines()[1:]]
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]  # energy moves no job


def test_the_same_point_is_not_run_twice_across_sweeps(tmp_path: Path) -> None:
    one = write_spec(tmp_path)
    other = write_spec(
        tmp_path, one.read_text(encoding="utf-8").replace("[10, 50]", "[50, 90]") + "name: other\n", "o.yaml"
    )
    assert run_spec(one, tmp_path / "s.sqlite").ran == 6
    outcome = run_spec(other, tmp_path / "s.sqlite")
    assert (outcome.ran, outcome.known) == (3, 3)


def test_budget_of_points(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    spec = load_spec(path)
    text = path.read_text(encoding="utf-8") + "budget: {points: 4}\n"
    path.write_text(text, encoding="utf-8")
    budget = load_spec(path).budget
    outcome = run_spec(path, tmp_path / "s.sqlite", budget=budget)
    assert (outcome.ran, outcome.stopped) == (4, "its budget of 4 points")
    outcome = run_spec(path, tmp_path / "s.sqlite", budget=budget)
    assert (outcome.ran, outcome.known, outcome.stopped) == (2, 4, "")
    assert len(points_of(spec)) == 6


def test_shards_are_all_points_once(tmp_path: Path) -> None:
    points = points_of(load_spec(write_spec(tmp_path))).points
    shards = [in_shard(points, (i, 4)) for i in range(1, 5)]
    assert [len(shard) for shard in shards] == [2, 2, 1, 1]
    assert sorted(point.number for shard in shards for point in shard) == list(range(6))


def test_runs_that_go_wrong_are_recorded_and_stop_nothing(tmp_path: Path) -> None:
    """An exception, a run that hangs, a process that ends, memory that is not there; the rest is done."""
    (tmp_path / "bad.py").write_text(BENCHES, encoding="utf-8")
    (tmp_path / "s.yaml").write_text(BAD, encoding="utf-8")
    outcome = run_spec(tmp_path / "s.yaml", tmp_path / "s.sqlite", by_pool(tmp_path / "s.yaml", 2))
    assert dict(outcome.by_status) == {"done": 1, "failed": 1, "timeout": 1, "crashed": 1, "memory": 1}
    assert outcome.failed == 4
    with Store.read(tmp_path / "s.sqlite") as store:
        points = points_of(load_spec(tmp_path / "s.yaml", allow_code=tmp_path)).points
        rows = store.rows([point.task.key for point in points])
    said = {point.values[0]: (rows[point.task.key].status, rows[point.task.key].error) for point in points}
    assert said == {
        "well": ("done", ""),
        "raise": ("failed", "ValueError: as asked"),
        "sleep": ("timeout", "the run took longer than 2 s"),
        "die": ("crashed", "3 processes died in it, the last of exit code 3; out of memory, or a crash"),
        "eat": ("memory", "the run needs more memory than it may have"),
    }
    again = run_spec(tmp_path / "s.yaml", tmp_path / "s.sqlite", by_pool(tmp_path / "s.yaml"))
    assert again.ran == 0


def test_failed_points_are_run_again_when_asked(tmp_path: Path) -> None:
    """A bench that was changed is another point: what failed is only run again as it is."""
    (tmp_path / "bad.py").write_text(BENCHES, encoding="utf-8")
    text = BAD.replace("[well, raise, sleep, die, eat]", "[well, raise]").replace(
        "limits: {seconds: 2, memory: 1 GiB}\n", ""
    )
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    spec = load_spec(tmp_path / "s.yaml", allow_code=tmp_path)
    work = Work(spec.targets, spec.machines)

    class Here:
        def results(self, tasks):  # type: ignore[no-untyped-def]
            yield from map(work.run, tasks)

    assert run_spec(tmp_path / "s.yaml", tmp_path / "s.sqlite", Here()).failed == 1
    assert run_spec(tmp_path / "s.yaml", tmp_path / "s.sqlite", Here()).ran == 0
    outcome = run_spec(tmp_path / "s.yaml", tmp_path / "s.sqlite", Here(), retry=True)
    assert (outcome.ran, outcome.known) == (1, 1)
    (tmp_path / "bad.py").write_text(BENCHES.replace("as asked", "otherwise"), encoding="utf-8")
    assert run_spec(tmp_path / "s.yaml", tmp_path / "s.sqlite", Here()).ran == 2


@pytest.mark.parametrize("fork", [False, True])
def test_a_killed_worker_costs_nothing(tmp_path: Path, fork: bool) -> None:
    text = TILES + "axes: {dram.t_setup_cycles: {from: 1, to: 60}}\n"
    path = write_spec(tmp_path, text)
    run_spec(path, tmp_path / "calm.sqlite")
    spec = load_spec(path)
    pool = Pool(Context.of(spec), 2, Limits(), fork=fork)
    killed = []

    class Murder:
        def results(self, tasks):  # type: ignore[no-untyped-def]
            for i, row in enumerate(pool.results(tasks)):
                if row is not None and len(killed) < 3 and i % 5 == 0:
                    killed.append(min(children(os.getpid())))
                    os.kill(killed[-1], signal.SIGKILL)
                yield row

    assert run_spec(path, tmp_path / "s.sqlite", Murder()).ran == 60
    assert killed and table_of(tmp_path / "s.sqlite") == table_of(tmp_path / "calm.sqlite")


def test_what_does_not_go_together(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BENCHES, encoding="utf-8")
    (tmp_path / "s.yaml").write_text(BAD, encoding="utf-8")
    limited = load_spec(tmp_path / "s.yaml", allow_code=tmp_path)
    plain = load_spec(write_spec(tmp_path))
    (tmp_path / "b.yaml").write_text("schema: kernbench/sweep/1\ntargets: [bad.py]\n", encoding="utf-8")
    benches = load_spec(tmp_path / "b.yaml", allow_code=tmp_path / "bad.py")
    nothing = {"jobs": None, "threads": None, "dask": False, "scheduler": None}
    cases = [
        (
            limited,
            {"threads": 2},
            "limits: --threads cannot stop a single run; leave limits out of the spec, or take processes",
        ),
        (
            limited,
            {"dask": True},
            "limits: --executor dask cannot stop a single run; leave limits out of the spec, or take processes",
        ),
        (
            plain,
            {"scheduler": "tcp://a:1"},
            '--scheduler = "tcp://a:1", but it is the address of a Dask cluster; say --executor dask',
        ),
        (
            plain,
            {"threads": 2, "jobs": 2},
            "--threads: they are those of one process here: leave out --jobs and --executor",
        ),
        (
            benches,
            {"threads": 2},
            "--threads = 2, but bad.py has Python components, and a thread of those waits for the others; take --jobs",
        ),
    ]
    for spec, given, said in cases:
        with pytest.raises(InputError) as refused:
            executor_for(spec, **(nothing | given))  # type: ignore[arg-type]
        assert str(refused.value) == f"kbsim sweep run: {said}"


def test_another_version_is_refused() -> None:
    context = Context([], [], version="0.0.0")
    with pytest.raises(InputError, match=r"and the sweep is of 0\.0\.0; install the same version everywhere"):
        Work.of(context)


@pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_cluster_of_two_with_one_killed(tmp_path: Path) -> None:
    """Two processes on loopback, one killed while they work: the table is that of threads, and of four shards merged."""
    from distributed import Client, LocalCluster

    from kernbench.sweep.executors.on_dask import OnDask
    from kernbench.sweep.store.merge import merge_into

    text = TILES + "axes: {dram.t_setup_cycles: {from: 1, to: 160}}\n"
    path = write_spec(tmp_path, text)
    run_spec(path, tmp_path / "calm.sqlite")
    spec = load_spec(path)
    quiet = {"silence_logs": "CRITICAL", "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **quiet) as cluster, Client(cluster) as client:
        victim = sorted(client.run(os.getpid).items())[0][1]
        outer = OnDask(Context.of(spec), cluster.scheduler_address, 2)

        class Murder:
            def results(self, tasks):  # type: ignore[no-untyped-def]
                alive = True
                for row in outer.results(tasks):
                    if row is not None and alive:
                        os.kill(victim, signal.SIGKILL)
                        alive = False
                    yield row

        outcome = run_spec(path, tmp_path / "dask.sqlite", Murder())
    assert (outcome.ran, outcome.failed) == (160, 0)
    points = points_of(spec).points
    for i in range(1, 5):
        part = tmp_path / f"part{i}.sqlite"
        _run_shard(path, part, (i, 4))
    merge_into(tmp_path / "merged.sqlite", [tmp_path / f"part{i}.sqlite" for i in range(1, 5)])
    calm = table_of(tmp_path / "calm.sqlite")
    assert calm == table_of(tmp_path / "dask.sqlite") == table_of(tmp_path / "merged.sqlite")
    assert calm.count(b"\n") == len(points) + 1


def _run_shard(path: Path, store: Path, shard: tuple[int, int]) -> None:
    from kernbench.sweep.executors.threads import Threads
    from kernbench.sweep.runner import run_missing
    from kernbench.sweep.store.sweeps import keep_sweep

    spec = load_spec(path)
    points = points_of(spec)
    with Store.write(store) as opened:
        keep_sweep(opened, points)
        run_missing(in_shard(points.points, shard), opened, Threads(Work(spec.targets, spec.machines), 1))
