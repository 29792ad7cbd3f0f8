"""Columns of the page of a sweep in few bytes: a browser reads them in a fraction of the time that JSON numbers take."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

PLACES = {1: "<u1", 2: "<u2", 4: "<u4"}  #: types of places by their size in bytes
FEW = 4  #: a column has few different values if each stands for so many points


def packed(values: Sequence[Any]) -> dict[str, Any]:
    """A column of numbers, texts and None.

    Few different values, or values that are not all numbers: `levels`, and for each point the place of its value among them,
    little-endian integers of `size` bytes. Numbers otherwise: 64-bit floats, NaN for None. Both as base64 in `at`.
    """
    number: dict[Any, int] = {}
    places = [number.setdefault(value, len(number)) for value in values]
    if len(number) * FEW > len(values) and not any(isinstance(value, str) for value in number):
        return {"at": _text(np.array([np.nan if value is None else float(value) for value in values], dtype="<f8"))}
    size = next(size for size in PLACES if len(number) <= 256**size)
    return {"levels": list(number), "size": size, "at": _text(np.array(places, dtype=PLACES[size]))}


def _text(data: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(data.tobytes()).decode()
