"""Entries of a CMDQ program as typed records: attributes are the fields of FORMATS.md, defaults filled in.

Defaults and ranges stand in `opcodes.py`; these classes only say which attributes an entry of each engine has.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kernbench.cmdq.opcodes import OPCODES, Engine


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One entry; NOP, END and LAUNCH are exactly this.

    The order of the fields is that of the binary form (`binary.py`). It holds plain data, so no garbage can hold it.
    """

    index: int  #: position in the file, from 0
    id: int
    opcode: str
    deps_before: tuple[int, ...] = ()  #: ids that must be complete before this entry is issued
    deps_after: tuple[int, ...] = ()  #: ids of entries that wait for this one
    node: str | None = None  #: of a system; None: the first that can run it
    meta: dict[str, Any] = {}  #: the common metadata that was given: layer_id, phase, token, irq_line, marker, ...

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
        """What a TE or VE entry computes, as `gemm` or `softmax`; empty for moves and control."""
        return OPCODES[self.opcode].op

    @property
    def where(self) -> str:
        """How errors name the entry: `cmdq[12] (id 12, TE_GEMM_TILE)`."""
        return f"cmdq[{self.index}] (id {self.id}, {self.opcode})"


class BarrierEntry(Entry, frozen=True, kw_only=True):
    """BARRIER."""

    wait_for: tuple[int, ...]


class DmaEntry(Entry, frozen=True, kw_only=True):
    """DMA_LOAD_TILE, DMA_STORE_TILE, DMA_PREFETCH_TILE: 1-D by `num_elements`, or 2-D by the three row fields."""

    dma_id: int
    tensor_role: str  #: activation, weight, kv or embedding
    qbits: int
    dram_addr: int
    spm_bank: int
    spm_offset: int
    num_elements: int | None = None
    rows: int | None = None
    row_elements: int | None = None
    stride_bytes: int | None = None

    @property
    def engine_id(self) -> int:
        return self.dma_id


class PairEntry(Entry, frozen=True, kw_only=True):
    """DMA_SEND_TILE, DMA_RECV_TILE: between the scratchpads of two PEs."""

    dma_id: int
    tensor_role: str
    qbits: int
    num_elements: int
    spm_bank: int
    spm_offset: int
    peer: str  #: node id of a PE
    peer_bank: int
    peer_offset: int

    @property
    def engine_id(self) -> int:
        return self.dma_id


class HostEntry(Entry, frozen=True, kw_only=True):
    """HOST_COPY_TILE; its node is a PCIe endpoint."""

    direction: str  #: to_device or to_host
    qbits: int
    dram_addr: int
    num_elements: int


class KvEntry(Entry, frozen=True, kw_only=True):
    """KV_LOAD_TILE (whose four range fields stand in `kv_range` in the file) and KV_STORE_TILE."""

    dma_id: int
    head_id: int
    kv_kind: str  #: k or v
    dram_base_addr: int
    qbits_kv: int
    spm_bank: int
    spm_offset: int
    kv_layout_id: int
    t_start: int
    t_len: int
    d_start: int
    d_len: int | None  #: None: up to the layout's head_dim

    @property
    def engine_id(self) -> int:
        return self.dma_id


class TeEntry(Entry, frozen=True, kw_only=True):
    """TE_GEMM_TILE and its kin."""

    te_id: int
    m: int
    n: int
    k: int
    qbits_weight: int
    qbits_activation: int
    ifm_bank: int
    ifm_offset: int
    wgt_bank: int
    wgt_offset: int
    ofm_bank: int
    ofm_offset: int

    @property
    def engine_id(self) -> int:
        return self.te_id


class VeEntry(Entry, frozen=True, kw_only=True):
    """VE_*_TILE; ADD and MUL also have the second input."""

    ve_id: int
    length: int
    batch: int
    qbits_activation: int
    in_bank: int
    in_offset: int
    out_bank: int
    out_offset: int
    in2_bank: int | None = None
    in2_offset: int | None = None

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
