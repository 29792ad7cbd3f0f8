"""Optional packages, the extras of kernbench: data frames and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any, Literal, TypeAlias

from kernbench.common.errors import InputError, Problem
from kernbench.common.look.plots import settings

Library: TypeAlias = Literal["polars", "pandas"]


def optional(module: str, extra: str, what: str) -> Any:
    """Import a module of an extra; if it is not installed, raise InputError with the name of the extra. `what`: the feature
    that needs the module."""
    try:
        return import_module(module)
    except ImportError:
        rule = f"{what} needs {module.partition('.')[0]}, which is not installed"
        raise InputError(Problem("kernbench", rule, remedy=f"pip install 'kernbench[{extra}]'")) from None


def frame_of(rows: Sequence[Mapping[str, Any]], library: Library = "polars") -> Any:
    """The rows as a DataFrame, with columns in the order of their first occurrence; a row without a column's name has null in
    the column.

    InputError for a library other than `polars` or `pandas`, and if the library is not installed.
    """
    if library not in ("polars", "pandas"):
        raise InputError(Problem("to_frame", "it must be polars or pandas", "library", library))
    module = optional(library, "analysis" if library == "polars" else "pandas", "a data frame")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [_plain(row.get(name)) for row in rows] for name in names}
    return module.DataFrame(columns, strict=False) if library == "polars" else module.DataFrame(columns)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else list(value) if isinstance(value, tuple) else value


def new_axes(width: float = 9, height: float = 4) -> Any:
    """The `Axes` of a new matplotlib figure [inch]; InputError if matplotlib is not installed."""
    pyplot = optional("matplotlib.pyplot", "plot", "a plot")
    with pyplot.rc_context(settings()):
        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
