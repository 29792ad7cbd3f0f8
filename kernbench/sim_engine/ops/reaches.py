"""The locations and extents of the operands of an op: computed once for all ops of a template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kernbench.common.dtypes import nbytes_of
from kernbench.sim_engine.memory.strides import span_of
from kernbench.sim_engine.ops.params import Params

MEMORIES = frozenset({"hbm", "sram"})  #: spaces from which loads read and to which stores write


class Reach(NamedTuple):
    """One operand of all ops of a template: the position of its address, and its extent relative to the address."""

    where: int  #: index of the address among the op's values
    space: str
    low: int
    high: int
    writes: bool


def reaches_of(kind: str, params: Params) -> Iterator[Reach]:
    """The extents of all operands with addresses, for a kind of op."""
    if kind == "memory":
        yield from _copy_reaches(params)
    elif kind == "gemm":
        yield from _gemm_reaches(params)
    elif kind == "math":
        yield from _math_reaches(params)


def _reach(params: Params, key: str, space: str, span: tuple[int, int], writes: bool = False) -> Iterator[Reach]:
    where = params.template.varying.get(key)
    if isinstance(where, int):
        yield Reach(where, space, *span, writes)


def copy_size(params: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    """Shape and element type of the data of a memory op; bytes by default."""
    if "shape" in params and "dtype" in params:
        return tuple(params["shape"]), params["dtype"]
    return (params["nbytes"],), "u8"


def _copy_reaches(params: Params) -> Iterator[Reach]:
    """A read without a destination belongs to Phase 1 alone, so there is nothing to replay."""
    if params.get("dst_addr") is None:
        return
    shape, dtype = copy_size(params)

    def span(strides: str) -> tuple[int, int]:
        steps = params.get(strides)
        return (0, nbytes_of(shape, dtype)) if steps is None else span_of(shape, steps, dtype)

    space = params.get("dst_space", "tcm")
    lanes = params.get("lanes")
    if lanes is not None:
        whole = (0, nbytes_of(shape, dtype))
        loads = space not in MEMORIES
        yield from _reach(params, "src_addr", params["src_space"], lanes.span if loads else whole)
        yield from _reach(params, "dst_addr", space, whole if loads else lanes.span, writes=True)
        if params.get("rmw"):
            yield from _reach(params, "dst_addr", space, lanes.span)
            yield from _reach(params, "compare_addr", params["src_space"], whole)
            yield from _reach(params, "old_addr", params["src_space"], whole, writes=True)
        return
    yield from _reach(params, "src_addr", params.get("src_space", "hbm"), span("src_strides"))
    yield from _reach(params, "dst_addr", space, span("dst_strides"), writes=True)
    yield from _reach(params, "virtual_addr", space, span("dst_strides"), writes=True)


def _gemm_reaches(params: Params) -> Iterator[Reach]:
    usual = params.get("addr_space") or "tcm"
    a, b = params["dtype_in"], params.get("dtype_b") or params["dtype_in"]
    yield from _reach(params, "src_a_addr", params.get("src_a_space", usual), (0, nbytes_of(params["shape_a"], a)))
    yield from _reach(params, "src_b_addr", params.get("src_b_space", usual), (0, nbytes_of(params["shape_b"], b)))
    if params.get("acc_addr") is not None:
        size = nbytes_of(params["acc_shape"], params["acc_dtype"])
        yield from _reach(params, "acc_addr", params["acc_space"], (0, size))
    size = nbytes_of(gemm_shape(params), params["dtype_out"])
    yield from _reach(params, "dst_addr", params.get("dst_space", usual), (0, size), writes=True)


def gemm_shape(params: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of a product without a recorded shape: that of `a @ b` after their transposes."""
    if "shape_out" in params:
        return tuple(params["shape_out"])
    a, b = params["shape_a"], params["shape_b"]
    rows = a[-1] if params.get("transpose_a") else a[-2]
    columns = b[-2] if params.get("transpose_b") else b[-1]
    return (*a[:-2], rows, columns)


def _math_reaches(params: Params) -> Iterator[Reach]:
    usual = params.get("addr_space") or "tcm"
    where = params.template.varying.get("input_addrs", slice(0, 0))
    assert isinstance(where, slice)
    shapes = params.get("input_shapes", ())
    spaces, dtypes = math_inputs(params)
    for i, (shape, space, dtype) in enumerate(zip(shapes, spaces, dtypes, strict=True)):
        yield Reach(where.start + i, space, 0, nbytes_of(shape, dtype), False)
    size = nbytes_of(params["shape_out"], params["dtype"])
    yield from _reach(params, "dst_addr", params.get("dst_space", usual), (0, size), writes=True)


def math_inputs(params: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Spaces and element types of the inputs; if the record gives only one, it holds for all."""
    count = len(params.get("input_shapes", ()))
    spaces = params.get("input_spaces") or [params.get("addr_space") or "tcm"] * count
    return spaces, params.get("input_dtypes") or [params["dtype"]] * count
