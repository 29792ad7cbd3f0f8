"""Files that are read up to a limit, and where files may be written, before anything is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kernbench.common import files as files_module
from kernbench.common.errors import InputError
from kernbench.common.files import check_apart, check_writable, read_bounded, text_lines, write_whole


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text("{}")
    (tmp_path / "link.json").symlink_to(source)
    for name in ("in.json", "link.json", "../" + tmp_path.name + "/in.json"):
        with pytest.raises(InputError, match="it cannot be written: the command reads it; choose another place"):
            check_apart((None, tmp_path / name), (None, "npu_mobile", source))
    check_apart((tmp_path / "out.json", None), (source, "npu_mobile"))
    check_apart(("npu_mobile",), ("npu_mobile",))  # a preset's name is not a file


def test_two_options_do_not_name_one_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it cannot be written: two options name it"):
        check_apart((tmp_path / "a", tmp_path / "b", tmp_path / "x" / ".." / "a"), ())
    check_apart(("/dev/null", "/dev/null"), ("/dev/null",))


def test_a_dash_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it is stdout; here a file of that name was left behind."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="-: it cannot be written: it is not a file name; give /dev/stdout for stdout"):
        check_writable("-")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there such a link is what is replaced")
def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="it cannot be written: its links form a cycle"):
        check_writable(loop)
    with pytest.raises(InputError, match="it cannot be written: its links form a cycle"):
        write_whole(loop, b"")


def refused(path: Path, limit: int = 100) -> str:
    with pytest.raises(InputError) as error:
        read_bounded(path, limit, what="the log", remedy="make it smaller")
    return str(error.value).removeprefix(f"{path}: ")


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a" * 100)
    assert read_bounded(path, 100) == b"a" * 100
    assert refused(path, 99) == "the log is larger than the limit of 99 bytes; make it smaller"
    with path.open("wb") as file:
        file.truncate(2**40)
    assert refused(path) == "the log is larger than the limit of 100 bytes; make it smaller"
    path.write_bytes(b"")
    assert read_bounded(path, 0) == b""


def test_special_files_are_read_up_to_the_limit_of_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "STREAM_BYTES", 1 << 20)
    assert refused(Path("/dev/zero")) == "the log is larger than the limit of 100 bytes; make it smaller"
    assert refused(Path("/dev/zero"), 1 << 40) == "the log is larger than the limit of 1048576 bytes; write it to a file first"
    assert refused(tmp_path) == "the log cannot be read: Is a directory"
    assert refused(tmp_path / "no") == "the log does not exist"
    assert "the log cannot be read" in refused(Path("/proc/self/mem"))
    assert read_bounded("/proc/self/status", 1 << 20).startswith(b"Name:")
    assert read_bounded("/dev/null", 10) == b""


def test_a_pipe_is_read_while_somebody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer is waited for a little, one that is there as long as it takes; one that never ends is cut off."""
    monkeypatch.setattr(files_module, "WRITER_SECONDS", 0.2)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    begin = time.monotonic()
    assert refused(path) == "the log is a pipe without a writer; start what writes to it first"
    assert time.monotonic() - begin < 5

    def write(*parts: bytes) -> threading.Thread:
        def work() -> None:
            with suppress(BrokenPipeError), path.open("wb", buffering=0) as file:
                for part in parts:
                    time.sleep(0.3)
                    file.write(part)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    for parts in ((b"one", b"two"), (b"",)):
        thread = write(*parts)
        assert read_bounded(path, 6) == b"".join(parts)
        thread.join()
    thread = write(*[b"x" * 65536] * 3)
    assert refused(path) == "the log is larger than the limit of 100 bytes; make it smaller"
    thread.join()


def test_process_substitution(tmp_path: Path) -> None:
    """`<(cmd)` of a shell: a pipe under /dev/fd."""
    code = "import sys; from kernbench.common.files import read_bounded; print(len(read_bounded(sys.argv[1], 10**6)))"
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c '{code}' <(sleep 0.3; seq 10000)"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "48894\n"


def test_lines_of_text_are_read_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\n\n3,4")
    assert list(text_lines(file, 10)) == ["a,b\r\n", "1,2\n", "\n", "3,4"]
    file.write_bytes(b"12345678\n" + b"x" * 10)
    lines = text_lines(file, 10)
    assert next(lines) == "12345678\n"
    with pytest.raises(InputError) as error:
        next(lines)
    assert str(error.value) == f"{file}:2: a line must have fewer than 10 characters"
    file.write_bytes(b"\xff")
    with pytest.raises(InputError, match="it must be UTF-8 text"):
        list(text_lines(file, 10))
    with pytest.raises(InputError, match=r"the file does not exist; did you mean .*a.csv"):
        list(text_lines(tmp_path / "a.cvs", 10))


def test_a_sparse_file_of_a_terabyte_has_a_line_that_is_too_long(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    with file.open("wb") as made:
        made.truncate(1 << 40)
    with pytest.raises(InputError, match=r"a.csv:1: a line must have fewer than 1000 characters"):
        next(text_lines(file, 1000))
