"""What commands print with `--json` fits the schemas that `kbsim schema` prints, and what it is not does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernbench.ccl.imports.chakra import Node, write_chakra
from kernbench.cmdq import Program, program_json_schema
from kernbench.config import machine_json_schema, system_json_schema
from kernbench.trace.json_schema import trace_json_schema
from kernbench.workloads.serving.fleet_file import fleet_json_schema
from tests.cli.bench_samples import BENCH
from tests.cli.conftest import Kbsim
from tests.onnx_models import Builder
from tests.schemas import validator_of_text

QUEUES = """\
from kernbench.runtime_api import bench

PES = [f"sip0.cube0.pe{i}" for i in range(4)]
RING = {r: {(0, "E"): ((r + 1) % 4, "W"), (0, "W"): ((r - 1) % 4, "E")} for r in range(4)}


def stuck(tl):
    passed = tl.recv("W", (256,), "f32")
    tl.send("E", passed)


def lost(tl):
    tl.send("E", tl.full((256,), 1.0, "f32"))


@bench(name="queues", description="nobody sends, or nobody receives", machine="single_cube", params={"lost": False})
def run(ctx):
    ctx.install_queues(RING, ranks=PES)
    ctx.launch("it", lost if ctx.params["lost"] else stuck, pes=PES)
"""
TINY = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 500, "head_dim": 64}  # fmt: skip
SMALL = ("--set", "m=64", "--set", "n=64", "--set", "k=64", "--set", "block_n=32")
TINY_MODEL = ("--set", "prompt=16", "--set", "tokens=1")
SERVE = ("serve", "--model", "tiny.json", "--num-prompts", "30", "--request-rate", "100", "--random-input-len", "16",
         "--random-output-len", "4")  # fmt: skip
DRAFTS = ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2, "acceptance_rate": 0.6}')
LLM = ("llm", "--model", "tiny.json", "--prompt", "16", "--tokens", "1")
#: By schema: keys that are there in some answers alone.
ENDS = {"result": {"deadlock", "engines"}, "bench": set(), "ccl": {"message", "result", "algorithms"}, "replay": set(),
        "llm": set(), "onnx": set(), "compare": set(), "whatif": set(), "tenants": set(), "serve": set(), "serve-why": set(),
        "serve-capacity": set()}  # fmt: skip
#: What is read, and a line of a trace.
MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "program": program_json_schema,
    "machine": machine_json_schema,
    "system": system_json_schema,
    "trace": trace_json_schema,
    "fleet": fleet_json_schema,
}
#: Schema, command, exit code.
PRINTED = {
    "system": ("result", ("run", "ring.json", "--config", "two_sips"), 0),
    "system_step": ("result", ("step", "ring.json", "--config", "two_sips", "--cycles", "500"), 0),
    "system_deadlock": ("result", ("run", "stuck.json", "--config", "single_cube"), 4),
    "bench": ("bench", ("run", "gemm", *SMALL, "--verify"), 0),
    "bench_wrong": ("bench", ("run", "scale.py", "--verify", "--set", "off=1"), 1),
    "bench_deadlock": ("bench", ("run", "queues.py"), 4),
    "bench_warned": ("bench", ("run", "queues.py", "--set", "lost=true"), 0),
    "bench_step": ("bench", ("step", "gemm", *SMALL, "--cycles", "800"), 0),
    "ccl": ("ccl", ("ccl", "run", "all_reduce", "-b", "1K"), 0),
    "ccl_aborted": ("ccl", ("ccl", "run", "broadcast", "-b", "1K", "--set", "max_cycles=500"), 3),
    "replay": ("replay", ("ccl", "replay", "trace"), 0),
    "llm": ("llm", LLM, 0),
    "llm_compared": ("llm", (*LLM, "--phase", "decode", "--compare", "kv=4,8"), 0),
    "llm_on_chip": ("llm", ("llm", "--model", "llama3.2-1b", *LLM[3:], "-c", "a100", "--runtime", "vllm"), 0),
    "llm_on_chip_compared": ("llm", ("llm", "--model", "llama3.2-1b", *LLM[3:], "-c", "a100", "--runtime", "vllm", "--compare",
                                     "batch=1,2"), 0),
    "onnx": ("onnx", ("onnx", "odd.onnx", "--partial"), 0),
    "compare": ("compare", ("compare", "gemm", *SMALL, "-c", "npu_server", "-c", "single_cube"), 0),
    "compare_bounds": ("compare", ("compare", "tiny.json", *TINY_MODEL, "-c", "npu_server", "-c", "npu_mobile", "--no-why"), 0),
    "compare_chips": ("compare", ("compare", "llama3.2-1b", *TINY_MODEL, "-c", "a100", "-c", "h100_8x", "--runtime", "vllm"),
                      0),
    "compare_deadlock": ("compare", ("compare", "queues.py", "-c", "single_cube", "-c", "two_sips"), 4),
    "serve": ("serve", (*SERVE, "--goodput", "ttft:10", "--energy", "--set", "cost.usd_per_hour=1"), 0),
    "serve_exact": ("serve", (*SERVE, "--exact", "--num-gpu-blocks-override", "64", "--max-model-len", "64", *DRAFTS), 0),
    "serve_why": ("serve-why", ("serve", "why", *SERVE[1:], "--every", "50ms"), 0),
    "serve_capacity": ("serve-capacity", ("serve", "capacity", *SERVE[1:5], *SERVE[7:], "--slo", "p50 ttft<1ms", "--seeds", "1",
                                          "--duration", "0.01", "--max-num-seqs", "1", "--num-gpu-blocks-override", "64"), 0),
    "tenants": ("tenants", ("tenants", "tenant.json:weight=2", "tenant.json"), 0),
    "whatif": ("whatif", ("whatif", "gemm", *SMALL, "--free", "te,dram"), 0),
    "whatif_deadlock": ("whatif", ("whatif", "queues.py", "--free", "te"), 4),
}


@pytest.fixture(autouse=True)
def files(_place: None, tmp_path: Path) -> None:
    program = Program("ring")
    send = {"tensor_role": "activation", "qbits": 8, "num_elements": 4096, "spm_bank": 0, "spm_offset": 0}
    sent = program.dma_send(node="sip0.cube0.pe0", peer="sip1.cube0.pe1", peer_bank=0, peer_offset=0, **send)
    program.launch(node="sip0.cube0.m_cpu", deps_before=[sent])
    program.end()
    program.save(tmp_path / "ring.json")
    tenant = Program("tenant")
    tenant.dma_load(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0, spm_offset=0)
    tenant.save(tmp_path / "tenant.json")
    (tmp_path / "scale.py").write_text(BENCH, encoding="utf-8")
    (tmp_path / "queues.py").write_text(QUEUES, encoding="utf-8")
    (tmp_path / "tiny.json").write_text(json.dumps(TINY), encoding="utf-8")
    (tmp_path / "trace").mkdir()
    calls = [Node(1, "COMP_NODE", micros=1), Node(2, "COMM_COLL_NODE", attributes={"comm_type": 0, "comm_size": 1024})]
    for rank in range(2):
        (tmp_path / f"trace/t.{rank}.et").write_bytes(write_chakra(calls))
    b = Builder()
    x = b.input("x", 4, 8)
    b.output(b.node("Relu", x, name="good"), b.node("Det", x, name="bad"))
    b.save(tmp_path / "odd.onnx")


@pytest.mark.parametrize(("kind", "made"), MADE.items())
def test_a_schema_is_printed_whole(kind: str, made: Callable[[], dict[str, Any]], kbsim: Kbsim) -> None:
    said = kbsim("schema", kind)
    assert said.code == 0 and json.loads(said.out) == json.loads(json.dumps(made()))
    validator_of_text(said.out)


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_fits_its_schema(name: str, kbsim: Kbsim) -> None:
    kind, arguments, code = PRINTED[name]
    valid = validator_of_text(kbsim("schema", kind).out)
    said = kbsim(*arguments, "--json")
    assert said.code == code, said.err
    whole = json.loads(said.out)
    valid.validate(whole)
    assert not valid.is_valid({**whole, "more": 1})
    for key in set(whole) - ENDS[kind]:
        assert not valid.is_valid({other: value for other, value in whole.items() if other != key}), key


@pytest.mark.parametrize(
    ("name", "path", "wrong"),
    [
        ("system", ("counters", "sip0.cube0.pe0.pe_dma", "bytes"), -1),
        ("system", ("counters", "gpu0"), {}),
        ("bench_deadlock", ("result", "deadlock", 0, "reason"), "sleep"),
        ("bench_warned", ("result", "warnings", 0, "code"), "LOST"),
        ("ccl", ("rows", 0, "wrong"), "none"),
        ("llm", ("phases", "decode", "te_use"), 1.5),
    ],
)
def test_what_is_wrong_does_not_fit(name: str, path: tuple[Any, ...], wrong: Any, kbsim: Kbsim) -> None:
    kind, arguments, _ = PRINTED[name]
    whole = json.loads(kbsim(*arguments, "--json").out)
    at = whole
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = wrong
    assert not validator_of_text(kbsim("schema", kind).out).is_valid(whole)
