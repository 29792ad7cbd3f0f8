"""Vector operations, pools, copies and rows of tables as jobs, block after block."""

from __future__ import annotations

from math import prod
from typing import Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.workloads.graphs.emit.products import LoadedTile, ProductJobs, pieces, widths, window_source
from kernbench.workloads.graphs.emit.slabs import SlabJobs
from kernbench.workloads.graphs.graph import Copy, Pool, Product, Rows, Vector, Work
from kernbench.workloads.graphs.memory import Memory
from kernbench.workloads.graphs.orders import Order
from kernbench.workloads.graphs.sizes import ELEMENTWISE, Size
from kernbench.workloads.layer.dram import Span

Elements = tuple[int, int] | None
_STRIDE = 7919  # a prime: rows of a table that are not neighbours


def emit_work(memory: Memory, work: Work, size: Size, meta: dict[str, Any]) -> None:
    """All jobs of a piece of work; `meta`: fields of every entry."""
    match work:
        case Product() if size.cut is not None:
            SlabJobs(memory, work, size.cut, size, meta).run()
        case Product():
            ProductJobs(memory, work, size, meta).run()
        case Vector():
            _vector(memory, work, size, meta)
        case Pool():
            _pool(memory, work, size, meta)
        case Copy():
            _copy(memory, work, size, meta)
        case Rows():
            _rows(memory, work, size, meta)


def _vector(memory: Memory, work: Vector, size: Size, meta: dict[str, Any]) -> None:
    emit, tensors = memory.emit, memory.lowered.tensors
    a, out = tensors[work.a].bits // 8, tensors[work.out].bits // 8
    flat = work.op in ELEMENTWISE
    total, step, length = (work.length * work.batch, size.rows, 1) if flat else (work.batch, size.rows, work.length)
    params = [] if size.streamed else [_whole(memory, name, meta)[1] for name in work.params]
    for first in range(0, total, step):
        count = min(step, total - first)
        span = span_of(work.order, first * length, count * length)
        if work.a in work.gathers:
            source = _gathered(memory, work.a, first * length, count * length, span, meta)
        else:
            source, _ = memory.read(work.a, first * length * a, count * length * a, **meta)
        second = None
        if work.b in work.gathers:
            second = _gathered(memory, work.b, first * length, count * length, span, meta)
        elif work.b:
            second = _along(memory, work.b, first * length, count * length, meta)[0]
        again = work.params if size.streamed else ()
        beside = [*params, *(_along(memory, name, first * length, count * length, meta)[1] for name in again)]
        results = count * (1 if work.reduces else length)
        at = first * (1 if work.reduces else length) * out
        place = memory.place(work.out, at, results * out)
        if work.op in ("add", "mul") and second is None:
            second = source  # a broadcast operand is not a stream
        fields = {"length": count if flat else length, "batch": 1 if flat else count, **widths(a * 8, out * 8)}
        job = emit.ve(work.op, source, place, second, **fields, **meta)
        for place_of in beside:
            emit.after(job, *place_of)
        for name in work.gathers:
            if _stays(memory, name):
                memory.wait_for(name, span)
        memory.written(work.out, at, results * out, place, **meta)
    if flat and not work.gathers and a == out:
        for name in dict.fromkeys((work.a, work.b)):
            if name:
                memory.passed_on(name, work.out, meta)


def span_of(order: Order | None, first: int, count: int) -> Elements:
    """The elements `[first, last)` of a source that so many elements of a result come from; None: any."""
    if order is None:
        return None
    low, high = order.span(first, first + count - 1)
    return low, high + 1


def _gathered(memory: Memory, name: str, first: int, count: int, span: Elements, meta: dict[str, Any]) -> int:
    """The address of elements that are somewhere in a part of a tensor: the job waits for all of this part."""
    tensor = memory.lowered.tensors[name]
    start = min((first if span is None else span[0]) % tensor.elements, tensor.elements - count)
    source, _ = memory.read(name, start * tensor.bits // 8, count * tensor.bits // 8, **meta)
    if memory.storage(name) is not None and not _stays(memory, name):
        memory.wait_for(name, span)
    return source


def _whole(memory: Memory, name: str, meta: dict[str, Any]) -> LoadedTile:
    tensor = memory.lowered.tensors[name]
    return memory.read(name, 0, bytes_of(tensor.elements, tensor.bits), "params", **meta)


def _along(memory: Memory, name: str, first: int, count: int, meta: dict[str, Any]) -> LoadedTile:
    """The part of a second input that belongs to some elements. A smaller input is read again from its beginning."""
    tensor = memory.lowered.tensors[name]
    size = tensor.bits // 8
    count = min(count, tensor.elements)
    first = min(first % tensor.elements, tensor.elements - count)
    return memory.read(name, first * size, count * size, **meta)


def _pool(memory: Memory, work: Pool, size: Size, meta: dict[str, Any]) -> None:
    emit, window = memory.emit, work.window
    bits = memory.lowered.tensors[work.out].bits
    outputs, row = prod(window.out), window.channels * bits // 8
    for image in range(window.images):
        for first in range(0, outputs, size.rows):
            rows = min(size.rows, outputs - first)
            source, nbytes, waits = window_source(memory, work.a, window, image, first, rows, meta)
            start = (image * outputs + first) * row
            place = memory.place(work.out, start, rows * row)
            for position in range(window.positions):
                for done, part in pieces(rows * row, nbytes):
                    fields = {"length": part * 8 // bits, "batch": 1, "qbits_activation": bits}
                    at = place + done
                    first_one = position == 0
                    second = None if first_one else source
                    job = emit.ve("copy" if first_one else "add", source if first_one else at, at, second, **fields, **meta)
                    emit.after(job, *waits)
            memory.written(work.out, start, rows * row, place, **meta)


def _copy(memory: Memory, work: Copy, size: Size, meta: dict[str, Any]) -> None:
    """Each block waits for the part of its source with its elements."""
    tensors = memory.lowered.tensors
    out, total = tensors[work.out].bits // 8, tensors[work.out].elements
    if len(work.sources) > 1:
        memory.in_one_piece(work.out)
    done = 0
    for name in work.sources:
        tensor = tensors[name]
        wanted = tensor.elements if len(work.sources) > 1 else total
        for first in range(0, wanted, size.rows):
            count = min(size.rows, wanted - first)
            start = (done + first) * out
            place = memory.place(work.out, start, count * out)
            _copy_block(memory, work, name, first, count, place, meta)
            memory.written(work.out, start, count * out, place, **meta)
        done += wanted
    memory.complete(work.out, meta)


def _copy_block(memory: Memory, work: Copy, name: str, first: int, count: int, place: int, meta: dict[str, Any]) -> None:
    """`count` elements of a source, for elements of the result from `first` on, to `place`."""
    emit, tensor, bits = memory.emit, memory.lowered.tensors[name], memory.lowered.tensors[work.out].bits
    for done, part in pieces(count, tensor.elements):
        span = span_of(work.order, first + done, part)
        source = _gathered(memory, name, first + done, part, span, meta)
        fields = {"length": part, "batch": 1, **widths(tensor.bits, bits)}
        emit.ve("copy", source, place + done * bits // 8, **fields, **meta)
        if _stays(memory, name):
            memory.wait_for(name, span)


def _stays(memory: Memory, name: str) -> bool:
    storage = memory.storage(name)
    return storage is not None and storage.spm is not None


def _rows(memory: Memory, work: Rows, size: Size, meta: dict[str, Any]) -> None:
    """A load for each row, as soon as its index is known. An index that is not known is made up: no two are neighbours."""
    emit, tensors = memory.emit, memory.lowered.tensors
    table, out = tensors[work.table], tensors[work.out]
    row_bytes, wide = bytes_of(work.length, table.bits), work.length * out.bits // 8
    indices = _whole(memory, work.indices, meta)[1] if work.indices else None
    words = table.elements // work.length
    for first in range(0, work.count, size.rows):
        count = min(size.rows, work.count - first)
        place = memory.place(work.out, first * wide, count * wide)
        for number in range(first, first + count):
            word = work.known[number] if work.known else number * _STRIDE % words
            at = memory.table(work.table) + word * row_bytes
            room = ceil_div(max(row_bytes, wide), memory.align) * memory.align + memory.align
            slot = memory.rings["blocks"].take(room)
            job = emit.load("embedding", table.bits, Span(at, 1, work.length, row_bytes), slot, **meta)
            if indices is not None:
                emit.after(job, *indices)
            fields = {"length": work.length, "batch": 1, "qbits_activation": out.bits}
            emit.ve("copy", slot + at % memory.align, place + (number - first) * wide, **fields, **meta)
        memory.written(work.out, first * wide, count * wide, place, **meta)
