"""Checkpoint files: the state of a run, and the data to check that it fits.

KBCKPT 1\\n
one line of JSON: versions, digests of machine and program, the cycle, size and SHA-256 of the state
the state (the snapshot, then where the trace stands, as JSON), zlib-compressed
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

from kernbench.common.errors import InputError, Problem, shown
from kernbench.common.files import read_bounded, write_whole

MAGIC = b"KBCKPT 1\n"
MAX_HEADER = 64 * 1024  # [B]
FILE_BYTES = 1 << 30  # [B] of a checkpoint file
REPLAYED = 4096  # [B] limit of the state of a machine with components: a cycle and a digest
TRACE_BYTES = 64 << 20  # [B] limit of the state of a trace: records that are not written, totals of banks
REMEDY = "make the checkpoint again with `kbsim step --save`"
MISMATCH = {
    "version": ("the checkpoint is of another version of kernbench", REMEDY),
    "model_version": ("the checkpoint is of other timing rules", REMEDY),
    "core": ("the checkpoint is of another build of the core", REMEDY),
    "machine": ("the checkpoint is of another machine", "give the --config and --set it was saved with"),
    "program": ("the checkpoint is of another program", "give the program it was saved with"),
    "components": ("the checkpoint is of a machine with other components", "give the components it was saved with"),
}  #: key of the header: the rule and the remedy where it differs


def write_checkpoint(path: str | os.PathLike[str], header: Mapping[str, Any], snapshot: bytes, trace: bytes = b"") -> None:
    """Write a checkpoint; the previous file at `path` is replaced only when the new file is complete. `trace`: the state of the
    trace.

    Raises InputError if the file cannot be written.
    """
    state = snapshot + trace
    sizes = {"state_bytes": len(state), "trace_bytes": len(trace)}
    head = {**header, **sizes, "sha256": _digest(state, len(trace))}
    write_whole(path, MAGIC + json.dumps(head, sort_keys=True).encode() + b"\n" + zlib.compress(state, 1))


def read_checkpoint(
    path: str | os.PathLike[str], expected: Mapping[str, Any], most_state_bytes: int, most_trace_bytes: int = TRACE_BYTES
) -> tuple[bytes, bytes]:
    """Read the snapshot and the trace state of a checkpoint whose header agrees with `expected`.

    `most_state_bytes`, `most_trace_bytes`: the largest sizes for the run that reads it; nothing larger is unpacked. InputError
    if the file is from another run, is larger, or is damaged.
    """
    where = os.fspath(path)
    data = read_bounded(path, FILE_BYTES, what="the checkpoint", remedy=REMEDY, unread="check the path")
    if not data.startswith(MAGIC):
        raise InputError(Problem(where, "it is not a kernbench checkpoint of version 1", remedy=REMEDY))
    end = data.find(b"\n", len(MAGIC), len(MAGIC) + MAX_HEADER + 1)
    try:
        header = json.loads(data[len(MAGIC) : max(end, 0)])
        size, trace, digest = header["state_bytes"], header["trace_bytes"], header["sha256"]
        if (type(size), type(trace), type(digest)) != (int, int, str):
            raise ValueError("a size is an integer")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(Problem(where, "the checkpoint's header is damaged", remedy=REMEDY)) from None
    for key, want in expected.items():
        if header.get(key) != want:
            rule, remedy = MISMATCH[key]
            raise InputError(Problem(where, f"{rule}, and this run's is {shown(want)}", key, header.get(key), remedy))
    whole = 0 <= trace <= size
    if whole and (trace > most_trace_bytes or size - trace > most_state_bytes):
        rule = f"the checkpoint's state is damaged: it has {size - trace} bytes and {trace} of its trace"
        most = f"and this run's has at most {most_state_bytes} and {most_trace_bytes}"
        raise InputError(Problem(where, f"{rule}, {most}", remedy=REMEDY))
    state = _state(where, memoryview(data)[end + 1 :], size) if whole else b""
    if not whole or len(state) != size or _digest(state, trace) != digest:
        rule = "the checkpoint's state does not match its size and checksum: the file is cut off or damaged"
        raise InputError(Problem(where, rule, remedy=REMEDY))
    return state[: size - trace], state[size - trace :]


def replayed(where: str, state: bytes) -> tuple[int, str]:
    """For a machine with components, whose run is repeated: the last cycle to repeat, and the digest of the state at this
    cycle."""
    try:
        body = json.loads(state)
        if type(body["cycle"]) is int and body["cycle"] >= 0 and isinstance(body["digest"], str):
            return body["cycle"], body["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InputError(Problem(where, "it is not a checkpoint of a machine with components", remedy=REMEDY))


def _digest(state: bytes, trace: int) -> str:
    """The checksum of the state, and of the offset of the trace state."""
    return hashlib.sha256(b"%d\n" % trace + state).hexdigest()


def _state(where: str, body: memoryview, size: int) -> bytes:
    """The unpacked bytes; their number differs from `size` if the file has more or less."""
    unpacker = zlib.decompressobj()
    try:
        # One byte more than the declared size, so that a larger file is detected without unpacking all of it.
        state = unpacker.decompress(body, size + 1)
    except zlib.error:
        raise InputError(Problem(where, "the checkpoint's state is damaged", remedy=REMEDY)) from None
    return state if unpacker.eof and not unpacker.unused_data else b""
