"""Collectives without verification: equal cycles, and no contents of memories, unless the kernels are the user's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernbench.ccl.call import Call, Outcome, Queues, run_call
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.reduction import Reduction
from kernbench.ccl.registry import read_registry
from kernbench.config import load_config
from kernbench.sim_engine.memory_store import MemoryStore

ENTRIES = {one.full_name: one for one in read_registry().entries}
CONFIG = load_config("two_sips")


def outcome(name: str, dtype: str, check: bool, module: Any = None, **how: Any) -> Outcome:
    entry = ENTRIES[name]
    made = Call(name, module or entry.load(), group_of(CONFIG, Shape(2, 2, 1)), 90, dtype, 512, (3, 0, 1, 2), **how)
    return run_call(CONFIG, made, COLLECTIVES[entry.collective], Queues(3, 512), check=check)


def contents(found: Outcome) -> MemoryStore:
    return found.engine.activity._session.store


@pytest.mark.parametrize(
    ("name", "dtype", "op"),
    [
        ("all_reduce_ring", "f16", "sum"),
        ("all_reduce_hierarchical", "i32", "sum"),
        ("all_reduce_halving_doubling", "i32", "prod"),
        ("all_reduce_direct", "f32", "avg"),
        ("all_to_all_hierarchical", "u8", "sum"),
        ("barrier_tree", "i32", "sum"),
    ],
)
def test_the_cycles_do_not_depend_on_verification(name: str, dtype: str, op: str) -> None:
    collective = COLLECTIVES[ENTRIES[name].collective]
    verified, timed = (outcome(name, dtype, check, reduction=Reduction(op), collective=collective) for check in (True, False))
    assert (verified.status, verified.wrong, timed.wrong) == ("done", 0, None)
    assert (timed.cycles, timed.whole) == (verified.cycles, verified.whole)
    assert timed.engine.machine.result().counters == verified.engine.machine.result().counters


def test_only_verified_results_are_kept() -> None:
    there = [contents(outcome("all_reduce_ring", "i32", check)).pending("hbm", 0, 1 << 40) for check in (True, False)]
    assert there[0]  # sums, until the data pass computes them
    assert not there[1]


def test_a_kernel_of_the_user_may_read_elements() -> None:
    """Its control flow may depend on elements, so the memories keep their contents."""

    def kernel(in_ptr: int, out_ptr: int, n_elem: int, dtype: str, *rest: Any) -> None:
        tl = rest[-1]
        first = int(tl.load(in_ptr, (1,), dtype)[0])
        seen.append(first)
        tl.store(out_ptr, tl.load(in_ptr, (n_elem,), dtype))
        assert int(tl.load(out_ptr, (1,), dtype)[0]) == first

    seen: list[int] = []
    own = ENTRIES["all_reduce_ring"].load()
    mine = SimpleNamespace(kernel=kernel, kernel_args=own.kernel_args, neighbours=own.neighbours, TOPO_NAME_TO_KIND={})
    assert outcome("all_reduce_ring", "i32", False, mine).status == "done"
    assert len(seen) == 4
