"""Checkpoint files: a run that stands still, with what it takes to know that it fits.

    KBCKPT 1\\n
    one line of JSON: versions, digests of machine and program, the cycle, size and SHA-256 of the state
    the state, zlib-compressed
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError, Problem

MAGIC = b"KBCKPT 1\n"
MAX_HEADER = 64 * 1024  # [B]
REMEDY = "make the checkpoint anew with `kbsim step --save`"


def write_checkpoint(path: str | os.PathLike[str], header: Mapping[str, Any], state: bytes) -> None:
    """Write a checkpoint; what stood at `path` is replaced only when the new file is complete.

    Raises InputError where the place cannot be written.
    """
    target = Path(path)
    body = zlib.compress(state, 1)
    head = {**header, "state_bytes": len(state), "sha256": hashlib.sha256(state).hexdigest()}
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=target.name, suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(MAGIC + json.dumps(head, sort_keys=True).encode() + b"\n" + body)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise InputError(
            Problem(str(path), f"the checkpoint cannot be written: {error.strerror}", remedy="choose another place")
        ) from error


def read_checkpoint(path: str | os.PathLike[str], expected: Mapping[str, Any]) -> bytes:
    """The state in a checkpoint whose header agrees with `expected`; InputError where it does not, or the file is damaged."""
    where = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            Problem(where, f"the checkpoint cannot be read: {error.strerror}", remedy="check the path")
        ) from error
    if not data.startswith(MAGIC):
        raise InputError(Problem(where, "it is no kernbench checkpoint of version 1", remedy=REMEDY))
    end = data.find(b"\n", len(MAGIC), len(MAGIC) + MAX_HEADER)
    try:
        header = json.loads(data[len(MAGIC) : end])
        size, digest = int(header["state_bytes"]), str(header["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(Problem(where, "the checkpoint's header is damaged", remedy=REMEDY)) from error
    for key, want in expected.items():
        if header.get(key) != want:
            raise InputError(
                Problem(where, f"it belongs to another {key}, not to this run's {want}", key, header.get(key), REMEDY)
            )
    return _state(where, data[end + 1 :], size, digest)


def _state(where: str, body: bytes, size: int, digest: str) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        state = unpacker.decompress(body, size + 1)
    except (zlib.error, ValueError, OverflowError) as error:
        raise InputError(Problem(where, "the checkpoint's state is damaged", remedy=REMEDY)) from error
    if len(state) != size or hashlib.sha256(state).hexdigest() != digest:
        raise InputError(Problem(where, "the checkpoint's state does not match its checksum", remedy=REMEDY))
    return state
