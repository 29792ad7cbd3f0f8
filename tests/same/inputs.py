"""The files that items read, in a folder that is made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernbench import load_config
from tests.cli.bench_samples import BENCH
from tests.cli.samples import clash, stuck, tiles, write_samples
from tests.cli.test_ccl_cli import lazy
from tests.cli.test_cli_topology import SYSTEM as PAIR
from tests.cli.test_cli_trace import hostile as hostile_trace
from tests.cli.test_cli_trace_compare import COUNTERS, MAPPING, longer
from tests.cli.test_cli_why import hostile as hostile_why
from tests.cli.test_noc_cli import ONE as CONTENDED
from tests.golden.test_golden_numbers import TABLE
from tests.golden.test_trace_goldens import CASES, case_of
from tests.noc_samples import CHIP
from tests.same.loads import DENSE, SYSTEMS, dense, layers, system
from tests.sweep_samples import SPEC
from tests.trace_samples import lawful, lines, meta, write_trace

TRITON = '''\
"""A kernel that runs under Triton: a bias is added to rows, and what is below 0 is dropped."""

import numpy as np

import kernbench.triton as triton
import kernbench.triton.language as tl


@triton.jit
def bias_relu(x_ptr, bias_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    places = row[:, None] * columns + column[None, :]
    x = tl.load(x_ptr + places, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + column, mask=column < columns, other=0.0)
    tl.store(out_ptr + places, tl.maximum(x + bias[None, :], 0.0), mask=mask)


x = np.arange(64 * 200, dtype=np.float32).reshape(64, 200) - 6000
out = np.empty_like(x)
run = bias_relu[(16,)](x, np.arange(200, dtype=np.float32), out, 64, 200, ROWS=4, BLOCK=256)
'''


def write_inputs(folder: Path, cases: Path) -> None:
    """All inputs; the published cases of `cases` (tests.same.goldens) too where that file is there."""
    write_samples(folder)
    _texts(
        folder,
        {
            "scale.py": BENCH,
            "bias.py": TRITON,
            "pair.yaml": PAIR,
            "s.yaml": SPEC,
            "toy.json": json.dumps(CHIP),
            "noc.json": json.dumps(CONTENDED),
        },
    )
    lazy(folder)
    for name in DENSE:
        _pair(folder, name, *dense(name, short=True))
        _pair(folder, f"{name}_long", *dense(name, short=False))
    for name in SYSTEMS:
        _pair(folder, name, *system(name, 150))
        _pair(folder, f"{name}_long", *system(name, 4000))
    for name, both in layers().items():
        _pair(folder, name, *both)
    for name in CASES:
        _pair(folder, name, case_of(name)["machine"], case_of(name)["program"])
    for i, (_, machine, program, _) in enumerate(TABLE):
        _pair(folder, f"number{i}", machine, program.to_dict())
    _write_traced(folder)
    _write_models(folder)
    if cases.exists():
        for line in cases.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            _pair(folder / "cases", case["name"], case["machine"], case["program"])


def machine_of(name: str) -> str:
    """The machine's file of a pair."""
    return f"{name}.machine.json"


def _pair(folder: Path, name: str, machine: Any, program: Any) -> None:
    folder.mkdir(exist_ok=True)
    if isinstance(machine, str):
        machine = load_config(machine).to_dict()
    _texts(folder, {machine_of(name): json.dumps(machine), f"{name}.json": json.dumps(program)})


def _texts(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _write_traced(folder: Path) -> None:
    """Folders for the goldens of traces: samples, traces written by hand, and what is beside them."""
    makers: dict[str, Callable[[Path], None]] = {"trace": _write_trace, "why": _write_why, "compare": _write_compare}
    for name, make in makers.items():
        (folder / name).mkdir()
        write_samples(folder / name)
        write_trace(folder / name / "hand.jsonl", lawful())
        make(folder / name)


def _write_trace(folder: Path) -> None:
    program = tiles().to_dict()
    for i, entry in enumerate(program["cmdq"]):
        entry |= {"phase": "attention" if i < 11 else "mlp", "layer_id": i // 4, "token_idx": i // 9}
    (folder / "tiles.json").write_text(json.dumps(program), encoding="utf-8")
    write_trace(folder / "hostile.jsonl", hostile_trace())


def _write_why(folder: Path) -> None:
    write_trace(folder / "low.jsonl", [meta(level="summary"), *lawful()[1:]])
    write_trace(folder / "hostile.jsonl", hostile_why())


def _write_compare(folder: Path) -> None:
    few = [{"counter": "te0.busy", "value": 8}, {"counter": "ve0.ops", "value": 130.5}]
    _texts(
        folder,
        {
            "longer.json": json.dumps(longer()),
            "stuck.json": json.dumps(stuck().to_dict()),
            "clash.json": json.dumps(clash().to_dict()),
            "board.csv": COUNTERS,
            "board.yaml": MAPPING,
            "few.json": json.dumps({"counters": few}),
        },
    )
    (folder / "fast.jsonl").write_bytes(lines(lawful()).replace(b'"freq_ghz":"1.5"', b'"freq_ghz":"2"'))


def _write_models(folder: Path) -> None:
    """ONNX models; none where the package that makes them is missing."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        return
    from tests.onnx_models import Builder, resnet_block, transformer_block

    transformer_block().save(folder / "block.onnx")
    resnet_block().save(folder / "resnet.onnx")
    b = Builder()
    x = b.input("x", 4, 8)
    b.output(b.node("Relu", x, name="good"), b.node("Det", b.node("Det", x, name="first"), name="second"))
    b.save(folder / "odd.onnx")
