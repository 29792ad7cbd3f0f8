"""`kbsim op`: the operation that options describe is the one that is timed."""

from __future__ import annotations

import json

import pytest

from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.ops.operation import Attention, Collective, Operation, Product, Sequences, Vector
from kernbench.workloads.ops.timing import OperationTimer
from tests.cli.conftest import Kbsim

ASKED: dict[str, Operation] = {
    "matmul -m 16 -n 512 -k 256": Product(16, 512, 256),
    "attention --batch 8 --kv 512": Attention((Sequences(8, 1, 512),), 32, 8, 128),
    "attention --batch 8 --kv 512 --prefill 64": Attention((Sequences(8, 1, 512), Sequences(1, 64, 0)), 32, 8, 128),
    "attention --batch 0 --prefill 64 --heads 16": Attention((Sequences(1, 64, 0),), 16, 8, 128),
    "all_reduce --ranks 4 --bytes 65536": Collective("all_reduce", 4, 65536),
    "all_reduce --ranks 4 --bytes 64KiB": Collective("all_reduce", 4, 65536),
    "matmul -m 1k -n 2k -k 4k --dtype f8e4m3": Product(1024, 2048, 4096, 1.0, 1.0, 2.0, 8),
    "matmul -m 16 -n 512 -k 256 --w 4": Product(16, 512, 256, right_bytes=0.5),
    "matmul -m 16 -n 512 -k 256 --dtype f32": Product(16, 512, 256, 4.0, 4.0, 4.0, 32),
    "attention --batch 8 --kv 2k --head-dim 64 --dtype i8": Attention((Sequences(8, 1, 2048),), 32, 8, 64, 1.0),
    "gelu -m 64 -n 512 --dtype f32": Vector("gelu", "elementwise", 64, 512, 8.0 * 64 * 512, 5.0 * 64 * 512),
}


@pytest.mark.parametrize("words", ASKED)
def test_options_describe_the_operation(kbsim: Kbsim, words: str) -> None:
    said = kbsim("op", *words.split(), "-c", "h100", "--json")
    timer = OperationTimer(load_config("h100"), load_runtime("none"))
    assert said.code == 0, said.err
    assert json.loads(said.out)["us"] == pytest.approx(timer.time(ASKED[words]).ns / 1000)


PRODUCT = "matmul -m 512 -n 512 -k 512"


@pytest.mark.parametrize("words", [PRODUCT, "all_reduce --ranks 8 --bytes 1MiB", "attention --batch 8 --kv 4k"])
def test_the_table_shows_each_part_that_takes_time(kbsim: Kbsim, words: str) -> None:
    said = kbsim("op", *words.split(), "-c", "a100")
    parts = json.loads(kbsim("op", *words.split(), "-c", "a100", "--json").out)["parts_us"]
    rows = [line.split() for line in said.out.splitlines()]
    shown = {row[0]: row[-2] for row in rows if row and row[0] in parts and row[-1] == "us"}
    assert shown == {name: f"{us:.4g}" for name, us in parts.items() if us >= 1e-6}
