"""A file that is written piece by piece and is there whole, or as it was before."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Iterator
from typing import BinaryIO, cast

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import check_writable, placed, target_of
from kernbench.trace.writer import zstd_module

_GZIP_LEVEL = 6


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], pack: bool = True) -> Iterator[BinaryIO]:
    """Where to write the bytes of a file; it takes its name when all are written. A pipe or device is written to as it is.

    Where `pack`, a name that ends in `.gz` or `.zst` is packed so. InputError where it cannot be written.
    """
    check_writable(path)
    target = target_of(path)
    try:
        with placed(target) as raw, _packed(raw, target.suffix if pack else "") as out:
            yield out
    except OSError as error:
        raise InputError(Problem(os.fspath(path), f"it cannot be written: {error.strerror or error}")) from None


@contextlib.contextmanager
def _packed(raw: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".gz":  # neither the name nor the time of day in it: the same input, the same bytes
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as packed:
            yield cast(BinaryIO, packed)
    elif suffix == ".zst":
        with zstd_module().ZstdFile(raw, "wb") as packed:
            yield cast(BinaryIO, packed)
    else:
        yield raw
