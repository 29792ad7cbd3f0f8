"""Data of small texts is kept by their content: the same data, never a damaged one, and no reader is imported for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kernbench.common import parse_cache
from kernbench.common.parse_cache import cache_folder, kept
from kernbench.config import load_config
from kernbench.config.document import text_document

TEXT = "a: 1\nb: [1.5, x, null, true]\n8: {c: -3}\n"
DATA = {"a": 1, "b": [Fraction(3, 2), "x", None, True], 8: {"c": -3}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))
    return tmp_path / "texts"


def never() -> Any:
    raise AssertionError("it was kept")


def test_the_same_data_from_the_cache(home: Path) -> None:
    assert text_document(TEXT, "one.yaml", ".yaml").data == DATA
    (file,) = home.iterdir()
    kinds = [(type(key), type(value)) for key, value in DATA.items()]
    again = text_document(TEXT, "another.yaml", ".yaml").data
    assert again == DATA and [(type(key), type(value)) for key, value in again.items()] == kinds
    assert [type(one) for one in again["b"]] == [Fraction, str, type(None), bool] and [*home.iterdir()] == [file]


def test_each_text_and_reader_has_its_own(home: Path) -> None:
    one, other = Path(__file__), Path(parse_cache.__file__)
    assert kept(str(one), "t", lambda: [1]) == [1] and kept(str(one), "t", never) == [1]
    assert kept(str(one), "u", lambda: [2]) == [2]
    assert kept(str(other), "t", lambda: [3]) == [3] and kept(str(one), "t", never) == [1]


def test_a_reader_that_changed_reads_again(tmp_path: Path) -> None:
    reader = tmp_path / "reader.py"
    reader.write_text("1")
    assert kept(str(reader), "t", lambda: [1]) == [1]
    reader.write_text("22")
    assert kept(str(reader), "t", lambda: [2]) == [2]


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 200])
def test_a_damaged_file_is_replaced(home: Path, damage: bytes) -> None:
    kept(__file__, "t", lambda: [1])
    (file,) = home.iterdir()
    sound = file.read_bytes()
    file.write_bytes(damage)
    assert kept(__file__, "t", lambda: [1]) == [1]
    assert file.read_bytes() == sound


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "an endless file"])
def test_what_is_no_file_is_not_waited_for(home: Path, kind: str) -> None:
    kept(__file__, "t", lambda: [1])
    (file,) = home.iterdir()
    file.unlink()
    if kind == "a pipe":
        os.mkfifo(file)
    elif kind == "a folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    assert kept(__file__, "t", lambda: [2]) == [2]


@pytest.mark.parametrize("data", [{"a": 2**70}, ["\ud800"], [object]])
def test_data_without_a_binary_form_is_not_kept(home: Path, data: Any) -> None:
    assert kept(__file__, "t", lambda: data) is data and not home.exists()


def test_off_a_file_in_the_way_and_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_CACHE", "off")
    assert kept(__file__, "t", lambda: [1]) == [1] and kept(__file__, "t", lambda: [2]) == [2]
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("KERNBENCH_CACHE", str(blocked))
    assert kept(__file__, "t", lambda: [1]) == [1] and blocked.read_text() == ""
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path))
    with pytest.raises(ZeroDivisionError):
        kept(__file__, "t", lambda: 1 // 0)
    assert kept(__file__, "t", lambda: [3]) == [3]


def test_the_folder_is_named_or_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_CACHE", "off")
    assert cache_folder("texts") is None
    monkeypatch.delenv("KERNBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder("texts") == tmp_path / "xdg" / "kernbench" / "texts"


def test_only_the_newest_are_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_cache, "MAX_KEPT", 3)
    for k in range(6):
        kept(__file__, str(k), lambda: [0])
    assert len([*home.iterdir()]) == 3 and kept(__file__, "5", never) == [0]


def test_a_machine_that_is_kept_is_the_same_and_needs_no_reader(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text("schema: kernbench/npu/1\ndram: {channels: 2, bus_width_bytes: 32}\nfreq_ghz: 1.5\n")
    first = load_config(str(path)).to_dict()
    code = (
        "import json, sys; from kernbench.config import load_config; "
        f"print(json.dumps(load_config({str(path)!r}).to_dict())); assert 'yaml' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == first
