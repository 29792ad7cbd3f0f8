"""Builds a program in Python: one method for each opcode, with keyword arguments named as in docs/model/formats.md.

    program = Program("toy")
    weights = program.dma_load(tensor_role="weight", qbits=4, dram_addr=0, num_elements=4096, spm_bank=0, spm_offset=0)
    program.te_gemm(m=64, n=64, k=64, ..., deps_before=[weights])
    program.end()
    program.save("toy.json")

Every method appends one entry and returns its id. Fields are checked immediately, with the same rules as those of a file.
InputError names the problem. `check_program` checks ids and dependencies, because an entry may wait for a later one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kernbench.cmdq.entries import Entry
from kernbench.cmdq.opcodes import TE_OPS, VE_OPS
from kernbench.cmdq.read_entries import quick_entry
from kernbench.cmdq.read_entry import read_entry, read_id
from kernbench.common.errors import InputError, Problem
from kernbench.config.document import path_text

_ID_LISTS = ("deps_before", "deps_after", "wait_for")


class ProgramBuilder:
    """The part of `Program` that appends entries."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.entries: list[Entry] = []
        self._highest = 0, -1  # entries that `next_id` has seen, and the highest of their ids

    def append(self, opcode: str, **fields: Any) -> int:
        """Append an entry of any opcode and return its id. The default id is the lowest one above all other ids.

        `deps_before`, `deps_after` and `wait_for` are one id or any iterable of ids.
        """
        raw = {"opcode": opcode, "id": self.next_id(), **fields}
        for name in _ID_LISTS:
            if name in raw:
                raw[name] = _id_list(raw[name])
        entry = self.made(raw)
        self.entries.append(entry)
        self._highest = len(self.entries), max(self._highest[1], entry.id)
        return entry.id

    def made(self, raw: dict[str, Any]) -> Entry:
        """The entry of a mapping that has an opcode and an id, as the next of the program, which it is not appended to."""
        index = len(self.entries)
        return quick_entry(raw, index) or self._read(raw, index)

    def _read(self, raw: dict[str, Any], index: int) -> Entry:
        entry, problems = read_entry(raw, index)
        if problems or entry is None:
            where = f"{self.source}: cmdq[{index}] (id {read_id(raw, index)}, {raw['opcode']})"
            raise InputError([Problem(where, p.rule, path_text(p.path), p.value, p.remedy) for p in problems])
        return entry

    def next_id(self) -> int:
        """The lowest id above all other ids."""
        seen, highest = self._highest
        count = len(self.entries)
        if seen != count:
            for entry in self.entries[seen:]:
                if entry.id > highest:
                    highest = entry.id
            self._highest = count, highest
        return highest + 1 if highest >= count else count

    def dma_load(self, **fields: Any) -> int:
        """Append a load from DRAM to the scratchpad: tensor_role, qbits, dram_addr, spm_bank, spm_offset, and the tile's size.

        The size is num_elements, or rows, row_elements and stride_bytes.
        """
        return self.append("DMA_LOAD_TILE", **fields)

    def dma_store(self, **fields: Any) -> int:
        """Append a store from the scratchpad to DRAM, with the fields of `dma_load`."""
        return self.append("DMA_STORE_TILE", **fields)

    def dma_prefetch(self, **fields: Any) -> int:
        """Append a load from DRAM to the scratchpad ahead of its use, with the fields of `dma_load`."""
        return self.append("DMA_PREFETCH_TILE", **fields)

    def kv_load(self, **fields: Any) -> int:
        """Append a load from the KV cache: head_id, kv_kind, dram_base_addr, kv_range, qbits_kv, spm_bank, spm_offset.

        `kv_range` is a dict of t_start, t_len and, for a part of the head dimension, d_start and d_len.
        """
        return self.append("KV_LOAD_TILE", **fields)

    def kv_store(self, **fields: Any) -> int:
        """Append a store to the KV cache: the fields of `kv_load`, with t_start, t_len, d_start and d_len instead of kv_range.
        """
        return self.append("KV_STORE_TILE", **fields)

    def dma_send(self, **fields: Any) -> int:
        """On systems, append a transfer from the own scratchpad to the scratchpad of `peer`.

        Fields: tensor_role, qbits, num_elements, peer, and a bank and offset each for spm and peer.
        """
        return self.append("DMA_SEND_TILE", **fields)

    def dma_recv(self, **fields: Any) -> int:
        """On systems, append a transfer from the scratchpad of `peer` to the own scratchpad, with the fields of `dma_send`."""
        return self.append("DMA_RECV_TILE", **fields)

    def host_copy(self, **fields: Any) -> int:
        """On systems, append a copy between host memory and DRAM: direction (to_device, to_host), qbits, dram_addr,
        num_elements.
        """
        return self.append("HOST_COPY_TILE", **fields)

    def launch(self, **fields: Any) -> int:
        """On systems, append a launch of work on the cube of the M_CPU `node`. It completes when the M_CPU has accepted the
        launch.
        """
        return self.append("LAUNCH", **fields)

    def te(self, op: str, **fields: Any) -> int:
        """Append a tensor engine job `op`: gemm, matmul, qkt or av.

        Fields: m, n, k, qbits_weight, qbits_activation, and a bank and offset each for ifm, wgt and ofm.
        """
        return self.append(self._opcode("TE", op, TE_OPS), **fields)

    def te_gemm(self, **fields: Any) -> int:
        """TE_GEMM_TILE; the fields of `te`."""
        return self.te("gemm", **fields)

    def te_matmul(self, **fields: Any) -> int:
        """TE_MATMUL_TILE; the fields of `te`."""
        return self.te("matmul", **fields)

    def te_qkt(self, **fields: Any) -> int:
        """TE_QKT_TILE, queries by transposed keys; the fields of `te`."""
        return self.te("qkt", **fields)

    def te_av(self, **fields: Any) -> int:
        """TE_AV_TILE, attention weights by values; the fields of `te`."""
        return self.te("av", **fields)

    def ve(self, op: str, **fields: Any) -> int:
        """Append a vector engine job `op`, such as softmax.

        Fields: length, batch, qbits_activation, and a bank and offset each for in and out; add and mul also have in2.
        """
        return self.append(self._opcode("VE", op, VE_OPS), **fields)

    def _opcode(self, engine: str, op: str, ops: tuple[str, ...]) -> str:
        if op not in ops:
            where = f"{self.source}: cmdq[{len(self.entries)}]"
            raise InputError(Problem(where, f"{engine} has the ops {', '.join(ops)}", "op", op))
        return f"{engine}_{op.upper()}_TILE"

    def ve_layernorm(self, **fields: Any) -> int:
        """VE_LAYERNORM_TILE; the fields of `ve`."""
        return self.ve("layernorm", **fields)

    def ve_rmsnorm(self, **fields: Any) -> int:
        """VE_RMSNORM_TILE; the fields of `ve`."""
        return self.ve("rmsnorm", **fields)

    def ve_softmax(self, **fields: Any) -> int:
        """VE_SOFTMAX_TILE; the fields of `ve`."""
        return self.ve("softmax", **fields)

    def ve_gelu(self, **fields: Any) -> int:
        """VE_GELU_TILE; the fields of `ve`."""
        return self.ve("gelu", **fields)

    def ve_silu(self, **fields: Any) -> int:
        """VE_SILU_TILE; the fields of `ve`."""
        return self.ve("silu", **fields)

    def ve_sigmoid(self, **fields: Any) -> int:
        """VE_SIGMOID_TILE; the fields of `ve`."""
        return self.ve("sigmoid", **fields)

    def ve_tanh(self, **fields: Any) -> int:
        """VE_TANH_TILE; the fields of `ve`."""
        return self.ve("tanh", **fields)

    def ve_exp(self, **fields: Any) -> int:
        """VE_EXP_TILE; the fields of `ve`."""
        return self.ve("exp", **fields)

    def ve_add(self, **fields: Any) -> int:
        """VE_ADD_TILE; the fields of `ve`, in2_bank and in2_offset."""
        return self.ve("add", **fields)

    def ve_mul(self, **fields: Any) -> int:
        """VE_MUL_TILE; the fields of `ve`, in2_bank and in2_offset."""
        return self.ve("mul", **fields)

    def ve_copy(self, **fields: Any) -> int:
        """VE_COPY_TILE; the fields of `ve`."""
        return self.ve("copy", **fields)

    def ve_sum(self, **fields: Any) -> int:
        """VE_SUM_TILE, one result a row; the fields of `ve`."""
        return self.ve("sum", **fields)

    def ve_max(self, **fields: Any) -> int:
        """VE_MAX_TILE, one result a row; the fields of `ve`."""
        return self.ve("max", **fields)

    def ve_min(self, **fields: Any) -> int:
        """VE_MIN_TILE, one result a row; the fields of `ve`."""
        return self.ve("min", **fields)

    def barrier(self, **fields: Any) -> int:
        """Append a BARRIER, which completes after `wait_for` and `deps_before`. No later entry is issued before the BARRIER
        completes.
        """
        return self.append("BARRIER", **fields)

    def nop(self, **fields: Any) -> int:
        """Append a NOP, which completes as soon as its `deps_before` are complete."""
        return self.append("NOP", **fields)

    def end(self, **fields: Any) -> int:
        """Append an END, which completes when all entries before it are complete. No entry may follow it."""
        return self.append("END", **fields)


def _id_list(ids: Any) -> Any:
    """One id or any iterable of ids as a list; any other value is returned unchanged, and the check of the field refuses it."""
    if isinstance(ids, int):
        return [ids]
    return list(ids) if isinstance(ids, Iterable) and not isinstance(ids, (str, bytes, dict)) else ids
