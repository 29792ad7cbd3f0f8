"""Service times of tensor and vector engines (docs/model/compute.md): cycles of work, without waits, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import msgspec

from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.common.vector_ops import REDUCTIONS
from kernbench.config.mma import Mma, MmaShape
from kernbench.config.schema import Te, Ve

WHOLE = Fraction(1)
_PLAIN = frozenset({"add", "mul", "copy"})  # elementwise ops without an `sfu` entry


class ServiceTime(msgspec.Struct, frozen=True):
    """Cycles of one job; only the body streams operands."""

    init: int
    body: int
    finalize: int
    parts: ArrayParts | None = None  #: of the body, on arrays whose jobs overlap

    @property
    def total(self) -> int:
        """[cycle] From start to end without waits and with period 1; at least 1."""
        return self.init + self.body + self.finalize


class ArrayParts(msgspec.Struct, frozen=True):
    """The parts of the body of a job that decide how it overlaps with its neighbours in an array, in cycles of the machine."""

    load: int  #: in which the stationary operand is loaded, if the operand port is free
    port: int  #: in which the stationary operand passes the operand port
    last: int  #: in which the last fold streams: the next stationary operand can be loaded meanwhile
    spare: int  #: of `last`, without those in which the stream needs the operand port
    drain: int  #: at the end of the body, in which the next job is in the array

    @property
    def longest_load(self) -> int:
        """[cycle] At the start of the body: the load of the stationary operand, if nothing of it is hidden."""
        return max(self.load, self.port)


#: The numbers of `ArrayParts`, in the order of the core's table and of a component's parameters.
PARTS: tuple[str, ...] = ArrayParts.__struct_fields__


def te_service(
    te: Te,
    m: int,
    n: int,
    k: int,
    qbits_weight: int,
    qbits_activation: int,
    tiling: Tiling | None = None,
    factor: Fraction = WHOLE,
) -> ServiceTime:
    """The service time of a product `(m, k) @ (k, n)`; `tiling`: its division into blocks, for timing mma; `factor`: by which
    the body is longer."""
    body = te_body(te, m, n, k, qbits_weight, qbits_activation, tiling)
    time = _service(te, body if factor == 1 else ceil_div(body, 1 / factor))
    if not te.overlaps_jobs:
        return time
    parts = _array_parts(te, folds(te, m, n, k, qbits_weight, qbits_activation), time.body, te.clock_ratio / factor)
    if time.init + time.body == parts.drain:  # the array is held for at least one cycle
        return ServiceTime(1, time.body, time.finalize - 1, parts)
    return ServiceTime(time.init, time.body, time.finalize, parts)


def ve_service(ve: Ve, op: str, length: int, batch: int, qbits: int) -> ServiceTime:
    """The service time of a vector op on `batch` rows of `length` elements of `qbits` bits."""
    body = _ve_body(ve, op, length, batch, qbits)
    return _service(ve, body if ve.clock_ratio == 1 else ceil_div(body, ve.clock_ratio))


def _service(engine: Te | Ve, body: int) -> ServiceTime:
    """A job without any cycles gets one cycle without requests (`init`)."""
    init = engine.init_cycles
    if init + body + engine.finalize_cycles == 0:
        init = 1
    return ServiceTime(init, body, engine.finalize_cycles)


def te_body(te: Te, m: int, n: int, k: int, qbits_weight: int, qbits_activation: int, tiling: Tiling | None = None) -> int:
    """[cycle] of the body of a product."""
    if te.timing == "macs":
        cycles = ceil_div(m * n * k, *te.rates(qbits_weight, qbits_activation))
    elif te.timing == "systolic":
        cycles = systolic_body(te, m, n, k, qbits_weight, qbits_activation)
    else:
        if te.mma is None:
            raise InternalError("a te with timing mma without mma")
        cycles = mma_waves(te.mma, m, n, k, qbits_weight, qbits_activation, tiling).cycles
    return cycles if te.clock_ratio == 1 else ceil_div(cycles, te.clock_ratio)


def chained_body(te: Te, m: int, n: int, k: int, qbits_weight: int, qbits_activation: int) -> int:
    """[cycle] of the body of a product that others precede and follow: without the load and the drain, which overlap with
    theirs if jobs overlap."""
    parts = te_service(te, m, n, k, qbits_weight, qbits_activation).parts
    body = te_body(te, m, n, k, qbits_weight, qbits_activation)
    return body if parts is None else max(1, body - parts.drain - parts.longest_load)


def _ve_body(ve: Ve, op: str, length: int, batch: int, qbits: int) -> int:
    elementwise = ceil_div(length * batch * ve.op_cost.get(op, 1), *ve.rates(qbits))
    # ceil(log2(length)) in integers; the rows of a batch follow each other through the pipelined trees.
    reduce = ve.reduction_pipeline + (length - 1).bit_length() + ceil_div(batch, ve.reduction_trees) - 1
    if op == "softmax":
        return elementwise + reduce + ve.sfu.get("exp", 0) + reduce + elementwise
    if op in ("layernorm", "rmsnorm"):
        return reduce + elementwise + ve.sfu.get("rsqrt", 0)
    if op in REDUCTIONS:
        return elementwise + reduce
    if op == "sort":  # a bitonic network: k (k + 1) / 2 passes over rows of 2 ** k elements
        stages = (length - 1).bit_length()
        return elementwise * max(1, stages * (stages + 1) // 2)
    return elementwise + (0 if op in _PLAIN else ve.sfu.get(op, 0))


#: By kind of engine; engines of the core use the first four for a TE or VE, and all for a DMA engine.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "dma": ("channel", "write", "dram_addr", "row_bytes", "stride", "rows"),
    "cpu": ("init", "body", "finalize", "work"),
    "te": ("init", "body", "finalize", "work", "m", "n", "k", "qbits_weight", "qbits_activation", *PARTS),
    "ve": ("init", "body", "finalize", "work", "length", "batch", "qbits_activation"),
}


def named(kind: str, job: Any) -> dict[str, int]:
    """The parameters of a job of an engine `dma`, `te`, `ve` or `cpu`, by name."""
    names = PARAMETERS[kind]
    return dict(zip(names, job.params, strict=False))


# A product on a systolic array: folds, their fill and drain, and operand stalls.


class Folds(msgspec.Struct, frozen=True):
    """A product `(m, k) @ (k, n)` as folds of an array; all folds count like the largest."""

    count: int
    steps: int  #: [cycle] duration of the stream of a fold at full rate
    load: int  #: [cycle] time in which the stationary operand enters the array; 0 for `os`
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


def _array_parts(te: Te, fold: Folds, body: int, ratio: Fraction) -> ArrayParts:
    """The parts of a body with `drain: overlapped`; `ratio`: the clock of the array, divided by the clock of the machine."""
    rows, fed = te.rows or 0, _feed(te, fold.stream_bits)
    port, last = _feed(te, fold.held_bits), max(fold.steps, fed)
    between = max(fold.steps, rows, _feed(te, fold.stream_bits + fold.held_bits))
    streaming = (fold.count - 1) * between + (max(last, rows) if te.dataflow == "os" else last)
    held = min(ceil_div(max(fold.load, port) + streaming, ratio), body)
    load, port = ceil_div(fold.load, ratio), ceil_div(port, ratio)
    last = min(floor(last / ratio), held - max(load, port))
    return ArrayParts(load, port, last, max(0, last - ceil_div(fed, ratio)), body - held)


def _feed(te: Te, bits: int) -> int:
    """[cycle] The time in which a number of operand bits enter the array at `operand_bytes_per_cycle`; 0 without this key."""
    return 0 if te.operand_bytes_per_cycle is None else ceil_div(bits, 8, te.operand_bytes_per_cycle)


# A product on an engine that executes matrix instructions (`timing: mma`): blocks and waves.


class Tiling(msgspec.Struct, frozen=True):
    """The division of a product into blocks; the planner or the op chooses it."""

    tile_m: int
    tile_n: int
    split_k: int = 1  #: number of parts of `k`; a vector job adds their partial results


class Waves(msgspec.Struct, frozen=True):
    """A product on the cores of an engine."""

    tiling: Tiling
    blocks: int
    full: int  #: waves with `blocks_per_core` blocks on every core
    last: int  #: blocks on the fullest core of the last wave; 0 if all waves are full
    main: int  #: [cycle] of the matrix instructions of one block
    cycles: int  #: [cycle] of the body, at the clock of the machine

    @property
    def count(self) -> int:
        """Waves."""
        return self.full + bool(self.last)


def mma_waves(
    mma: Mma, m: int, n: int, k: int, qbits_weight: int, qbits_activation: int, tiling: Tiling | None = None
) -> Waves:
    """A product `(m, k) @ (k, n)` with this division; without `tiling`, with the candidate of the machine that takes least
    time."""
    instruction = mma.instruction(qbits_weight, qbits_activation)
    if tiling is not None:
        return _waves(mma, instruction, m, n, k, tiling)
    return min((_waves(mma, instruction, m, n, k, Tiling(*tile)) for tile in mma.tiles), key=lambda waves: waves.cycles)


def _waves(mma: Mma, instruction: MmaShape, m: int, n: int, k: int, tiling: Tiling) -> Waves:
    tile_m, tile_n, split = tiling.tile_m, tiling.tile_n, tiling.split_k
    blocks = ceil_div(m, tile_m) * ceil_div(n, tile_n) * split
    steps = ceil_div(ceil_div(k, split), instruction.k)
    main = ceil_div(ceil_div(tile_m, instruction.m) * ceil_div(tile_n, instruction.n) * steps * instruction.cycles)
    full, rest = divmod(blocks, mma.cores * mma.blocks_per_core)
    last = ceil_div(rest, mma.cores)
    around = mma.prologue_cycles + mma.epilogue_cycles
    cycles = full * (around + mma.blocks_per_core * main) + (around + last * main if last else 0)
    return Waves(tiling, blocks, full, last, main, cycles)
