"""`kbsim op`: the operation that options describe is the one that is timed."""

from __future__ import annotations

import json

import pytest

from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.ops.operation import Attention, Collective, Operation, Product, Sequences
from kernbench.workloads.ops.timing import OperationTimer
from tests.cli.conftest import Kbsim

ASKED: dict[str, Operation] = {
    "matmul -m 16 -n 512 -k 256": Product(16, 512, 256),
    "attention --batch 8 --kv 512": Attention((Sequences(8, 1, 512),), 32, 8, 128),
    "attention --batch 8 --kv 512 --prefill 64": Attention((Sequences(8, 1, 512), Sequences(1, 64, 0)), 32, 8, 128),
    "attention --batch 0 --prefill 64 --heads 16": Attention((Sequences(1, 64, 0),), 16, 8, 128),
    "all_reduce --ranks 4 --bytes 65536": Collective("all_reduce", 4, 65536),
}


@pytest.mark.parametrize("words", ASKED)
def test_options_describe_the_operation(kbsim: Kbsim, words: str) -> None:
    said = kbsim("op", *words.split(), "-c", "h100", "--json")
    timer = OperationTimer(load_config("h100"), load_runtime("none"))
    assert said.code == 0, said.err
    assert json.loads(said.out)["us"] == pytest.approx(timer.time(ASKED[words]).ns / 1000)
