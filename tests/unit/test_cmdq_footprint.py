"""What entries touch: transfers, regions, channels. Small hand-checked cases, and slow obvious counts beside them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.cmdq import load_program
from kernbench.cmdq.entries import Entry
from kernbench.cmdq.footprint import (
    Region,
    Transfer,
    aligned_bytes,
    bytes_of,
    bytes_on_channels,
    flat_address,
    regions_of,
    transfer_of,
)
from kernbench.cmdq.lower import lower_machine, lower_program
from kernbench.common.errors import InternalError
from kernbench.config import NpuConfig, load_config

MACHINE: dict[str, Any] = {
    "dma": {"alignment_bytes": 32},
    "kv_layouts": [{"t_max": 1024, "head_dim": 128}, {"t_max": 8, "head_dim": 3}],
}
TILE: dict[str, Any] = {
    "opcode": "DMA_LOAD_TILE",
    "tensor_role": "weight",
    "qbits": 8,
    "dram_addr": 40,
    "spm_bank": 1,
    "spm_offset": 18,
}
KV: dict[str, Any] = {
    "opcode": "KV_STORE_TILE",
    "head_id": 2,
    "kv_kind": "v",
    "dram_base_addr": 4096,
    "qbits_kv": 4,
    "spm_bank": 0,
    "spm_offset": 0,
    "t_start": 5,
    "t_len": 4,
}
TE: dict[str, Any] = {
    "opcode": "TE_GEMM_TILE",
    "m": 3,
    "n": 5,
    "k": 7,
    "qbits_weight": 4,
    "qbits_activation": 8,
    "ifm_bank": 0,
    "ifm_offset": 0,
    "wgt_bank": 2,
    "wgt_offset": 16,
    "ofm_bank": 1,
    "ofm_offset": 33,
}
VE: dict[str, Any] = {
    "length": 7,
    "batch": 3,
    "qbits_activation": 4,
    "in_bank": 0,
    "in_offset": 0,
    "out_bank": 0,
    "out_offset": 64,
}


def machine(**sections: Any) -> NpuConfig:
    return load_config({**MACHINE, **sections})


def entry_of(**fields: Any) -> Entry:
    return load_program({"metadata": {"version": "1.0"}, "cmdq": [fields]}).entries[0]


def transfer(config: NpuConfig | None = None, **fields: Any) -> Transfer:
    return transfer_of(entry_of(**fields), config or machine())


def on_channels(got: Transfer, config: NpuConfig) -> tuple[int, ...]:
    extent = [np.array([value]) for value in (got.dram_addr, got.rows, got.row_bytes, got.stride)]
    (memory,) = lower_machine(config)["memories"]
    (found,) = bytes_on_channels(*extent, got.alignment, memory["interleave"], memory["channels"]).tolist()
    return tuple(found)


def group_and_t_start(*entries: dict[str, Any]) -> list[tuple[int, int]]:
    """Of each transfer: the KV stores whose order it keeps, -1 none, and its place among them."""
    program = load_program({"metadata": {"version": "1.0"}, "cmdq": list(entries)})
    moves = lower_program(program, machine())["dma"]
    return list(zip(moves["group"].tolist(), moves["t_start"].tolist(), strict=True))


def test_a_contiguous_tile() -> None:
    got = transfer(**TILE, num_elements=100)
    assert (got.write, got.channel) == (False, 0)
    assert (got.dram_addr, got.rows, got.row_bytes) == (40, 1, 100)
    assert (got.dram_start, got.dram_end) == (32, 160)  # [40, 140) widened to multiples of 32
    assert (got.bytes_total, got.bytes_aligned) == (100, 128)
    assert got.spm_addr == (1 * 16 + 1) * 16 + 2  # line 1 of bank 1, byte 2


@pytest.mark.parametrize(
    ("qbits", "elements", "nbytes"), [(1, 9, 2), (2, 5, 2), (4, 4096, 2048), (8, 3, 3), (16, 3, 6), (64, 1, 8)]
)
def test_bits_are_rounded_up_to_bytes_once(qbits: int, elements: int, nbytes: int) -> None:
    assert bytes_of(elements, qbits) == nbytes
    assert transfer(**{**TILE, "qbits": qbits}, num_elements=elements).row_bytes == nbytes


def test_rows_are_aligned_one_by_one() -> None:
    got = transfer(**{**TILE, "qbits": 4}, rows=3, row_elements=41, stride_bytes=70)
    assert (got.rows, got.row_bytes, got.stride) == (3, 21, 70)
    assert [got.aligned_row(i) for i in range(3)] == [(32, 64), (96, 160), (160, 224)]  # 40..61, 110..131, 180..201
    assert got.bytes_aligned == 32 + 64 + 64
    assert got.dram_end == 224


def test_overlapping_aligned_rows_travel_twice() -> None:
    assert transfer(**{**TILE, "dram_addr": 0}, rows=4, row_elements=2, stride_bytes=4).bytes_aligned == 4 * 32


@pytest.mark.parametrize(
    ("opcode", "role", "expected"),
    [
        ("DMA_LOAD_TILE", "weight", (False, 0)),
        ("DMA_STORE_TILE", "activation", (True, 0)),
        ("DMA_PREFETCH_TILE", "embedding", (False, 0)),
        ("DMA_LOAD_TILE", "kv", (False, 1)),
        ("DMA_PREFETCH_TILE", "kv", (False, 1)),
        ("DMA_STORE_TILE", "kv", (True, 2)),
    ],
)
def test_channels_of_moves(opcode: str, role: str, expected: tuple[bool, int]) -> None:
    fields = {**TILE, "opcode": opcode, "tensor_role": role, "num_elements": 4}
    got = transfer(**fields)
    assert (got.write, got.channel) == expected
    assert group_and_t_start(fields) == [(-1, 0)]  # a tile with the role kv takes no part in the order of KV stores


def test_a_kv_range_over_the_head_dimension_is_contiguous() -> None:
    got = transfer(**KV)
    assert (got.dram_addr, got.rows, got.row_bytes) == (4096 + ((2 * 1024 + 5) * 128) // 2, 1, 4 * 64)
    assert (got.write, got.channel) == (True, 2)
    assert transfer(**KV, d_len=128) == got


def test_kv_stores_of_one_base_head_and_kind_are_a_group() -> None:
    later, other = {**KV, "t_start": 9}, {**KV, "head_id": 1}
    load = {
        "opcode": "KV_LOAD_TILE", **{k: v for k, v in KV.items() if k not in ("opcode", "t_start", "t_len")},
        "kv_range": {"t_start": 5, "t_len": 4},
    }  # fmt: skip
    assert group_and_t_start(KV, other, load, later) == [(0, 5), (1, 5), (-1, 0), (0, 9)]


def test_a_partial_kv_range_is_a_row_per_token() -> None:
    got = transfer(**KV, d_start=16, d_len=32)
    assert (got.dram_addr, got.rows, got.row_bytes, got.stride) == (4096 + ((2 * 1024 + 5) * 128 + 16) // 2, 4, 16, 64)
    assert transfer(**KV, d_start=64).row_bytes == 32  # to the end of the head dimension
    load = transfer(
        opcode="KV_LOAD_TILE", **{k: v for k, v in KV.items() if k not in ("opcode", "t_start", "t_len")},
        kv_range={"t_start": 5, "t_len": 4, "d_start": 16, "d_len": 32},
    )  # fmt: skip
    assert (load.dram_addr, load.rows, load.row_bytes, load.stride) == (got.dram_addr, 4, 16, 64)
    assert (load.write, load.channel) == (False, 1)


def test_one_row_of_a_layout_whose_rows_end_inside_a_byte() -> None:
    got = transfer(**{**KV, "kv_layout_id": 1, "t_start": 2, "t_len": 1, "head_id": 0}, d_len=1)
    assert (got.dram_addr, got.rows, got.row_bytes) == (4096 + 3, 1, 1)  # element (0, 2, 0) is number 6, 4 bits each


def test_kv_cache_of_the_golden_table() -> None:
    """32 heads, D 128, T 1024, 4 bit: 2,097,152 bytes of K or V for one layer."""
    config = machine()
    heads = [transfer(config, **{**KV, "dram_base_addr": 0, "head_id": h, "t_start": 0, "t_len": 1024}) for h in range(32)]
    assert sum(head.bytes_aligned for head in heads) == 2_097_152
    assert heads[-1].dram_end == 2_097_152


@pytest.mark.parametrize(
    ("kind", "bank", "offset", "flat"),
    [
        ("interleaved", 0, 0, 0), ("interleaved", 3, 0, 48), ("interleaved", 3, 15, 63), ("interleaved", 3, 16, 16 * 16 + 48),
        ("interleaved", 15, 40, 2 * 256 + 240 + 8), ("blocked", 3, 40, 3 * 65536 + 40), ("blocked", 0, 65536, 65536),
    ],
)  # fmt: skip
def test_flat_addresses(kind: str, bank: int, offset: int, flat: int) -> None:
    assert flat_address(bank, offset, machine(spm={"map": kind}).spm) == flat


def test_regions_of_a_gemm() -> None:
    assert regions_of(entry_of(**TE), machine()) == (
        Region(0, 21, False),  # 3 x 7 at 8 bits
        Region(256 + 32, 18, False),  # 7 x 5 at 4 bits: 17.5 bytes
        Region(2 * 256 + 16 + 1, 15, True),  # 3 x 5 at 8 bits
    )


@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reductions_write_one_element_a_row(op: str) -> None:
    regions = regions_of(entry_of(opcode=f"VE_{op.upper()}_TILE", **VE), machine())
    assert regions == (Region(0, 11, False), Region(1024, 2, True))  # 21 and 3 elements of 4 bits


def test_regions_of_other_ve_ops() -> None:
    assert regions_of(entry_of(opcode="VE_EXP_TILE", **VE), machine()) == (Region(0, 11, False), Region(1024, 11, True))
    add = entry_of(opcode="VE_ADD_TILE", **VE, in2_bank=1, in2_offset=0)
    assert regions_of(add, machine()) == (Region(0, 11, False), Region(16, 11, False), Region(1024, 11, True))


def test_a_result_may_have_another_width() -> None:
    assert regions_of(entry_of(**TE, qbits_result=32), machine())[2] == Region(2 * 256 + 16 + 1, 60, True)
    exp = regions_of(entry_of(opcode="VE_EXP_TILE", **VE, qbits_result=32), machine())
    assert exp == (Region(0, 11, False), Region(1024, 84, True))
    assert regions_of(entry_of(opcode="VE_MAX_TILE", **VE, qbits_result=32), machine())[1] == Region(1024, 12, True)


def test_what_has_no_transfer_or_regions_is_our_bug() -> None:
    with pytest.raises(InternalError, match="is not a DMA entry"):
        transfer_of(entry_of(opcode="NOP"), machine())
    with pytest.raises(InternalError, match="is neither a TE nor a VE entry"):
        regions_of(entry_of(opcode="NOP"), machine())


ADDR, SMALL = st.integers(0, 500), st.integers(1, 40)


@given(ADDR, SMALL, SMALL, SMALL, st.sampled_from([1, 3, 16, 32, 48, 64]))
def test_aligned_bytes_without_walking_the_rows(addr: int, rows: int, row_bytes: int, gap: int, alignment: int) -> None:
    stride = row_bytes + gap - 1
    walked = 0
    for i in range(rows):
        first = addr + i * stride
        last = first + row_bytes - 1
        walked += (last // alignment + 1) * alignment - first // alignment * alignment
    assert aligned_bytes(addr, rows, row_bytes, stride, alignment) == walked


@given(ADDR, SMALL, SMALL, SMALL, st.sampled_from([1, 3, 16, 48]), st.sampled_from([1, 5, 16, 64]), st.integers(1, 4))
def test_channel_bytes_are_those_of_every_single_byte(
    addr: int, rows: int, row_bytes: int, gap: int, alignment: int, interleave: int, channels: int
) -> None:
    config = machine(
        dma={"alignment_bytes": alignment},
        dram={"channels": channels, "interleave_bytes": interleave},
        spm={"bank_size_bytes": 2**20},
    )
    fields = {**TILE, "dram_addr": addr, "rows": rows, "row_elements": row_bytes, "stride_bytes": row_bytes + gap - 1}
    got = transfer(config, **fields)
    counted: Counter[int] = Counter()
    for i in range(rows):
        for byte in range(*got.aligned_row(i)):
            counted[byte // interleave % channels] += 1
    assert on_channels(got, config) == tuple(counted[c] for c in range(channels))
    assert sum(counted.values()) == got.bytes_aligned


def test_many_rows_are_counted_by_their_period() -> None:
    config = load_config({"dram": {"channels": 4, "capacity_bytes": "64 TiB"}, "spm": {"bank_size_bytes": "4 TiB"}})
    got = transfer(config, **TILE, rows=10**9 + 1, row_elements=100, stride_bytes=320)
    first = transfer(config, **TILE, rows=16, row_elements=100, stride_bytes=320)  # 16 * 320 is a multiple of 4 * 256
    one = transfer(config, **TILE, rows=1, row_elements=100, stride_bytes=320)
    times = 10**9 // 16
    period, last = on_channels(first, config), on_channels(one, config)
    assert 10**9 % 16 == 0
    assert on_channels(got, config) == tuple(times * a + b for a, b in zip(period, last, strict=True))
    assert sum(on_channels(got, config)) == got.bytes_aligned


def test_beyond_countable_positions_a_lower_bound_is_given() -> None:
    config = load_config(
        {
            "dma": {"alignment_bytes": 1_000_003},
            "dram": {"channels": 2, "interleave_bytes": 999_983, "capacity_bytes": "1024 TiB"},
        }
    )
    fields = {**TILE, "rows": 2**20, "row_elements": 5_000_000, "stride_bytes": 5_000_000}
    bound = on_channels(transfer(config, **fields), config)
    some = on_channels(transfer(config, **{**fields, "rows": 2**10}), config)
    assert bound == (2**20 * 2 * 999_983,) * 2
    assert all(0 < at_least <= exact * 2**10 for at_least, exact in zip(bound, some, strict=True))


def test_an_interleave_as_large_as_the_address_space() -> None:
    config = load_config({"dram": {"channels": 3, "interleave_bytes": 2**62 - 1, "capacity_bytes": 2**58}})
    for fields in ({"num_elements": 100}, {"rows": 3, "row_elements": 100, "stride_bytes": 200}):
        got = transfer(config, **TILE, **fields)
        assert on_channels(got, config) == (got.bytes_aligned, 0, 0)
