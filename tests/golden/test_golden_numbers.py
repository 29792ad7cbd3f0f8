"""The table of docs/model/golden_numbers.md, tight: not done at t - 1, done at t."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench import Machine, Program, load_config

FIRST_ROW: dict[str, Any] = {
    "dma": {"alignment_bytes": 32},
    "dram": {"bus_width_bytes": 64, "dram_burst_cycles": 4, "peak_bw_bytes_per_cycle": 128},
    "te": {"macs_per_cycle": 4096, "f_w": {4: 1.5}, "f_a": {8: 1}, "init_cycles": 8, "finalize_cycles": 4},
}


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    return {**FIRST_ROW, **{name: {**FIRST_ROW.get(name, {}), **keys} for name, keys in sections.items()}}


def bus(width: int, burst: int) -> dict[str, Any]:
    return {"bus_width_bytes": width, "dram_burst_cycles": burst, "peak_bw_bytes_per_cycle": 64}


def kv_tile(program: Program, spm_bank: int = 0, t_start: int = 0, spm_offset: int = 0) -> None:
    """4096 elements of 4 bits: 2048 bytes."""
    program.kv_load(
        head_id=0,
        kv_kind="k",
        dram_base_addr=0,
        kv_range={"t_start": t_start, "t_len": 32, "d_len": 128},
        qbits_kv=4,
        spm_bank=spm_bank,
        spm_offset=spm_offset,
    )


def gemm(m: int, n: int, k: int) -> Program:
    program = Program("gemm")
    program.te_gemm(
        m=m, n=n, k=k, qbits_weight=4, qbits_activation=8,
        ifm_bank=0, ifm_offset=0, wgt_bank=0, wgt_offset=16384, ofm_bank=0, ofm_offset=32768,
    )  # fmt: skip
    return program


def vector(op: str) -> Program:
    program = Program(op)
    program.ve(op, length=4096, qbits_activation=8, in_bank=0, in_offset=0, out_bank=0, out_offset=32768)
    return program


def one_tile() -> Program:
    program = Program("kv")
    kv_tile(program)
    return program


SERVER_TE = {"te": {"macs_per_cycle": 8192, "f_w": {4: 2}, "f_a": {8: 1}}}

TABLE = [
    ("kv tile, bus 64, burst 4, peak 128", changed(), one_tile(), 128),
    ("kv tile, bus 16, burst 8, peak 64", changed(dram=bus(16, 8)), one_tile(), 1024),
    ("kv tile, bus 32, burst 12, peak 64", changed(dram=bus(32, 12)), one_tile(), 768),
    ("gemm 64x128x256 W4A8", changed(), gemm(64, 128, 256), 354),
    ("gemm 256 cubed W4A8", changed(**SERVER_TE), gemm(256, 256, 256), 1036),
    ("gemm 16 cubed", changed(**SERVER_TE), gemm(16, 16, 16), 13),
    ("layernorm 4096", {}, vector("layernorm"), 96),
    ("softmax 4096", {}, vector("softmax"), 180),
]  # fmt: skip


@pytest.mark.parametrize("skip", [False, True], ids=["step", "skip"])
@pytest.mark.parametrize(("machine", "program", "cycles"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_an_entry_ends_in_its_golden_cycle(machine: dict[str, Any], program: Program, cycles: int, skip: bool) -> None:
    run = Machine(load_config(machine), program)
    run.step(cycles - 1, skip=skip)
    assert run.status == "running"
    assert run.result().entries[0].end is None
    run.step(1, skip=skip)
    assert run.status == "done"
    assert (run.result().entries[0].end, run.cycle) == (cycles, cycles)


@pytest.mark.parametrize("skip", [False, True], ids=["step", "skip"])
def test_two_tiles_share_a_channel(skip: bool) -> None:
    program = Program("two tiles")
    kv_tile(program, spm_bank=0)
    kv_tile(program, spm_bank=8, t_start=32)
    run = Machine(load_config(changed()), program)
    run.step(255, skip=skip)
    assert [e.end for e in run.result().entries] == [None, None]
    run.step(1, skip=skip)
    assert [e.end for e in run.result().entries] == [256, 256]


def test_kv_cache_size() -> None:
    """32 heads of 128, context 1024, 4 bits: K or V of a layer is 2,097,152 bytes, and that many travel."""
    program = Program("cache")
    for head in range(32):
        program.kv_load(
            head_id=head, kv_kind="v", dram_base_addr=0, kv_range={"t_start": 0, "t_len": 1024}, qbits_kv=4,
            spm_bank=0, spm_offset=0,
        )  # fmt: skip
    run = Machine(load_config({"kv_layouts": [{"t_max": 1024, "head_dim": 128}]}), program)
    run.run()
    assert run.result().counters["dram.ch0"]["bytes"] == 2_097_152
