"""Components that watch resources and set their capacities from cycle to cycle, against the slow reference."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import NEVER, Component, Machine, Program, load_config
from kernbench_core import FLOW, MEMBERS
from tests.oracles import ref_shaped

MACHINE = {"dram": {"channels": 3}, "spm": {"num_banks": 64, "ports": 16}}  # 16 bytes a cycle of each channel


class Shaping(Component):
    """Opens flows and sets capacities in cycles that are given; watches every resource."""

    flows = 8

    def __init__(self, flows: list[ref_shaped.Flow], changes: dict[tuple[int, int], int], at_members: int = 0) -> None:
        super().__init__()
        self.given, self.changes, self.at_members = flows, changes, at_members
        self.ids: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.told: list[tuple[int, int, tuple[Any, ...]]] = []

    def step(self, now: int) -> int:
        if now == 0:
            for resource in range(3):
                self.watch(resource)
        for number, flow in enumerate(self.given):
            if flow.start == now:
                self.ids[self.open_flow(flow.nbytes, flow.path, weight=flow.weight)] = number
        for (cycle, resource), capacity in self.changes.items():
            if cycle == now:
                self.set_capacity(resource, capacity)
        later = [cycle for cycle in (*(f.start for f in self.given), *(c for c, _ in self.changes)) if cycle > now]
        return min(later, default=NEVER)

    def notify(self, notice: int, number: int, now: int) -> int:
        if notice == FLOW:
            self.ends[self.ids[number]] = now
        elif notice == MEMBERS:
            self.told.append((now, number, self.members(number)))
            if self.at_members:
                self.set_capacity(number, self.at_members)
        return NEVER


def shaped(part: Shaping, walk: str = "fast", program: Program | None = None, **machine: Any) -> Machine:
    run = Machine(load_config({**MACHINE, **machine}), program or Program("shaped"), {"shaping": part}, walk=walk)
    run.run()
    return run


@settings(max_examples=40, deadline=None)
@given(
    flows=st.lists(
        st.tuples(
            st.integers(0, 40), st.integers(1, 200),
            st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True), st.integers(1, 4),
        ),
        min_size=1, max_size=6,
    ),
    changes=st.dictionaries(st.tuples(st.integers(0, 90), st.integers(0, 2)), st.integers(1, 16), max_size=12),
)  # fmt: skip
def test_flows_end_as_the_reference_says(
    flows: list[tuple[int, int, list[int], int]], changes: dict[tuple[int, int], int]
) -> None:
    """The end of every flow, whatever capacities are in which cycles; the plain model and the fast paths agree."""
    flows = [(0, 700, [0], 1), *flows]  # the run goes on until all have started: 16 bytes a cycle at most
    known = [ref_shaped.Flow(*one) for one in flows]
    ref_shaped.run(known, [Fraction(16)] * 3, {at: Fraction(to) for at, to in changes.items()})
    told = []
    for walk in ("plain", "fast"):
        part = Shaping([ref_shaped.Flow(*one) for one in flows], changes)
        run = shaped(part, walk)
        assert run.status == "done"
        assert [part.ends[k] for k in range(len(flows))] == [flow.end for flow in known]
        told.append(part.told)
    assert told[0] == told[1]


def test_a_capacity_for_members_counts_in_the_same_cycle() -> None:
    """64 bytes at 16 a cycle take 4 cycles; at 1, set in P4 of the cycle in which they come, 64: not one cycle at 16."""
    for at_members, end in ((0, 3), (1, 63)):
        part = Shaping([ref_shaped.Flow(0, 64, [0], 1)], {}, at_members)
        shaped(part)
        assert part.ends == {0: end}


@pytest.mark.parametrize("walk", ["plain", "fast"])
def test_a_flow_on_two_channels_keeps_the_smaller_share(walk: str) -> None:
    """Four flows have 4 bytes a cycle each on channel 1. The first is also on channel 0, with a share of 8 from cycle 5 on."""
    program = Program("one")
    program.dma_load(tensor_role="weight", qbits=8, num_elements=256, dram_addr=0, spm_bank=0, spm_offset=0)
    part = Shaping([ref_shaped.Flow(0, 700, [0, 1], 1), *(ref_shaped.Flow(0, 2000, [1], 1) for _ in range(3))], {})
    shaped(part, walk, program, dram={"channels": 3, "t_setup_cycles": 5})
    assert part.ends[0] == 700 // 4 - 1


@pytest.mark.parametrize("walk", ["plain", "fast"])
def test_a_snapshot_keeps_the_capacities_that_were_set(walk: str) -> None:
    """3,072 bytes on each of three channels, of which one gives 8 bytes a cycle from cycle 5 on instead of 16."""

    class Slow(Component):
        def step(self, now: int) -> int:
            if now == 5:
                self.set_capacity(0, 8)
            return 5 if now < 5 else NEVER

        def snapshot(self) -> bytes:
            return b""

        def restore(self, image: bytes) -> None:
            assert image == b""

    program = Program("one")
    program.dma_load(tensor_role="weight", qbits=8, num_elements=3 * 3072, dram_addr=0, spm_bank=0, spm_offset=0)
    runs = [Machine(load_config(MACHINE), program, {"slow": Slow()}, walk=walk) for _ in range(2)]
    runs[0].step(50)
    runs[1].restore(runs[0].snapshot())
    for run in runs:
        run.run()
        assert run.result().entries[0].end == 5 + (3072 - 5 * 16) // 8


def test_what_a_watcher_is_told_of_a_transfer() -> None:
    """Its start and end on the resource in the cycle itself, and its share from the cycle after on."""
    program = Program("two")
    for number in range(2):
        program.dma_load(
            tensor_role="weight", qbits=8, num_elements=64 * (number + 1), dram_addr=0, spm_bank=0, spm_offset=4096 * number
        )
    part = Shaping([], {})
    run = shaped(part, program=program, dram={"channels": 3, "t_setup_cycles": 5})
    assert [(entry.start, entry.end) for entry in run.result().entries] == [(0, 13), (0, 17)]
    first, second = (5, 0), (13, 0)
    assert [(now, resource) for now, resource, _ in part.told] == [first, second]
    assert [(m.id, m.nbytes, m.num) for m in part.told[0][2]] == [(0, 64, 0), (1, 128, 0)]  # both come in cycle 5
    assert [(m.id, m.nbytes, (m.num, m.den)) for m in part.told[1][2]] == [(1, 128, (8, 1))]  # of the last P4


def test_the_flows_of_a_transfer_over_two_channels_share_a_link() -> None:
    """1,024 bytes, of which each channel has a half; they are members of the one link twice."""
    program = Program("one")
    program.dma_load(tensor_role="weight", qbits=8, num_elements=1024, dram_addr=0, spm_bank=0, spm_offset=0)
    noc = {"kind": "mesh", "rows": 1, "cols": 2, "hop_latency_cycles": 1, "dma_at": [[0, 1]], "dram_at": [[0, 0], [0, 0]]}
    part = Shaping([], {})
    run = shaped(part, program=program, dram={"channels": 2}, noc=noc)
    link = run.plan.resources.index("noc.r0c0-r0c1")
    told = [members for _, resource, members in part.told if resource == link]
    assert [(m.id, m.engine, m.nbytes, m.num, m.den) for m in told[0]] == [(0, 0, 512, 0, 1), (0, 0, 512, 0, 1)]


@pytest.mark.parametrize(
    ("resource", "capacity", "said"),
    [(9, 1, "resource 9 cannot be watched or set"), (0, 17, "a capacity of 17"), (0, 0, "a capacity of 0")],
)
def test_what_cannot_be_ends_the_run(resource: int, capacity: int, said: str) -> None:
    part = Shaping([ref_shaped.Flow(0, 64, [0], 1)], {(0, resource): capacity})
    run = shaped(part)
    failure = run.failure()
    assert run.status == "failed" and failure is not None and said in failure["message"]


def test_other_rules_of_sharing_are_refused() -> None:
    run = shaped(Shaping([ref_shaped.Flow(0, 64, [0], 1)], {}), allocation="fifo_v1")
    failure = run.failure()
    assert failure is not None and "resource 0 cannot be watched or set" in failure["message"]


def test_a_denominator_divides_the_machines() -> None:
    """Of 12.8 bytes a cycle, 64/5: 2/5 may be set and is so many bytes; 1/3 may not."""

    class Slow(Shaping):
        def step(self, now: int) -> int:
            found = super().step(now)
            if now == 0:
                self.set_capacity(0, *self.wanted)
            return found

    for wanted, status in (((2, 5), "done"), ((1, 3), "failed")):
        part = Slow([ref_shaped.Flow(0, 64, [0], 1)], {})
        part.wanted = wanted
        dram = {"channels": 3, "peak_bw_bytes_per_cycle": 12.8}
        assert shaped(part, dram=dram).status == status
        assert part.ends == ({0: 159} if status == "done" else {})
