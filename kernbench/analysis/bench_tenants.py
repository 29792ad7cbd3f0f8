"""Several benches on one machine, each with its own PEs, quota and parts of the memories (docs/model/tenants.md#kernels)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.analysis.tenants import (
    QUOTAS,
    Shared,
    TenantResult,
    check_weights,
    counted,
    machine_of,
    pe_of,
    read_quotas,
    split_quotas,
    with_quotas,
)
from kernbench.cmdq import Program
from kernbench.cmdq.plan import Plan, plan_program
from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig, SystemConfig
from kernbench.runtime_api.bench import Bench, checked, split_settings
from kernbench.runtime_api.pe_set import PeSet, TenantPeSet
from kernbench.runtime_api.running import Together
from kernbench.sim_engine.engine import GraphEngine, Session
from kernbench.sim_engine.machine import Machine


@dataclass(frozen=True)
class BenchTenant:
    """A bench with its parameters and its quota."""

    bench: Bench
    params: Mapping[str, Any] = field(default_factory=dict)
    weight: int = 1
    outstanding: int | None = None  #: [transfers] limit of each DMA engine of its PEs; None for the limit of the machine
    pes: int | None = None  #: PEs of each cube; None for an equal share


def read_bench_tenant(text: str, bench: Bench) -> BenchTenant:
    """A tenant from `NAME:weight=2,pes=4,m=512`, where the other keys are parameters of the bench. InputError for other keys
    and values."""
    quotas, others = read_quotas(text, split_quotas(text)[1], (*QUOTAS, "pes"))
    params, left = split_settings(bench.where, bench.params, others)
    if left:
        rule = "it must be a quota (weight, outstanding, pes) or a parameter of the bench"
        raise InputError(Problem(text, rule, "tenant", left[0], "set values of the machine with --set"))
    return BenchTenant(bench, params, **quotas)


class _Parted:
    """Benches as `GraphEngine` runs them: each on its own places."""

    def __init__(self, tenants: Sequence[BenchTenant], places: Sequence[PeSet]) -> None:
        self.name = " + ".join(one.bench.name for one in tenants)
        self._tenants, self._places = tenants, places

    def begin(self, session: Session, params: Mapping[str, Any]) -> Together:
        """Start all benches."""
        chosen = [checked(one.bench.where, one.bench.params, one.params) for one in self._tenants]
        return Together(session, list(zip((one.bench for one in self._tenants), chosen, self._places, strict=True)))


class _SharedEngine(GraphEngine):
    """A `GraphEngine` whose DMA engines have the quotas of the tenants that own their PEs."""

    def __init__(
        self, config: NpuConfig | SystemConfig, tenants: Sequence[BenchTenant], places: Sequence[PeSet], *, op_log: bool
    ) -> None:
        super().__init__(config, op_log=op_log)
        self._npu_or_system = config
        self._tenants, self._places = tenants, places

    def _new_machine(self, program: Program, components: Mapping[str, Any]) -> Machine:
        heaviest = max(one.weight for one in self._tenants)
        wide = machine_of(heaviest, 1, self._npu_or_system)
        plan = plan_program(program, wide, whole=True)
        quotas = with_quotas(plan, self.owners(plan), self._tenants, pe_of(self._npu_or_system))
        return Machine(wide, program, components, plan=quotas)

    def owners(self, plan: Plan) -> list[int | None]:
        """The tenant of each DMA engine of a PE; None for PEs without a tenant."""
        of = {name: number for number, places in enumerate(self._places) for name in places.pes}
        pes, each = PeSet(self.config).pes, pe_of(self._npu_or_system).dma.engines
        return [of.get(pes[engine // each]) for engine in range(plan.with_scratchpad)]


def share_benches(tenants: Sequence[BenchTenant], config: NpuConfig | SystemConfig, *, verify: bool = False) -> Shared:
    """Run benches together on one machine, and each bench alone on the same PEs. `verify`: compare their outputs with their
    references.

    InputError if a tenant's part of a memory has too little room, and if the machine has too few PEs; KernelFailed if the code
    of a bench or kernel raised an exception.
    """
    check_weights([(one.bench.where, one.weight) for one in tenants])
    shares = _shares(tenants, config)
    places = [TenantPeSet(config, *share, part, len(tenants)) for part, share in enumerate(shares)]
    engine = _SharedEngine(config, tenants, places, op_log=verify)
    result = engine.run(_Parted(tenants, places)).result
    if result.status != "done":
        return Shared(config.source, (), result)
    machine, found = engine.machine, []
    for number, (tenant, run) in enumerate(zip(tenants, engine.activity.runs, strict=True)):
        alone = GraphEngine(config, op_log=False)
        alone.run(_Parted([tenant], [TenantPeSet(config, *shares[number], 0, 1)]))
        found.append(
            TenantResult(
                name=tenant.bench.name,
                weight=tenant.weight,
                outstanding=tenant.outstanding or pe_of(config).dma.max_concurrent_transfers,
                cycles=run.end,
                alone=alone.activity.runs[0].end,
                **counted(machine.plan, result, engine.owners(machine.plan), number),
                pes=len(places[number].pes),
                verified=run.verify().ok if verify else None,
            )
        )
    return Shared(config.source, tuple(found), result)


def _shares(tenants: Sequence[BenchTenant], config: NpuConfig | SystemConfig) -> list[tuple[int, int]]:
    """The first PE of each tenant in each cube, and the number of its PEs there. InputError if there are too few."""
    there = PeSet(config).size.pes
    equal = there // len(tenants) if len(tenants) else 0
    wanted = [equal if one.pes is None else one.pes for one in tenants]
    if not tenants or min(wanted) < 1 or sum(wanted) > there:
        rule = f"each tenant needs a PE of each cube, and a cube of this machine has {there}"
        remedy = "take fewer tenants, give them fewer PEs (pes=N), or choose a machine with more PEs (-c)"
        raise InputError(Problem(config.source, rule, "tenants", len(tenants), remedy))
    return [(sum(wanted[:number]), pes) for number, pes in enumerate(wanted)]
