"""Pipes without writers, endless devices, files of /proc and directories in the place of every file that `kbsim` reads."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kernbench.common import files
from tests.cli.conftest import Kbsim

#: Arguments, and the suffix of the file that `{}` stands for.
READERS = {
    "program": (("run", "{}", "-c", "small.yaml"), ".json"),
    "yaml program": (("run", "{}", "-c", "small.yaml"), ".yaml"),
    "compiled program": (("run", "{}", "-c", "small.yaml"), ".kbp"),
    "machine": (("run", "tiles.json", "-c", "{}"), ".yaml"),
    "checkpoint": (("step", "tiles.json", "-c", "small.yaml", "-n", "1", "--from", "{}"), ".ckpt"),
    "spec": (("sweep", "run", "{}"), ".yaml"),
    "store": (("sweep", "report", "{}"), ".db"),
    "model": (("llm", "--model", "{}"), ".json"),
    "onnx": (("onnx", "{}"), ".onnx"),
    "noc log": (("noc", "replay", "{}", "--device", "wormhole"), ".json"),
    "algorithms": (("ccl", "list", "--ccl", "{}"), ".yaml"),
    "trace": (("trace", "summary", "{}"), ".jsonl"),
    "packed trace": (("trace", "summary", "{}"), ".jsonl.zst"),
    "counters": (("trace", "align", "t.jsonl", "{}"), ".csv"),
    "requests": (("serve", "run", "--dataset-path", "{}"), ".csv"),
    "lines of requests": (("serve", "run", "--dataset-name", "custom", "--dataset-path", "{}"), ".jsonl"),
}
LIMIT = 1 << 20


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "STREAM_BYTES", LIMIT)
    monkeypatch.setattr(files, "WRITER_SECONDS", 0.1)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/dev/urandom", "/proc/self/mem", "/proc/self/pagemap", "directory"])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses(kbsim: Kbsim, reader: str, kind: str) -> None:
    arguments, suffix = READERS[reader]
    if reader == "counters":
        kbsim("run", "tiles.json", "-c", "small.yaml", "--trace", "t.jsonl", "--quiet")
    place = Path(f"x{suffix}")
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to(kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = kbsim(*(argument.format(place) for argument in arguments))
    assert said.code == 2 and f"{place}:" in said.err, said.err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # [KiB]


def test_what_is_said(kbsim: Kbsim) -> None:
    Path("zero.kbp").symlink_to("/dev/zero")
    os.mkfifo("pipe.ckpt")
    said = kbsim("run", "zero.kbp")
    assert said.err == f"error: zero.kbp: the file is larger than the limit of {LIMIT} bytes; write it to a file first\n"
    said = kbsim("step", "tiles.json", "-c", "small.yaml", "-n", "1", "--from", "pipe.ckpt")
    assert said.err == "error: pipe.ckpt: the checkpoint is a pipe without a writer; start what writes to it first\n"


def test_a_full_disk_is_told_as_it_is() -> None:
    """A limit of the size of files stands for a full disk."""
    code = (
        "import resource, sys; from kernbench.cli.main import exit_code; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); "
        "sys.exit(exit_code(['run', 'tiles.json', '-c', 'small.yaml', '-q', '--trace', 't.jsonl', '--trace-level', 'access']))"
    )
    for limit in (100, 20_000):
        done = subprocess.run([sys.executable, "-c", code, str(limit)], capture_output=True, text=True, check=False)
        start = "error: t.jsonl: the trace cannot be written: File too large; "
        end = "; raise the limit of file sizes (ulimit -f), choose another place, or a smaller level\n"
        if limit == 100:
            told = "not one line was written whole, and the file is removed"
            assert not Path("t.jsonl").exists()
        else:
            kept = Path("t.jsonl").read_bytes()
            told = f"its first {len(kept):,} bytes are a valid trace that breaks off"
            assert kept.endswith(b"\n") and kept.startswith(b'{"event_type":"TRACE_META"')
        assert (done.returncode, done.stderr) == (2, start + told + end)
