"""Samples of a window as lines of JSON."""

from typing import Any

class Samples:
    """Lines of one form, of rows of numbers that are each of one unit."""

    def __init__(self, start: bytes, units: list[bytes], texts: list[bytes], kept: bytes, *, timed: bool = True) -> None: ...
    def windows(self, cycles: list[int], lengths: list[int], numbers: Any) -> list[tuple[bytes, int, bytes]]:
        """`(lines, how many, works)` of each window: the lines of its rows of numbers that are not all zeros.
        `works`: which rows these are, one byte each, also those that are not kept.

        `cycles`: the last cycle of each window. `lengths`: their lengths. `numbers`: int64 array of
        all rows of the first window, then of the second, and so on. ValueError where its shape is another.
        """
