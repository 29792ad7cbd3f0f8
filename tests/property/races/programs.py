"""Programs that lack a dependency, and the same ones with it. Without delays, the entries do not meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernbench import load_program
from kernbench.cmdq import Program

Entries = list[dict[str, Any]]


def load(at: int, bank: int, offset: int = 0, count: int = 256, **more: Any) -> dict[str, Any]:
    what = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": count}
    return {**what, "dram_addr": at, "spm_bank": bank, "spm_offset": offset, **more}


def store(at: int, bank: int, offset: int = 0, count: int = 256, **more: Any) -> dict[str, Any]:
    return {**load(at, bank, offset, count, **more), "opcode": "DMA_STORE_TILE"}


def gemm(ifm: int, wgt: int, ofm: int, **more: Any) -> dict[str, Any]:
    places = {"ifm_bank": ifm, "ifm_offset": 0, "wgt_bank": wgt, "wgt_offset": 0, "ofm_bank": ofm, "ofm_offset": 0}
    return {"opcode": "TE_GEMM_TILE", "m": 16, "n": 16, "k": 16, "qbits_weight": 8, "qbits_activation": 8, **places, **more}


def program(name: str, entries: Entries) -> Program:
    made: Program = load_program({"metadata": {"version": "1.0", "name": name}, "cmdq": entries})
    return made


FAR = 4096  # [B] an offset in a bank behind all other places


def product_before_weights(right: bool) -> Entries:
    # The first load takes longer, so the second has ended when the product starts.
    return [load(0, 0, FAR, 4096), load(8192, 4), load(0, 0), gemm(0, 4, 8, deps_before=[0, 1, 2] if right else [0, 2])]


def store_before_product(right: bool) -> Entries:
    return [load(0, 0), load(1024, 4), gemm(0, 4, 8, deps_before=[0, 1]), load(8192, 0, FAR, 16384),
            store(65536, 8, deps_before=[2, 3] if right else [3])]  # fmt: skip


def buffer_loaded_again(right: bool) -> Entries:
    return [load(0, 0), load(1024, 4), gemm(0, 4, 8, deps_before=[0, 1]), load(8192, 0, FAR, 16384),
            load(4096, 0, deps_before=[2, 3] if right else [3])]  # fmt: skip


def load_before_store(right: bool) -> Entries:
    """Through DRAM."""
    first = [store(0, 0), load(8192, 0, FAR, 16384)]
    return [*first, load(0, 4, deps_before=[0, 1] if right else [1])]


def two_stores(right: bool) -> Entries:
    first = [store(0, 0), load(8192, 0, FAR, 16384)]
    return [*first, store(0, 4, deps_before=[0, 1] if right else [1])]


PROGRAMS: Mapping[str, Callable[[bool], Program]] = {
    one.__name__: lambda right, one=one: program(one.__name__, one(right))  # type: ignore[misc]
    for one in (product_before_weights, store_before_product, buffer_loaded_again, load_before_store, two_stores)
}
