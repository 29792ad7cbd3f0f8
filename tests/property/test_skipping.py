"""Skipping against stepping and the plain model where it goes far: long transfers, bodies, idle times, few conflicts.

Stepping is compared with the reference elsewhere (test_differential.py), on programs short enough for it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.cmdq import load_program
from kernbench.cmdq.lower import lower_machine, lower_program
from kernbench.config import load_config
from kernbench_core import Core
from tests.machine_strategies import drawn_arbiter
from tests.sampled import sampled_from
from tests.speed.skip_loads import SHORT, SPARSE, sparse_tables, stable_tables
from tests.speed.workloads import LOADS, npu_machine

END = 1 << 40
DRAWN = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
LONG = settings(DRAWN, max_examples=5000)
Tables = tuple[dict[str, Any], dict[str, Any]]


def seen(core: Core) -> tuple[int, list[list[int]], dict[str, Any]]:
    return core.cycle, [column.tolist() for column in core.entries()], core.counters()


def check(tables: Tables, cuts: list[int]) -> None:
    plain, stepped, skipped, mixed = Core(*tables, plain=True), Core(*tables), Core(*tables), Core(*tables)
    plain.run(END)
    stepped.run(END, skip=False)
    skipped.run(END, skip=True)
    assert seen(plain) == seen(stepped)
    assert seen(skipped) == seen(stepped)
    for number, cut in enumerate(cuts):  # a run that is looked at, saved and resumed in flight
        mixed.run(cut, skip=number % 3 != 2)
        fresh = Core(*tables, plain=number % 2 == 1)
        fresh.run(cut, skip=False)
        assert seen(mixed) == seen(fresh)
        fresh.restore(mixed.snapshot())
        mixed = fresh
    mixed.run(END)
    assert seen(mixed) == seen(stepped)


@pytest.mark.parametrize("load", [SPARSE, SHORT], ids=lambda load: load.name)
def test_engines_that_wait_for_each_other(load: Any) -> None:
    check(sparse_tables(load, 1), [777, 5_000, 5_001, 12_345])


def test_long_transfers_with_shares_that_stay() -> None:
    check(stable_tables(1), [100, 3_001, 20_000, 20_001, 32_768])


@pytest.mark.parametrize("interleave", [64, 192, 320, 448])
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("ports", [1, 2])
def test_runs_that_end_on_other_banks(interleave: int, channels: int, ports: int) -> None:
    """Two transfers whose chunks jump over banks, and a VE whose traffic begins when their requests are well known."""
    machine = npu_machine(LOADS["compute"], 2)
    machine["dram"] |= {"channels": channels, "interleave_bytes": interleave, "peak_bw_bytes_per_cycle": 8}
    machine["noc"]["dram_at"] = machine["noc"]["dram_at"][:channels]
    machine["spm"]["ports"] = ports
    machine["ve"] |= {"init_cycles": 700, "lanes": 8}
    moves = [
        {"opcode": "DMA_LOAD_TILE", "dma_id": k, "tensor_role": "activation", "qbits": 8, "num_elements": 60_000}
        | {"dram_addr": 64 * k, "spm_bank": 5 * k, "spm_offset": 0}
        for k in range(2)
    ]
    copy = {"opcode": "VE_COPY_TILE", "ve_id": 0, "qbits_activation": 8, "length": 10_000}
    copy |= {"in_bank": 0, "in_offset": 8192, "out_bank": 3, "out_offset": 8192}
    config = load_config(machine)
    program = load_program({"metadata": {"version": "1.0", "name": "jumps"}, "cmdq": [*moves, copy]})
    check((lower_machine(config), lower_program(program, config)), [600, 1000])


@pytest.mark.parametrize("banks", [(0, 0, 0), (0, 8, 8), (0, 1, 0), (0, 5, 10), (0, 8, 7), (3, 3, 11)], ids=str)
@pytest.mark.parametrize("ports", [{"ports": 4}, {"read_ports": 2, "write_ports": 1}], ids=["shared", "split"])
@pytest.mark.parametrize("size", [64, 60])
def test_operands_that_share_all_banks_some_or_none(banks: tuple[int, int, int], ports: dict[str, int], size: int) -> None:
    """Square products, whose operands advance at the same speed. A bank that several of them access in a cycle counts once."""
    machine = npu_machine(LOADS["compute"], 1)
    del machine["spm"]["ports"]
    machine["spm"] |= ports
    entry: dict[str, Any] = {"opcode": "TE_GEMM_TILE", "te_id": 0, "m": size, "n": size, "k": size}
    entry |= {"qbits_weight": 8, "qbits_activation": 8, "qbits_result": 8}
    for row, (operand, bank) in enumerate(zip(("ifm", "wgt", "ofm"), banks, strict=True)):
        entry |= {f"{operand}_bank": bank, f"{operand}_offset": 4096 * row}
    config = load_config(machine)
    program = load_program({"metadata": {"version": "1.0", "name": "shared"}, "cmdq": [entry, entry]})
    check((lower_machine(config), lower_program(program, config)), [40, 100])


WIDE = {"bus_width_bytes": 4096, "dram_burst_cycles": 1}


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """A PE to four on one scratchpad, with banks, ports, interleave and rates of many kinds."""
    load = LOADS[draw(sampled_from(sorted(LOADS)))]
    machine = npu_machine(load, draw(st.integers(1, 4)))
    machine["dram"] |= {
        "channels": draw(sampled_from([1, 2, 3, 4])),
        "interleave_bytes": draw(sampled_from([32, 64, 256, 320, 4096])),
    }
    machine["dram"] |= draw(
        sampled_from([{"peak_bw_bytes_per_cycle": rate} for rate in (3, 8, 20, 64)])
        | sampled_from([{"peak_bw_bytes_per_cycle": rate} | WIDE for rate in (40, 100, 400)])  # many lines a cycle
    )
    if draw(st.booleans()):
        machine["noc"]["dram_at"] = machine["noc"]["dram_at"][: machine["dram"]["channels"]]
    else:
        del machine["noc"]
        machine["dram"]["channels"] *= 2
    ports = draw(
        sampled_from([{"ports": 1}, {"ports": 2}, {"ports": 4}, {"ports": 16}, {"read_ports": 2, "write_ports": 1}])
    )
    del machine["spm"]["ports"]
    machine["spm"] |= ports | {
        "num_banks": draw(sampled_from([5, 16, 64])),
        "bank_width_bytes": draw(sampled_from([16, 32, 64])),
        "conflict_penalty_cycles": draw(sampled_from([1, 1, 3])),
    }
    for kind in ("dma", "te", "ve"):
        machine[kind]["period"] = draw(sampled_from([1, 1, 2]))
    for kind in ("te", "ve"):
        machine[kind]["init_cycles"] = draw(sampled_from([8, 8, 500]))  # the traffic begins long after the job
    return machine


@st.composite
def crowded(draw: st.DrawFn) -> dict[str, Any]:
    """A machine whose transfers are many slow flows, which often ask for the same banks."""
    machine = draw(machines())
    channels = draw(sampled_from([4, 8]))
    machine.pop("noc", None)
    machine["dram"] |= {"channels": channels, "peak_bw_bytes_per_cycle": draw(sampled_from([1, 3, 8, 20]))}
    machine["dram"] |= {"bus_width_bytes": 64, "dram_burst_cycles": 1}
    machine["dma"] |= {"engines": 4, "max_concurrent_transfers": 8}
    machine["dma"]["channels"]["act_weight"] |= {"max_concurrent": 8}
    waits = {"max_wait_cycles": draw(st.integers(1, 12)), "backpressure_cycles": draw(st.integers(1, 12))}
    machine["spm"] |= drawn_arbiter(draw) | waits
    machine["allocation"] = draw(sampled_from(["shared_bw_v1", "shared_bw_v1", "max_min_v1", "fifo_v1"]))
    for kind in ("te", "ve"):
        machine[kind]["engines"] = 4
    return machine


@st.composite
def programs(draw: st.DrawFn, machine: dict[str, Any], kinds: list[str], sizes: list[int]) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    most = 24 if machine["dma"]["max_concurrent_transfers"] == 8 else 8
    banks, engines = machine["spm"]["num_banks"], machine["dma"]["engines"]
    place = st.builds(lambda bank, line: (bank, 64 * line), st.integers(0, banks - 1), st.integers(0, 15))
    for number in range(draw(st.integers(most // 8, most))):
        kind, engine = draw(sampled_from(kinds)), draw(st.integers(0, engines - 1))
        (bank, offset), (other, there), odd = draw(place), draw(place), draw(sampled_from([0, 0, 8]))
        if kind == "dma":
            size = draw(sampled_from(sizes))
            address = draw(st.integers(0, 63)) * 64 + odd
            entry = {"opcode": draw(sampled_from(["DMA_LOAD_TILE", "DMA_STORE_TILE"])), "dma_id": engine}
            entry |= {"tensor_role": "activation", "qbits": 8, "num_elements": size, "dram_addr": address}
            entry |= {"spm_bank": bank, "spm_offset": offset + odd}
            if draw(st.integers(0, 3)) == 0:  # rows that begin on other banks than the ones before ended on
                del entry["num_elements"]
                gap = draw(sampled_from([0, 64, 1000]))
                entry |= {"rows": 8, "row_elements": size // 8, "stride_bytes": size // 8 + gap}
        elif kind == "te":
            m, n, k = (draw(sampled_from([16, 40, 128])) for _ in range(3))
            entry = {"opcode": "TE_GEMM_TILE", "te_id": engine, "m": m, "n": n, "k": k}
            entry |= {"qbits_weight": 8, "qbits_activation": 8, "ifm_bank": bank, "ifm_offset": offset}
            entry |= {"wgt_bank": other, "wgt_offset": there + odd, "ofm_bank": bank, "ofm_offset": there}
        else:
            entry = {"opcode": draw(sampled_from(["VE_COPY_TILE", "VE_SOFTMAX_TILE"])), "ve_id": engine}
            entry |= {"qbits_activation": 8, "length": draw(sampled_from([100, 4096, 10_000]))}
            entry |= {"in_bank": bank, "in_offset": offset + odd, "out_bank": other, "out_offset": there}
        waits = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number and "te" in kinds else set()
        entries.append(entry | {"id": number} | ({"deps_before": sorted(waits)} if waits else {}))
    return {"metadata": {"version": "1.0", "name": "drawn"}, "cmdq": entries}


def compare(data: st.DataObject, kinds: list[str], sizes: list[int], drawn: Any = None) -> None:
    machine = data.draw(machines() if drawn is None else drawn)
    config, program = load_config(machine), load_program(data.draw(programs(machine, kinds, sizes)))
    cuts = sorted(data.draw(st.sets(st.integers(1, 4000), max_size=2)))
    check((lower_machine(config), lower_program(program, config)), cuts)


KINDS_DRAWN: dict[str, tuple[Any, ...]] = {
    "machines": (["dma", "dma", "te", "ve"], [1 << 10, 5000, 1 << 13, 1 << 15]),
    # Nothing but transfers, all at once: shares stay for long, and what is asked for comes again and again.
    "transfers": (["dma"], [1 << 12, 20_000, 1 << 15, 1 << 16]),
    # So many slow flows that the scratchpad is run from request to request (rolling.pyx).
    "crowds": (["dma"] * 6 + ["te", "ve"], [1 << 10, 5000, 1 << 13], crowded()),
}


@pytest.mark.parametrize("load", KINDS_DRAWN)
@DRAWN
@given(data=st.data())
def test_drawn(load: str, data: st.DataObject) -> None:
    compare(data, *KINDS_DRAWN[load])


@pytest.mark.nightly
@pytest.mark.parametrize("load", KINDS_DRAWN)
@LONG
@given(data=st.data())
def test_drawn_for_long(load: str, data: st.DataObject) -> None:
    compare(data, *KINDS_DRAWN[load])


#: 64 transfers at a time have 2,560 flows, which often ask for the same banks.
FORTY_CHANNELS = {
    "schema": "kernbench/npu/1",
    "freq_ghz": 1.0,
    "max_cycles": END,
    "dma": {"engines": 8, "max_concurrent_transfers": 8, "channels": {"act_weight": {"max_concurrent": 8}}},
    "dram": {"channels": 40, "capacity_bytes": "1 GiB", "bus_width_bytes": 64, "dram_burst_cycles": 1},
    "spm": {"num_banks": 64, "bank_size_bytes": 65536, "bank_width_bytes": 128, "read_ports": 1, "write_ports": 1,
            "max_wait_cycles": 8, "backpressure_cycles": 8},
}  # fmt: skip


@pytest.mark.parametrize("interleave", [256, 320])
def test_thousands_of_flows_at_a_time(interleave: int) -> None:
    moves = [
        {"opcode": "DMA_STORE_TILE" if k % 7 == 6 else "DMA_LOAD_TILE", "dma_id": k % 8, "id": k}
        | {"tensor_role": "activation", "qbits": 8, "num_elements": 30_720 + 64 * (k % 5), "dram_addr": (k << 18) + 64 * k}
        | {"spm_bank": k % 64, "spm_offset": 128 * (k % 9)}
        for k in range(80)
    ]
    config = load_config(FORTY_CHANNELS | {"dram": FORTY_CHANNELS["dram"] | {"interleave_bytes": interleave}})
    program = load_program({"metadata": {"version": "1.0", "name": "crowd"}, "cmdq": moves})
    check((lower_machine(config), lower_program(program, config)), [300, 701])


@pytest.mark.parametrize("engines", [3, 4, 5])
def test_as_many_flows_as_a_byte_counts_ask_for_one_bank(engines: int) -> None:
    """Each transfer has a flow on each of 64 channels, and all request their first line, of bank 0, in the same cycle."""
    machine = npu_machine(LOADS["compute"], 1)
    del machine["noc"]
    machine["spm"] |= {"ports": 2, "num_banks": 16, "bank_width_bytes": 64}
    machine["dram"] |= {"channels": 64, "interleave_bytes": 1024, "peak_bw_bytes_per_cycle": 8}
    machine["dma"] |= {"engines": engines}
    moves = [
        {"opcode": "DMA_LOAD_TILE", "dma_id": k, "tensor_role": "activation", "qbits": 8, "num_elements": 64 * 1024}
        | {"dram_addr": 64 * 1024 * k, "spm_bank": 0, "spm_offset": 0}
        for k in range(engines)
    ]
    config = load_config(machine)
    program = load_program({"metadata": {"version": "1.0", "name": "one_bank"}, "cmdq": moves})
    check((lower_machine(config), lower_program(program, config)), [40, 300])


def loads(rows: list[tuple[int, int, int, list[int]]], setup: int) -> Tables:
    """Transfers on a machine of two DRAM channels of 20 B/cycle. A row has the engine of a transfer, its only channel, its
    bytes and the transfers that it waits for."""
    machine = npu_machine(LOADS["compute"], 4)
    del machine["noc"]
    machine["spm"] |= {"max_wait_cycles": 1000, "backpressure_cycles": 1000}
    machine["dram"] |= {"channels": 2, "interleave_bytes": 1 << 16, "peak_bw_bytes_per_cycle": 20}
    machine["dram"] |= {"dram_burst_cycles": 1, "t_setup_cycles": setup}
    machine["dma"] |= {"max_concurrent_transfers": 8, "channels": {"act_weight": {"max_concurrent": 8}}}
    moves = [
        {"opcode": "DMA_LOAD_TILE", "dma_id": engine, "tensor_role": "activation", "qbits": 8, "num_elements": size}
        | {"dram_addr": (2 * k + channel) << 16, "spm_bank": k % 16, "spm_offset": 0, "id": k, "deps_before": waits}
        for k, (engine, channel, size, waits) in enumerate(rows)
    ]
    config = load_config(machine)
    program = load_program({"metadata": {"version": "1.0", "name": "loads"}, "cmdq": moves})
    return lower_machine(config), lower_program(program, config)


@pytest.mark.parametrize("setup, more", [(100, 200), (200, 40)])
def test_a_rate_that_changes_and_changes_back_during_rolling(setup: int, more: int) -> None:
    """Transfers 0, 1 and 2 share a channel, whose share is larger from the end of transfer 1 until transfer 4 begins.
    Meanwhile 24 slow transfers of the other channel are rolled. Transfer 0 then ends earlier than was known before, and
    shortly before transfer 2."""
    crowd = [(k % 3, 0, 1300 + 16 * (k % 5), [3]) for k in range(24)]
    rows = [(3, 1, 24_000, []), (3, 1, 6000, []), (2, 1, 24_000 + more, []), (3, 0, 1000, []), (3, 1, 40_000, [1]), *crowd]
    check(loads(rows, setup), [1000, 1250, 2500])


@pytest.mark.parametrize("size", [32_272, 32_288])
def test_one_of_two_channels_becomes_too_fast_for_lanes(size: int) -> None:
    """A slow transfer of a channel ends together with a transfer of the other channel, which then has one member, with more
    than a line in a cycle. The rates of both channels change in this cycle, and lanes can have only the first."""
    slow = [(k % 3, 0, 2048 + 256 * k, []) for k in range(24)]
    check(loads([*slow, (3, 1, size, []), (3, 1, 60_000, [])], 20), [2500, 3323, 3324])
