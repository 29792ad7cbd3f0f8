"""A small machine and programs for each way in which a run can end: small enough to read, and written anew for every test."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from kernbench import Program

MACHINE = """\
schema: kernbench/npu/1
freq_ghz: 1.5
max_cycles: 1000000
dma: {engines: 2, max_concurrent_transfers: 3, queue_depth_per_master: 2}
dram: {channels: 2, capacity_bytes: 64 MiB, t_setup_cycles: 10}
noc: {rows: 2, cols: 3, link_bytes_per_cycle: 24, dma_at: [[0, 0], [1, 2]], dram_at: [[0, 1], [1, 1]]}
spm: {num_banks: 8, bank_size_bytes: 16 KiB}
te: {engines: 2, macs_per_cycle: 256}
energy: {static_mw: 100}
"""

GEMM = {"qbits_weight": 4, "qbits_activation": 8, "ifm_bank": 0, "ofm_bank": 4, "wgt_bank": 2}


def tiles() -> Program:
    """Weights, a KV tile, a product and a softmax, five times over; a barrier in between."""
    program = Program("tiles")
    for i in range(5):
        loaded = program.dma_load(
            dma_id=i % 2,
            tensor_role="weight",
            qbits=4,
            dram_addr=i * 8192,
            num_elements=8192,
            spm_bank=2,
            spm_offset=(i % 2) * 2048,
        )
        cached = program.kv_load(
            head_id=i,
            kv_kind="k",
            dram_base_addr=1 << 20,
            kv_range={"t_start": 0, "t_len": 32},
            qbits_kv=4,
            spm_bank=6,
            spm_offset=(i % 2) * 2048,
        )
        product = program.te_gemm(
            te_id=i % 2,
            m=32,
            n=64,
            k=128,
            **GEMM,
            ifm_offset=8192,
            wgt_offset=(i % 2) * 2048,
            ofm_offset=4096,
            deps_before=[loaded],
        )
        program.ve_softmax(
            length=64,
            batch=32,
            qbits_activation=8,
            in_bank=4,
            in_offset=4096,
            out_bank=5,
            out_offset=8192,
            deps_before=[product, cached],
        )
        if i == 2:
            program.barrier(wait_for=[product])
    program.end()
    return program


def stuck() -> Program:
    """A barrier that waits for what it holds up."""
    program = Program("stuck")
    first = program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=640, spm_bank=0, spm_offset=0)
    program.barrier(wait_for=[3], deps_before=[first])
    program.nop(deps_before=[1])
    program.te_gemm(m=8, n=8, k=8, **GEMM, ifm_offset=0, wgt_offset=0, ofm_offset=0)
    program.end()
    return program


def clash() -> Program:
    """Two loads of one scratchpad range at a time, some cycles after the start."""
    program = Program("clash")
    first = program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=640, spm_bank=4, spm_offset=0)
    for address in (4096, 8192):
        program.dma_load(
            tensor_role="weight",
            qbits=8,
            dram_addr=address,
            num_elements=640,
            spm_bank=0,
            spm_offset=0,
            deps_before=[first],
        )
    program.end()
    return program


def endless() -> Program:
    """Four megabytes: on a machine with a slow DRAM, hours of stepping."""
    program = Program("endless")
    for i in range(4):
        program.dma_load(
            tensor_role="weight", qbits=8, dram_addr=i << 20, num_elements=1 << 16, spm_bank=0, spm_offset=0
        )
    return program


def write_samples(folder: Path) -> None:
    """The machine as `small.yaml` and the programs by their names, in `folder`."""
    (folder / "small.yaml").write_text(MACHINE, encoding="utf-8")
    for name, data in saved_programs().items():
        (folder / name).write_bytes(data)


@cache
def saved_programs() -> dict[str, bytes]:
    """The files of the programs, by name: hundreds of tests have them, and to save a program waits for the disk."""
    with TemporaryDirectory() as folder:
        for program in (tiles(), stuck(), clash(), endless()):
            program.save(Path(folder, f"{program.name}.json"))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}
