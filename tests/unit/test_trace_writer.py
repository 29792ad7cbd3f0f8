"""Trace files being written: whole units, whatever happens to the writer."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError, Problem
from kernbench.trace import writer
from kernbench.trace.files import blocks
from kernbench.trace.writer import TraceFile

NAMES = ("t.jsonl", "t.jsonl.gz", "t.jsonl.zst")
REMEDY = "choose another place, or a smaller level"
LIMIT = "raise the limit of file sizes (ulimit -f), "
LINES = [b'{"line":%d,"text":"%s"}\n' % (k, b"x" * (k % 50)) for k in range(3000)]


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "CHUNK", 4096)


def text_of(path: Path) -> bytes:
    return b"".join(blocks(str(path)))


@pytest.mark.parametrize("name", NAMES)
def test_many_units_read_back_as_one_text(tmp_path: Path, name: str) -> None:
    with TraceFile(tmp_path / name) as file:
        for line in LINES:
            file.write(line)
    assert text_of(tmp_path / name) == b"".join(LINES)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_flushed_is_there_without_a_close(tmp_path: Path, name: str) -> None:
    file = TraceFile(tmp_path / name)
    file.write(LINES[0])
    size = file.flush()
    file.write(LINES[1])
    assert (tmp_path / name).stat().st_size == size
    assert text_of(tmp_path / name) == LINES[0]
    file.close()


@pytest.mark.parametrize("name", NAMES)
def test_goes_on_where_a_checkpoint_left_it(tmp_path: Path, name: str) -> None:
    with TraceFile(tmp_path / name) as file:
        file.write(b"".join(LINES[:100]))
        size = file.flush()
        file.write(b"lost\n" * 1000)
    with TraceFile(tmp_path / name, go_on_at=size) as file:
        file.write(b"".join(LINES[100:]))
    assert text_of(tmp_path / name) == b"".join(LINES)


def test_a_shorter_file_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"short\n")
    with pytest.raises(InputError, match="it has fewer than the 7 bytes that the checkpoint saw"):
        TraceFile(path, go_on_at=7)
    assert path.read_bytes() == b"short\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_a_valid_beginning(tmp_path: Path, name: str) -> None:
    class Full:
        """A file on a disk with room for one more unit."""

        def __init__(self, file: Any) -> None:
            self.file, self.left = file, 1

        def write(self, data: bytes) -> int:
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.left -= 1
            return int(self.file.write(data))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    file = TraceFile(tmp_path / name)
    file.flush()  # it is opened
    file._file = Full(file._file)  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"the trace cannot be written: No space left on device.*valid trace"), file:
        for line in LINES:
            file.write(line)
    text = text_of(tmp_path / name)
    assert text and b"".join(LINES).startswith(text) and text.endswith(b"\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_said_where_the_last_unit_is_small() -> None:
    with pytest.raises(InputError, match="cannot be written: No space left on device"), TraceFile("/dev/full") as file:
        file.write(LINES[0])
        file.flush()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_a_pipe_gets_the_whole_text() -> None:
    ours, theirs = os.pipe()
    with TraceFile(f"/dev/fd/{theirs}") as file:
        file.write(LINES[0])
        assert file.flush() == len(LINES[0])
        file.write(LINES[1])
    os.close(theirs)
    with open(ours, "rb") as pipe:
        assert pipe.read() == LINES[0] + LINES[1]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_a_run_goes_on_while_a_unit_is_written() -> None:
    ours, theirs = os.pipe()
    text = b"".join(LINES) * 3  # more than a pipe holds
    file = TraceFile(f"/dev/fd/{theirs}")
    file.write(text)  # does not wait for a reader
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path(f"/dev/fd/{ours}").read_bytes()))
    reader.start()
    file.write(LINES[0])
    file.close()
    os.close(theirs)
    reader.join()
    os.close(ours)
    assert read == [text + LINES[0]]
    assert "trace file" not in [thread.name for thread in threading.enumerate()]


def test_an_error_ends_the_thread(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "t.jsonl")
    file.flush()
    assert file._file is not None
    file._file.close()
    with pytest.raises(ValueError, match="closed file"):
        for line in LINES:
            file.write(line)
    assert "trace file" not in [thread.name for thread in threading.enumerate()]


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no directory"):
        TraceFile(tmp_path / "no" / "t.jsonl")
    with pytest.raises(InputError, match="it is a directory"):
        TraceFile(tmp_path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("room", [0, 1, 50, 5000, 60_000, 150_000])
def test_what_is_said_after_a_full_disk_is_true(tmp_path: Path, name: str, room: int) -> None:
    """A real limit of the size of files: the text that is left is whole lines from the beginning, or there is no file."""
    path = tmp_path / name
    lines = [b'{"line":%d,"text":"%s"}\n' % (k, os.urandom(40).hex().encode()) for k in range(4000)]  # packed: a half of it
    code = textwrap.dedent(f"""
        import resource, sys
        from kernbench.common.errors import InputError
        from kernbench.trace import writer
        writer.CHUNK = 1 << 17
        lines = sys.stdin.buffer.read().splitlines(keepends=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
        try:
            with writer.TraceFile({str(path)!r}) as file:
                for line in lines:
                    file.write(line)
        except InputError as error:
            print(error, end="")
    """)
    done = subprocess.run([sys.executable, "-c", code], input=b"".join(lines), capture_output=True, check=True)
    said = done.stdout.decode()
    start = f"{path}: the trace cannot be written: File too large; "
    if path.exists():
        kept = path.stat().st_size
        text = text_of(path)
        assert 0 < kept <= room and text.endswith(b"\n") and b"".join(lines).startswith(text)
        assert said == f"{start}its first {kept:,} bytes are a valid trace that breaks off; {LIMIT}{REMEDY}"
        if name.endswith(".jsonl"):
            assert kept > room - len(lines[0]) - 10  # to the last line that is whole
    else:
        assert said == f"{start}not one line was written whole, and the file is removed; {LIMIT}{REMEDY}"
        assert room <= 50 or not name.endswith(".jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_nothing_is_said_of_what_a_device_took(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").symlink_to("/dev/full")
    rule = f"the trace cannot be written: No space left on device; make room, {REMEDY}$"
    with pytest.raises(InputError, match=rule), TraceFile(tmp_path / "t.jsonl") as file:
        file.write(LINES[0])


def test_a_trace_that_goes_on_keeps_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(LINES[:2]) + b"later")
    before = len(b"".join(LINES[:2]))
    code = (
        "import resource; from kernbench.trace.writer import TraceFile; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({before + 5},) * 2); "
        f"file = TraceFile({str(path)!r}, go_on_at={before}); file.write(b'x' * 99); file.flush()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"its first {before:,} bytes are a valid trace that breaks off" in done.stderr
    assert path.read_bytes() == b"".join(LINES[:2])


def test_a_trace_is_written_if_no_thread_may_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with TraceFile(tmp_path / "t.jsonl") as file:
        for line in LINES:
            file.write(line)
    assert (tmp_path / "t.jsonl").read_bytes() == b"".join(LINES)


def slow_packer(seconds: float) -> Any:
    class Slow:
        def pack(self, text: bytes) -> bytes:
            time.sleep(seconds)
            return text

    return Slow()


def test_a_run_that_is_refused_keeps_what_a_thread_has_not_written_yet(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "t.jsonl")
    file._packer = slow_packer(0.1)
    with pytest.raises(InputError, match="refused"), file:
        for line in LINES[:200]:
            file.write(line)
        assert file._file is None  # it is opened in the thread, after the first unit is packed
        raise InputError(Problem("run", "it is refused"))
    assert (tmp_path / "t.jsonl").read_bytes() == b"".join(LINES[:200])
    assert "trace file" not in [thread.name for thread in threading.enumerate()]


def test_nothing_follows_text_that_could_not_be_packed(tmp_path: Path) -> None:
    class FailsOnce:
        packed = 0

        def pack(self, text: bytes) -> bytes:
            self.packed += 1
            if self.packed == 2:
                raise MemoryError
            return text

    file = TraceFile(tmp_path / "t.jsonl")
    file._packer = FailsOnce()
    with pytest.raises(MemoryError), file:
        for line in LINES:
            file.write(line)
    text = (tmp_path / "t.jsonl").read_bytes()
    assert text and b"".join(LINES).startswith(text)


def test_a_close_that_is_interrupted_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TraceFile(tmp_path / "t.jsonl")
    file._packer = slow_packer(0.5)
    for line in LINES[:200]:
        file.write(line)
    original = threading.Thread.join

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", join)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            file.close()
    monkeypatch.setattr(threading.Thread, "join", original)
    file.close()
    assert (tmp_path / "t.jsonl").read_bytes() == b"".join(LINES[:200])
