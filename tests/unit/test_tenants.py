"""Programs that share a machine: quotas, parts of the memories, and slowdowns (docs/model/tenants.md)."""

from __future__ import annotations

from math import lcm
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import Program, load_config, load_program, simulate
from kernbench.analysis.tenants import Tenant, read_tenant, share, shared_machine
from kernbench.common.errors import InputError
from kernbench.policy.routing.resolver import address_map
from tests.cache_strategies import cache_systems
from tests.combined_strategies import give_codecs, give_jobs
from tests.hard_strategies import changed
from tests.machine_strategies import machines
from tests.oracles import ref_tenants
from tests.oracles.ref_machine import completed
from tests.row_strategies import controller_systems, row_systems
from tests.strategies import programs
from tests.system_programs import system_programs
from tests.system_roads import PlainRoads
from tests.systems_of_pes import system_machines


def stream(loads: int = 8, nbytes: int = 65536, name: str = "stream") -> Program:
    program = Program(name)
    for i in range(loads):
        where = {"dram_addr": i * nbytes, "spm_bank": 0, "spm_offset": (i % 4) * 4096}
        program.dma_load(tensor_role="weight", qbits=8, num_elements=nbytes, **where)
    program.end()
    return program


#: One channel of 16 B a cycle, banks that never deny, and room for many transfers.
CHANNEL = {"dram": {"channels": 1}, "spm": {"num_banks": 64, "ports": 16, "bank_size_bytes": 1 << 16}, "dma": {"engines": 1}}


@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_tenants_are_those_of_the_reference(data: st.DataObject) -> None:
    """Two or three programs that are valid on a machine, on another one with room for all."""
    compare(data)


@pytest.mark.nightly
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_many_tenants_are_those_of_the_reference(data: st.DataObject) -> None:
    compare(data)


def compare(data: st.DataObject) -> None:
    others = st.one_of(changed(None), row_systems(), controller_systems(), cache_systems())
    small = data.draw(machines() | others.map(itemgetter(0)))
    count = data.draw(st.integers(2, 3))
    given = [data.draw(programs(small)) for _ in range(count)]
    if small["allocation"] in ("shared_bw_v1", "fifo_v1") and "llc" not in small and data.draw(st.booleans()):
        give_codecs(data.draw, small, *given)
    if data.draw(st.booleans()):
        give_jobs(data.draw, small, *given)
    whole = completed(small)
    line = lcm(whole["dram"]["channels"] * whole["dram"]["interleave_bytes"], whole["dma"]["alignment_bytes"])
    grown = {"capacity_bytes": count * (whole["dram"]["capacity_bytes"] + 2 * line)}
    key = "num_banks" if whole["spm"]["map"] == "blocked" else "bank_size_bytes"
    spm = {**small.get("spm", {}), key: whole["spm"][key] * count}
    machine = {**small, "max_cycles": 20000, "dram": {**small["dram"], **grown}, "spm": spm}
    quotas = [(data.draw(st.integers(1, 3)), data.draw(st.sampled_from([None, 1, 2, 9]))) for _ in range(count)]
    status, wanted = ref_tenants.simulate(machine, given, quotas)
    config = load_config(machine)
    tenants = [Tenant(load_program(program), *quota) for program, quota in zip(given, quotas, strict=True)]
    try:
        run = shared_machine(tenants, config)
    except InputError as error:
        assert "so the program never ends" in str(error) and status != "done"
        return
    run.run()
    result = run.result()
    assert result.status == status
    found: list[list[Any]] = [[] for _ in tenants]
    for entry, times in zip(run.program.entries, result.entries, strict=True):
        found[entry.id % count].append((times.issue, times.start, times.end))
    if status == "done":
        assert found == wanted


@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_tenants_of_a_system_are_those_of_the_reference(data: st.DataObject) -> None:
    compare_on_system(data)


@pytest.mark.nightly
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_many_tenants_of_a_system_are_those_of_the_reference(data: st.DataObject) -> None:
    compare_on_system(data)


def compare_on_system(data: st.DataObject) -> None:
    """Two or three programs over the PEs, memories, endpoints and M_CPUs of one system, with room for all."""
    count = data.draw(st.integers(2, 3))
    system = data.draw(system_machines()) | {"max_cycles": 20_000}
    whole = completed(system["pe"])
    key = "num_banks" if whole["spm"]["map"] == "blocked" else "bank_size_bytes"
    system["pe"]["spm"] = {**system["pe"].get("spm", {}), key: whole["spm"][key] * count}
    hbm, sram = system["cube"]["hbm"], system["cube"]["sram"]
    hbm["capacity_bytes"] *= 4 * count
    sram["bytes"] *= count
    given = [data.draw(system_programs(system, tenants=count)) for _ in range(count)]
    quotas = [(data.draw(st.integers(1, 3)), data.draw(st.sampled_from([None, 1, 2, 9]))) for _ in range(count)]
    config = load_config(system)
    status, wanted = ref_tenants.simulate_system(system, given, quotas, PlainRoads(config))
    tenants = [Tenant(load_program(program), *quota) for program, quota in zip(given, quotas, strict=True)]
    try:
        run = shared_machine(tenants, config)
    except InputError as error:
        assert "so the program never ends" in str(error) and status != "done"
        return
    run.run()
    result = run.result()
    assert result.status == status
    found: list[list[Any]] = [[] for _ in tenants]
    for entry, times in zip(run.program.entries, result.entries, strict=True):
        found[entry.id % count].append((times.issue, times.start, times.end))
    if status == "done":
        assert found == wanted


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("NOP", [2]), ("BARRIER", [2]), ("NOP", [])], r"cmdq\[1\] .*: it waits for cmdq\[2\] .*, which waits for it"),
        ([("BARRIER", [1]), ("NOP", [2]), ("NOP", [])], r"cmdq\[0\] .*: it waits for cmdq\[2\] .*, which waits for it"),
        ([("NOP", [2]), ("NOP", []), ("END", [])], r"cmdq\[2\] .*: it waits for cmdq\[0\] .*, which waits for it"),
    ],
)
def test_a_program_that_waits_for_what_it_holds_back_is_refused(entries: list[tuple[str, list[int]]], message: str) -> None:
    queue = [{"opcode": opcode, "deps_before": waits} for opcode, waits in entries]
    program = load_program({"metadata": {"version": "1.0", "name": "held"}, "cmdq": queue})
    config = load_config(CHANNEL)
    assert simulate(program, config).status == "deadlock"
    with pytest.raises(InputError, match=message):
        shared_machine([Tenant(program), Tenant(stream())], config)


def test_a_tenant_alone_has_the_times_of_its_program() -> None:
    config, program = load_config("npu_server"), stream()
    found, plain = share([Tenant(program)], config), simulate(program, config)
    assert [one.end for one in found.result.entries] == [one.end for one in plain.entries]
    assert found.tenants[0].slowdown == 1 and found.throughput == found.fairness == 1


@pytest.mark.parametrize(("weight", "first", "last"), [(1, 65536, 65536), (3, 43691, 65536)])
def test_weights_divide_a_channel(weight: int, first: int, last: int) -> None:
    """Each reads 524,288 bytes, one transfer at a time, at 16 B a cycle together: 3 of 4 for the first until it has ended."""
    config = load_config({**CHANNEL, "dma": {"max_concurrent_transfers": 1}})
    found = share([Tenant(stream(), weight), Tenant(stream())], config)
    ends = [one.cycles for one in found.tenants]
    assert all(one.alone == 32768 for one in found.tenants)
    assert abs(ends[0] - first) <= 16 and abs(ends[1] - last) <= 16  # whole lines of each of 8 transfers


def test_outstanding_limits_the_transfers_at_a_time() -> None:
    """Shares are by flow: four transfers against one."""
    config = load_config(CHANNEL)
    found = share([Tenant(stream(), outstanding=4), Tenant(stream(), outstanding=1)], config)
    first, second = (one.cycles for one in found.tenants)
    assert abs(first - 32768 * 5 / 4) <= 64 and abs(second - 65536) <= 64
    assert [one.outstanding for one in found.tenants] == [4, 1]


def test_programs_share_no_bytes() -> None:
    """Two programs over the same addresses on a machine that fails where jobs overlap; energy and traces tell tenants apart."""
    config = load_config({**CHANNEL, "spm": {**CHANNEL["spm"], "check_overlap": "error"}})
    one = Program("one")
    for _ in range(2):
        one.dma_load(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0, spm_offset=0,
                     deps_before=[0] if len(one) else [])  # fmt: skip
    assert share([Tenant(one), Tenant(one)], config).result.status == "done"
    run = shared_machine([Tenant(one), Tenant(one)], config)
    assert [entry.meta["tenant_id"] for entry in run.program.entries] == [0, 1, 0, 1]
    assert [run.plan.transfer(k)["dram_addr"] for k in range(4)] == [0, 1 << 29, 0, 1 << 29]
    assert [run.plan.transfer(k)["spm_addr"] for k in range(4)] == [0, 1 << 21, 0, 1 << 21]


def on_system(opcode: str, nbytes: int, address: int, **fields: Any) -> Program:
    """One entry of a system, which moves bytes at an address of its memories."""
    place = {} if opcode == "HOST_COPY_TILE" else {"tensor_role": "weight", "spm_bank": 0, "spm_offset": 0}
    one = {"opcode": opcode, "qbits": 8, "dram_addr": address, "num_elements": nbytes, **place, **fields}
    return load_program({"metadata": {"version": "1.0", "name": opcode}, "cmdq": [one]})


def test_parts_of_a_system_are_in_the_same_slice_and_the_same_sram() -> None:
    """The addresses of the second of two tenants, in the second slice, in the second SRAM, and in both scratchpads."""
    config = load_config("two_sips")
    memory = address_map(config)
    slice_bytes, sram = memory.slice_bytes, memory.sram.address(1, 4096)
    for address, part in ((slice_bytes + 64, slice_bytes // 2), (sram, memory.sram_bytes // 2)):
        load = on_system("DMA_LOAD_TILE", 64, address, node="sip0.cube0.pe1")
        plan = shared_machine([Tenant(load), Tenant(load)], config).plan
        assert [plan.transfer(k)["dram_addr"] - address for k in range(2)] == [0, part]
        assert [plan.transfer(k)["spm_addr"] for k in range(2)] == [0, config.tcm_bytes // 2]
        assert [plan.dma[plan.transfer(k)["engine"]] for k in range(2)] == [f"sip0.cube0.pe1.pe_dma[{k}]" for k in range(2)]
    send = Program("send")
    send.dma_send(tensor_role="weight", qbits=8, num_elements=64, spm_bank=0, spm_offset=0, peer="sip0.cube0.pe2",
                  peer_bank=0, peer_offset=0)  # fmt: skip
    plan = shared_machine([Tenant(send), Tenant(send)], config).plan
    assert [plan.transfer(k)["dram_addr"] for k in range(2)] == [0, config.tcm_bytes // 2]


def test_quotas_have_no_effect_on_host_copies() -> None:
    config = load_config("single_cube")
    copy = on_system("HOST_COPY_TILE", 65536, 0, direction="to_device")
    found = [share([Tenant(copy, weight), Tenant(copy)], config).tenants for weight in (1, 8)]
    assert [one.cycles for one in found[0]] == [one.cycles for one in found[1]]


def test_tenants_on_different_pes_share_a_slice() -> None:
    """The slice of each PE is its own: tenants that read from it hinder each other, and others do not."""
    config = load_config("single_cube")
    size = address_map(config).slice_bytes
    near, same, other = (
        on_system("DMA_LOAD_TILE", 262144, address, node=f"sip0.cube0.pe{pe}")
        for pe, address in ((0, 0), (1, 0), (7, 7 * size))
    )
    assert [float(one.slowdown or 0) > 1.8 for one in share([Tenant(near), Tenant(same)], config).tenants] == [True, True]
    assert [one.slowdown for one in share([Tenant(near), Tenant(other)], config).tenants] == [1, 1]


def test_what_does_not_fit_into_a_part_of_a_slice_or_sram_is_refused() -> None:
    config = load_config("single_cube")
    memory = address_map(config)
    beyond = memory.sram.address(0, memory.sram_bytes // 2)
    for address, what in ((memory.slice_bytes // 2, "each slice"), (beyond, "each SRAM")):
        load = on_system("DMA_LOAD_TILE", 64, address)
        assert share([Tenant(load)], config).result.status == "done"
        with pytest.raises(InputError, match=f"with 2 tenants each has [0-9]+ bytes of {what}"):
            share([Tenant(load), Tenant(load)], config)


def test_a_barrier_holds_back_its_own_tenant_only() -> None:
    config = load_config(CHANNEL)
    slow, fast = Program("slow"), Program("fast")
    for program, nbytes in ((slow, 65536), (fast, 64)):
        where = {"tensor_role": "weight", "qbits": 8, "spm_bank": 0, "spm_offset": 0}
        first = program.dma_load(num_elements=nbytes, dram_addr=0, **where)
        program.barrier(wait_for=[first])
        program.dma_load(num_elements=64, dram_addr=0, **where)
    found = share([Tenant(slow), Tenant(fast)], config)
    assert found.tenants[1].cycles < 100 < found.tenants[0].cycles


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    program = Program("high")
    program.dma_load(tensor_role="weight", qbits=8, num_elements=64, dram_addr=1 << 29, spm_bank=0, spm_offset=0)
    with pytest.raises(InputError, match="with 2 tenants each has 536870912 bytes of dram"):
        share([Tenant(program), Tenant(stream())], load_config(CHANNEL))
    with pytest.raises(InputError, match=r"weight = 0, but it must be an integer from 1 to 1024"):
        share([Tenant(stream(), 0)], load_config(CHANNEL))
    path = tmp_path / "a.json"
    stream().save(path)
    assert read_tenant(f"{path}:weight=2,outstanding=3") == Tenant(load_program(path), 2, 3)
    for text, rule in (("wide=2", "the only keys are weight and outstanding"), ("weight=0", "an integer of at least 1")):
        with pytest.raises(InputError, match=rule):
            read_tenant(f"{path}:{text}")
