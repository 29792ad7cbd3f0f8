"""Programs that share an NPU: quotas, parts of the memories, and slowdowns (docs/model/tenants.md)."""

from __future__ import annotations

from math import lcm
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import Program, load_config, load_program, simulate
from kernbench.analysis.tenants import Tenant, read_tenant, share, shared_machine
from kernbench.common.errors import InputError
from tests.machine_strategies import machines
from tests.oracles import ref_tenants
from tests.oracles.ref_machine import completed
from tests.strategies import programs


def stream(loads: int = 8, nbytes: int = 65536, name: str = "stream") -> Program:
    program = Program(name)
    for i in range(loads):
        where = {"dram_addr": i * nbytes, "spm_bank": 0, "spm_offset": (i % 4) * 4096}
        program.dma_load(tensor_role="weight", qbits=8, num_elements=nbytes, **where)
    program.end()
    return program


#: One channel of 16 B a cycle, banks that never deny, and room for many transfers.
CHANNEL = {"dram": {"channels": 1}, "spm": {"num_banks": 64, "ports": 16, "bank_size_bytes": 1 << 16}, "dma": {"engines": 1}}


@settings(max_examples=2, deadline=None)
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
    small = data.draw(machines())
    count = data.draw(st.integers(2, 3))
    given = [data.draw(programs(small)) for _ in range(count)]
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
    run = shared_machine(tenants, config)
    run.run()
    result = run.result()
    assert result.status == status
    found: list[list[Any]] = [[] for _ in tenants]
    for entry, times in zip(run.program.entries, result.entries, strict=True):
        found[entry.id % count].append((times.issue, times.start, times.end))
    if status == "done":
        assert found == wanted


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
