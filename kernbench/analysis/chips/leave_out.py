"""A table as if it had not been there for the fit: what it decided is taken from other chips and profiles.

A table decides the constants of its family: tables of operations those of products and vector operations, tables of attention
those of attention, tables of collectives those of links. Where another table of the family has the same chip (or the same
profile), the constants stay. Otherwise each becomes the median of the other calibrated chips of the kind (or of the other
profiles).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, Any

from kernbench.config import NpuConfig, chip_names, load_config
from kernbench.config.chip import Chip
from kernbench.config.runtime import AttentionCost, OpCost, Runtime, load_runtime, runtime_names

if TYPE_CHECKING:
    from kernbench.analysis.chips.tables import Table

#: Constants of a chip by family; those of `operations` are joined by the rates of its engines.
CHIP_CONSTANTS = {
    "operations": ("product_fill_cycles", "cache_kept"),
    "attention": (
        "attention_key_cycles",
        "attention_block_cycles",
        "attention_idle_cycles",
        "attention_keys",
        "attention_ramp_ns",
    ),
    "collective": ("links_share", "link_latency_ns"),
}


def left_out(table: Table, tables: Sequence[Table]) -> tuple[NpuConfig, Runtime]:
    """The machine and the profile of a table without what it decided."""
    kin = [one for one in tables if one is not table and one.family == table.family and not one.skipped]
    machine, runtime = load_config(table.chip), load_runtime(table.runtime)
    if not any(one.chip == table.chip for one in kin) and machine.chip is not None:
        machine = _of_others(machine, table)
    if not any(one.runtime == table.runtime for one in kin):
        runtime = _profile_of_others(runtime, table)
    return machine, runtime


def _of_others(machine: NpuConfig, table: Table) -> NpuConfig:
    chip = machine.chip
    assert chip is not None
    others = [
        one
        for one in _chips()
        if one.chip and one.chip.calibrated and one.chip.kind == chip.kind and one.source != machine.source
    ]
    if not others:
        return machine
    names = CHIP_CONSTANTS.get(table.family, ())
    update: dict[str, Any] = {name: _median([getattr(one.chip, name) for one in others], getattr(chip, name)) for name in names}
    changed: dict[str, Any] = {}
    if table.family == "operations":
        shares = [_product_share(one) for one in others]
        rate = median(shares) * chip.cores * chip.macs(8)
        changed["te"] = machine.te.model_copy(update={"macs_per_cycle": Fraction(rate).limit_denominator(10**6)})
        share = median([_memory_share(one) for one in others])
        peak = Fraction(share * _rated_rate(chip, machine)).limit_denominator(10**6)
        changed["dram"] = machine.dram.model_copy(update={"peak_bw_bytes_per_cycle": peak})
    return machine.model_copy(update={"chip": chip.model_copy(update=update), **changed})


def _chips() -> list[NpuConfig]:
    loaded = (load_config(name) for name in chip_names())
    return [machine for machine in loaded if machine.chip is not None]


def _product_share(machine: NpuConfig) -> Fraction:
    chip = machine.chip
    assert chip is not None
    return machine.te.engines * machine.te.rate(8, 8) / (chip.cores * Fraction(chip.macs(8)))


def _rated_rate(chip: Chip, machine: NpuConfig) -> Fraction:
    return chip.rated_memory_gb_s / machine.freq_ghz


def _memory_share(machine: NpuConfig) -> Fraction:
    chip = machine.chip
    assert chip is not None
    return machine.dram.capacity * machine.dram.channels / _rated_rate(chip, machine)


def _profile_of_others(runtime: Runtime, table: Table) -> Runtime:
    others = [load_runtime(name) for name in runtime_names()]
    others = [one for one in others if one != runtime]
    if table.family == "attention":
        costs = [one.attention for one in others if one.attention != AttentionCost()]
        names = ("start_ns", "split_ns")
        update = {name: _median([getattr(one, name) for one in costs], getattr(runtime.attention, name)) for name in names}
        return runtime.model_copy(update={"attention": runtime.attention.model_copy(update=update)})
    if table.family == "operations":
        known = [one for one in others if one.ops and bool(one.sync_ns) == bool(runtime.sync_ns)]
        launches = {"default": _median([one.launch_ns.get("default", 0) for one in known], Fraction(0))}
        classes = ("matmul", "norm", "elementwise", "gather")
        ops = {name: _cost([one.ops[name] for one in known if name in one.ops]) for name in classes}
        return runtime.model_copy(update={"ops": ops, "launch_ns": launches})
    if table.family == "model":
        return runtime.model_copy(update={"step_ns": _median([one.step_ns for one in others if one.step_ns], Fraction(0))})
    return runtime


def _cost(costs: Sequence[OpCost]) -> OpCost:
    if not costs:
        return OpCost()
    return OpCost(start_ns=_median([one.start_ns for one in costs], 0), traffic=_median([one.traffic for one in costs], 1))


def _median(values: Iterable[Any], default: Any) -> Any:
    """The median; of an even number the lower of the two in the middle, so that a whole number stays one."""
    some = sorted(values)
    return some[(len(some) - 1) // 2] if some else default
