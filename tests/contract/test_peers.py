"""Transfers between scratchpads that a component submits, and components that wake each other."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench import NEVER, Component, Machine, Program, load_config
from kernbench_core import EngineType
from tests.contract.test_whole import TWO_SIPS, Part, on_two_sips

LINE = 64


def move(part: Part, peer: int = 9, own: int = 0, region: int = 0, **changed: int) -> None:
    """Two lines of a PE's scratchpad to another one."""
    memory, route = part.whole.plan.reach.peer_route(own, 9)
    fields = {"channel": 3, "write": 1, "dram_addr": LINE, "row_bytes": 2 * LINE, "stride": 2 * LINE, "rows": 1}
    fields |= {"memory": memory, "route": route, "peer": peer} | changed
    part.give(0, own, tuple(fields.values()), ((region, 2 * LINE, 0),))


def opened(part: Part, room: int = 1) -> None:
    part.whole.open_peers([room * (pe == 9) for pe in range(64)])


def moved(room: int = 1, times: int = 1, **changed: int) -> Machine:
    def act(part: Part) -> None:
        if room:
            opened(part, room)
        for _ in range(times):
            move(part, **changed)

    run, part = on_two_sips({0: act})
    if run.status == "done":
        reach = run.plan.reach
        assert reach is not None
        # The links on the way carry 128 B a cycle or more: two lines are there in the cycle after the latency.
        assert [end - start for _, start, end in part.log] == [reach.peer_cycles(0, 9) + 1] * times
    return run


def test_bytes_move_to_another_scratchpad() -> None:
    assert moved().status == "done"


def test_a_scratchpad_has_room_for_the_requests_of_all_its_transfers_in_one_cycle() -> None:
    """63 PEs write into one bank with one port: nearly all of their requests are denied, and made again in each cycle."""
    times, lines = 4, 32

    def act(part: Part) -> None:
        opened(part, 63 * times)
        for pe in times * sorted(set(range(64)) - {9}):
            memory, route = part.whole.plan.reach.peer_route(pe, 9)
            size = lines * LINE
            part.give(0, pe, (3, 1, LINE, size, size, 1, memory, route, 9), ((0, size, 0),))

    part = Part({0: act}, jobs=63 * times)
    one_bank = {"pe.spm.num_banks": 1, "pe.spm.bank_size_bytes": 4 * 2**20, "pe.spm.write_ports": 1}
    part.whole = run = Machine(load_config(TWO_SIPS, one_bank), Program("none"), {"part": part}, whole=True)
    run.run()
    bank = run.result().counters["sip0.cube1.pe1.pe_tcm"]
    assert run.status == "done" and len(part.log) == 63 * times
    assert bank["grants"] == [63 * times * lines]
    assert bank["requests"][0] > 150 * run.cycle  # so many in a cycle, on average


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"room": 0}, "params[8]"),
        ({"times": 2}, "params[8]"),  # there is room for one at a time
        ({"peer": 8}, "params[8]"),  # none there
        ({"peer": 64}, "params[8]"),  # what stands for endpoints has no banks
        ({"peer": 65}, "params[8]"),
        ({"peer": 0}, "params[8]"),  # its own
        ({"dram_addr": 32}, "params[2]"),
        ({"dram_addr": 4 * 2**20 - LINE}, "params[2]"),
        ({"rows": 2}, "params[5]"),
        ({"region": 32}, "region[0]"),
        ({"channel": 4}, "params[0]"),
        ({"memory": 0}, "params[7]"),  # the route is to another
    ],
)
def test_a_transfer_that_cannot_be_is_refused(changed: dict[str, int], what: str) -> None:
    run = moved(**changed)
    failure = run.result().failure
    assert run.status == "failed" and failure is not None
    assert failure["message"].endswith(f"it submits a job with a wrong {what}")


def test_room_is_free_again_when_a_transfer_has_ended() -> None:
    def begin(part: Part) -> None:
        opened(part)
        part.give(EngineType.VE, 3, (0, 1000, 0, 1))  # the run goes on

    run, part = on_two_sips({0: begin, **{200 * k: move for k in range(1, 4)}})
    assert run.status == "done" and len(part.log) == 4


def test_room_that_cannot_be_is_refused() -> None:
    run = Machine(load_config(TWO_SIPS), Program("none"), whole=True)
    with pytest.raises(ValueError, match=r"^room at 2 scratchpads: the machine has 65$"):
        run._core.open_peers([1, 1])
    with pytest.raises(ValueError, match=r"^room for -1 transfers more at scratchpad 3: there is place for \d+$"):
        run.open_peers([0, 0, 0, -1])


class Sleeper(Component):
    """Runs when it is woken."""

    def __init__(self, act: Any = None) -> None:
        super().__init__()
        self.act = act
        self.ran: list[int] = []

    def step(self, now: int) -> int:
        self.ran.append(now)
        if self.act is None:
            return NEVER
        if now == 0:
            self.submit(EngineType.COMPONENT, 0)  # the run goes on
            return 2
        self.act()
        return NEVER

    def accept(self, job: Any, now: int) -> int:
        return NEVER


def test_a_component_is_woken_in_the_first_of_the_cycles() -> None:
    def act() -> None:
        for cycle in (7, 5, 9):
            run.wake(1, cycle)
        with pytest.raises(ValueError, match=r"^component 1 is to run in cycle 2, which is not after cycle 2$"):
            run.wake(1, 2)
        with pytest.raises(ValueError, match=r"^component 2 is none of the 2 of the machine$"):
            run.wake(2, 5)

    first, second = Sleeper(act), Sleeper()
    run = Machine(load_config({}), Program("none"), {"first": first, "second": second})
    run.step(20)
    assert (first.ran, second.ran) == ([0, 2], [0, 5])
