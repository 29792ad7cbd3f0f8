"""Entries of a CMDQ program as typed records: attributes are the fields of docs/model/formats.md, with defaults filled in.

`opcodes.py` has the defaults and ranges; these classes define the attributes of the entries of each engine, and their types.
The binary form is decoded by these types (`compiled.py`). A test compares them with the table of `opcodes.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import msgspec

from kernbench.cmdq.opcodes import MAX_INT, META_FIELDS, OPCODES, Engine, FieldSpec

Natural = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)]
Bits = Literal[1, 2, 4, 8, 16, 32, 64]
KvBits = Literal[1, 2, 3, 4, 5, 6, 8, 16, 32, 64]
Role = Literal["activation", "weight", "kv", "embedding"]


def _type_of(field: FieldSpec) -> Any:
    """The type of a metadata field."""
    types = {"int": Natural, "text": str, "label": Natural | str, "any": Any}
    return Literal[field.choices] if field.kind == "choice" else types[field.kind]


if TYPE_CHECKING:
    Metadata = dict[str, Any]
else:
    Metadata = TypedDict("Metadata", {field.name: _type_of(field) for field in META_FIELDS}, total=False)


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """An entry of a command queue; its class has the fields of its opcode (docs/model/formats.md).

    >>> import kernbench as kb
    >>> entry = kb.load_program({"metadata": {"version": "1.0"}, "cmdq": [{"id": 0, "opcode": "NOP"}]}).entries[0]
    >>> entry.id, entry.opcode, entry.engine
    (0, 'NOP', 'control')
    """

    index: Natural  #: position in the file, from 0
    id: Natural
    opcode: str
    deps_before: tuple[Natural, ...] = ()  #: ids that must be complete before this entry is issued
    deps_after: tuple[Natural, ...] = ()  #: ids of entries that wait for this one
    node: str | None = None  #: node of a system; None for the first node that can run the entry
    meta: Metadata = {}  #: the common metadata that were given: layer_id, phase, token, irq_line, marker, ...

    @property
    def engine(self) -> Engine:
        """The kind of engine that runs it: `dma`, `te`, `ve`, `cpu` or `control`."""
        return OPCODES[self.opcode].engine

    @property
    def engine_id(self) -> int:
        """The number of that engine; 0 for control."""
        return 0

    @property
    def op(self) -> str:
        """The op of a TE or VE entry, such as `gemm` or `softmax`; empty for transfers and control."""
        return OPCODES[self.opcode].op

    @property
    def command_id(self) -> int:
        """The id of its command: its own id, unless it is one of several jobs of a command (`jobs.py`)."""
        found: int = self.meta.get("command_id", self.id)
        return found

    @property
    def where(self) -> str:
        """The name of the entry in errors: `cmdq[12] (id 12, TE_GEMM_TILE)`."""
        meta = self.meta
        if meta.get("jobs", 1) > 1:
            job = f", job {meta['job']} of {meta['jobs']}"
            return f"cmdq[{meta['command_index']}] (id {meta['command_id']}, {self.opcode}{job})"
        return f"cmdq[{meta.get('command_index', self.index)}] (id {self.command_id}, {self.opcode})"


class BarrierEntry(Entry, frozen=True, kw_only=True):
    """BARRIER."""

    wait_for: tuple[Natural, ...]


class DmaEntry(Entry, frozen=True, kw_only=True):
    """DMA_LOAD_TILE, DMA_STORE_TILE, DMA_PREFETCH_TILE: 1-D by `num_elements`, or 2-D by the three row fields."""

    dma_id: Natural
    tensor_role: Role
    qbits: Bits
    dram_addr: Natural
    spm_bank: Natural
    spm_offset: Natural
    num_elements: Positive | None = None
    rows: Positive | None = None
    row_elements: Positive | None = None
    stride_bytes: Positive | None = None
    codec: Natural | None = None

    @property
    def engine_id(self) -> int:
        return self.dma_id


class PairEntry(Entry, frozen=True, kw_only=True):
    """DMA_SEND_TILE, DMA_RECV_TILE: between the scratchpads of two PEs."""

    dma_id: Natural
    tensor_role: Role
    qbits: Bits
    num_elements: Positive
    spm_bank: Natural
    spm_offset: Natural
    peer: str  #: node id of a PE
    peer_bank: Natural
    peer_offset: Natural

    @property
    def engine_id(self) -> int:
        return self.dma_id


class HostEntry(Entry, frozen=True, kw_only=True):
    """HOST_COPY_TILE; its node is a PCIe endpoint."""

    direction: Literal["to_device", "to_host"]
    qbits: Bits
    dram_addr: Natural
    num_elements: Positive


class KvEntry(Entry, frozen=True, kw_only=True):
    """KV_LOAD_TILE and KV_STORE_TILE; in the file the four range fields of a load are in `kv_range`."""

    dma_id: Natural
    head_id: Natural
    kv_kind: Literal["k", "v"]
    dram_base_addr: Natural
    qbits_kv: KvBits
    spm_bank: Natural
    spm_offset: Natural
    kv_layout_id: Natural
    t_start: Natural
    t_len: Positive
    d_start: Natural
    d_len: Positive | None  #: None: up to head_dim of the layout

    @property
    def engine_id(self) -> int:
        return self.dma_id


class TeEntry(Entry, frozen=True, kw_only=True):
    """TE_GEMM_TILE and the other opcodes of tensor engines."""

    te_id: Natural
    m: Positive
    n: Positive
    k: Positive
    qbits_weight: Bits
    qbits_activation: Bits
    ifm_bank: Natural
    ifm_offset: Natural
    wgt_bank: Natural
    wgt_offset: Natural
    ofm_bank: Natural
    ofm_offset: Natural
    qbits_result: Bits | None = None  #: None: qbits_activation
    tile_m: Positive | None = None
    tile_n: Positive | None = None
    split_k: Positive | None = None

    @property
    def engine_id(self) -> int:
        return self.te_id


class VeEntry(Entry, frozen=True, kw_only=True):
    """VE_*_TILE; ADD and MUL also have the second input."""

    ve_id: Natural
    length: Positive
    batch: Positive
    qbits_activation: Bits
    in_bank: Natural
    in_offset: Natural
    out_bank: Natural
    out_offset: Natural
    in2_bank: Natural | None = None
    in2_offset: Natural | None = None
    qbits_result: Bits | None = None  #: None: qbits_activation

    @property
    def engine_id(self) -> int:
        return self.ve_id


_BY_OPCODE: dict[str, type[Entry]] = {
    "DMA_SEND_TILE": PairEntry,
    "DMA_RECV_TILE": PairEntry,
    "HOST_COPY_TILE": HostEntry,
}


def entry_type(opcode: str) -> type[Entry]:
    """The class of an opcode's entries; `opcode` is one of OPCODES."""
    engine = OPCODES[opcode].engine
    if opcode in _BY_OPCODE:
        return _BY_OPCODE[opcode]
    if engine == "dma":
        return KvEntry if opcode.startswith("KV_") else DmaEntry
    if engine in ("control", "cpu"):
        return BarrierEntry if opcode == "BARRIER" else Entry
    return TeEntry if engine == "te" else VeEntry
