"""`kbsim step --from` of checkpoints that tell more than they may have, or whose trace stands nowhere: each is refused."""

from __future__ import annotations

import functools
import json
import resource
import zlib
from pathlib import Path
from typing import Any

import pytest

from kernbench.sim_engine.checkpoint import MAGIC
from tests.cli.conftest import Kbsim
from tests.property.test_checkpoint_traces import checkpoint_of, parts_of

STEP = ("step", "tiles.json", "-c", "small.yaml", "-n", "1")
DAMAGED = "the checkpoint's state is damaged"
UNLIKE = "the checkpoint's state does not match its size and checksum: the file is cut off or damaged"
REMEDY = "make the checkpoint again with `kbsim step --save`"


@functools.cache
def bomb() -> bytes:
    """A compressed state that unpacks to 512 MiB of zeros: the same MiB again and again, and the checksum of all of them."""
    packer = zlib.compressobj(1, wbits=-15)
    mib = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    adler = (512 << 20) % 65521 << 16 | 1
    return b"\x78\x01" + 512 * mib + packer.flush() + adler.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("sizes", "rule"),
    [
        ({"state_bytes": 10**12}, f"{DAMAGED}: it has {10**12} bytes and 0 of its trace, and this run's has at most "),
        ({"state_bytes": 10**12, "trace_bytes": 10**12}, f"{DAMAGED}: it has 0 bytes and {10**12} of its trace, and this"),
        ({"state_bytes": 2**80}, f"{DAMAGED}: it has {2**80} bytes and 0 of its trace, and this run's has at most "),
        ({"trace_bytes": 2**62 - 1}, UNLIKE),
        ({"state_bytes": -1}, UNLIKE),
        ({"state_bytes": "7"}, "the checkpoint's header is damaged"),
        ({"sha256": None}, "the checkpoint's header is damaged"),
        ({"state_bytes": 100}, UNLIKE),
    ],
)  # fmt: skip
def test_sizes_are_compared_before_anything_is_unpacked(kbsim: Kbsim, sizes: dict[str, Any], rule: str) -> None:
    assert kbsim(*STEP, "--save", "x.ckpt").code == 0
    header, _, _ = Path("x.ckpt").read_bytes()[len(MAGIC) :].partition(b"\n")
    Path("y.ckpt").write_bytes(MAGIC + json.dumps({**json.loads(header), **sizes}).encode() + b"\n" + bomb())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = kbsim(*STEP, "--from", "y.ckpt")
    assert said.code == 2 and said.err.startswith(f"error: y.ckpt: {rule}") and said.err.endswith(f"; {REMEDY}\n"), said.err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # [KiB]


def test_a_header_that_is_too_deep_or_long(kbsim: Kbsim) -> None:
    for head in (b"[" * 60_000, b"{" + b" " * (1 << 20) + b"}", b"", b"7", b"\xff"):
        Path("y.ckpt").write_bytes(MAGIC + head + b"\n")
        said = kbsim(*STEP, "--from", "y.ckpt")
        assert (said.code, said.err) == (2, f"error: y.ckpt: the checkpoint's header is damaged; {REMEDY}\n")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"edge": 0}, "it is of cycle 700 in a window up to 0, and the run stands at 700"),
        ({"counted": 1}, "it is of cycle 1 in a window up to 1024, and the run stands at 700"),
        ({"records": "!"}, "its records are not base64"),
        ({"records": "AAAA"}, "3 bytes are no records of a trace"),
        ({"records": "A" * 128}, "record 0 is of cycle 0, and the run stands at 700"),
        ({"tokens": [[0, 0]]}, "its token groups are those of another program"),
        ({"lines": -1}, "Expected `int` >= 0 - at `$.lines`"),
        ({"more": 1}, "Object contains unknown field `more`"),
        ({"options": {"level": "x", "window": 1, "only": [], "cycles": None}}, 'trace: level = "x", but it must be one of'),
        ({"options": {"level": "full", "window": 0, "only": [], "cycles": None}}, "trace: window = 0, but a window must have"),
        ({"file_bytes": "x"}, "Expected `int | null`, got `str` - at `$.file_bytes`"),
    ],
)  # fmt: skip
def test_where_a_trace_stands(kbsim: Kbsim, change: dict[str, Any], rule: str) -> None:
    step = ("step", "tiles.json", "-c", "small.yaml", "-n", "700", "--trace", "t.jsonl")
    assert kbsim(*step, "--save", "x.ckpt").code == 0
    header, snapshot, state = parts_of(Path("x.ckpt").read_bytes())
    Path("y.ckpt").write_bytes(checkpoint_of(header, snapshot, json.dumps({**state, **change}).encode()))
    before = Path("t.jsonl").read_bytes()
    said = kbsim(*step, "--from", "y.ckpt")
    assert said.code == 2 and said.err.startswith(f"error: checkpoint: the state of its trace is damaged: {rule}"), said.err
    assert Path("t.jsonl").read_bytes() == before
