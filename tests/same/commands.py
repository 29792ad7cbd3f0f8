"""Commands whose JSON is compared."""

from __future__ import annotations

from collections.abc import Iterator

from tests.golden.test_bench_engines import CYCLES
from tests.golden.test_benches import SMALL
from tests.golden.test_route_goldens import ROUTES
from tests.same.inputs import machine_of
from tests.same.items import Item, item
from tests.same.loads import DENSE, SYSTEMS, layers

ON_SMALL = "tiles.json -c small.yaml"
ROWS = "rows_pressed.json -c rows_pressed.machine.json"
COMMANDS = {
    "workload_mobile": "run llama2-7b-decode -c npu_mobile --json",
    "workload_server": "run llama2-7b-decode -c npu_server --json",
    "workload_rows": "run llama2-7b-decode -c npu_mobile --set spm.num_banks=8 --set spm.bank_size_bytes=524288 --json",
    "workload_max_min": "run llama2-7b-decode -c npu_mobile --set allocation=max_min_v1 --json",
    "triton": "run bias.py --check memory --json",
    "step_until_start": f"step {ON_SMALL} --until start:9 --json",
    "step_stall": f"step {ON_SMALL} --until stall --json",
    "step_rows": f"step {ROWS} --cycles 1200 --json",
    "step_odd": "step odd.json -c odd.machine.json --cycles 3000 --json",
    "step_system": "step system_split.json -c system_split.machine.json --cycles 200 --json",
    "step_bench": "step gemm -c npu_server --cycles 3000 --set n=128 --set k=128 --json",
    "llm_both": "llm --layers 1 --prompt 32 --tokens 2 --json",
    "llm_mobile": "llm -c npu_mobile --layers 1 --prompt 16 --tokens 1 --batch 2 --w 8 --kv 8 --page 16 --json",
    "llm_single_cube": "llm -c single_cube --layers 1 --prompt 16 --tokens 1 --tp 4 --json",
    "llm_fifo": "llm --phase decode --layers 1 --prompt 100 --tokens 1 --set allocation=fifo_v1 --json",
    "ccl_list": "ccl list --json",
    "ccl_all_reduce": "ccl run all_reduce -n 8 -b 1K -e 16K -f 4 --json",
    "ccl_all_reduce_sips": "ccl run all_reduce -a ring -c two_sips --shape 2x2x2 -b 4K --json",
    "ccl_halving": "ccl run all_reduce -a halving_doubling -n 8 -b 8K --json",
    "ccl_all_to_all": "ccl run all_to_all -a ring -n 4 -b 4K --json",
    "ccl_reduce_scatter": "ccl run reduce_scatter -a ring -n 4 -b 4K --tier hbm --json",
    "ccl_broadcast": "ccl run broadcast -a ring -n 6 -b 8K --slots 2 --slot-bytes 1K --json",
    "ccl_hangs": "ccl run all_reduce --algo lazy -n 3 --ccl ccl.yaml --allow-code . --json",
    "probe": "probe --sizes 4K,64K --json",
    "whatif_odd": "whatif odd.json -c odd.machine.json --json",
    "whatif_rows": f"whatif {ROWS} --json",
    "onnx_block": "onnx block.onnx --dim batch=1 --dim seq=16 --json",
    "onnx_resnet": "onnx resnet.onnx --dim n=1 -c npu_mobile --json",
    "topology_pod": "topology show pod_8sip --json",
    "config_list": "config list --json",
    "config_server": "config show npu_server --effective --json",
    "config_two_sips": "config show two_sips --effective --json",
    "config_check": "config check npu_mobile --set dram.peak_bw_bytes_per_cycle=50 --json",
    "validate_fast": "validate systolic tensor vector transfers dram --quick --json",
    "noc_replay": "noc replay noc.json --device toy.json --json",
    "program_workload": "program show llama2-7b-decode --json",
    "schema_trace": "schema trace",
}


def command_items() -> Iterator[Item]:
    for name, command in COMMANDS.items():
        yield item(f"command/{name}", command)
    yield from _chains()
    for name in (*DENSE, *SYSTEMS, *layers()):
        long = f"{name}_long" if name in DENSE or name in SYSTEMS else name
        yield item(f"run/{name}", f"run {long}.json -c {machine_of(long)} --json")
    for name in DENSE:
        if DENSE[name].pes > 1:
            yield item(f"run/{name}_short", f"run {name}.json -c {machine_of(name)} --json")
    for (machine, source, target), number in zip(ROUTES, range(len(ROUTES)), strict=True):
        yield item(f"command/route{number}", ("topology", "route", source, target, "-c", machine, "--json"))
    for bench, params in SMALL.items():
        small = tuple(word for key, value in params.items() for word in ("--set", f"{key}={value}"))
        for machine in ("single_cube", "sip_4x4"):
            yield item(f"bench/{bench}.{machine}", ("run", bench, "--config", machine, "--json", "--verify", *small))
    for bench in CYCLES:
        yield item(f"bench/{bench}.npu_server", f"run {bench} --config npu_server --json")


def _chains() -> Iterator[Item]:
    """Commands that read what others wrote."""
    odd = "odd.json -c odd.machine.json"
    yield item("command/resumed", f"step {ON_SMALL} -n 700 --save a.ckpt", f"step {ON_SMALL} --from a.ckpt -n 900 --json")
    yield item("command/resumed_rows", f"step {ROWS} -n 999 --save b.ckpt", f"step {ROWS} --from b.ckpt -n 5000 --json")
    yield item("command/resumed_odd", f"step {odd} -n 1001 --save c.ckpt", f"step {odd} --from c.ckpt -n 20000 --json")
    half = "tp_mlp --set tokens=5 --set hidden=24 --set ffn=36 --set ranks=6"
    yield item("command/resumed_bench", f"step {half} -n 900 --save d.ckpt", f"step {half} --from d.ckpt -n 500 --json")
    traced = "--trace half.jsonl --trace-level full"
    yield item(
        "command/resumed_trace",
        f"step {ON_SMALL} -n 1234 --save e.ckpt {traced}",
        f"step {ON_SMALL} --from e.ckpt -n 9999 {traced}",
        output="half.jsonl",
    )
    conflict = "run two_engines.json -c two_engines.machine.json --trace two.jsonl --trace-level full -q"
    for what in ("summary", "why", "validate"):
        yield item(f"command/trace_{what}", conflict, f"trace {what} two.jsonl --json")
    other = "run two_engines.json -c split_fifo.machine.json --trace fifo.jsonl --trace-level full -q"
    yield item("command/trace_diff", conflict, other, "trace diff two.jsonl fifo.jsonl --json")
    kernel = "run gemm -c npu_server --set m=64 --set n=64 --set k=64 --set block_n=32 --trace gemm.jsonl --trace-level full -q"
    yield item("command/trace_why_kernel", kernel, "trace why gemm.jsonl --json")
    sweep = "sweep run s.yaml --threads 1 --store same.sqlite -q"
    yield item("command/sweep", sweep, "sweep report same.sqlite --csv same.csv --json", output="same.csv")
    yield item("command/sweep_report", sweep, "sweep report same.sqlite --json")
