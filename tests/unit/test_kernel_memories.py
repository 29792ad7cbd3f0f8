"""The memories that a kernel reaches, as op log and trace name them: HBM, a cube's SRAM, its scratchpad, that of a peer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench.components.builtin.pe_dma import TransferError
from kernbench.config import load_config
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.op_log import Output
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.writer import TraceFile
from kernbench.triton_emu.errors import KernelError
from tests.kernels import Run, at
from tests.queues import line, queued

SRAM = 1 << 14  # behind two stacks of 8 KiB
SYSTEM: dict[str, Any] = {
    "schema": "kernbench/system/1",
    "sip": {"cols": 2},
    "cube": {"pes": 2, "hbm": {"channels": 4, "capacity_bytes": "8 KiB"}, "sram": {"bytes": "4 KiB"}},
    "pe": {"spm": {"num_banks": 4, "bank_width_bytes": 16, "bank_size_bytes": "16 KiB"}},
}
A = (np.arange(64) % 7).astype(np.float16).reshape(8, 8)


def through_sram(tl: Any) -> None:
    x = tl.load(0, (8, 8), "f16")
    tl.store(SRAM, x + 1.0)
    y = tl.load(SRAM, (8, 8), "f16")
    tl.store(SRAM + 256, y, strides=(32, 2))
    z = tl.load(SRAM + 256, (8, 8), "f16", strides=(32, 2))
    tl.store(512, tl.dot(z, z, out_dtype="f32"))


def run_of(kernel: Any) -> Run:
    return Run(kernel, memory={0: A}, config=load_config(SYSTEM))


def spaces(run: Run, op: str) -> list[tuple[str, str]]:
    assert run.log is not None
    return [(one.params["src_space"], one.params["dst_space"]) for one in run.log if one.op_name == op]


def test_loads_and_stores_name_the_memory_of_their_address() -> None:
    run = run_of(through_sram).run()
    assert spaces(run, "dma_read") == [("hbm", "tcm"), ("sram", "tcm"), ("sram", "tcm")]
    assert spaces(run, "dma_write") == [("tcm", "sram"), ("tcm", "sram"), ("tcm", "hbm")]


def test_a_replay_finds_them_there() -> None:
    run = run_of(through_sram).run()
    assert run.log is not None
    kept, product = Output("kept", "sram", SRAM, (8, 8), "f16"), Output("c", "hbm", 512, (8, 8), "f32")
    replay = DataExecutor(run.log, outputs=[kept, product])
    right = (A + 1).astype(np.float32)
    assert replay.run().verify({"kept": A + 1, "c": right @ right}).exit_code == 0


def test_the_trace_has_the_channels_of_hbm_alone(tmp_path: Path) -> None:
    run = run_of(through_sram)
    with TraceFile(tmp_path / "t.jsonl") as file:
        tracing = run.machine.trace(file, TraceOptions("full"))
        run.run()
        tracing.close()
    events = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    of_hbm = {event["job_id"] for event in events if event["event_type"] == "DRAM_TX_START"}
    moves = [event for event in events if event["event_type"] == "DMA_START"]
    ends = [min(event["src_addr"], event["dst_addr"]) if event["direction"] == "SRAM_TO_SRAM" else
            event["src_addr" if event["direction"] == "DRAM_TO_SRAM" else "dst_addr"] for event in moves]  # fmt: skip
    assert [(at >= SRAM, event["job_id"] in of_hbm) for at, event in zip(ends, moves, strict=True)] == [
        (False, True), (True, False), (True, False), (True, False), (True, False), (False, True)]  # fmt: skip


def streamed(tl: Any) -> None:
    tl.store(SRAM, tl.load(0, (8, 8), "f16"))
    a = tl.ref(SRAM, (8, 8), "f16")
    tl.wait(tl.composite("gemm", a, a, out_ptr=SRAM + 1024))
    tl.store(512, tl.load(SRAM + 1024, (8, 8), "f16"))


def test_composite_ops_stream_from_sram_and_back() -> None:
    run = run_of(streamed).run()
    assert run.log is not None
    (row,) = [one.params for one in run.log if one.op_name == "composite_gemm"]
    assert [row[f"{name}_space"] for name in ("src_a", "src_b", "dst")] == ["sram"] * 3
    a = A.astype(np.float32)
    replay = DataExecutor(run.log, outputs=[Output("c", "hbm", 512, (8, 8), "f16")])
    assert replay.run().verify({"c": (a @ a).astype(np.float16)}).exit_code == 0


def across(tl: Any) -> None:
    tl.load(SRAM - 64, (64,), "f16")


def test_what_lies_in_two_memories_is_refused() -> None:
    rule = "of the 128 bytes at 0x3fc0 64 are in HBM and 64 in SRAM; move what lies in one memory at a time"
    error = run_of(across).fail()
    assert isinstance(error, KernelError) and str(error).startswith(f"{at(across, 1)}: ") and rule in str(error)


UNALIGNED = "pe.dma.alignment_bytes=96"  # the second stack, at 8 KiB, and the SRAM begin between two multiples


def test_memories_that_begin_between_two_multiples_of_the_alignment_are_used() -> None:
    """The first aligned bytes of the second slice are at 4128, those of the SRAM at 16416."""
    offsets = (4128, SRAM + 32)

    def kernel(tl: Any) -> None:
        for offset in offsets:
            tl.store(offset, tl.load(0, (48,), "f16"))
            tl.load(offset, (48,), "f16")

    run = Run(kernel, memory={0: A}, config=load_config(SYSTEM, [UNALIGNED])).run()
    assert spaces(run, "dma_write") == [("tcm", "hbm"), ("tcm", "sram")]


@pytest.mark.parametrize(("offset", "first", "end"), [(4096, 0x1020, 0x1FE0), (SRAM, 0x4020, 0x4FE0), (4064, 0, 0xFC0)])
def test_bytes_whose_aligned_bytes_are_in_two_memories_are_refused(offset: int, first: int, end: int) -> None:
    def kernel(tl: Any) -> None:
        tl.load(offset, (8,), "f16")

    error = Run(kernel, memory={0: A}, config=load_config(SYSTEM, [UNALIGNED])).fail()
    rule = f"transfers are aligned to 96 bytes, and those inside the memory are in [{first:#x}, {end:#x})"
    assert isinstance(error, TransferError) and rule in str(error)


def test_bytes_after_the_last_aligned_byte_of_an_npu_are_refused() -> None:
    """As in programs (docs/model/endings.md, Bad input)."""

    def kernel(tl: Any) -> None:
        tl.load(4096, (1,), "i8")

    error = Run(kernel, config=load_config({"dram": {"capacity_bytes": 4097}})).fail()
    assert "transfers are aligned to 64 bytes, and those inside the memory are in [0x0, 0x1000)" in str(error)


@pytest.mark.parametrize("tier", ["tcm", "sram", "hbm"])
def test_a_message_to_a_peer_names_the_memory_of_its_slot(tier: str) -> None:
    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tl.send("E", tl.load(0, (8, 8), "f16"))
        else:
            tl.store(512, tl.recv("W", (8, 8), "f16"))

    run = queued(kernel, line(2), memory={0: A}, tier=tier).run()
    assert spaces(run, "ipcq_copy") == [("tcm", tier)]
    taken = [("hbm", "tcm")] if tier == "tcm" else [("hbm", "tcm"), (tier, "tcm")]
    assert spaces(run, "dma_read") == taken and spaces(run, "dma_write") == [("tcm", "hbm")]
