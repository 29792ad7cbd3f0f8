"""The energy of a run, from its counters and the machine's `energy` section; no cycle depends on it.

    dram    bytes of all DRAM channels * dram_pj_per_byte
    noc     bytes of all links * noc_pj_per_byte_hop
    spm     bytes that DMA engines of the NPU or its PEs moved, once each, and bytes of the operand regions of completed
            TE and VE jobs with spm_traffic, * spm_pj_per_byte
    mac     MACs of completed TE jobs * mac_pj[bits of the weights]; bit widths missing from the table cost what 8 bits cost
    ve      ops of completed VE jobs * ve_op_pj
    static  static_mw * time [ns]

The work of component jobs is counted by the core, and added.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench.cmdq.entries import TeEntry, VeEntry
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.common.units import cycles_to_ns

#: Work of component jobs that ended: MACs by bits of the weights, ops, and bytes of operands that requested banks.
Work = tuple[dict[int, int], int, int]
NO_WORK: Work = ({}, 0, 0)


def energy_pj(
    program: Program,
    plan: Plan,
    ended: npt.NDArray[np.bool_],
    counters: dict[str, Any],
    cycles: int,
    by_parts: Work = NO_WORK,
) -> dict[str, float]:
    """[pJ] The energy of a run by component, and the `total`. `ended`: whether each entry has ended; `by_parts`: the work of
    component jobs."""
    pe, model = plan.pe, plan.pe.energy
    by_bits, ops, streamed = by_entries(program, plan, ended)
    for bits, macs in by_parts[0].items():
        by_bits[bits] = by_bits.get(bits, 0) + macs
    default = model.mac_pj.get(8, Fraction(0))

    def bytes_of(names: Iterable[str]) -> int:
        return sum(counters[name]["bytes"] for name in names if name in counters)

    parts = {
        "dram": bytes_of(plan.resources[: plan.channels]) * model.dram_pj_per_byte,
        "noc": bytes_of(plan.resources[k] for k in plan.links) * model.noc_pj_per_byte_hop,
        "spm": (bytes_of(plan.dma[: plan.with_scratchpad]) + streamed + by_parts[2]) * model.spm_pj_per_byte,
        "mac": sum((macs * model.mac_pj.get(bits, default) for bits, macs in by_bits.items()), Fraction(0)),
        "ve": (ops + by_parts[1]) * model.ve_op_pj,
        "static": model.static_mw * cycles_to_ns(cycles, pe.freq_ghz),
    }
    parts["total"] = sum(parts.values(), Fraction(0))
    return {name: float(value) for name, value in sorted(parts.items())}


def by_entries(program: Program, plan: Plan, ended: npt.NDArray[np.bool_]) -> Work:
    """The work of entries that have ended."""
    if ended.all():
        macs, ops, streamed = plan.kept("work", lambda: _by_entries(program, plan, ended))
        return dict(macs), ops, streamed
    return _by_entries(program, plan, ended)


def _by_entries(program: Program, plan: Plan, ended: npt.NDArray[np.bool_]) -> Work:
    jobs, pe = plan.program["compute"], plan.pe
    program = plan.rows(program)
    macs: dict[int, int] = {}
    ops = streamed = 0
    rows = zip(jobs["entry"].tolist(), jobs["work"].tolist(), jobs["region_bytes"].sum(axis=1).tolist(), strict=True)
    for position, work, nbytes in rows:
        if not ended[position]:
            continue
        entry = program.entries[position]
        if isinstance(entry, TeEntry):
            macs[entry.qbits_weight] = macs.get(entry.qbits_weight, 0) + work
            streamed += nbytes if pe.te.spm_traffic else 0
        elif isinstance(entry, VeEntry):
            ops += work
            streamed += nbytes if pe.ve.spm_traffic else 0
    return macs, ops, streamed
