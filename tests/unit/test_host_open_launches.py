"""A host program that launches more than can be open at a time: it waits, and no launch is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.config import SystemConfig, load_config
from kernbench.runtime_api import Context, bench
from kernbench.sim_engine.engine import GraphEngine
from kernbench.triton_emu import kernel_system
from kernbench.triton_emu.launch import Launch

REGISTRY = read_registry()


def launched(machine: str, many: int, pes: int) -> list[tuple[int, int]]:
    """When the host makes launches without waiting, and when they end."""
    found: list[Launch] = []

    @bench(name="many", description="many launches")
    def run(ctx: Context) -> None:
        found.extend(ctx.launch("nothing", lambda tl: None, pes=pes) for _ in range(many))

    engine = GraphEngine(machine)
    engine.run(run)
    assert engine.machine.status == "done" and len(found) == many
    return [(one.issued, one.end) for one in found if one.end is not None]


def test_iterations_of_a_collective_on_a_board_are_open_together() -> None:
    """With the usual numbers of nccl-tests, 25 launches on eight chips were refused with an internal error."""
    config = load_config("tpuv5e_2x4", kind=SystemConfig)
    group, entry = group_of(config, Shape(8, 1, 1)), REGISTRY.find("all_reduce", "ring")
    queues = queues_of(REGISTRY, entry, config=config, group=group)
    request = CclRequest(config, group, entry, "f16", queues, check=True, warmup=5, iters=20)
    made, _ = row(request, 64)
    once, _ = row(replace(request, warmup=0, iters=1), 64)
    assert made is not None and once is not None
    assert made.wrong == 0 and made.cycles == pytest.approx(once.cycles, rel=0.3)


@pytest.mark.parametrize(("machine", "pes", "most"), [("npu_mobile", 1, 7), ("two_sips", 3, 128)])
def test_a_host_waits_for_its_oldest_launches(machine: str, pes: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most seven parts of launches, or two for each PE of the machine, are open. Without the limit, none waits."""
    whole = launched(machine, 120, pes)
    monkeypatch.setattr(kernel_system, "MAX_OPEN", 7)
    few = launched(machine, 120, pes)
    assert len(whole) == len(few) == 120 and {issued for issued, _ in whole} == {0}
    for number, (issued, _) in enumerate(few):
        still_open = sum(end > issued for _, end in few[:number])
        assert pes * (still_open + 1) <= most and (number < most // pes) == (issued == 0)
