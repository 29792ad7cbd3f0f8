"""Items of the host and kernels in a queue begin and end where docs/model/host.md says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.config import load_config
from kernbench.sim_engine.machine import simulate
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.program import HOST, Launch, host_machine, launches_program
from tests.oracles.ref_host import Item, host_times

MACHINE = host_machine(load_config("rtx4090"))
CYCLES = st.integers(0, 40)
ITEMS = st.lists(st.builds(Item, launch=CYCLES, behind=CYCLES, sync=CYCLES, kernel=st.integers(32, 90)), min_size=1, max_size=7)


@settings(max_examples=150, deadline=None)
@given(ITEMS, st.integers(1, 4), CYCLES)
def test_items_and_kernels_are_where_the_text_says(items: list[Item], ahead: int, step: int) -> None:
    launches = [
        Launch(Kernel(f"k{i}", "te", float(one.kernel)), one.launch, one.behind, one.sync) for i, one in enumerate(items)
    ]
    program = launches_program("host", MACHINE, launches, step, ahead)
    result = simulate(program, MACHINE)
    expected = host_times(items, ahead, step)
    ours = [
        (entry.meta["phase"], times.start, times.end)
        for entry, times in zip(program.entries, result.entries, strict=True)
        if getattr(entry, "te_id", 0) == HOST
    ]
    assert ours == [(one.what, one.begin, one.end) for one in expected if one.what != "kernel"]
    assert result.cycles == max(one.end for one in expected)
