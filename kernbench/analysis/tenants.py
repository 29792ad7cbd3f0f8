"""Several programs on one machine, each with its own queue, DMA engines, quota and memory parts (docs/model/tenants.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from graphlib import TopologicalSorter
from math import lcm
from typing import Any, Protocol

import msgspec

from kernbench.cmdq import Program, load_program
from kernbench.cmdq.dependencies import predecessors
from kernbench.cmdq.entries import DmaEntry, Entry, HostEntry, KvEntry, PairEntry
from kernbench.cmdq.footprint import bytes_of, flat_address, regions_of, transfer_of
from kernbench.cmdq.plan import Plan, plan_program
from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig, SystemConfig, load_config
from kernbench.config.kinds import pe_as_npu
from kernbench.policy.routing.resolver import address_map
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.result import Result
from kernbench_core.numbers import TRANSFER_CHANNELS

LIMIT = 64  #: tenants
MAX_WEIGHT = 1024
QUOTAS = ("weight", "outstanding")
_OPERANDS = ("spm", "peer", "ifm", "wgt", "ofm", "in", "in2", "out")  #: operands with a bank and an offset each
_ADDRESSES = ("dram_addr", "dram_base_addr")


class Quota(Protocol):
    """The quota of a tenant."""

    @property
    def weight(self) -> int: ...

    @property
    def outstanding(self) -> int | None: ...


@dataclass(frozen=True)
class Tenant:
    """A program with its quota."""

    program: Program
    weight: int = 1
    outstanding: int | None = None  #: [transfers] limit of each of its DMA engines; None for the limit of the machine


@dataclass(frozen=True)
class TenantResult:
    """The result of a tenant."""

    name: str
    weight: int
    outstanding: int
    cycles: int
    alone: int  #: [cycle] on the machine without other tenants
    dram_bytes: int  #: [byte] moved by its transfers
    backpressure: int  #: [cycle] for which its transfers were stalled
    bank_conflict: int  #: [cycle] for which its requests were held at banks
    queue_full: int
    pes: int | None = None  #: of a bench: its PEs
    verified: bool | None = None  #: of a bench whose outputs were compared with its reference: whether they agree

    @property
    def slowdown(self) -> Fraction | None:
        """The time with other tenants over the time alone; None for a program without work."""
        return Fraction(self.cycles, self.alone) if self.alone else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        stalls = {"backpressure": self.backpressure, "bank_conflict": self.bank_conflict, "queue_full": self.queue_full}
        slowdown = None if self.slowdown is None else float(self.slowdown)
        return {
            "name": self.name, "weight": self.weight, "outstanding": self.outstanding, "cycles": self.cycles,
            "alone": self.alone, "slowdown": slowdown, "dram_bytes": self.dram_bytes, "stalled": stalls,
            "pes": self.pes, "verified": self.verified,
        }  # fmt: skip


@dataclass(frozen=True)
class Shared:
    """A run of several tenants, and one run of each tenant alone."""

    machine: str
    tenants: tuple[TenantResult, ...]
    result: Result

    @property
    def _progress(self) -> list[Fraction]:
        return [1 / one.slowdown for one in self.tenants if one.slowdown]

    @property
    def throughput(self) -> Fraction:
        """The sum of the progress of all tenants, which is the number of machines that would do the same work without
        sharing."""
        return sum(self._progress, Fraction(0))

    @property
    def fairness(self) -> Fraction | None:
        """The smallest progress over the largest progress; None for programs without work."""
        progress = self._progress
        return min(progress) / max(progress) if progress else None

    def to_dict(self) -> dict[str, Any]:
        """The object that `kbsim tenants --json` prints."""
        fairness = None if self.fairness is None else float(self.fairness)
        return {
            "machine": self.machine, "status": self.result.status, "cycles": self.result.cycles,
            "throughput": float(self.throughput), "fairness": fairness,
            "tenants": [one.to_dict() for one in self.tenants],
        }  # fmt: skip


def read_tenant(text: str) -> Tenant:
    """A tenant from `FILE` or `FILE:weight=2,outstanding=4`. InputError for other keys and values."""
    path, given = split_quotas(text)
    quotas, others = read_quotas(text, given, QUOTAS)
    if others:
        rule = f"the only keys are {' and '.join(QUOTAS)}"
        raise InputError(Problem(text, rule, "tenant", others[0]))
    return Tenant(load_program(path), **quotas)


def split_quotas(text: str) -> tuple[str, list[str]]:
    """`NAME:a=1,b=2` as the name and its settings."""
    path, colon, given = text.rpartition(":")
    return (path, given.split(",")) if colon and "=" in given else (text, [])


def read_quotas(text: str, given: Sequence[str], names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """The quotas with these names, and the other settings. InputError for a quota that occurs twice or is no number."""
    quotas: dict[str, int] = {}
    others = []
    for one in given:
        name, _, value = one.partition("=")
        if name not in names:
            others.append(one)
            continue
        if name in quotas:
            raise InputError(Problem(text, "each key may occur once", "tenant", one))
        if not (value.isascii() and value.isdigit() and len(value) < 6 and int(value) >= 1):
            raise InputError(Problem(text, "it must be an integer of at least 1", name, value))
        quotas[name] = int(value)
    return quotas, others


def share(tenants: Sequence[Tenant], config: NpuConfig | SystemConfig) -> Shared:
    """Run tenants together on one machine, and each tenant alone. InputError if a program does not fit into its tenant's parts
    of the memories."""
    machine = shared_machine(tenants, config)
    machine.run()
    result = machine.result()
    if result.status != "done":
        return Shared(config.source, (), result)
    pe = pe_of(config)
    ends = [0] * len(tenants)
    for entry, times in zip(machine.program.entries, result.entries, strict=True):
        of = entry.id % len(tenants)
        ends[of] = max(ends[of], times.end or 0)
    found = []
    for number, tenant in enumerate(tenants):
        alone = Machine(config, tenant.program)
        alone.run()
        found.append(
            TenantResult(
                name=tenant.program.name or tenant.program.source,
                weight=tenant.weight,
                outstanding=tenant.outstanding or pe.dma.max_concurrent_transfers,
                cycles=ends[number],
                alone=max((one.end or 0 for one in alone.result().entries), default=0),
                **counted(machine.plan, result, _owners(machine.plan, len(tenants), pe), number),
            )
        )
    return Shared(config.source, tuple(found), result)


def counted(plan: Plan, result: Result, owners: Sequence[int | None], tenant: int) -> dict[str, Any]:
    """The counters of the DMA engines of a tenant."""
    mine = [name for name, owner in zip(plan.dma, owners, strict=False) if owner == tenant]
    engines = [result.counters[name] for name in mine if name in result.counters]
    return {
        "dram_bytes": sum(one["bytes"] for one in engines),
        "queue_full": sum(one["queue_full"] for one in engines),
        **{name: sum(one["stalled"][name] for one in engines) for name in ("backpressure", "bank_conflict")},
    }



def shared_machine(tenants: Sequence[Tenant], config: NpuConfig | SystemConfig) -> Machine:
    """The machine with the joint program, at cycle 0."""
    if not 1 <= len(tenants) <= LIMIT:
        raise InputError(Problem("tenants", f"the number of tenants must be from 1 to {LIMIT}", "tenants", len(tenants)))
    if config.control.mmio is not None:
        rule = "tenants have no host that writes their entries"
        remedy = "leave the key out of the machine"
        raise InputError(Problem(config.source, rule, "control.mmio", remedy=remedy))
    check_weights([(tenant.program.source, tenant.weight) for tenant in tenants])
    wide = machine_of(max(tenant.weight for tenant in tenants), len(tenants), config)
    program = _joint_program(tenants, config)
    plan, pe = plan_program(program, wide), pe_of(config)
    return Machine(wide, program, plan=with_quotas(plan, _owners(plan, len(tenants), pe), tenants, pe))


def check_weights(weights: Sequence[tuple[str, int]]) -> None:
    for source, weight in weights:
        if not 1 <= weight <= MAX_WEIGHT:
            raise InputError(Problem(source, f"it must be an integer from 1 to {MAX_WEIGHT}", "weight", weight))


def pe_of(config: NpuConfig | SystemConfig) -> NpuConfig:
    """The NPU itself, or the NPU that is equal to each PE of a system."""
    return pe_as_npu(config) if isinstance(config, SystemConfig) else config


def machine_of(heaviest: int, count: int, config: NpuConfig | SystemConfig) -> NpuConfig | SystemConfig:
    """The machine with `count` times its DMA engines and with the largest weight of the tenants, so that checks of the machine
    cover them."""
    pe, of = pe_of(config), "pe." if isinstance(config, SystemConfig) else ""
    changes: dict[str, Any] = {f"{of}dma.engines": pe.dma.engines * count}
    for name, channel in zip(TRANSFER_CHANNELS, pe.dma.channels, strict=True):
        changes[f"{of}dma.channels.{name}.weight"] = channel.weight * heaviest
    if isinstance(config, NpuConfig) and config.noc is not None:
        changes["noc.dma_at"] = [list(place) for place in config.noc.dma_at] * count
    wide: NpuConfig | SystemConfig = load_config(config.to_dict(), changes, allow_code=config.allowed_code)
    return wide


def _owners(plan: Plan, count: int, pe: NpuConfig) -> list[int]:
    """The tenant of each DMA engine of a PE; the engines of PCIe endpoints follow, because all tenants share them."""
    return [number // pe.dma.engines % count for number in range(plan.with_scratchpad)]


def with_quotas(
    plan: Plan, owners: Sequence[int | None], tenants: Sequence[Quota], pe: NpuConfig
) -> Plan:
    """The plan of a machine with the weights of the heaviest tenant, with the quotas of the owner of each DMA engine. Engines
    without an owner, such as those of PCIe endpoints, have the weights and limits of the machine."""
    engines = list(plan.machine["dma"])
    for number, table in enumerate(engines):
        owner = owners[number] if number < len(owners) else None
        weight, most = (1, None) if owner is None else (tenants[owner].weight, tenants[owner].outstanding)
        given = zip(table["channels"], pe.dma.channels, strict=False)
        channels = [(limit, priority, own.weight * weight) for (limit, priority, _), own in given]
        channels += table["channels"][len(channels) :]
        engines[number] = table | {"channels": channels, "max_concurrent": most or table["max_concurrent"]}
    return msgspec.structs.replace(plan, machine=plan.machine | {"dma": engines})


def _joint_program(tenants: Sequence[Tenant], config: NpuConfig | SystemConfig) -> Program:
    """All entries in the order of (position, tenant); an id modulo the number of tenants gives the tenant."""
    parts = _Parts(config, len(tenants))
    queues = [list(_own_entries(number, tenant, parts)) for number, tenant in enumerate(tenants)]
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


def _own_entries(number: int, tenant: Tenant, parts: _Parts) -> Iterator[dict[str, Any]]:
    """The entries of a tenant; its barriers and its END become NOPs, and the entries after them depend on these NOPs."""
    count = parts.count
    plan_program(tenant.program, parts.config)  # check that the program alone is valid on the machine
    _check_gates(tenant.program)
    gate: list[int] = []
    before: list[int] = []

    def own(ids: Sequence[int]) -> list[int]:
        return [one * count + number for one in ids]

    for entry, given in zip(tenant.program.entries, tenant.program.to_dict()["cmdq"], strict=True):
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
        if entry.engine == "dma" and not isinstance(entry, HostEntry):
            one["dma_id"] = given.get("dma_id", 0) + number * parts.pe.dma.engines
        parts.move(one, entry, number, f"{tenant.program.source}: {entry.where}")
        before.append(one["id"])
        yield one


def _check_gates(program: Program) -> None:
    """InputError if a BARRIER or END waits for an entry that it holds back. Alone, such a program ends in a deadlock."""
    entries = program.entries
    waits = predecessors(entries)
    latest = list(range(len(entries)))  #: the last position among an entry and all entries that it waits for
    for place in TopologicalSorter(dict(enumerate(waits))).static_order():
        latest[place] = max([place, *(latest[other] for other in waits[place])])
    end = len(entries) - 1
    for place, entry in enumerate(entries):
        if entry.opcode == "BARRIER" and latest[place] > place:
            gate, held = entry, entries[latest[place]]
        elif entry.opcode != "END" and latest[place] == end and entries[end].opcode == "END":
            gate, held = entries[end], entry
        else:
            continue
        rule = f"it waits for {held.where}, which waits for it, so the program never ends"
        raise InputError(Problem(f"{program.source}: {gate.where}", rule, remedy="remove one of the two dependencies"))


class _Parts:
    """The part of each memory and scratchpad that a tenant has."""

    def __init__(self, config: NpuConfig | SystemConfig, count: int) -> None:
        self.config, self.count = config, count
        self.pe = pe = pe_of(config)
        self._align = pe.dma.alignment_bytes
        self._blocked = pe.spm.map == "blocked"
        bank = pe.spm.bank_size_bytes // count // pe.spm.bank_width_bytes * pe.spm.bank_width_bytes
        banks = pe.spm.num_banks // count
        self._step = banks if self._blocked else bank  # of the bank, or of the offset
        self._scratchpad = banks * pe.spm.bank_size_bytes if self._blocked else bank * pe.spm.num_banks
        self._map = address_map(config)
        self._line = lcm(config.memory.channels // config.slices * config.memory.interleave_bytes, self._align)

    def move(self, one: dict[str, Any], entry: Entry, tenant: int, where: str) -> None:
        """Move the addresses of an entry into the parts of its tenant. InputError if the entry's bytes do not fit into the
        parts."""
        bytes_of_dram = _dram_bytes(entry, self.pe)
        if bytes_of_dram is not None:
            start, end = bytes_of_dram
            what, first, part = self._memory(start)
            self._check(what, end - first, part, where)
            for name in _ADDRESSES:
                if name in one:
                    one[name] += tenant * part
        self._check("spm", _scratchpad_end(entry, self.pe), self._scratchpad, where)
        kind = "bank" if self._blocked else "offset"
        for name in _OPERANDS:
            if f"{name}_{kind}" in one:
                one[f"{name}_{kind}"] += tenant * self._step

    def _memory(self, address: int) -> tuple[str, int, int]:
        """The memory of a byte: its name, its first address, and the size of each part."""
        hbm, sram, size = self._map.hbm, self._map.sram, self._map.slice_bytes
        if address >= hbm.end:
            return "each SRAM", sram.address(sram.split(address)[0], 0), self._part(sram.nbytes, self._align)
        window, offset = hbm.split(address)
        what = "dram" if isinstance(self.config, NpuConfig) else "each slice"
        return what, hbm.address(window, offset // size * size), self._part(size, self._line)

    def _part(self, nbytes: int, line: int) -> int:
        return nbytes // self.count // line * line

    def _check(self, what: str, end: int, part: int, where: str) -> None:
        if end > part:
            rule = f"with {self.count} tenants each has {part} bytes of {what}, and this entry needs them up to {end}"
            raise InputError(Problem(where, rule, "tenants", self.count))


def _dram_bytes(entry: Entry, pe: NpuConfig) -> tuple[int, int] | None:
    """The aligned bytes of DRAM or SRAM from the first to the last that an entry moves; None if it moves none."""
    if isinstance(entry, DmaEntry | KvEntry):
        move = transfer_of(entry, pe)
        rows = move.aligned_row(0), move.aligned_row(move.rows - 1)
        return min(row[0] for row in rows), max(row[1] for row in rows)
    if isinstance(entry, HostEntry):
        align, end = pe.dma.alignment_bytes, entry.dram_addr + bytes_of(entry.num_elements, entry.qbits)
        return entry.dram_addr // align * align, -(-end // align) * align
    return None


def _scratchpad_end(entry: Entry, pe: NpuConfig) -> int:
    """The end of the bytes of scratchpads that an entry touches, which begin at address 0."""
    if isinstance(entry, DmaEntry | KvEntry):
        move = transfer_of(entry, pe)
        return move.spm_addr + move.bytes_aligned
    if isinstance(entry, PairEntry):
        nbytes = bytes_of(entry.num_elements, entry.qbits)
        ends = (entry.spm_bank, entry.spm_offset), (entry.peer_bank, entry.peer_offset)
        end: int = max(flat_address(bank, offset, pe.spm) for bank, offset in ends) + nbytes
        return end
    if entry.engine in ("te", "ve"):
        return max(region.addr + region.nbytes for region in regions_of(entry, pe))
    return 0
