"""Writes a trace in another format, whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from importlib import import_module
from typing import BinaryIO, cast

from kernbench.common.files import check_writable, not_written, placed, target_of
from kernbench.trace.reader import Trace
from kernbench.trace.writer import zstd_module

_GZIP_LEVEL = 6


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], pack: bool = True) -> Iterator[BinaryIO]:
    """A context to write a file that gets its name when it is complete. A pipe or device is written directly.

    With `pack`, a file whose name ends in `.gz` or `.zst` is compressed. InputError if the file cannot be written.
    """
    check_writable(path)
    target = target_of(path)
    try:
        with placed(target) as raw, _packed(raw, target.suffix if pack else "") as out:
            yield out
    except OSError as error:
        raise not_written(path, error) from None


@contextlib.contextmanager
def _packed(raw: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".gz":  # without the file name and the time of day, so that the same input gives the same bytes
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as packed:
            yield cast(BinaryIO, packed)
    elif suffix == ".zst":
        with zstd_module().ZstdFile(raw, "wb") as packed:
            yield cast(BinaryIO, packed)
    else:
        yield raw


class Format(StrEnum):
    """The export formats of traces; each is a module of that name in this package."""

    CHROME = "chrome"
    PERFETTO = "perfetto"
    CSV = "csv"
    PARQUET = "parquet"
    JSONL = "jsonl"
    OTLP = "otlp"


TIMED = (Format.CHROME, Format.PERFETTO, Format.OTLP)  #: those that have nanoseconds and no cycles


class TimeUnit(StrEnum):
    """The meaning of a nanosecond of the viewer."""

    NS = "ns"  #: a nanosecond
    CYCLES = "cycles"  #: one cycle, for any clock frequency, so different cycles have different times


def export(
    trace: Trace, form: Format, path: str | os.PathLike[str], time: TimeUnit = TimeUnit.NS, origin_ns: int = 0
) -> dict[str, int]:
    """Write a trace to a file in another format; return the numbers of written items. `origin_ns`: of cycle 0, with OTLP.

    A truncated trace is written up to its end: `trace.broken` is then set. A file whose name ends in `.gz` or `.zst` is
    compressed, except Parquet, which has its own compression. InputError if a package is missing or the file cannot be written.
    """
    writer: Callable[..., dict[str, int]] = import_module(f"kernbench.trace.exporters.{form.value}").export
    with whole_file(path, pack=form is not Format.PARQUET) as out:
        if form is Format.OTLP:
            return writer(trace, out, time, origin_ns)
        return writer(trace, out, time) if form in TIMED else writer(trace, out)
