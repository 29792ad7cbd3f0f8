"""Records of single messages, and small stores: what the tests of the op log share."""

from __future__ import annotations

from typing import Any

from kernbench.common.handles import TensorHandle
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger, OpRecord

DMA, GEMM, MATH = (f"sip0.cube0.pe0.pe_{part}" for part in ("dma", "gemm", "math"))


def tile(addr: int, shape: tuple[int, ...] = (2, 4), dtype: str = "f16", space: str = "tcm", name: str = "") -> TensorHandle:
    return TensorHandle(name or f"t{addr}", addr, shape, dtype, space)


def logged(msg: Any, store: MemoryStore | None = None, component: str = DMA) -> OpRecord:
    """The record of one message."""
    log = OpLogger(store)
    log.record_start(10.0, component, msg)
    log.record_end(25.5, component, msg)
    (record,) = log.records
    return record


def holding(**spaces: dict[int, Any]) -> MemoryStore:
    store = MemoryStore()
    for space, arrays in spaces.items():
        for addr, array in arrays.items():
            store.write(space, addr, array)
    return store


def copied(log: OpLogger, **changed: Any) -> OpRecord:
    given: dict[str, Any] = {"src_space": "tcm", "src_addr": 0, "dst_space": "sram", "dst_addr": 64}
    given |= {"shape": (4,), "dtype": "f32", "nbytes": 16}
    op_id = log.record_copy(3.0, 4.0, DMA, **{**given, **changed})
    return next(record for record in log if record.op_id == op_id)
