"""The store: what was added is there, one writer, and clear words for everything that can be wrong with a file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.sweep import runner
from kernbench.sweep import store as store_module
from kernbench.sweep.points import Task
from kernbench.sweep.store import Store
from kernbench.sweep.store.merge import merge_into
from kernbench.sweep.store.tables import Row, failed_row

ROOT_WRITES_ANYWHERE = pytest.mark.skipif(os.geteuid() == 0, reason="root may write into read-only directories")


def done(key: str, cycles: int = 10, jobs_hash: str = "h") -> Row:
    known = {"ns": "10/3", "jobs": 2, "metrics": {"te_busy": 0.5}, "seconds": 0.1}
    return Row(key=key, status="done", cycles=cycles, jobs_hash=jobs_hash, **known)


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as refused:
        Store.write(path)
    return str(refused.value)


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    rows = [done("a"), failed_row("b", "timeout", "too long", 3.0)]
    with Store.write(tmp_path / "s.sqlite") as store:
        store.add(rows)
        assert store.rows(["a", "b", "c"]) == {"a": rows[0], "b": rows[1]}
        assert store.statuses(["a", "b", "c"]) == {"a": "done", "b": "timeout"}
    with Store.read(tmp_path / "s.sqlite") as store:
        assert store.rows(["a"]) == {"a": rows[0]} and store.count() == 2
    assert not (tmp_path / "s.sqlite-wal").exists()


def test_what_ended_stays_and_what_failed_is_replaced(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.sqlite") as store:
        store.add([done("a", 10), failed_row("b", "memory", "no")])
        store.add([done("a", 11), done("b", 12)])
        store.add([failed_row("a", "crashed", "x"), failed_row("b", "crashed", "x")])
        assert [row.cycles for row in store.rows(["a", "b"]).values()] == [10, 12]


def test_readers_see_what_was_committed_while_a_writer_is_there(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.sqlite") as store:
        store.add([done("a")])
        with Store.read(tmp_path / "s.sqlite") as reader:
            assert reader.count() == 1
            store.add([done("b")])
            assert reader.count() == 2


def test_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store.write(path):
        assert refusal(path) == f"{path}: another run is writing to this store; wait for it, or take --store"
    with Store.write(path) as store:
        assert store.count() == 0


def test_a_full_disk(tmp_path: Path) -> None:
    """SQLite says the same of a disk that is full and of a file that may not grow; what was there before stays."""
    path = tmp_path / "s.sqlite"
    with Store.write(path) as store:
        store.add([done("a")])
        store.database.execute("PRAGMA max_page_count = 14")
        with pytest.raises(InputError) as refused:
            store.add([done(f"{i:064}") for i in range(10_000)])
        remedy = "make room and run the command again: stored results are kept"
        assert str(refused.value) == f"{path}: it cannot be written: the disk is full; {remedy}"
        assert list(store.statuses(["a", f"{0:064}"])) == ["a"]
    with Store.write(path) as store:
        store.check(whole=True)
        assert store.count() == 1


def test_an_interrupt_while_results_are_stored_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is rolled back, and its rows are stored before the interrupt goes on."""
    left = [1]

    def interrupted_once(row: Row) -> tuple[object, ...]:
        if row.key == "b" and left:
            left.clear()
            raise KeyboardInterrupt
        return flat(row)

    flat = store_module._flat
    monkeypatch.setattr(store_module, "_flat", interrupted_once)
    monkeypatch.setattr(runner, "COMMIT_ROWS", 2)
    heard: list[str] = []
    with Store.write(tmp_path / "s.sqlite") as store:
        with pytest.raises(KeyboardInterrupt):
            runner.run_missing([], store, Arriving(), stored=lambda rows: heard.extend(row.key for row in rows))
        assert (list(store.statuses(["a", "b", "c"])), heard) == (["a", "b"], ["a", "b"])


class Arriving:
    """Results of tasks that nobody asked for."""

    def results(self, tasks: Iterable[Task]) -> Generator[Row | None, None, None]:
        yield from map(done, "abc")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 KiB; only root may make one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = shutil.which("mount") and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)], capture_output=True, check=False
    ).returncode
    if not made:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full_and_one_that_is_read_only(small_disk: Path) -> None:
    """Real ones: what was acknowledged is there, the store is sound, and it goes on when there is room."""
    path = small_disk / "s.sqlite"
    acknowledged: list[str] = []
    with pytest.raises(InputError, match="it cannot be written: the disk is full"), Store.write(path) as store:
        for i in range(10_000):
            store.add([done(f"{i:064}")])
            acknowledged.append(f"{i:064}")
    assert acknowledged
    subprocess.run(["mount", "-o", "remount,size=3m", str(small_disk)], check=True)
    with Store.write(path) as store:
        store.check(whole=True)
        assert list(store.statuses(acknowledged)) == acknowledged
        store.add([done("more")])
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    told = "it cannot be opened or written: Read-only file system; choose another place with --store"
    assert refusal(path) == f"{path}: {told}"
    with Store.read(path) as store:
        assert store.count() == len(acknowledged) + 1


@ROOT_WRITES_ANYWHERE
def test_a_read_only_directory(tmp_path: Path) -> None:
    folder = tmp_path / "shut"
    folder.mkdir()
    with Store.write(folder / "old.sqlite") as store:
        store.add([done("a")])
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        new = folder / "new.sqlite"
        told = "it cannot be opened or written: Permission denied; choose another place with --store"
        assert refusal(new) == f"{new}: {told}"
        with Store.read(folder / "old.sqlite") as store:
            assert store.count() == 1
    finally:
        folder.chmod(0o700)


def test_a_directory_and_a_missing_place(tmp_path: Path) -> None:
    end = "choose another place with --store"
    assert refusal(tmp_path) == f"{tmp_path}: it cannot be opened or written: Is a directory; {end}"
    missing = tmp_path / "no" / "s.sqlite"
    assert refusal(missing) == f"{missing}: it cannot be opened or written: No such file or directory; {end}"
    with pytest.raises(InputError) as refused:
        Store.read(missing)
    assert str(refused.value) == f"{missing}: there is no such store; to make a store, use kbsim sweep run"


def test_what_is_no_store(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("not a database at all, but long enough to be taken for a header of one " * 20, encoding="utf-8")
    remedy = "keep it aside and run the sweep into a new store; sqlite3's .recover may save its rows"
    assert refusal(text) == f"{text}: it is not a sound store of sweeps: file is not a database; {remedy}"
    other = tmp_path / "other.sqlite"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE songs (name TEXT)")
    database.close()
    assert refusal(other) == f"{other}: it is a database, but not a store of sweeps; name another file"
    newer = tmp_path / "newer.sqlite"
    Store.write(newer).close()
    database = sqlite3.connect(newer)
    database.execute("UPDATE meta SET value = 'kernbench/sweep-store/9'")
    database.commit()
    database.close()
    told = 'format = "kernbench/sweep-store/9", but this version reads kernbench/sweep-store/1; use the version that wrote it'
    assert refusal(newer) == f"{newer}: {told}"


def test_a_damaged_store(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store.write(path) as store:
        store.add([done(f"{i:064}") for i in range(500)])
    data = bytearray(path.read_bytes())
    data[3 * 4096 : 5 * 4096] = b"\xff" * 8192
    path.write_bytes(data)
    said = refusal(path)
    assert said.startswith(f"{path}: it is not a sound store of sweeps: ") and said.endswith(".recover may save its rows")


def test_merging_keeps_the_best_of_both(tmp_path: Path) -> None:
    for name, rows in (("a", [done("1"), failed_row("2", "timeout", "x")]), ("b", [done("2"), done("3")]), ("c", [done("3")])):
        with Store.write(tmp_path / name) as store:
            store.add(rows)
    merged = merge_into(tmp_path / "all", [tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert (merged.stores, merged.results, merged.new) == (3, 3, 3)
    with Store.read(tmp_path / "all") as store:
        assert store.statuses(["1", "2", "3"]) == dict.fromkeys("123", "done")
    assert merge_into(tmp_path / "all", [tmp_path / "a"]).new == 0


def test_merging_refuses_results_that_differ(tmp_path: Path) -> None:
    for name, cycles in (("a", 10), ("b", 11)):
        with Store.write(tmp_path / name) as store:
            store.add([done("k" * 64, cycles)])
    with pytest.raises(InputError) as refused:
        merge_into(tmp_path / "all", [tmp_path / "a", tmp_path / "b"])
    assert str(refused.value) == (
        f"{tmp_path / 'b'}: the result kkkkkkkkkkkkkkkk has cycles = 11 in it, and 10 in {tmp_path / 'all'}; "
        "one of the two was made by changed code of the same version: run these points again"
    )
    with pytest.raises(InputError, match="a store cannot be merged into itself"):
        merge_into(tmp_path / "a", [tmp_path / "a"])
