"""Runs that are traced at each level: their files, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

from tests.same.inputs import machine_of
from tests.same.items import Item, item

LEVELS = ("summary", "full", "access")
#: Inputs that are a pair of a program and its machine.
PAIRS = (
    "kv_queue", "layer_slice", "compute", "two_engines", "blocked", "one_bank", "two_banks_split", "split_fifo",
    "max_min_conflict", "weights", "odd", "overlap_error", "rows_pressed", "rows_split", "layer_prefill_spilled", "system",
    "system_fifo", "system_max_min", "system_split", "system_one_bank",
)  # fmt: skip
SMALL = "--set n=64 --set k=64 --set block_n=32"
#: Other runs: what stands before the options of traces.
RUNS = {
    "tiles": "run tiles.json -c small.yaml",
    "tiles_max_min": "run tiles.json -c small.yaml --set allocation=max_min_v1",
    "tiles_aborted": "run tiles.json -c small.yaml --set max_cycles=500",
    "tiles_part": "run tiles.json -c small.yaml --trace-cycles 300:900 --trace-only dma*,te* --trace-window 100",
    "stuck": "run stuck.json -c small.yaml",
    "clash": "run clash.json -c small.yaml --set spm.check_overlap=warn",
    "gemm": f"run gemm -c npu_server --set m=64 {SMALL}",
    "flash_attention": "run flash_attention -c npu_server --set heads=2 --set tokens=64 --set depth=32",
    "tp_mlp": "run tp_mlp --set tokens=5 --set hidden=24 --set ffn=36 --set ranks=6",
    "tp_mlp_two_cubes": "run tp_mlp -c sip_4x4 --set tokens=5 --set hidden=24 --set ffn=36 --set ranks=12",
    "all_reduce": "ccl run all_reduce -a ring -n 4 -b 4K",
    "all_gather_hbm": "ccl run all_gather -a ring -n 6 -b 2K --tier hbm",
}


def trace_items() -> Iterator[Item]:
    runs = {name: f"run {name}.json -c {machine_of(name)}" for name in PAIRS} | RUNS
    for name, run in runs.items():
        for level in LEVELS:
            file = f"{name}.{level}.jsonl"
            yield item(f"trace/{name}.{level}", f"{run} --trace {file} --trace-level {level} -q", output=file)
