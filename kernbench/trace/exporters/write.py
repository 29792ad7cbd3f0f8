"""Writes a trace in another format, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from kernbench.trace.exporters.formats import TIMED, Format, TimeUnit
from kernbench.trace.exporters.sink import whole_file
from kernbench.trace.reader import Trace


def export(trace: Trace, form: Format, path: str | os.PathLike[str], time: TimeUnit = TimeUnit.NS) -> dict[str, int]:
    """Write a trace to a file in another format; how much of what was written.

    A trace that breaks off is written up to there: `trace.broken` tells. A name that ends in `.gz` or `.zst` is packed, but
    for Parquet, which packs by itself. InputError where a package is missing or the file cannot be written.
    """
    writer: Callable[..., dict[str, int]] = import_module(f"kernbench.trace.exporters.{form.value}").export
    with whole_file(path, pack=form is not Format.PARQUET) as out:
        return writer(trace, out, time) if form in TIMED else writer(trace, out)
