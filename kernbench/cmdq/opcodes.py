"""The only table of opcodes and their fields: the content of docs/model/formats.md about CMDQ entries.

Reading, building, type checks, the JSON Schema and the documentation use this table, so description, range and default of a
field are defined once.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kernbench.common.errors import ABSENT

Engine = Literal["dma", "te", "ve", "cpu", "control"]
Kind = Literal["int", "choice", "text", "ids", "label", "any", "range"]

QBITS: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
KV_QBITS: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 16, 32, 64)  #: bits of an element of the KV cache
MAX_INT = 2**63 - 1  # cycles, bytes and ids are signed 64-bit integers in the core


class FieldSpec(msgspec.Struct, frozen=True):
    """One field of an entry: its type, range, default and meaning."""

    name: str
    kind: Kind
    doc: str
    default: Any = ABSENT  #: ABSENT: the field is required, unless it belongs to one of the opcode's alternatives
    low: int = 0  #: smallest value of an int field
    choices: tuple[Any, ...] = ()  #: allowed values of a choice field
    fields: tuple[FieldSpec, ...] = ()  #: fields of a range (a nested mapping)


class OpcodeSpec(msgspec.Struct, frozen=True):
    """One opcode: the engine that runs it and its own fields."""

    name: str
    engine: Engine
    doc: str
    fields: tuple[FieldSpec, ...] = ()
    alternatives: tuple[tuple[str, ...], ...] = ()  #: exactly one of these groups of fields must be given, completely
    op: str = ""  #: the short name of its operation: `gemm`, `softmax`; empty for moves and control
    system: bool = False  #: only for machines of `kernbench/system/1`


def _int(name: str, doc: str, low: int = 0, default: Any = ABSENT) -> FieldSpec:
    return FieldSpec(name, "int", doc, default=default, low=low)


def _qbits(name: str, what: str) -> FieldSpec:
    return FieldSpec(name, "choice", f"bits per element of {what}", choices=QBITS)


def _qbits_result() -> FieldSpec:
    doc = "bits per element of the output; default: the same as the input"
    return FieldSpec("qbits_result", "choice", doc, default=None, choices=QBITS)


def _place(prefix: str, what: str) -> tuple[FieldSpec, FieldSpec]:
    return (
        _int(f"{prefix}_bank", f"scratchpad bank in which {what} begins"),
        _int(f"{prefix}_offset", f"byte offset of {what} in that bank"),
    )


ENTRY_FIELDS: tuple[FieldSpec, ...] = (
    _int("id", "unique number of the entry; default: the index of the entry in the file", default=None),
    FieldSpec("deps_before", "ids", "ids of entries that must be complete before this entry is issued", default=()),
    FieldSpec("deps_after", "ids", "ids of entries that wait for this entry", default=()),
    FieldSpec(
        "node",
        "text",
        "only on systems: the node that runs the entry, such as `sip0.cube0.pe3`; default: the first node that can run it",
        default=None,
    ),
)

META_FIELDS: tuple[FieldSpec, ...] = (
    _int("layer_id", "layer of the model", default=None),
    FieldSpec("phase", "text", "phase of the run, such as `prefill` or `decode`", default=None),
    _int("head_id", "attention head", default=None),
    _int("token_idx", "position of the token", default=None),
    _int("seq_len", "length of the sequence in tokens", default=None),
    _int("block_id", "block of the layer", default=None),
    _int("tile_id", "tile inside the block", default=None),
    FieldSpec("precision", "text", "number format, such as `W4A8`", default=None),
    FieldSpec("model_name", "text", "name of the model", default=None),
    _int("tenant_id", "tenant of the entry", default=None),
    _int("core_id", "core that queued the entry", default=None),
    _int("npu_id", "NPU that runs the entry", default=None),
    _int("thread_id", "thread that queued the entry", default=None),
    FieldSpec("source", "choice", "how the entry was queued", default=None, choices=("ISA", "MMIO")),
    _int("desc_addr", "address of the entry's descriptor", default=None),
    _int("token", "number that the trace event TOKEN_COMPLETE has when the entry ends", default=None),
    _int("irq_line", "interrupt line that the trace event IRQ_EMIT has when the entry ends", default=None),
    FieldSpec("marker", "label", "an integer or a text that the trace event MARKER has when the entry ends", default=None),
    FieldSpec("debug", "any", "any value; kernbench keeps it, and does not use it", default=None),
)
RESERVED_PREFIX = "reserved_"  # keys that begin so are ignored

_DMA_ID = _int("dma_id", "DMA engine that moves the tile", default=0)
_TE_ID = _int("te_id", "tensor engine that computes the tile", default=0)
_VE_ID = _int("ve_id", "vector engine that computes the tile", default=0)

_DMA = (
    _DMA_ID,
    FieldSpec(
        "tensor_role", "choice", "kind of tensor to which the tile belongs", choices=("activation", "weight", "kv", "embedding")
    ),
    _qbits("qbits", "the tile"),
    _int("dram_addr", "DRAM address of the first byte"),
    *_place("spm", "the tile"),
    _int("num_elements", "number of elements of a contiguous tile", low=1),
    _int("rows", "number of rows of a 2-D tile", low=1),
    _int("row_elements", "number of elements of a row", low=1),
    _int("stride_bytes", "number of bytes from the start of a row to the start of the next row", low=1),
    _int(
        "codec",
        "index of the codec in the machine's dma.codecs, if the tile is compressed in DRAM; needs num_elements",
        default=None,
    ),
)
_DMA_ALTERNATIVES = (("num_elements",), ("rows", "row_elements", "stride_bytes"))

_BETWEEN = (
    _DMA_ID,
    FieldSpec(
        "tensor_role", "choice", "kind of tensor to which the tile belongs", choices=("activation", "weight", "kv", "embedding")
    ),
    _qbits("qbits", "the tile"),
    _int("num_elements", "number of elements of the tile", low=1),
    *_place("spm", "the tile of the entry's own PE"),
    FieldSpec("peer", "text", "the PE at the other end, such as `sip0.cube0.pe1`"),
    *_place("peer", "the tile of the peer"),
)
_HOST = (
    FieldSpec("direction", "choice", "direction of the bytes", choices=("to_device", "to_host")),
    _qbits("qbits", "the tile"),
    _int("dram_addr", "DRAM address of the first byte"),
    _int("num_elements", "number of elements of the tile", low=1),
)

_KV_RANGE = (
    _int("t_start", "first token"),
    _int("t_len", "number of tokens", low=1),
    _int("d_start", "first element of the head dimension", default=0),
    _int("d_len", "number of elements of the head dimension; default: head_dim - d_start", low=1, default=None),
)
_KV = (
    _DMA_ID,
    _int("head_id", "attention head of the KV cache"),
    FieldSpec("kv_kind", "choice", "K or V", choices=("k", "v")),
    _int("dram_base_addr", "DRAM address of this layer's K or V cache"),
    FieldSpec("qbits_kv", "choice", "bits per element of the KV cache", choices=KV_QBITS),
    *_place("spm", "the tile"),
    _int("kv_layout_id", "index into the machine's kv_layouts", default=0),
)
_KV_LOAD = (*_KV, FieldSpec("kv_range", "range", "tokens and elements to load", fields=_KV_RANGE))
_KV_STORE = (*_KV, *_KV_RANGE)

_TE = (
    _TE_ID,
    _int("m", "rows of the input and of the output", low=1),
    _int("n", "columns of the weights and of the output", low=1),
    _int("k", "columns of the input and rows of the weights", low=1),
    _qbits("qbits_weight", "the weights"),
    _qbits("qbits_activation", "the input"),
    *_place("ifm", "the input"),
    *_place("wgt", "the weights"),
    *_place("ofm", "the output"),
    _qbits_result(),
    _int("tile_m", "number of rows of a block, on an engine with timing mma; needs tile_n", low=1, default=None),
    _int("tile_n", "number of columns of a block; needs tile_m", low=1, default=None),
    _int("split_k", "number of parts of k, each with its own blocks; default 1; needs tile_m", low=1, default=None),
)
_VE = (
    _VE_ID,
    _int("length", "number of elements of a row", low=1),
    _int("batch", "number of rows", low=1, default=1),
    _qbits("qbits_activation", "the input"),
    *_place("in", "the input"),
    *_place("out", "the output"),
    _qbits_result(),
)
_IN2 = _place("in2", "the second input")

TE_OPS: tuple[str, ...] = ("gemm", "matmul", "qkt", "av")
VE_OPS: tuple[str, ...] = (
    "layernorm", "rmsnorm", "softmax", "gelu", "silu", "sigmoid", "tanh", "exp",
    "add", "mul", "copy", "sum", "max", "min",
)  # fmt: skip
VE_BINARY_OPS: frozenset[str] = frozenset({"add", "mul"})
VE_REDUCTIONS: frozenset[str] = frozenset({"sum", "max", "min"})

_MOVES = (
    OpcodeSpec("DMA_LOAD_TILE", "dma", "DRAM to scratchpad", _DMA, _DMA_ALTERNATIVES),
    OpcodeSpec("DMA_STORE_TILE", "dma", "scratchpad to DRAM", _DMA, _DMA_ALTERNATIVES),
    OpcodeSpec("DMA_PREFETCH_TILE", "dma", "DRAM to scratchpad, ahead of its use", _DMA, _DMA_ALTERNATIVES),
    OpcodeSpec("KV_LOAD_TILE", "dma", "KV cache to scratchpad", _KV_LOAD),
    OpcodeSpec("KV_STORE_TILE", "dma", "scratchpad to KV cache, in the order of t_start", _KV_STORE),
)
_CONTROL = (
    OpcodeSpec(
        "BARRIER",
        "control",
        "completes when all entries in its wait_for and deps_before are complete; until then, no later "
        "entry in the file is issued",
        (FieldSpec("wait_for", "ids", "ids of entries that must be complete", default=()),),
    ),
    OpcodeSpec("NOP", "control", "completes as soon as its deps_before are complete"),
    OpcodeSpec("END", "control", "completes when all earlier entries are complete; no entry may follow it"),
)

_SYSTEM = (
    OpcodeSpec("DMA_SEND_TILE", "dma", "scratchpad to another PE's scratchpad", _BETWEEN, system=True),
    OpcodeSpec(
        "DMA_RECV_TILE", "dma", "another PE's scratchpad to the scratchpad of the entry's own PE", _BETWEEN, system=True
    ),
    OpcodeSpec("HOST_COPY_TILE", "dma", "copy between the host's memory and DRAM, by a PCIe endpoint", _HOST, system=True),
    OpcodeSpec("LAUNCH", "cpu", "the host starts work on a cube: over PCIe, the IO CPU and the cube's M_CPU", system=True),
)

#: Every opcode by name, in the order of docs/model/formats.md; the opcodes of systems follow.
OPCODES: dict[str, OpcodeSpec] = {
    spec.name: spec
    for spec in (
        *_MOVES,
        *(
            OpcodeSpec(f"TE_{op.upper()}_TILE", "te", "product of an m x k matrix and a k x n matrix", _TE, op=op)
            for op in TE_OPS
        ),
        *(
            OpcodeSpec(f"VE_{op.upper()}_TILE", "ve", f"{op} of each row", _VE + (_IN2 if op in VE_BINARY_OPS else ()), op=op)
            for op in VE_OPS
        ),
        *_CONTROL,
        *_SYSTEM,
    )
}
