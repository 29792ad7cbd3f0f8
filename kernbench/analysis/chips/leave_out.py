"""A table left out of the fit: the constants that it determines are taken from other tables.

A table determines the constants of its family: operations (products and vector operations), attention, or links. These
constants are fitted again to the other tables of the family on the same chip, each table with its own profile. The fit starts
from the median of the other calibrated chips of the same kind; chips of the same vendor that have a table of the family are
preferred. Tables of operations from the same laboratory are used alone if there are any: clocks and power limits differ between
laboratories. Without such tables, the median itself is used. If other tables of the family share the runtime profile, only the
entries of operations of this table are removed; otherwise its constants are replaced by the median of the other profiles.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, Any

from kernbench.analysis.chips.fit import Constant, fit, value_at, with_values
from kernbench.config import NpuConfig, chip_names, load_config
from kernbench.config.chip import Chip
from kernbench.config.datasheet import constants_of, middle_of, with_constants
from kernbench.config.runtime import AttentionCost, OpCost, Runtime, load_runtime, runtime_names
from kernbench.workloads.ops.timing import OperationTimer

if TYPE_CHECKING:
    from kernbench.analysis.chips.cases import Case
    from kernbench.analysis.chips.tables import Table

#: Constants of a chip by family; those of `operations` are joined by the rates of its engines.
CHIP_CONSTANTS = {
    "operations": ("cache_kept",),
    "attention": (
        "attention_key_cycles",
        "attention_block_cycles",
        "attention_idle_cycles",
        "attention_ramp_ns",
    ),
    "collective": ("links_share", "link_latency_ns"),
    "network": ("nic_gb_s", "network_latency_ns"),
}


#: Constants that are fitted again, by family: path, unit, where the fit begins if the value is 0.
REFITTED = {
    "operations": (
        Constant("te.macs_per_cycle", "MAC/cycle", "sustained product rate"),
        Constant("dram.peak_bw_bytes_per_cycle", "byte/cycle", "sustained bandwidth"),
    ),
    "attention": (
        Constant("chip.attention_key_cycles", "cycle", "a block of attention, a key"),
        Constant("chip.attention_block_cycles", "cycle", "a block of attention begins and ends", 1000.0),
        Constant("chip.attention_ramp_ns", "ns", "a stream of keys lasts longer than its bytes", 5000.0),
    ),
    "collective": (
        Constant("chip.links_share", "1", "share of the links that a collective sustains"),
        Constant("chip.link_latency_ns", "ns", "a step of a collective"),
    ),
    "network": (
        Constant("chip.nic_gb_s", "GB/s", "a network adapter"),
        Constant("chip.network_latency_ns", "ns", "a step of a collective between nodes"),
    ),
}
#: the constants of a runtime profile that are fitted to tables of whole models, and its starts of operations
OF_MODELS = ("step_ns", "prompt_ns", "sequence_ns", "vocabulary_ns", "result_byte_ns")
MAX_ROWS = 60  #: rows of each other table in such a fit, evenly spaced


def left_out(table: Table, tables: Sequence[Table]) -> tuple[NpuConfig, Runtime]:
    """The machine and the profile of a table, without the constants that the table determined."""
    kin = _kin(table, tables)
    machine, runtime = table.elsewhere or load_config(table.chip), profile_left_out(table, tables)
    if machine.chip is None:
        return machine, runtime
    same = [one for one in kin if one.chip == table.chip]
    if table.family == "operations" and table.place:
        same = [one for one in same if one.place == table.place] or same
    constants = REFITTED.get(table.family, ())
    begin = _of_others(machine, table, {one.chip for one in kin})
    if not same or not constants:
        return begin, runtime
    values = {one.path: value_at(begin, runtime, one.path) for one in constants}
    machine, _ = with_values(machine, runtime, values)
    cases = [case for one in same for case in _under(one)]
    if len(cases) <= len(constants):
        return machine, runtime
    return fit(cases, machine, runtime, constants).machine, runtime


def profile_left_out(table: Table, tables: Sequence[Table]) -> Runtime:
    """The profile of a table without the constants that the table determined."""
    runtime = load_runtime(table.runtime)
    sharing = [one for one in _kin(table, tables) if one.runtime == table.runtime]
    return _without(runtime, table, sharing) if sharing else _profile_of_others(runtime, table)


def _kin(table: Table, tables: Sequence[Table]) -> list[Table]:
    """The other tables of the family of a table."""
    return [one for one in tables if one is not table and one.family == table.family and one.machine is not None and one.cases]


def as_new(table: Table, *, measured: bool = False) -> NpuConfig | None:
    """The chip of a table as it would be without measurements: its datasheet, and the constants of other chips.

    `measured`: the chip keeps the constants that short programs measure, and takes the constants that are fitted to tables
    from other chips.

    Each constant is the median over other calibrated chips of the same kind, of the same vendor if there are any. The share and
    the latency of DRAM are those of chips with the same kind of DRAM, of any vendor. None without such chips, and for a chip
    that is not calibrated: its file is already made in this way.
    """
    machine = table.elsewhere or load_config(table.chip)
    if machine.chip is None or not machine.chip.calibrated:
        return None
    others = _alike_chips(machine)
    if not others:
        return None
    constants = middle_of([constants_of(one) for _, one in others])
    if memory := _same_dram(machine):
        like = middle_of([constants_of(one) for one in memory])
        constants = replace(constants, memory_share=like.memory_share, memory_latency_ns=like.memory_latency_ns)
    return with_constants(machine, constants, measured=measured)


def _same_dram(machine: NpuConfig) -> list[NpuConfig]:
    """The other calibrated chips with the same kind of cores and of DRAM, of any vendor."""
    assert machine.chip is not None
    kind = machine.chip.dram_kind
    return [one for _, one in _calibrated_beside(machine) if kind and one.chip and one.chip.dram_kind == kind]


def _under(table: Table) -> list[Case]:
    """Some rows of a table, evaluated with the runtime profile of that table, whatever profile the fit uses."""
    runtime = load_runtime(table.runtime)
    timers: dict[int, tuple[NpuConfig, OperationTimer]] = {}  # the timers of the machine that was used last

    def of(machine: NpuConfig) -> OperationTimer:
        if id(machine) not in timers:
            timers.clear()
            timers[id(machine)] = (machine, OperationTimer(machine, runtime, simulate=False))
        return timers[id(machine)][1]

    def under(case: Case) -> Case:
        return replace(case, ask=lambda timer: case.ask(of(timer.machine)))

    return [under(case) for case in table.cases[:: max(1, -(-len(table.cases) // MAX_ROWS))]]


def _operations(tables: Iterable[Table]) -> set[tuple[str, str]]:
    """Name and class of the operations of these tables that look up the profile."""
    return {
        (case.operation.name, case.operation.kind)
        for one in tables
        for case in one.cases
        if case.operation is not None and not case.traced
    }


def _keys(tables: Iterable[Table], known: Mapping[str, Any]) -> set[str]:
    """The keys of a profile's `ops` that the operations of these tables look up."""
    return {next((key for key in pair if key in known), "default") for pair in _operations(tables)}


def _groups(runtime: Runtime, tables: Iterable[Table], known: Mapping[str, Any]) -> dict[str, Any]:
    """For each launch method, the median of the values that the operations of these tables look up."""
    found: dict[str, list[Any]] = {}
    for name, kind in _operations(tables):
        key = runtime.call(known, name, kind)
        if name in runtime.called_as and key in known:
            found.setdefault(runtime.called_as[name], []).append(known[key])
    return {group: _median(values, None) for group, values in found.items()}


def _calls(runtime: Runtime, tables: Iterable[Table], known: Mapping[str, Any], *, collectives: bool = True) -> set[str]:
    """The keys of host times that the operations of these tables look up, without those of collectives if so asked."""
    pairs = _operations(tables)
    return {runtime.call(known, name, kind) for name, kind in pairs if collectives or kind != "collective"}


def _without(runtime: Runtime, table: Table, sharing: Sequence[Table]) -> Runtime:
    """A profile without the keys that only this table looks up; its default is then the median of the values that the other
    tables look up."""
    update: dict[str, Any] = {}
    for name in ("launch_ns", "behind_ns"):
        known: dict[str, Fraction] = getattr(runtime, name)
        own = _calls(runtime, [table], known) - _calls(runtime, sharing, known)
        if own and known:
            alike = _calls(runtime, sharing, known, collectives=table.family == "collective")  # they are called otherwise
            default = _median([known[key] for key in alike if key in known], Fraction(0))
            groups = _groups(runtime, sharing, known)
            update[name] = {key: value for key, value in known.items() if key not in own} | {"default": default} | groups
    own = _keys([table], runtime.ops) - _keys(sharing, runtime.ops)
    rest = [cost for key, cost in runtime.ops.items() if key not in own]
    update["ops"] = {key: _refilled(cost, rest) if key in own else cost for key, cost in runtime.ops.items()}
    return runtime.model_copy(update=update)


def _of_others(machine: NpuConfig, table: Table, measured: set[str]) -> NpuConfig:
    """The machine with the constants of other calibrated chips; chips of the same vendor that have a table of the family are
    preferred."""
    return _with_constants(machine, table, [one for _, one in _alike_chips(machine, measured)])


def _alike_chips(machine: NpuConfig, measured: Container[str] = ()) -> list[tuple[str, NpuConfig]]:
    """Other calibrated chips of the same kind; if there are any, only measured ones, and of these only those of the vendor."""
    assert machine.chip is not None
    others = _calibrated_beside(machine)
    others = [pair for pair in others if pair[0] in measured] or others
    vendor = machine.chip.name.split()[0]
    return [pair for pair in others if pair[1].chip and pair[1].chip.name.split()[0] == vendor] or others


def _calibrated_beside(machine: NpuConfig) -> list[tuple[str, NpuConfig]]:
    """The other calibrated chips of the same kind."""
    chip = machine.chip
    assert chip is not None
    found = [(name, one) for name, one in _chips() if one.source != machine.source]
    return [(name, one) for name, one in found if one.chip and one.chip.calibrated and one.chip.kind == chip.kind]


def _with_constants(machine: NpuConfig, table: Table, others: Sequence[NpuConfig]) -> NpuConfig:
    """The machine with the median of the constants of other machines."""
    chip = machine.chip
    assert chip is not None
    if not others:
        return machine
    names = CHIP_CONSTANTS.get(table.family, ())
    update: dict[str, Any] = {name: _median([getattr(one.chip, name) for one in others], getattr(chip, name)) for name in names}
    changed: dict[str, Any] = {}
    if table.family == "operations":
        shares = [_product_share(one) / one.chip.power_share for one in others if one.chip]
        clock = chip.rated_clock_ghz / machine.freq_ghz  # a laboratory may state another clock than that of the file
        rate = median(shares) * chip.power_share * clock * chip.cores * chip.macs(8)
        changed["te"] = machine.te.model_copy(update={"macs_per_cycle": Fraction(rate).limit_denominator(10**6)})
        share = median([_memory_share(one) for one in _same_dram(machine) or others])
        peak = Fraction(share * _rated_rate(chip, machine)).limit_denominator(10**6)
        changed["dram"] = machine.dram.model_copy(update={"peak_bw_bytes_per_cycle": peak})
    return machine.model_copy(update={"chip": chip.model_copy(update=update), **changed})


def _chips() -> list[tuple[str, NpuConfig]]:
    loaded = ((name, load_config(name)) for name in chip_names())
    return [(name, machine) for name, machine in loaded if machine.chip is not None]


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
    others = [one for one in others if one != runtime]  # values that another profile takes over from this one do not count
    if table.family == "attention":
        costs = [one.attention for one in others if one.attention not in (AttentionCost(), runtime.attention)]
        names = ("start_ns", "split_ns")
        update = {name: _median([getattr(one, name) for one in costs], getattr(runtime.attention, name)) for name in names}
        return runtime.model_copy(update={"attention": runtime.attention.model_copy(update=update)})
    if table.family == "operations":
        known = [one for one in others if one.ops and bool(one.sync_ns) == bool(runtime.sync_ns)]
        launches = {"default": _median([one.launch_ns.get("default", 0) for one in known], Fraction(0))}
        ops = {key: _refilled(cost, _alike(key, known)) for key, cost in runtime.ops.items()}
        pause = _median([one.pause_ns for one in known], Fraction(0))
        return runtime.model_copy(update={"ops": ops, "launch_ns": launches, "pause_ns": pause})
    if table.family == "model":
        of_others = {
            name: _median([value for one in others if (value := getattr(one, name))], Fraction(0))
            for name in OF_MODELS
            if getattr(runtime, name)
        }
        ops = {key: cost.model_copy(update={"start_ns": _start(key, cost, others)}) for key, cost in runtime.ops.items()}
        return runtime.model_copy(update={**of_others, "ops": ops})
    return runtime


def _start(key: str, cost: OpCost, profiles: Sequence[Runtime]) -> Fraction:
    """[ns] The start of an operation in other profiles, if it has one. The number of kernels of a model is counted in the
    software."""
    return cost.start_ns and Fraction(_median([one.ops[key].start_ns for one in profiles if key in one.ops], 0))


def _alike(key: str, profiles: Sequence[Runtime]) -> list[OpCost]:
    """The constants of an operation in other profiles, or those of any vector operation."""
    same = [one.ops[key] for one in profiles if key in one.ops]
    return same or [cost for one in profiles for name, cost in one.ops.items() if name != "matmul"]


def _refilled(cost: OpCost, others: Sequence[OpCost]) -> OpCost:
    """An operation with the fitted values of others; its structure is kept, because it follows from the code of the software.
    """
    update = {name: _median([getattr(one, name) for one in others], getattr(OpCost(), name)) for name in ("start_ns", "share")}
    for name in ("chain", "thread_bytes", "row_chain"):
        if getattr(cost, name):
            update[name] = _median([value for one in others if (value := getattr(one, name))], getattr(cost, name))
    return cost.model_copy(update=update)


def _median(values: Iterable[Any], default: Any) -> Any:
    """The median; of an even number of values the lower of the two in the middle, so that an integer remains an integer."""
    some = sorted(values)
    return some[(len(some) - 1) // 2] if some else default
