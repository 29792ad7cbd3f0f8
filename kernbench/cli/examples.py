"""Examples of each command, for its help, its manual page and the reference. The module imports nothing."""

from __future__ import annotations

#: By the path of a command: what the example is for, and the command line without `kbsim`.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "run": (
        ("a workload on a preset machine", "run llama2-7b-decode -c npu_server"),
        ("a bench with another size, and a page", "run gemm --set n=256 --report run.html"),
        ("a trace that every kbsim trace command can read", "run gemm --trace run.jsonl --trace-level full"),
    ),
    "step": (
        ("the state after 500 cycles", "step llama2-7b-decode -n 500"),
        ("save a checkpoint at the first stall", "step llama2-7b-decode --until stall --save run.ckpt"),
        ("go on from it", "step llama2-7b-decode --from run.ckpt -n 500"),
    ),
    "debug": (("stop at the first bank conflict", 'debug llama2-7b-decode --do "next conflict" --do here'),),
    "llm": (
        ("tokens per second of a decode step", "llm -m llama3-8b -c npu_server --phase decode --tokens 1"),
        ("compare widths of the weights", "llm -m llama3-8b -c npu_server --compare w=8,4"),
    ),
    "serve run": (("20 requests per second on an H100", "serve run -m llama3-8b -c h100 --request-rate 20 --num-prompts 200"),),
    "serve why": (("what limits latencies, every 4 s", "serve why -m llama3-8b -c h100 --request-rate 30 --every 4s"),),
    "serve capacity": (
        ("the highest rate within limits", 'serve capacity -m llama3-8b -c h100 --slo "p99 ttft<500ms, p99 tpot<50ms"'),
    ),
    "onnx": (("a model with a dimension n", "onnx model.onnx -c npu_server --dim n=4"),),
    "torch": (("the model that a function returns", "torch model.py:make -c npu_server"),),
    "triton": (("find memory errors and data races", "triton kernels.py --check memory,races"),),
    "op": (("a matrix product on an RTX 4090", "op matmul -m 4096 -n 4096 -k 4096 -c rtx4090"),),
    "calibrate": (("fit to measured rows", "calibrate rows.csv -c rtx4090 --runtime kernel_only -o my_4090.yaml"),),
    "compare": (("one workload on two machines", "compare llama2-7b-decode -c npu_mobile -c npu_server"),),
    "whatif": (("what to change first", "whatif llama2-7b-decode -c npu_server"),),
    "tenants": (("two programs, one with three times the weight", "tenants a.json:weight=3 b.json -c npu_server"),),
    "fuzz": (("100 runs, and a file for each finding", "fuzz kernels.py --runs 100 --save findings"),),
    "probe": (("all links of a system", "probe -c single_cube --sizes 64KiB"),),
    "validate": (("all suites, and a page about them", "validate --report validation.html"),),
    "schema": (("the keys of a machine file", "schema machine > machine.schema.json"),),
    "bench list": (("all benches", "bench list"),),
    "bench show": (("parameters of a bench", "bench show softmax"),),
    "program check": (("check a program for a machine", "program check prog.json -c npu_server"),),
    "program show": (("the entries of a workload", "program show llama2-7b-decode -c npu_server"),),
    "program emit": (("write a workload as a program", "program emit llama2-7b-decode -c npu_mobile -o decode.json"),),
    "program compile": (("compile for one machine", "program compile prog.json -c npu_server -o prog.kbp"),),
    "program list": (("all workloads", "program list"),),
    "config init": (("start from a preset", "config init mine.yaml --from npu_server"),),
    "config keys": (("keys of scratchpads", "config keys 'spm.*'"),),
    "config energy": (("energies of a process", "config energy npu_mobile --table 7nm --dram lpddr"),),
    "config show": (("values that a change overrides", "config show npu_server --set te.engines=8"),),
    "config check": (("check a machine file", "config check mine.yaml"),),
    "config list": (("all presets, chips and boards", "config list"),),
    "topology show": (("nodes of a system", "topology show -c sip_4x4"),),
    "topology compile": (("write the routers of a cube", "topology compile -c my_system.yaml"),),
    "topology route": (("the route of a transfer", "topology route sip0.cube0.pe0 sip0.cube0.pe7 -c single_cube"),),
    "topology draw": (("a picture of a cube", "topology draw -c single_cube --view cube -o cube.svg"),),
    "trace summary": (("how busy each engine was", "trace summary run.jsonl"),),
    "trace validate": (("check all conservation laws", "trace validate run.jsonl"),),
    "trace report": (("a page with timelines", "trace report run.jsonl -o run.html"),),
    "trace export": (("for Perfetto", "trace export run.jsonl --to perfetto -o run.pftrace"),),
    "trace diff": (("fail if the run is 2 % slower", "trace diff before.jsonl after.jsonl --fail-above 2%"),),
    "trace align": (("add counters of hardware", "trace align run.jsonl board.csv --map names.yaml -o both.jsonl"),),
    "trace why": (("where the time went", "trace why run.jsonl --top 3"),),
    "trace energy": (("energy by tensor", "trace energy run.jsonl --by part,tensor"),),
    "sweep run": (
        ("count the points, and estimate the time", "sweep run size.yaml --dry-run"),
        ("run them with four processes", "sweep run size.yaml -j 4"),
    ),
    "sweep submit": (("four jobs of Slurm", "sweep submit size.yaml --shards 4"),),
    "sweep merge": (("one store of several", "sweep merge all.sqlite one.sqlite two.sqlite"),),
    "sweep report": (("the best points, and a page", "sweep report size.sqlite --report size.html"),),
    "sweep compare": (("fail if a point is 3 % worse", "sweep compare before.sqlite after.sqlite --fail-above 3%"),),
    "ccl list": (("collectives and algorithms", "ccl list"),),
    "ccl run": (("sizes from 4 KiB to 64 KiB", "ccl run all_reduce --ranks 8 -b 4K -e 64K -f 4"),),
    "ccl replay": (("collectives of recorded ranks", "ccl replay traces -c a100_8x"),),
    "ccl tune": (("the best algorithm for each size", "ccl tune all_reduce -c a100_8x -b 1K -e 64M -f 16"),),
    "ccl torchrun": (("a script of four ranks", "ccl torchrun --nproc-per-node 4 train.py"),),
    "noc replay": (("recorded traffic of a Wormhole", "noc replay traffic.json --device wormhole"),),
    "noc load": (("latency by load of a mesh", "noc load --size 4x4 --rates 0.1,0.2,0.3 --saturation"),),
    "completion": (("in bash", 'completion bash > ~/.kbsim-completion; echo ". ~/.kbsim-completion" >> ~/.bashrc'),),
    "man": (("read the page of a command", "man run | man -l -"),),
}


def example_lines(path: str) -> list[tuple[str, str]]:
    """What each example of a command is for, and its command line."""
    return [(does, f"kbsim {line}") for does, line in EXAMPLES.get(path, ())]
