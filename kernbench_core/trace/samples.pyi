"""Samples of a window as lines of JSON."""

from typing import Any

class Samples:
    """Lines of one form, of rows of numbers that are each of one unit."""

    def __init__(self, start: bytes, units: list[bytes], texts: list[bytes], kept: bytes) -> None: ...
    def lines(self, cycle: int, length: int, numbers: Any) -> tuple[bytes, int, bytes]:
        """`(lines, how many, works)` of a window of `length` cycles that ends with `cycle`: of each row that is not all zeros.
        `works`: which rows these are, one byte each, also those that are not kept.

        `numbers`: int64 array, a row a unit. ValueError where its shape is another.
        """
