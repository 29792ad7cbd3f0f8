"""Several programs on one NPU: each has its own queue, DMA engines, quota and part of the memories (docs/model/tenants.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any

from kernbench.cmdq import Program, load_program
from kernbench.cmdq.entries import DmaEntry, Entry, KvEntry
from kernbench.cmdq.footprint import regions_of, transfer_of
from kernbench.cmdq.plan import Plan, plan_program
from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig, load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.result import Result
from kernbench_core.numbers import TRANSFER_CHANNELS

MOST = 64  #: tenants
MOST_WEIGHT = 1024
_OPERANDS = ("spm", "ifm", "wgt", "ofm", "in", "in2", "out")  #: each has a bank and an offset
_ADDRESSES = ("dram_addr", "dram_base_addr")


@dataclass(frozen=True)
class Tenant:
    """A program with its quota."""

    program: Program
    weight: int = 1
    outstanding: int | None = None  #: [transfers] of each of its DMA engines; None: as the machine says


@dataclass(frozen=True)
class TenantResult:
    """What a tenant got."""

    name: str
    weight: int
    outstanding: int
    cycles: int
    alone: int  #: [cycle] on the machine without other tenants
    dram_bytes: int  #: that its transfers moved
    backpressure: int  #: [cycle] its transfers were stalled
    bank_conflict: int  #: [cycle] they were held at banks
    queue_full: int

    @property
    def slowdown(self) -> Fraction | None:
        """None for a program without work."""
        return Fraction(self.cycles, self.alone) if self.alone else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        stalls = {"backpressure": self.backpressure, "bank_conflict": self.bank_conflict, "queue_full": self.queue_full}
        slowdown = None if self.slowdown is None else float(self.slowdown)
        return {
            "name": self.name, "weight": self.weight, "outstanding": self.outstanding, "cycles": self.cycles,
            "alone": self.alone, "slowdown": slowdown, "dram_bytes": self.dram_bytes, "stalled": stalls,
        }  # fmt: skip


@dataclass(frozen=True)
class Shared:
    """A run of several tenants, and the run of each alone."""

    machine: str
    tenants: tuple[TenantResult, ...]
    result: Result

    @property
    def _progress(self) -> list[Fraction]:
        return [1 / one.slowdown for one in self.tenants if one.slowdown]

    @property
    def throughput(self) -> Fraction:
        """The sum of the progress of all tenants: how many machines of their own they are worth."""
        return sum(self._progress, Fraction(0))

    @property
    def fairness(self) -> Fraction | None:
        """The smallest progress over the largest; None without work."""
        progress = self._progress
        return min(progress) / max(progress) if progress else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, as `kbsim tenants --json` prints it."""
        fairness = None if self.fairness is None else float(self.fairness)
        return {
            "machine": self.machine, "status": self.result.status, "cycles": self.result.cycles,
            "throughput": float(self.throughput), "fairness": fairness,
            "tenants": [one.to_dict() for one in self.tenants],
        }  # fmt: skip


def read_tenant(text: str) -> Tenant:
    """`FILE`, or `FILE:weight=2,outstanding=4`. InputError for other keys and values."""
    path, colon, given = text.rpartition(":")
    if not colon or "=" not in given:
        return Tenant(load_program(text))
    keys: dict[str, int] = {}
    for one in given.split(","):
        name, _, value = one.partition("=")
        if name not in ("weight", "outstanding") or name in keys:
            raise InputError(Problem(text, "the only keys are weight and outstanding, and each may occur once", "tenant", one))
        if not (value.isascii() and value.isdigit() and len(value) < 6 and int(value) >= 1):
            raise InputError(Problem(text, "it must be an integer of at least 1", name, value))
        keys[name] = int(value)
    return Tenant(load_program(path), **keys)


def share(tenants: Sequence[Tenant], config: NpuConfig) -> Shared:
    """Run tenants on one machine, and each alone. InputError if a program does not fit into its part."""
    machine = shared_machine(tenants, config)
    machine.run()
    result = machine.result()
    if result.status != "done":
        return Shared(config.source, (), result)
    ends = [0] * len(tenants)
    for entry, times in zip(machine.program.entries, result.entries, strict=True):
        of = entry.id % len(tenants)
        ends[of] = max(ends[of], times.end or 0)
    found = []
    for number, tenant in enumerate(tenants):
        alone = Machine(config, tenant.program)
        alone.run()
        engines = [result.counters[f"dma{number * config.dma.engines + i}"] for i in range(config.dma.engines)]
        stalled = {name: sum(one["stalled"][name] for one in engines) for name in ("backpressure", "bank_conflict")}
        found.append(
            TenantResult(
                name=tenant.program.name or tenant.program.source,
                weight=tenant.weight,
                outstanding=tenant.outstanding or config.dma.max_concurrent_transfers,
                cycles=ends[number],
                alone=max((one.end or 0 for one in alone.result().entries), default=0),
                dram_bytes=sum(one["bytes"] for one in engines),
                queue_full=sum(one["queue_full"] for one in engines),
                **stalled,
            )
        )
    return Shared(config.source, tuple(found), result)


def shared_machine(tenants: Sequence[Tenant], config: NpuConfig) -> Machine:
    """The machine that runs the joint program, before cycle 0."""
    if not 1 <= len(tenants) <= MOST:
        raise InputError(Problem("tenants", f"the number of tenants must be from 1 to {MOST}", "tenants", len(tenants)))
    if config.control.mmio is not None:
        rule = "tenants have no host that writes their entries"
        remedy = "leave the key out of the machine"
        raise InputError(Problem(config.source, rule, "control.mmio", remedy=remedy))
    for tenant in tenants:
        if not 1 <= tenant.weight <= MOST_WEIGHT:
            rule = f"it must be an integer from 1 to {MOST_WEIGHT}"
            raise InputError(Problem(tenant.program.source, rule, "weight", tenant.weight))
    wide = _machine_of(tenants, config)
    program = _joint_program(tenants, config)
    return Machine(wide, program, plan=_with_quotas(plan_program(program, wide), tenants, config))


def _machine_of(tenants: Sequence[Tenant], config: NpuConfig) -> NpuConfig:
    """The machine with DMA engines for all, and with weights as large as any, so that its checks cover them."""
    heaviest = max(tenant.weight for tenant in tenants)
    changes: dict[str, Any] = {"dma.engines": config.dma.engines * len(tenants)}
    for name, channel in zip(TRANSFER_CHANNELS, config.dma.channels, strict=True):
        changes[f"dma.channels.{name}.weight"] = channel.weight * heaviest
    if config.noc is not None:
        changes["noc.dma_at"] = [list(place) for place in config.noc.dma_at] * len(tenants)
    return load_config(config.to_dict(), changes, kind=NpuConfig)


def _with_quotas(plan: Plan, tenants: Sequence[Tenant], config: NpuConfig) -> Plan:
    engines = []
    for number, table in enumerate(plan.machine["dma"]):
        tenant = tenants[number // config.dma.engines]
        given = zip(table["channels"], config.dma.channels, strict=True)
        channels = [(most, priority, own.weight * tenant.weight) for (most, priority, _), own in given]
        most = tenant.outstanding or config.dma.max_concurrent_transfers
        engines.append(table | {"channels": channels, "max_concurrent": most})
    return replace(plan, machine=plan.machine | {"dma": engines})


def _joint_program(tenants: Sequence[Tenant], config: NpuConfig) -> Program:
    """All entries by (position, tenant); the remainder of an id by the number of tenants is the tenant."""
    queues = [list(_own_entries(number, tenant, tenants, config)) for number, tenant in enumerate(tenants)]
    order = sorted((position, number) for number, queue in enumerate(queues) for position in range(len(queue)))
    entries = [queues[number][position] for position, number in order]
    fresh = {old: new * len(tenants) + old % len(tenants) for new, old in enumerate(one["id"] for one in entries)}
    for one in entries:
        one["id"] = fresh[one["id"]]
        for key in ("deps_before", "deps_after"):
            if key in one:
                one[key] = [fresh[other] for other in one[key]]
    name = " + ".join(tenant.program.name or tenant.program.source for tenant in tenants)
    return load_program({"metadata": {"version": "1.0", "name": name}, "cmdq": entries})


def _own_entries(
    number: int, tenant: Tenant, tenants: Sequence[Tenant], config: NpuConfig
) -> Iterator[dict[str, Any]]:
    """The entries of a tenant: its barriers and its END are NOPs on which what they hold back depends."""
    count, spm, dram = len(tenants), config.spm, config.dram
    line = lcm(dram.channels * dram.interleave_bytes, config.dma.alignment_bytes)
    dram_part = dram.capacity_bytes // count // line * line
    bank_part = spm.bank_size_bytes // count // spm.bank_width_bytes * spm.bank_width_bytes
    banks = spm.num_banks // count
    blocked = spm.map == "blocked"
    spm_part = banks * spm.bank_size_bytes if blocked else bank_part * spm.num_banks
    plan_program(tenant.program, config)  # it is valid on the machine by itself
    gate: list[int] = []
    before: list[int] = []

    def own(ids: Sequence[int]) -> list[int]:
        return [one * count + number for one in ids]

    for entry, given in zip(tenant.program.entries, tenant.program.to_dict()["cmdq"], strict=True):
        dram_end, spm_end = _ends(entry, config)
        for what, end, part in (("dram", dram_end, dram_part), ("spm", spm_end, spm_part)):
            if end > part:
                rule = f"with {count} tenants each has {part} bytes of {what}, and this entry needs them up to {end}"
                raise InputError(Problem(f"{tenant.program.source}: {entry.where}", rule, "tenants", count))
        one = {**given, "id": entry.id * count + number, "tenant_id": number}
        waits = [*own(given.get("deps_before", ())), *gate]
        if entry.opcode == "BARRIER":
            waits += own(one.pop("wait_for", ()))
            gate = [one["id"]]
        elif entry.opcode == "END":
            waits += before
        if entry.opcode in ("BARRIER", "END"):
            one["opcode"] = "NOP"
        one["deps_before"] = list(dict.fromkeys(waits))
        if "deps_after" in given:
            one["deps_after"] = own(given["deps_after"])
        if entry.engine == "dma":
            one["dma_id"] = given.get("dma_id", 0) + number * config.dma.engines
        for name in _ADDRESSES:
            if name in one:
                one[name] += number * dram_part
        for name in _OPERANDS:
            if f"{name}_offset" in one and blocked:
                one[f"{name}_bank"] += number * banks
            elif f"{name}_offset" in one:
                one[f"{name}_offset"] += number * bank_part
        before.append(one["id"])
        yield one


def _ends(entry: Entry, config: NpuConfig) -> tuple[int, int]:
    """One past the last byte of DRAM and of the scratchpad that an entry touches."""
    if entry.engine == "control":
        return 0, 0
    if isinstance(entry, DmaEntry | KvEntry):
        move = transfer_of(entry, config)
        last = max(move.aligned_row(0)[1], move.aligned_row(move.rows - 1)[1])
        return last, move.spm_addr + move.bytes_aligned
    return 0, max(region.addr + region.nbytes for region in regions_of(entry, config))
