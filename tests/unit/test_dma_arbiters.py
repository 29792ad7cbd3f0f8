"""Arbiters of DMA engines (docs/model/dma.md, P3): which job starts in which cycle."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench import Machine, Program, load_config
from kernbench_core import DmaEngine, DmaJob

CHANNELS = ("act_weight", "kv_load", "kv_store")


def started(order: str, **dma: Any) -> dict[int, int | None]:
    """The cycles in which transfers start, by id. `order`: a letter for each submitted transfer: w of the channel act_weight,
    l of kv_load, s of kv_store."""
    machine = load_config({"dma": dma, "dram": {"bus_width_bytes": 64, "dram_burst_cycles": 1}})
    program = Program()
    for number, letter in enumerate(order):
        add = program.dma_store if letter == "s" else program.dma_load
        fields = {"qbits": 8, "num_elements": 64, "dram_addr": 4096 * number, "spm_bank": number, "spm_offset": 0}
        add(tensor_role="weight" if letter == "w" else "kv", **fields)
    run = Machine(machine, program)
    run.run()
    return {entry.id: entry.start for entry in run.result().entries}


def starts(arbiter: str, order: str, **dma: Any) -> list[int]:
    """The ids of the transfers in the order of their starts, of an engine with one transfer at a time."""
    began = started(order, arbiter=arbiter, max_concurrent_transfers=1, **dma)
    assert len(set(began.values())) == len(order)
    return sorted(began, key=lambda number: began[number] or 0)


@pytest.mark.parametrize(
    ("order", "by_priority", "in_turn"),
    [
        ("wwwwll", [4, 5, 0, 1, 2, 3], [0, 4, 1, 5, 2, 3]),
        ("sslwlw", [2, 4, 0, 1, 3, 5], [3, 2, 0, 5, 4, 1]),
        ("www", [0, 1, 2], [0, 1, 2]),
        ("lws", [0, 1, 2], [1, 0, 2]),
    ],
)
def test_channels_take_turns_under_round_robin(order: str, by_priority: list[int], in_turn: list[int]) -> None:
    assert starts("priority", order) == by_priority
    assert starts("round_robin", order) == in_turn


def test_scores_have_no_effect_under_round_robin() -> None:
    loads_last = {"kv_load_bonus": 0, "channels": {"kv_load": {"priority": -3}, "kv_store": {"priority": 9}}}
    assert starts("priority", "lwslws", **loads_last) == [2, 5, 1, 4, 0, 3]
    assert starts("round_robin", "lwslws", **loads_last) == starts("round_robin", "lwslws") == [1, 0, 2, 4, 3, 5]


def test_a_full_channel_loses_its_turn_but_a_full_queue_holds_the_engine() -> None:
    """`max_concurrent` makes a channel's jobs ineligible; `queue_depth_per_master` stalls the chosen job, and all others."""
    assert at_once("wwll", max_concurrent_transfers=4, channels={"act_weight": {"max_concurrent": 1}}) == [0, 2, 3]
    assert at_once("wwll", max_concurrent_transfers=4, queue_depth_per_master=1) == [0, 2]
    assert at_once("wwlls", max_concurrent_transfers=4, queue_depth_per_master=1) == [0, 2, 4]
    assert at_once("wwl", max_concurrent_transfers=4, queue_depth_per_master=1, period=2) == [0, 2]


def at_once(order: str, **dma: Any) -> list[int]:
    """The ids of the transfers that start in cycle 0 under `round_robin`."""
    return [number for number, cycle in started(order, arbiter="round_robin", **dma).items() if cycle == 0]


def test_a_checkpoint_keeps_whose_turn_it_is() -> None:
    machine = load_config({"dma": {"arbiter": "round_robin", "max_concurrent_transfers": 1}})
    program = Program()
    for number, role in enumerate(("weight", "kv", "weight", "kv", "weight")):
        fields = {"qbits": 8, "num_elements": 640, "dram_addr": 4096 * number, "spm_bank": number, "spm_offset": 0}
        program.dma_load(tensor_role=role, **fields)
    whole = Machine(machine, program)
    whole.run()
    for cycle in range(1, whole.cycle):
        first = Machine(machine, program)
        first.run(until=f"cycle:{cycle}")
        again = Machine(machine, program)
        again.restore(first.snapshot())
        again.run()
        assert again.result().to_dict() == whole.result().to_dict(), cycle


def test_the_engine_by_itself_has_the_same_arbiters() -> None:
    with pytest.raises(ValueError, match="arbiter = 2, but it must be 0 to 1"):
        DmaEngine(arbiter=2)
    engine = DmaEngine(max_concurrent_transfers=1, arbiter=1)
    engine.submit(DmaJob(cmdq_id=0, direction="read", tensor_role="kv", bytes_total=64, bytes_aligned=64, dram_addr=0))
    engine.submit(DmaJob(cmdq_id=1, direction="read", tensor_role="weight", bytes_total=64, bytes_aligned=64, dram_addr=64))

    class Memory:
        def bus_can_enqueue(self, job: DmaJob) -> bool:
            return True

        def enqueue(self, job: DmaJob, cycle: int) -> None: ...

        def tick(self, cycle: int) -> dict[int, int]:
            return {}

        def backpressure(self, job: DmaJob) -> bool:
            return False

        def dequeue(self, job: DmaJob) -> None: ...

    engine.step(0, Memory())
    assert [job.cmdq_id for job in engine.active_jobs] == [1]
