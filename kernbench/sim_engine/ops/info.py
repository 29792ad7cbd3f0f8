"""The records of messages: op kind, op name and params, with one function for each row of seed ADR-0052 D3."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import CompositeCmd, MemoryWriteMsg, TileToken
from kernbench.common.pe_ops import DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd
from kernbench.sim_engine.ops.params import Form, OpValues, Params, Row, Template, shared

Info = tuple[str, str, Params]

_DMA_READ = Form(
    ("nbytes", "src_space", "dst_space", "shape", "dtype", "src_strides", "line"),
    {"src_addr": 0, "dst_addr": 1, "handle_id": 2},
)
_DMA_WRITE = Form(
    ("src_space", "shape", "dtype", "dst_space", "nbytes", "dst_strides", "line"),
    {"src_addr": 0, "dst_addr": 1, "handle_id": 2, "snapshot": 3},
)
_LANES_READ = Form(
    ("nbytes", "src_space", "dst_space", "shape", "dtype", "lanes", "line"), {"src_addr": 0, "dst_addr": 1, "handle_id": 2}
)
_LANES_WRITE = Form(
    ("src_space", "shape", "dtype", "dst_space", "nbytes", "lanes", "rmw", "line"),
    {"src_addr": 0, "dst_addr": 1, "handle_id": 2},
)
_LANES_CHANGE = Form(
    ("src_space", "shape", "dtype", "dst_space", "nbytes", "lanes", "rmw", "line"),
    {"src_addr": 0, "dst_addr": 1, "handle_id": 2, "old_addr": 3, "compare_addr": 4},
)
# fmt: off
_GEMM_KEYS = (
    "shape_a", "shape_b", "shape_out", "dtype_in", "dtype_b", "dtype_out", "m", "k", "n",
    "src_a_space", "src_b_space", "dst_space", "dtype_acc", "transpose_a", "transpose_b",
    "layout_a", "layout_b", "layout_out", "addr_space", "tile_k", "acc_space", "acc_shape", "acc_dtype", "line",
)
_MATH_KEYS = (
    "op", "input_shapes", "input_spaces", "input_dtypes", "dst_space", "shape_out", "dtype", "axis", "keep_dims",
    "masked", "dtype_acc", "addr_space", "materialized_in_phase1", "line",
)
# fmt: on
_GEMM = Form(_GEMM_KEYS, {"src_a_addr": 0, "src_b_addr": 1, "dst_addr": 2, "acc_addr": 3})
_COMPOSITE_GEMM = Form(
    ("op", "out_nbytes", *_GEMM_KEYS),
    {"out_addr": 2, "src_a_addr": 0, "src_b_addr": 1, "dst_addr": 2, "acc_addr": 3, "epilogue": 4},
)
_COPY = Form(("src_space", "dst_space", "shape", "dtype", "nbytes", "line"), {"src_addr": 0, "dst_addr": 1, "snapshot": 2})
_WRITE = Form(("dst_space", "shape", "dtype", "nbytes", "line"), {"dst_addr": 0, "virtual_addr": 1, "snapshot": 2})

_NOTHING = shared({}).template
_NONE = (None,)  #: of rows without an accumulator or a copy


@cache
def _name(head: str, tail: str) -> str:
    """One text for all records of that name."""
    return f"{head}_{tail}"


@cache
def _math_form(inputs: int, composite: bool) -> Form:
    where: dict[str, int | slice] = {"dst_addr": 0, "scalars": 1, "value": 2, "other": 3}
    where["input_addrs"] = slice(4, 4 + inputs)
    where["input_snapshots"] = slice(4 + inputs, 4 + 2 * inputs)
    return Form(("out_nbytes", "math_op", *_MATH_KEYS), {**where, "out_addr": 0}) if composite else Form(_MATH_KEYS, where)


def extract_op_info(msg: Any, snapshots: tuple[Any, ...] = ()) -> Info:
    """(op_kind, op_name, params) of a message. `snapshots`: the data of the inputs that `snapshot_sources` names."""
    kind, name, template, values = op_row(msg, snapshots)
    return kind, name, Params(template, values)


def op_row(msg: Any, snapshots: tuple[Any, ...]) -> Row:
    """The result of `extract_op_info`, in parts."""
    row = _ROWS.get(type(msg))
    if row is None:
        row = next(iter([_ROWS[kind] for kind in type(msg).__mro__ if kind in _ROWS]), None)
    if row is not None:
        return row(msg, snapshots)
    return "unknown", type(msg).__name__, _NOTHING, ()


def snapshot_sources(msg: Any) -> list[TensorHandle]:
    """The operands that are copied when the message is done (seed ADR-0052 D4): the inputs of math, and the source of a write
    from HBM to HBM.

    A write from the scratchpad is deliberately omitted: the bytes that Phase 1 finds there may belong to an earlier kernel. So
    is a composite op: it reads memory as it was at its issue, which a store may have changed by its end.
    """
    if isinstance(msg, MathCmd):
        return msg.handles
    if isinstance(msg, DmaWriteCmd) and msg.handle.space == "hbm":
        return [msg.handle]
    return []


def _read_template(msg: DmaReadCmd) -> Template:
    """The template of a load without lanes."""
    to, repeated = msg.handle, msg.repeated
    if repeated is not None and repeated.template is not None:
        return repeated.template  # type: ignore[no-any-return]  # of an object that `common` does not know
    template = _DMA_READ.template((msg.nbytes, msg.src_space, to.space, to.shape, to.dtype, msg.src_strides, msg.line))
    if repeated is not None:
        repeated.template = template
    return template


def dma_read_row(msg: DmaReadCmd, snapshots: tuple[Any, ...]) -> Row:
    to = msg.handle
    if msg.lanes is not None:
        lanes = (msg.nbytes, msg.src_space, to.space, to.shape, to.dtype, msg.lanes, msg.line)
        return "memory", "dma_read", _LANES_READ.template(lanes), (msg.src_addr, to.addr, to.name_or_number())
    return "memory", "dma_read", _read_template(msg), (msg.src_addr, to.addr, to.name_or_number())


def put_dma_read(row: OpValues, msg: DmaReadCmd) -> None:
    """Set a row to `dma_read_row`."""
    to = msg.handle
    if msg.lanes is not None or to.known_name is not None:
        row.put(dma_read_row(msg, ()))
        return
    row.put_numbers("memory", "dma_read", _read_template(msg), 3, msg.src_addr, to.addr, to.number, 0, ())


def _write_template(msg: DmaWriteCmd) -> Template:
    """The template of a store without lanes."""
    source = msg.handle
    return _DMA_WRITE.template(
        (source.space, source.shape, source.dtype, msg.dst_space, msg.nbytes, msg.dst_strides, msg.line)
    )


def dma_write_row(msg: DmaWriteCmd, snapshots: tuple[Any, ...]) -> Row:
    source = msg.handle
    if msg.lanes is not None:
        lanes = (source.space, source.shape, source.dtype, msg.dst_space, msg.nbytes, msg.lanes, msg.rmw, msg.line)
        if msg.old is not None:
            compare = None if msg.compare is None else msg.compare.addr
            changed = (source.addr, msg.dst_addr, source.name_or_number(), msg.old.addr, compare)
            return "memory", "dma_write", _LANES_CHANGE.template(lanes), changed
        return "memory", "dma_write", _LANES_WRITE.template(lanes), (source.addr, msg.dst_addr, source.name_or_number())
    values = (source.addr, msg.dst_addr, source.name_or_number(), snapshots[0] if snapshots else None)
    return "memory", "dma_write", _write_template(msg), values


def put_dma_write(row: OpValues, msg: DmaWriteCmd, snapshots: tuple[Any, ...]) -> None:
    """Set a row to `dma_write_row`."""
    source = msg.handle
    if msg.lanes is not None or source.known_name is not None:
        row.put(dma_write_row(msg, snapshots))
        return
    rest = snapshots or _NONE
    row.put_numbers("memory", "dma_write", _write_template(msg), 3, source.addr, msg.dst_addr, source.number, 0, rest)


def _gemm_parts(msg: GemmCmd, line: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    a, b, out, acc = msg.a, msg.b, msg.out, msg.acc
    # fmt: off
    constants = (
        a.shape, b.shape, out.shape, a.dtype, b.dtype, out.dtype, msg.m, msg.k, msg.n, a.space, b.space, out.space,
        msg.dtype_acc, msg.transpose_a, msg.transpose_b, msg.layout_a, msg.layout_b, msg.layout_out, a.space, msg.tile_k,
        *((None, None, None) if acc is None else (acc.space, acc.shape, acc.dtype)), line,
    )
    # fmt: on
    return constants, (a.addr, b.addr, out.addr, None if acc is None else acc.addr)


def gemm_row(msg: GemmCmd, snapshots: tuple[Any, ...]) -> Row:
    constants, values = _gemm_parts(msg, msg.line)
    name, template, repeated = _name("gemm", msg.a.dtype), _GEMM.template(constants), msg.repeated
    if repeated is not None:
        repeated.name, repeated.template = name, template
    return "gemm", name, template, values


def put_gemm(row: OpValues, msg: GemmCmd) -> None:
    """Set a row to `gemm_row`."""
    repeated = msg.repeated
    if repeated is None or repeated.template is None:
        row.put(gemm_row(msg, ()))
        return
    a, b, out, acc = msg.a, msg.b, msg.out, msg.acc
    if acc is None:
        row.put_numbers("gemm", repeated.name, repeated.template, 3, a.addr, b.addr, out.addr, 0, _NONE)
    else:
        row.put_numbers("gemm", repeated.name, repeated.template, 4, a.addr, b.addr, out.addr, acc.addr, ())


def _math_parts(msg: MathCmd, line: str, snapshots: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    handles, out = msg.handles, msg.out
    constants = (
        msg.op,
        tuple([one.shape for one in handles]),
        tuple([one.space for one in handles]),
        tuple([one.dtype for one in handles]),
        *(out.space, out.shape, out.dtype, msg.axis, msg.keep_dims, msg.mask is not None),
        *(msg.dtype_acc, out.space, msg.value is not None, line),
    )
    empty = snapshots or (None,) * len(handles)
    return constants, (out.addr, msg.scalars or None, msg.value, msg.other, *[one.addr for one in handles], *empty)


def math_row(msg: MathCmd, snapshots: tuple[Any, ...]) -> Row:
    constants, values = _math_parts(msg, msg.line, snapshots)
    return "math", msg.op, _math_form(len(constants[1]), False).template(constants), values


def _composite(msg: CompositeCmd, snapshots: tuple[Any, ...]) -> Row:
    work = msg.work
    if isinstance(work, GemmCmd):
        constants, values = _gemm_parts(work, msg.line)
        epilogue = [_epilogue_step(step.op, step.operand) for step in msg.epilogue]
        template, values = _COMPOSITE_GEMM.template((msg.op, msg.out_nbytes, *constants)), (*values, epilogue)
    else:
        constants, values = _math_parts(work, msg.line, snapshots)
        template = _math_form(len(work.handles), True).template((msg.out_nbytes, work.op, msg.op, *constants[1:]))
    return "gemm" if msg.op == "gemm" else "math", _name("composite", msg.op), template, values


def _tile_token(msg: TileToken, snapshots: tuple[Any, ...]) -> Row:
    """Timing alone: the op log adds the stage's name and parameters (D5), and Phase 2 replays the composite op."""
    return "unknown", "TileToken", _NOTHING, ()


def _epilogue_step(op: str, operand: Any) -> dict[str, Any]:
    if isinstance(operand, TensorHandle):
        return {"op": op, "addr": operand.addr, "space": operand.space, "shape": operand.shape, "dtype": operand.dtype}
    return {"op": op} if operand is None else {"op": op, "scalar": operand}


def _memory_write(msg: MemoryWriteMsg, snapshots: tuple[Any, ...]) -> Row:
    data = snapshots[0] if snapshots else None
    constants = (msg.space, msg.values.shape, msg.dtype, msg.nbytes, msg.line)
    return "memory", "memory_write", _WRITE.template(constants), (msg.addr, msg.virtual_addr, data)


def write_row(
    space: str, addr: int, virtual: int | None, shape: tuple[int, ...], dtype: str, nbytes: int, line: str, data: Any
) -> Row:
    """The row of known elements that were written into a memory."""
    return "memory", "memory_write", _WRITE.template((space, shape, dtype, nbytes, line)), (addr, virtual, data)


def copy_row(
    source: tuple[str, int], target: tuple[str, int], shape: tuple[int, ...], dtype: str, nbytes: int, line: str, data: Any
) -> Row:
    """The row of bytes that one PE received from another (seed ADR-0052 D3.6)."""
    template = _COPY.template((source[0], target[0], shape, dtype, nbytes, line))
    return "memory", "ipcq_copy", template, (source[1], target[1], data)


_ROWS: dict[type, Callable[[Any, tuple[Any, ...]], Row]] = {
    DmaReadCmd: dma_read_row,
    DmaWriteCmd: dma_write_row,
    GemmCmd: gemm_row,
    MathCmd: math_row,
    CompositeCmd: _composite,
    MemoryWriteMsg: _memory_write,
    TileToken: _tile_token,
}
