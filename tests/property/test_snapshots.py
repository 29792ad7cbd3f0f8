"""Snapshots: the same however a run was walked; changed in any way, refused or taken up as they are."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.bounds.laws import BrokenLaw
from kernbench.common.errors import InputError
from kernbench.sim_engine.run.stops import WALKS
from tests.row_strategies import controller_systems, row_systems
from tests.strategies import systems
from tests.system_rings import rings

System = tuple[dict[str, Any], dict[str, Any]]
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
DRAWN: dict[str, st.SearchStrategy[System]] = {
    "npu": systems(),
    "rows": row_systems(),
    "controllers": controller_systems(),
    "rings": rings(),
}
EDGES = [0, 1, -1, 2, 63, 64, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, -(2**63)]


def standing(system: System, data: st.DataObject) -> tuple[Machine, Machine]:
    """Two machines somewhere in the same run: one was stepped there by either walk, the other skipped."""
    config, program = load_config(system[0]), load_program(system[1])
    stepped = Machine(config, program, walk=data.draw(st.sampled_from(WALKS), label="walk"))
    skipped = Machine(config, program)
    skipped.run(cycles=20_000)
    cycle = data.draw(st.integers(1, max(1, skipped.cycle)), label="cycle")
    skipped = Machine(config, program)
    skipped.run(cycles=cycle)
    stepped.step(cycle)
    return stepped, skipped


def compare_walks(system: System, data: st.DataObject) -> None:
    stepped, skipped = standing(system, data)
    assert stepped.snapshot() == skipped.snapshot()
    assert stepped.snapshot() == stepped.snapshot()


@pytest.mark.parametrize("kind", DRAWN)
@settings(RELAXED, max_examples=15)
@given(data=st.data())
def test_a_snapshot_does_not_show_how_the_run_was_walked(kind: str, data: st.DataObject) -> None:
    compare_walks(data.draw(DRAWN[kind]), data)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", DRAWN)
@settings(RELAXED, max_examples=2000)
@given(data=st.data())
def test_a_snapshot_does_not_show_how_the_run_was_walked_for_long(kind: str, data: st.DataObject) -> None:
    compare_walks(data.draw(DRAWN[kind]), data)


def changed(image: bytes, data: st.DataObject) -> bytes:
    """The snapshot with one or a few values set to edges, moved by a little, or copied from elsewhere in it."""
    out = bytearray(image)
    for _ in range(data.draw(st.sampled_from([1, 1, 1, 2, 4]), label="changes")):
        width = data.draw(st.sampled_from([8, 8, 4, 1]))
        if len(out) < width:
            break
        at = data.draw(st.integers(0, len(out) - width), label="at")
        old = int.from_bytes(out[at : at + width], "little")
        other = data.draw(st.integers(0, len(out) - width))
        copied = int.from_bytes(out[other : other + width], "little")
        new = data.draw(st.one_of(st.sampled_from(EDGES), st.integers(old - 9, old + 9), st.just(copied)), label="value")
        out[at : at + width] = (new % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(out[: data.draw(st.sampled_from([len(out)] * 19 + [len(out) // 2]))])


def take_up(system: System, data: st.DataObject) -> None:
    stepped, _ = standing(system, data)
    image = changed(stepped.snapshot(), data)
    fresh = Machine(stepped.config, stepped.program)
    before = fresh.snapshot()
    try:
        fresh.restore(image)
    except ValueError as error:
        event("refused")
        assert str(error) and fresh.snapshot() == before
        fresh.run()
        straight = Machine(stepped.config, stepped.program)
        straight.run()
        assert fresh.result().to_dict() == straight.result().to_dict()
        return
    event("taken up")
    assert fresh.snapshot() == image
    try:
        fresh.run(cycles=100_000, skip=data.draw(st.booleans()))
    except (BrokenLaw, InputError):  # counters that no run has, which `Machine.load` refuses at once; shares past 128 bits
        event("against a law")
    fresh.peek()
    fresh.result()


@pytest.mark.parametrize("kind", DRAWN)
@settings(RELAXED, max_examples=15)
@given(data=st.data())
def test_a_changed_snapshot_is_refused_or_taken_up_as_it_is(kind: str, data: st.DataObject) -> None:
    take_up(data.draw(DRAWN[kind]), data)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", DRAWN)
@settings(RELAXED, max_examples=5000)
@given(data=st.data())
def test_a_changed_snapshot_is_refused_or_taken_up_as_it_is_for_long(kind: str, data: st.DataObject) -> None:
    take_up(data.draw(DRAWN[kind]), data)


@pytest.mark.parametrize("stride", [8, pytest.param(1, marks=pytest.mark.nightly)], ids=["words", "every byte"])
def test_every_word_of_a_small_snapshot(stride: int) -> None:
    """One tile at cycle 10: each 64-bit word set to each edge, and nightly 64 bits at each byte. Half were crashes once."""
    tile = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0}
    program = load_program({"metadata": {"version": "1.0", "name": "one"}, "cmdq": [{**tile, "num_elements": 4096}]})
    config = load_config({})
    standing = Machine(config, program)
    standing.step(10)
    image = standing.snapshot()
    refused = 0
    fresh = Machine(config, program)
    places = range(0, len(image) - 7, stride)
    for at in places:
        for value in EDGES:
            new = image[:at] + struct.pack("<q", value) + image[at + 8 :]
            try:
                fresh.restore(new)
            except ValueError:
                refused += 1  # and the machine is as it was: the next word is tried on it
                continue
            assert fresh.snapshot() == new
            with suppress(BrokenLaw):
                fresh.run(cycles=10_000)
            fresh = Machine(config, program)
    assert refused > len(places)


@pytest.mark.parametrize("walk", WALKS)
def test_a_snapshot_does_not_change_what_is_seen(walk: str) -> None:
    """A TE that touches a bank in few cycles sleeps through the others in the fast walk; a snapshot wakes it."""
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    gemm = {"opcode": "TE_GEMM_TILE", "m": 8, "n": 8, "k": 4, "qbits_weight": 8, "qbits_activation": 8, **places}
    config = load_config({"te": {"macs_per_cycle": 1, "init_cycles": 0, "finalize_cycles": 0}})
    run = Machine(config, load_program({"metadata": {"version": "1.0", "name": "gemm"}, "cmdq": [gemm]}), walk=walk)
    ahead = 0
    while run.status == "running":
        run.step(7)
        before = run.peek()
        te = next(engine for engine in before.engines if engine.name == "te0")
        ahead += te.next_event is not None and te.next_event > run.cycle + 1
        run.snapshot()
        assert run.peek() == before
    assert ahead > 10


def test_a_held_engine_has_as_many_body_cycles_left_in_every_walk() -> None:
    """A TE that touches a bank in few cycles, denied by a transfer and off for some cycles."""
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    gemm = {"opcode": "TE_GEMM_TILE", "m": 8, "n": 8, "k": 4, "qbits_weight": 8, "qbits_activation": 8, **places}
    tile = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": 2048, "dram_addr": 0}
    config = load_config({
        "dram": {"channels": 1, "dram_burst_cycles": 1, "t_setup_cycles": 0},
        "spm": {"num_banks": 1, "bank_width_bytes": 16, "bank_size_bytes": 8192, "conflict_penalty_cycles": 3, "ports": 1},
        "te": {"macs_per_cycle": 1, "init_cycles": 0, "finalize_cycles": 0},
    })  # fmt: skip
    entries = [tile | {"spm_bank": 0, "spm_offset": 0}, gemm]
    program = load_program({"metadata": {"version": "1.0", "name": "held"}, "cmdq": entries})
    held = 0
    for cycle in range(1, 200):
        plain, fast = (Machine(config, program, walk=walk) for walk in WALKS)
        plain.step(cycle)
        fast.step(cycle)
        assert fast.peek() == plain.peek()
        held += any(engine.held_since is not None for engine in plain.peek().engines)
    assert held > 10
