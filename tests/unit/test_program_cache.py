"""What stands in the cache of programs is trusted no more than a file, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernbench.cmdq import compiled as cache_module
from kernbench.cmdq.compiled import load_cached, pack, unpack
from kernbench.cmdq.plan import plan_program
from kernbench.cmdq.table_rules import broken_rule
from tests.unit.test_compiled_programs import NPU, kept, small


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that takes programs of any size."""
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_module, "SMALLEST", 0)
    return tmp_path / "cache" / "programs"


def test_a_pipe_or_a_device_in_the_cache_is_left_alone(home: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "small.json")
    small().save(path)
    load_cached(path, NPU)
    (place,) = kept(home)
    for make in (lambda: os.mkfifo(place), lambda: place.symlink_to("/dev/zero"), place.mkdir):
        place.rmdir() if place.is_dir() else place.unlink()
        make()
        assert load_cached(path, NPU) == small()


def test_tables_of_other_entries_in_the_cache_are_made_anew(home: Path, tmp_path: Path) -> None:
    """Sealed, of this machine, and such that the core could run them."""
    path = str(tmp_path / "small.json")
    small().save(path)
    load_cached(path, NPU)
    (place,) = kept(home)
    good = place.read_bytes()
    found = unpack(good)
    assert found.tables is not None
    found.tables["compute"]["body"][0] += 1
    assert broken_rule(found.tables, 6, plan_program(small(), NPU)) is None
    place.write_bytes(pack(found.name, found.entries, found.machine, found.tables))
    assert load_cached(path, NPU) == small()
    assert place.read_bytes() == good
