"""A small traced run that the tests of the seed's trace format share."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from kernbench import Machine, Program, load_config
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import Trace

Events = list[dict[str, Any]]
#: Two engines that share one bank, so that accesses conflict; a mesh, so that transfers use links; prices of accesses.
MACHINE: dict[str, Any] = {
    "freq_ghz": 2,
    "noc": {"dram_at": [[0, 0], [0, 1]]},
    "spm": {"num_banks": 2, "ports": 1, "bank_size_bytes": 2**18},
    "dram": {"channels": 2},
}
TILE = {
    "qbits_weight": 8, "qbits_activation": 8, "ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 0, "wgt_offset": 65536,
    "ofm_bank": 0, "ofm_offset": 131072,
}  # fmt: skip
LLM = {
    "layer_id": 3, "block_id": 3, "phase": "QKV_PROJ", "head_id": 1, "token_idx": 2, "seq_len": 128,
    "model_name": "llama2_7b", "precision": "INT8",
}  # fmt: skip


def program() -> Program:
    """A load, a product with everything that the format can say of a command, a norm beside a load, and a store."""
    made = Program("seed_003")
    load = made.dma_load(tensor_role="weight", qbits=8, num_elements=65536, dram_addr=4096, spm_bank=0, spm_offset=0, **LLM)
    product = made.te_gemm(
        m=128, n=128, k=256, deps_before=[load], tile_id=5, token=10, irq_line=3, marker="projected", source="ISA",
        desc_addr=140737488355328, tenant_id=1, **TILE, **LLM,
    )  # fmt: skip
    made.dma_load(
        tensor_role="weight", qbits=8, num_elements=16384, dram_addr=131072, spm_bank=0, spm_offset=196608, deps_before=[load]
    )
    norm = made.ve_layernorm(
        length=4096, batch=4, qbits_activation=8, in_bank=0, in_offset=131072, out_bank=1, out_offset=0, deps_before=[product],
        phase="LN1", tile_id=6,
    )  # fmt: skip
    made.dma_store(
        tensor_role="activation", qbits=8, num_elements=4096, dram_addr=8192, spm_bank=1, spm_offset=0, deps_before=[norm]
    )
    return made


def traced(made: Program | None = None, machine: dict[str, Any] | None = None, **options: Any) -> Events:
    """The lines of the trace of a run, as they are in the file."""
    return [json.loads(line) for line in trace_text(made, machine, **options).splitlines()]


def trace_text(made: Program | None = None, machine: dict[str, Any] | None = None, **options: Any) -> bytes:
    """The file itself."""
    run = Machine(load_config(machine or MACHINE), made or program())
    out = io.BytesIO()
    tracing = run.trace(out, TraceOptions(**{"level": "access", "window": 64, **options}))
    run.run()
    tracing.close()
    return out.getvalue()


def trace_file(folder: Path, **options: Any) -> Trace:
    """The trace as a file that a reader has opened."""
    path = folder / "run.trace.jsonl"
    path.write_bytes(trace_text(**options))
    return Trace(path)


def of(events: Events, *kinds: str) -> Events:
    """The events of some types."""
    return [one for one in events if one["event_type"] in kinds]
