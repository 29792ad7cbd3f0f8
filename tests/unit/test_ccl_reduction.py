"""Reductions: simulated collectives against references in the algorithm's order, and references against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.ccl.call import Call, Queues, run_call
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.reduction import NAMES, Reduction, plus, reducing
from kernbench.ccl.registry import read_registry
from kernbench.common.errors import InputError
from kernbench.config import load_config

OPS = [Reduction(name, 0.3 if name == "premul_sum" else None) for name in NAMES]
REDUCE = ("all_reduce", "reduce_scatter", "reduce")
CONFIG = load_config("single_cube")


@pytest.mark.parametrize("op", OPS, ids=lambda op: str(op.name))
@pytest.mark.parametrize("collective", REDUCE)
def test_a_run_gives_the_bits_of_the_reference(collective: str, op: Reduction) -> None:
    """Of five ranks, an odd number of elements."""
    entry, what = read_registry().find(collective, "ring"), COLLECTIVES[collective]
    bits = ("i32", "u8") if op.name in ("band", "bor", "bxor") else ("f16", "i32")
    for dtype in ("f16", "f64") if op.name in ("avg", "premul_sum") else bits:
        group = group_of(CONFIG, shape_for(CONFIG, 5))
        call = Call("x", entry.load(), group, 333, dtype, 1024, reduction=op, collective=what)
        outcome = run_call(CONFIG, call, what, Queues(4, 1024, "tcm"), check=True)
        assert (outcome.status, outcome.wrong) == ("done", 0)


def test_references_are_numpy() -> None:
    """Integers, whose reductions have no order."""
    values = [np.arange(1, 6, dtype=np.int32) * (-1) ** rank + rank for rank in range(4)]
    bits = [one.reduce for one in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    for op, right in zip(OPS[:4] + OPS[-3:], (np.sum, np.prod, np.max, np.min, *bits), strict=True):
        with reducing(op):
            found = values[0]
            for one in values[1:]:
                found = plus(found, one)
        assert np.array_equal(found, right(values, axis=0)), op
    assert np.array_equal(plus(values[0], values[1]), values[0] + values[1])  # outside, the sum


def test_what_is_multiplied_or_divided_is_a_float() -> None:
    with pytest.raises(InputError, match="but avg multiplies or divides, so it takes floating-point"):
        Reduction("avg").check("x", "i32")
    assert Reduction("avg").after(np.full(3, 6, np.float32), 4).tolist() == [1.5] * 3
    assert Reduction("premul_sum", 0.5).before(np.full(3, 6, np.float32)).tolist() == [3.0] * 3


@pytest.mark.parametrize(
    ("name", "factor", "said"),
    [
        ("mean", None, "it must be one of sum, prod"),
        ("sum", 2.0, "premul_sum has a factor"),
        ("premul_sum", None, "premul_sum has a factor"),
    ],
)
def test_unknown_reductions_are_refused(name: str, factor: float | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Reduction(name, factor)
