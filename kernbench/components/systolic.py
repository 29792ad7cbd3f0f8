"""Cycles of a product on a systolic array (docs/model/compute.md): folds, their fill and drain, and operand stalls."""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.config.schema import Te


@dataclass(frozen=True, slots=True)
class Folds:
    """A product `(m, k) @ (k, n)` as folds of an array; all count as the largest does."""

    count: int
    steps: int  #: [cycle] the stream of a fold at full rate
    load: int  #: [cycle] the stationary operand enters the array; 0 for `os`
    stream_bits: int  #: [bit] that stream into the array
    held_bits: int  #: [bit] of the stationary operand


def folds(te: Te, m: int, n: int, k: int, qbits_weight: int, qbits_activation: int) -> Folds:
    """The folds of a product on the array of `te`."""
    if te.rows is None or te.cols is None:
        raise InternalError("a systolic te without rows and cols")
    rows, cols = te.rows, te.cols
    tall, wide = min(k, rows), min(n, cols)
    if te.dataflow == "os":
        stream = k * (min(m, rows) * qbits_activation + wide * qbits_weight)
        return Folds(ceil_div(m, rows) * ceil_div(n, cols), k, 0, stream, 0)
    if te.dataflow == "ws":
        count = ceil_div(k, rows) * ceil_div(n, cols)
        return Folds(count, m, rows, m * tall * qbits_activation, tall * wide * qbits_weight)
    if te.dataflow == "is":
        count = ceil_div(k, rows) * ceil_div(m, cols)
        return Folds(count, n, rows, n * tall * qbits_weight, tall * min(m, cols) * qbits_activation)
    raise InternalError(f"te.dataflow {te.dataflow} has no formula")


def systolic_body(te: Te, m: int, n: int, k: int, qbits_weight: int, qbits_activation: int) -> int:
    """[cycle] of the array of `te` for the body of a product `(m, k) @ (k, n)`, at the clock of the machine."""
    fold = folds(te, m, n, k, qbits_weight, qbits_activation)
    drain = (te.rows or 0) + (te.cols or 0) - 2
    load, last = max(fold.load, _feed(te, fold.held_bits)), max(fold.steps, _feed(te, fold.stream_bits)) + drain
    if te.fill == "exposed":
        return fold.count * (load + last) - 1
    between = max(fold.steps, te.rows or 0, _feed(te, fold.stream_bits + fold.held_bits))
    return load + (fold.count - 1) * between + last - 1


def _feed(te: Te, bits: int) -> int:
    """[cycle] in which so many bits of operands enter the array, by `operand_bytes_per_cycle`; 0 without it."""
    return 0 if te.operand_bytes_per_cycle is None else ceil_div(bits, 8, te.operand_bytes_per_cycle)
