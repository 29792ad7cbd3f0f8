"""Perturbed runs (docs/model/perturbed_runs.md): each kind of draw does what the page says, to the cycle, in both walks."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernbench import load_config, load_program
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.perturbation import (
    KINDS,
    Draws,
    Key,
    ListedDraws,
    NoDraws,
    Perturbed,
    Ranges,
    SeededDraws,
    mixed,
    perturbed,
)
from kernbench.triton_emu.memory.perturbed import PerturbedMemory, _Open

LOAD = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": 256, "spm_bank": 0}
GEMM = {"opcode": "TE_GEMM_TILE", "m": 16, "n": 16, "k": 16, "qbits_weight": 8, "qbits_activation": 8, "ifm_bank": 0,
        "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2, "ofm_offset": 0}  # fmt: skip


def program(*entries: Mapping[str, Any]) -> Any:
    return load_program({"metadata": {"version": "1.0", "name": "p"}, "cmdq": list(entries)})


def run(entries: Any, draws: Draws, overrides: list[str] | None = None, walk: str = "fast") -> Machine:
    with perturbed(Perturbed(draws)):
        machine = Machine(load_config("npu_mobile", overrides or []), entries, walk=walk)
    machine.run()
    return machine


def spans(machine: Machine) -> list[tuple[int | None, int | None, int | None]]:
    return [(one.issue, one.start, one.end) for one in machine.result().entries]


def listed(*draws: tuple[Key, int]) -> ListedDraws:
    return ListedDraws(dict(draws))


TWO = program({**LOAD, "dram_addr": 0, "spm_offset": 0}, {**LOAD, "dram_addr": 4096, "spm_offset": 1024, "deps_before": [0]})


@pytest.mark.parametrize(
    ("low", "reads", "ordered"), [(150, (), True), (500, ((199, 300),), True), (500, ((200, 300),), False)]
)
def test_a_composite_op_acts_before_a_hidden_store_of_bytes_that_it_writes_or_reads(
    low: int, reads: tuple[tuple[int, int], ...], ordered: bool
) -> None:
    store, composite = (SimpleNamespace(op_id=number, dependency_ids=()) for number in (1, 2))
    memory = PerturbedMemory("pe0", Perturbed(NoDraws()), [], MemoryStore(), None, None, (0, 0))
    memory.opened.append(_Open(memory, store, 0, 100, 200, True))
    memory._before(_Open(memory, composite, 1, low, low + 10, False, reads))
    assert (store.dependency_ids, composite.dependency_ids) == ((2,) if ordered else (), ())


@pytest.mark.parametrize(
    ("kind", "name", "most"), [("latency", "entry", 1024), ("start", "pe0", 4096), ("ties", "issue", 1 << 31)]
)
def test_draws_are_those_of_the_page(kind: str, name: str, most: int) -> None:
    def hashed(*parts: object) -> int:
        return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little")

    def mix(value: int) -> int:
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    for seed in range(40):
        form, base = hashed(seed, kind), hashed(seed, kind, name)
        share, names = (1, 2, 8, 32)[form & 3], (1, 1, 1, 4)[form >> 4 & 3]
        shift = 0 if kind == "ties" else (0, 0, 3, 6)[form >> 2 & 3]
        for ordinal, draw in enumerate(SeededDraws(seed).values(kind, name, 20, most)):
            bits = mix((base + (ordinal + 1) * 0x9E3779B97F4A7C15) % 2**64)
            drawn = (base >> 8) % names == 0 and (bits & 0xFFFF) % share == 0
            assert draw == ((bits >> 16) % max(1, most >> shift) + 1 if drawn else 0)


def test_run_without_draws_is_that_of_the_model() -> None:
    there = Machine(load_config("npu_mobile"), TWO)
    there.run()
    assert spans(run(TWO, NoDraws())) == spans(there)


def test_head_latency_grows_by_the_draw() -> None:
    (_, first), (_, second) = [one[1:] for one in spans(run(TWO, NoDraws()))]
    late = spans(run(TWO, listed((("latency", "entry", 0), 7))))
    assert late[0][2] == first + 7 and late[1][1:] == (first + 7, second + 7)


def test_pe_starts_no_job_before_its_draw() -> None:
    for walk in ("plain", "fast"):
        both = program(GEMM, {**LOAD, "dram_addr": 0, "spm_offset": 4096})
        machine = run(both, listed((("start", "pe0", 0), 100)), walk=walk)
        assert [one[1] for one in spans(machine)] == [100, 100]


def test_pcie_endpoint_does_not_start_later() -> None:
    copy = program({"opcode": "HOST_COPY_TILE", "direction": "to_device", "qbits": 8, "num_elements": 64, "dram_addr": 0})
    for seed in range(8):
        with perturbed(Perturbed(SeededDraws(seed, Ranges(kinds=("start",))))):
            machine = Machine(load_config("single_cube"), copy)
        machine.run()
        assert spans(machine)[0][1] == 0


def test_capacity_shrinks_by_steps() -> None:
    """8 of 8 steps to the slowest, a quarter: further bytes take four times as long."""

    def end(elements: int, draws: Draws) -> int:
        machine = run(program({**LOAD, "dram_addr": 0, "spm_offset": 0, "num_elements": elements}), draws)
        return spans(machine)[0][2] or 0

    names = run(TWO, NoDraws()).plan.resources
    slow = listed(*((("capacity", name, 0), 8) for name in names))
    assert end(8192, slow) - end(4096, slow) == 4 * (end(8192, NoDraws()) - end(4096, NoDraws())) > 0


def test_order_of_p2_follows_the_draw_and_keeps_barriers_and_queues() -> None:
    entries = program(*({**GEMM, "te_id": 0} for _ in range(2)), *({**LOAD, "dram_addr": 0, "spm_offset": 0} for _ in range(2)),
                      {"opcode": "BARRIER", "wait_for": [0]}, {**GEMM, "te_id": 0})  # fmt: skip
    orders = set()
    for drawn in range(1, 30):
        machine = run(entries, listed((("ties", "issue", 0), drawn)), ["control.issue_width=1"])
        issues = [one[0] for one in spans(machine)]
        assert issues[0] < issues[1] and issues[2] < issues[3], "entries of one queue keep their order"
        assert max(issues[:1]) < issues[4] <= issues[5], "no entry passes the barrier"
        orders.add(tuple(issues[:4]))
    assert len(orders) > 3


def test_order_of_channels_of_equal_score_follows_the_draw() -> None:
    same = ["dma.channels.kv_store.priority=1", "dma.channels.act_weight.priority=1", "dma.max_concurrent_transfers=1"]
    stored = {**LOAD, "opcode": "DMA_STORE_TILE", "tensor_role": "kv", "dram_addr": 8192, "spm_offset": 2048}
    moves = program({**LOAD, "dram_addr": 0, "spm_offset": 0}, stored)
    firsts = set()
    for drawn in range(7):
        starts = [one[1] for one in spans(run(moves, listed((("ties", "dma0 start", 0), drawn)), same))]
        firsts.add(starts.index(0))
    assert firsts == {0, 1}


@pytest.mark.parametrize("seed", range(6))
def test_both_walks_are_equal_with_draws(seed: int) -> None:
    entries = program(
        *({**LOAD, "dram_addr": 4096 * k, "spm_offset": 256 * (k % 4), "dma_id": 0, "num_elements": 700} for k in range(6)),
        *({**GEMM, "ifm_offset": 64 * k} for k in range(3)),
    )
    plain = run(entries, SeededDraws(seed), walk="plain")
    fast = run(entries, SeededDraws(seed), walk="fast")
    assert spans(plain) == spans(fast) and plain.result().counters == fast.result().counters


def test_job_ends_once_if_its_engine_comes_before_a_dma_engine_in_the_order_of_p5() -> None:
    """A tensor engine has the place of a DMA engine. Its end is foreseen before a block of cycles is tried."""
    spm = {"num_banks": 4, "bank_size_bytes": 512, "bank_width_bytes": 4, "max_wait_cycles": 2, "ports": 1}
    spm["backpressure_cycles"] = 8
    te = {"engines": 3, "macs_per_cycle": 1000, "init_cycles": 1, "finalize_cycles": 4, "timing": "systolic", "rows": 2,
          "cols": 3, "dataflow": "is", "fill": "overlapped", "period": 3}  # fmt: skip
    dram = {"channels": 4, "interleave_bytes": 20, "bus_width_bytes": 32, "dram_burst_cycles": 12}
    dram["peak_bw_bytes_per_cycle"] = 10.5
    machine = {"dram": dram, "spm": spm, "te": te, "kv_layouts": [{"t_max": 25, "head_dim": 40}, {"t_max": 1, "head_dim": 5}]}
    stored = {"opcode": "KV_STORE_TILE", "kv_kind": "v", "dram_base_addr": 6954, "spm_bank": 0}
    entries = program(
        {**stored, "t_start": 20, "t_len": 3, "d_start": 38, "d_len": 2, "head_id": 1, "qbits_kv": 4, "spm_offset": 336},
        {**stored, "t_start": 0, "t_len": 1, "d_start": 2, "head_id": 0, "qbits_kv": 8, "kv_layout_id": 1, "spm_offset": 144},
        {**GEMM, "opcode": "TE_QKT_TILE", "qbits_weight": 1, "qbits_activation": 4, "qbits_result": 32, "te_id": 2,
         "m": 1, "n": 8, "k": 17, "ifm_offset": 20, "wgt_bank": 3, "wgt_offset": 8, "ofm_bank": 0, "ofm_offset": 2},
    )  # fmt: skip
    ends = []
    for walk in ("plain", "fast"):
        with perturbed(Perturbed(SeededDraws(500000, Ranges(kinds=("ties", "capacity"))))):
            made = Machine(load_config(machine), entries, walk=walk)
        made.run()
        ends.append((spans(made), made.result().counters))
    assert ends[0] == ends[1]


def test_draws_depend_on_nothing_but_seed_kind_name_and_ordinal() -> None:
    one, other = SeededDraws(3), SeededDraws(3)
    whole = one.values("latency", "pe0 0", 200, 1000)
    assert [other.value("latency", "pe0 0", k, 1000) for k in reversed(range(200))] == whole[::-1]
    assert one.used == {("latency", "pe0 0", k): value for k, value in enumerate(whole) if value} == other.used
    assert any(whole) and max(whole) <= 1000
    assert SeededDraws(4).values("latency", "pe0 0", 200, 1000) != whole
    assert not any(SeededDraws(3, Ranges(kinds=tuple(set(KINDS) - {"latency"}))).values("latency", "pe0 0", 200, 1000))


def test_generator_is_the_finalizer_of_splitmix64() -> None:
    with np.errstate(over="ignore"):
        first = mixed(np.array([0x9E3779B97F4A7C15], np.uint64))
    assert int(first[0]) == 0xE220A8397B1DCDAF  # of the published generator, with seed 0


def test_perturbed_run_is_in_no_snapshot() -> None:
    machine = run(TWO, NoDraws())
    with pytest.raises(Exception, match="a perturbed run is in no snapshot"):
        machine.snapshot()
