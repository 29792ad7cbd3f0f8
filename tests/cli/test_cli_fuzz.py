"""`kbsim fuzz`: what is told, written and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Kbsim

#: Two stores to the same bytes of DRAM, the second after a load alone.
STORE = {"opcode": "DMA_STORE_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": 256, "dram_addr": 0}
RACE = [
    {**STORE, "spm_bank": 0, "spm_offset": 0},
    {**STORE, "opcode": "DMA_LOAD_TILE", "dram_addr": 8192, "num_elements": 16384, "spm_bank": 0, "spm_offset": 4096},
    {**STORE, "spm_bank": 4, "spm_offset": 0, "deps_before": [1]},
]
COMMON = ("-c", "npu_mobile", "--runs", "8")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, deps in (("race", [1]), ("right", [0, 1])):
        cmdq = [*RACE[:2], {**RACE[2], "deps_before": deps}]
        whole = {"metadata": {"version": "1.0", "name": name}, "cmdq": cmdq}
        Path(f"{name}.json").write_text(json.dumps(whole), encoding="utf-8")
    return tmp_path


def test_a_race_is_told_saved_and_replayed(programs: Path, kbsim: Kbsim) -> None:
    said = kbsim("fuzz", "race.json", *COMMON, "--save", "out", "--junit", "report.xml")
    assert said.code == 1
    assert "1 finding" in said.out and "entry 2 (DMA_STORE_TILE)" in said.out
    assert "missing wait: entry 2 does not wait for entry 0; add it to deps_before" in " ".join(said.out.split())
    (case,) = ElementTree.parse("report.xml").iter("testcase")
    failure = case.find("failure")
    assert failure is not None and "entry 2" in (failure.text or "")
    (saved,) = Path("out").iterdir()
    again = kbsim("fuzz", "--replay", str(saved))
    assert again.code == 1 and "the finding is there again, exactly: race" in again.out
    Path("race.json").write_text(Path("right.json").read_text(encoding="utf-8"), encoding="utf-8")
    mended = kbsim("fuzz", "--replay", str(saved))
    assert mended.code == 0 and "the finding is not there any more" in mended.out


def test_a_right_program_passes(programs: Path, kbsim: Kbsim) -> None:
    said = kbsim("fuzz", "right.json", *COMMON, "--junit", "report.xml")
    assert said.code == 0 and said.out.startswith("nothing found  8 runs, 1 order, 0 findings, seed 0")
    assert ElementTree.parse("report.xml").getroot().get("failures") == "0"


def test_json_is_the_same_for_a_seed(programs: Path, kbsim: Kbsim) -> None:
    one, two, other = (kbsim("fuzz", "race.json", *COMMON, "--seed", seed, "--json").out for seed in ("3", "3", "4"))
    found = json.loads(one)
    assert one == two and one != other
    assert found["schema"] == "kernbench/fuzz/1" and found["runs"] <= 8
    assert all(finding["schema"] == "kernbench/fuzz-finding/1" for finding in found["findings"])


def saved(kbsim: Kbsim) -> dict[str, Any]:
    assert kbsim("fuzz", "race.json", *COMMON, "--save", "out", "--quiet").code == 1
    (path,) = Path("out").iterdir()
    plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return plain


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "schema": ({"schema": "kernbench/fuzz-finding/9"}, "it must be kernbench/fuzz-finding/1"),
    "kind": ({"draws": [{"kind": "colour", "name": "x", "ordinal": 0, "value": 1}]}, "kind must be one of"),
    "value": ({"draws": [{"kind": "latency", "name": "x", "ordinal": 0, "value": -1}]}, "value more than 0"),
    "zero": ({"draws": [{"kind": "latency", "name": "x", "ordinal": 0, "value": 0}]}, "value more than 0"),
    "huge": ({"draws": [{"kind": "latency", "name": "x", "ordinal": 0, "value": 1 << 62}]}, "value more than 0"),
    "many": ({"draws": [{"kind": "latency", "name": "x", "ordinal": 0, "value": 1}] * 5000}, "at most 4096"),
    "target": ({"target": {"target": 7}}, "it must have target, config"),
    "ranges": ({"ranges": {"latency": -1, "start": 0, "slowest": "1/4", "kinds": []}}, "it must be 0 to"),
    "slowest": ({"ranges": {"latency": 1, "start": 0, "slowest": "0/0", "kinds": []}}, "a fraction like 1/4"),
    "digest": ({"digest": 5}, "the file is not a finding of kbsim fuzz"),
}


def test_files_that_are_no_findings_are_refused(programs: Path, kbsim: Kbsim) -> None:
    plain = saved(kbsim)
    for name, (change, rule) in HOSTILE.items():
        Path("bad.json").write_text(json.dumps(plain | change), encoding="utf-8")
        said = kbsim("fuzz", "--replay", "bad.json")
        assert said.code == 2 and rule in " ".join(said.err.split()), name
    unnamed = {"draws": [{"kind": "latency", "name": "nothing", "ordinal": 0, "value": 1}]}
    Path("other.json").write_text(json.dumps(plain | unnamed), encoding="utf-8")
    assert kbsim("fuzz", "--replay", "other.json").code == 0, "a delay of something that is not there changes nothing"
    for text in ("", "[]", "{", "[" * 100_000, '{"schema": 1}'):
        Path("bad.json").write_text(text, encoding="utf-8")
        assert kbsim("fuzz", "--replay", "bad.json").code == 2


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((), "it needs a TARGET, or --replay FILE"),
        (("race.json", "--vary", "latency,colour"), "it must be one of latency, start"),
        (("race.json", "--slowest", "2"), "it must be 1/1024 to 1"),
        (("race.json", "--replay", "race.json"), "a saved finding already has its target"),
        (("nothing.json",), "nothing.json"),
        (("all_reduce", "--set", "ranks=1", "-c", "single_cube"), "at least 2"),
    ],
)
def test_mistakes_are_refused(programs: Path, kbsim: Kbsim, arguments: tuple[str, ...], rule: str) -> None:
    said = kbsim("fuzz", *arguments)
    assert said.code == 2 and rule in " ".join(said.err.split())


def test_a_target_that_does_not_end_without_delays_is_refused(programs: Path, kbsim: Kbsim) -> None:
    said = kbsim("fuzz", "race.json", *COMMON, "--set", "max_cycles=10")
    assert said.code == 2 and "its run without draws is aborted" in " ".join(said.err.split())


#: A script without a bench: two kernels, one of which several programs race in.
SCRIPT = """
import sys

import numpy as np
import triton
import triton.language as tl


@triton.jit
def total(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(out_ptr) + tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def twice(x_ptr, out_ptr):
    here = tl.program_id(0)
    tl.store(out_ptr + here, 2 * tl.load(x_ptr + here))


x = np.arange(4, dtype=np.float32)
for kernel in (total, twice):
    print("launching")
    kernel[(4,)](x, np.zeros(4, np.float32))
sys.exit()
"""
WORKERS = """
import numpy as np
from kernbench.ccl import dist


def worker(rank):
    dist.init_process_group()
    dist.all_reduce(dist.from_numpy(np.full(4, rank, np.float32)))
    print("done")


dist.spawn(worker, nprocs=2)
"""


def test_launches_of_a_script_are_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kbsim: Kbsim) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.py").write_text(SCRIPT, encoding="utf-8")
    Path("workers.py").write_text(WORKERS, encoding="utf-8")
    raced = kbsim("fuzz", "two.py:total", "--runs", "4", "--findings", "1", "--save", "out")
    assert raced.code == 1 and "out_ptr: 1 of 4 elements differ" in raced.out and "two.py:11" in raced.out
    assert "two.py:total on single_cube.yaml" in raced.out and "launching" not in raced.out
    (saved,) = Path("out").iterdir()
    assert "the finding is there again, exactly: tensor" in kbsim("fuzz", "--replay", str(saved)).out
    right = kbsim("fuzz", "two.py:twice", "--runs", "4", "-c", "npu_server")
    assert right.code == 0 and "two.py:twice on npu_server.yaml" in right.out
    assert kbsim("fuzz", "workers.py", "--runs", "4").out.startswith("nothing found  4 runs")
    several = kbsim("fuzz", "two.py")
    assert several.code == 2 and "the script launches total, twice; name one of them, for example two.py:total" in several.err
    unknown = kbsim("fuzz", "two.py:twiced")
    assert unknown.code == 2 and "its launches are total, twice; did you mean twice?" in unknown.err
    other = kbsim("fuzz", "workers.py", "-c", "npu_server")
    assert other.code == 2 and "the script itself chooses the machine of worker, which is single_cube.yaml" in other.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("print(1)\n", "the file contains no bench, and as a script it launches nothing"),
        ("import triton\nraise SystemExit(3)\n", "wrong.py:2: the file cannot be imported: SystemExit: 3"),
        ("import triton\n1 / 0\n", "wrong.py:2: the file cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_scripts_that_launch_nothing_are_refused(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kbsim: Kbsim
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.py").write_text(text, encoding="utf-8")
    said = kbsim("fuzz", "wrong.py")
    assert said.code == 2 and told in said.err


#: What an atomic addition returned, and a sum of floats behind a lock: both depend on the order of the programs.
ORDERED = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def ordered(lock_ptr, sum_ptr, turn_ptr, old_ptr):
    tl.store(old_ptr + tl.program_id(0), tl.atomic_add(turn_ptr, 1))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr, tl.load(sum_ptr) + 1.0 / (3.0 + tl.program_id(0)))
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


ordered[(8,)](np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros(8, np.int32))
"""


def test_tensors_that_depend_on_the_order_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kbsim: Kbsim) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ordered.py").write_text(ORDERED, encoding="utf-8")
    free = ("--order-free", "old_ptr", "--order-free", "sum_ptr")
    for only, differs in ((free[:2], "sum_ptr"), (free[2:], "old_ptr")):
        plain = kbsim("fuzz", "ordered.py", "--runs", "12", *only)
        assert plain.code == 1 and f"{differs}:" in plain.out
    assert kbsim("fuzz", "ordered.py", "--runs", "12", *free).code == 0
    unknown = kbsim("fuzz", "ordered.py", "--order-free", "sums")
    assert unknown.code == 2 and "the compared tensors are lock_ptr, sum_ptr, turn_ptr, old_ptr" in unknown.err
    whole = {"metadata": {"version": "1.0", "name": "right"}, "cmdq": RACE[:1]}
    Path("right.json").write_text(json.dumps(whole), encoding="utf-8")
    program = kbsim("fuzz", "right.json", *COMMON, *free)
    assert program.code == 2 and "order_free names tensors, and right.json is a program" in program.err


def test_algorithms_of_files_are_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kbsim: Kbsim) -> None:
    """A file of the user's own replaces an algorithm: the ring is for a torus alone. Only collectives take such files."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(
        "schema: kernbench/ccl/1\nalgorithms:\n  all_reduce:\n"
        "    ring: {module: kernbench.ccl.algorithms.all_reduce_ring, topologies: [torus]}\n", encoding="utf-8",
    )  # fmt: skip
    how = ("--set", "algo=ring", "--set", "ranks=4", "--set", "size=256B", "--ccl", "mine.yaml", "--runs", "3")
    assert kbsim("fuzz", "all_reduce", "--set", "topo=torus", *how).code == 0
    other = kbsim("fuzz", "all_reduce", "--set", "topo=ring", *how)
    assert other.code == 2 and "all_reduce_ring is for torus, and this is a ring" in other.err
    wrong = kbsim("fuzz", "softmax", "--ccl", "mine.yaml")
    assert wrong.code == 2 and "ccl is for collectives" in wrong.err
