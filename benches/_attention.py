"""Attention block by block with a running maximum and sum, as kernels do it and as references check it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from kernbench.benches._blocks import Work
from kernbench.benches._reference import product, rounded
from kernbench.common.dtypes import Array


class Running:
    """The state of softmax(q @ k.T * scale) @ v in a kernel, over the blocks so far. Sums are f32; weights are rounded for the
    product.

    Its steps belong to the work on a block of queries, and wait with it.
    """

    def __init__(self, q: Any, scale: float, tl: Any) -> None:
        self.q, self.scale, self.tl = q, scale, tl
        self.largest: Any = None
        self.total: Any = None
        self.mixed: Any = None

    def add(self, k: Any, v: Any) -> Work:
        """One more block of keys and values, both loaded."""
        tl = self.tl
        products = tl.dot(self.q, k, out_dtype="f32", transpose_b=True)
        scores = yield from self._done((yield from self._done(products)) * self.scale)
        del products  # its scratchpad space can be reused
        largest = yield from self._done(tl.max(scores, axis=1, keep_dims=True))
        if self.largest is not None:
            largest = yield from self._done(tl.maximum(self.largest, largest))
        weights = yield from self._done(tl.exp((yield from self._done(scores - largest))))
        total = yield from self._done(tl.sum(weights, axis=1, keep_dims=True))
        mixed = yield from self._done(tl.dot((yield from self._done(tl.cast(weights, v.dtype))), v, out_dtype="f32"))
        if self.largest is not None:
            fade = yield from self._done(tl.exp((yield from self._done(self.largest - largest))))
            total = yield from self._done((yield from self._done(self.total * fade)) + total)
            mixed = yield from self._done((yield from self._done(self.mixed * fade)) + mixed)
        self.largest, self.total, self.mixed = largest, total, mixed

    def result(self, dtype: str) -> Generator[None, None, Any]:
        """The attention over all blocks, rounded to `dtype`."""
        return (yield from self._done(self.tl.cast((yield from self._done(self.mixed / self.total)), dtype)))

    def _done(self, handle: Any) -> Generator[None, None, Any]:
        yield
        self.tl.wait(handle)
        return handle


def blockwise(q: Array, blocks: list[tuple[Array, Array]], scale: float, dtype: str) -> Array:
    """The reference: the same blocks in the same order, in f32 except for the weights."""
    largest = total = mixed = None
    for k, v in blocks:
        scores = product(q, k.T) * np.float32(scale)
        top = scores.max(axis=1, keepdims=True)
        top = top if largest is None else np.maximum(largest, top)
        weights = np.exp(scores - top)
        fresh = np.sum(weights, axis=1, keepdims=True, dtype=np.float32)
        seen = product(rounded(weights, dtype), v)
        if largest is not None:
            fade = np.exp(largest - top)
            fresh, seen = total * fade + fresh, mixed * fade + seen
        largest, total, mixed = top, fresh, seen
    assert mixed is not None and total is not None
    return rounded(mixed / total, dtype)
