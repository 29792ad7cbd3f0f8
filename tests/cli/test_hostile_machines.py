"""`kbsim run` of machines and programs whose numbers are in their ranges, and whose products are more than the core takes."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Kbsim

LOAD = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 4096, "spm_bank": 0, "spm_offset": 0}
PLACES = {f"{name}_{part}": 0 for name in ("ifm", "wgt", "ofm") for part in ("bank", "offset")}
GEMM = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, **PLACES}
HUGE = {"num_banks": 1, "bank_size_bytes": 2**62 - 16}


def run(kbsim: Kbsim, machine: dict[str, Any], entry: dict[str, Any]) -> Any:
    Path("m.json").write_text(json.dumps({"schema": "kernbench/npu/1", **machine}), encoding="utf-8")
    Path("p.json").write_text(json.dumps({"metadata": {"version": "1.0"}, "cmdq": [entry]}), encoding="utf-8")
    return kbsim("run", "p.json", "-c", "m.json", "--json")


def test_an_interleave_beyond_the_memory(kbsim: Kbsim) -> None:
    """All bytes are on the first channel, whatever its size times the channels is."""
    found = []
    for interleave in (2**30, 2**61, 2**62 - 1):
        dram = {"channels": 8, "interleave_bytes": interleave, "capacity_bytes": 2**30}
        for shape in ({"num_elements": 4096}, {"rows": 5, "row_elements": 100, "stride_bytes": 2**27}):
            said = run(kbsim, {"dram": dram}, {**LOAD, **shape})
            assert said.code == 0
            found.append(said.out)
    assert found[:2] == found[2:4] == found[4:]


@pytest.mark.parametrize(
    ("machine", "entry", "said"),
    [
        (
            {"dram": {"channels": 8, "interleave_bytes": 2**61, "capacity_bytes": 2**62 - 1}},
            {**LOAD, "num_elements": 64},
            f"dram.interleave_bytes = {2**61}, but times the 8 channels it must be below 2^61 in a memory that is as large",
        ),
        (
            {"spm": HUGE, "te": {"macs_per_cycle": 2**31 - 1, "f_w": {}, "f_a": {}}},
            {**GEMM, "m": 2**29, "n": 2**29, "k": 2**29},
            f"(id 0, TE_GEMM_TILE): m = {2**29}, but the job would do {2**87} operations, and one has fewer than 2^62",
        ),
        (
            {"spm": HUGE, "dram": {"capacity_bytes": 2**40}},
            {**LOAD, "rows": 2**24 + 1, "row_elements": 1, "stride_bytes": 1},
            "(id 0, DMA_LOAD_TILE): rows = 16777217, but the transfer would have 16777217 rows, and one has at most 16777216",
        ),
        (
            {"dma": {"engines": 4096}, "dram": {"channels": 1025}},
            {**LOAD, "num_elements": 64},
            "dma.engines = 4096, but times dram.channels (1025) it must be at most 2^22: there is a route for each of them",
        ),
        (
            {"dma": {"engines": 256}, "dram": {"channels": 64}, "noc": {"rows": 256, "cols": 256, "dma_at": [], "dram_at": []}},
            {**LOAD, "num_elements": 64},
            "dma.engines = 256, but times dram.channels (64), and rows and columns of the mesh (512), it must be at most 2^22: "
            "there is a route for each of them",
        ),
    ],
)  # fmt: skip
def test_products_are_refused(kbsim: Kbsim, machine: dict[str, Any], entry: dict[str, Any], said: str) -> None:
    done = run(kbsim, machine, entry)
    assert done.code == 2 and done.err.split("\n")[0].endswith(said), done.err


def test_many_rows_take_no_memory(kbsim: Kbsim) -> None:
    """The laws of a run look at transfers, not at rows."""
    machine = {"spm": {"num_banks": 16, "bank_size_bytes": 2**24}, "dma": {"alignment_bytes": 1}, "max_cycles": 1000}
    shape = {"rows": 2**22, "row_elements": 1, "stride_bytes": 2}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert run(kbsim, machine, {**LOAD, **shape}).code == 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # [KiB]
