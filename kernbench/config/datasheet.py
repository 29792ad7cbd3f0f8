"""Datasheets `kernbench/chip/1`: the vendor's figures of a chip, from which a machine is made.

A datasheet names calibrated or known chips that the chip is like. Values that a datasheet does not state come from these
chips. They have a form that is valid for other numbers of cores, clocks, DRAMs and power limits. So the constants of a kind of
core are in one place: the file of the chip that they were measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.common.spelling import meant
from kernbench.common.units import plain_number
from kernbench.config.chip import Chip, DramKind
from kernbench.config.document import Document
from kernbench.config.fields import Count, Flag, Frequency, Rate, Rates, Size
from kernbench.config.places import KEY, PathLike
from kernbench.config.schema import NpuConfig
from kernbench.config.section import Field, Section, ValidationError
from kernbench_core.numbers import TRANSFER_CHANNELS

SCHEMA = "kernbench/chip/1"
#: [pJ] of a whole chip for an operation of 16-bit products at its rated clock, by process in nm. 7 nm: an A100 (a100.yaml).
#: 5 and 4 nm: 0.65 of 7 nm, assumed in the files of chips of this process. 3 nm: 0.7 of 5 nm, and 12 nm: 1 / 0.44 of 7 nm, by
#: what the foundry says of its processes at equal speed (not read again: assumed). 6 nm: 0.95 of 7 nm, as in mi210.yaml.
#: 8 nm: with it, the 300 W of an A6000 allow the share of the rated products that its file has.
FLOP_PJ = {
    12: Fraction("4.43"), 8: Fraction("2.46"), 7: Fraction("1.95"), 6: Fraction("1.853"), 5: Fraction("1.268"),
    4: Fraction("1.268"), 3: Fraction("0.888"),
}  # fmt: skip
#: Values of `chip` that a chip has as the chip that it is like.
TAKEN_OVER = (
    "operand_bytes_per_cycle", "cache_kept", "cache_latency_cycles", "row_cycles", "start_ns", "graph_start_ns",
    "tiles", "attention_rows", "attention_keys", "attention_resident", "attention_block_cycles", "attention_idle_cycles",
    "attention_key_cycles", "attention_ramp_ns", "links_share", "links_short_share", "link_latency_ns",
)  # fmt: skip
#: The fields of TAKEN_OVER that short programs measure: latencies, and the start of a kernel.
MEASURED = ("cache_latency_cycles", "start_ns", "graph_start_ns")
LINE = 4096  #: [byte] of the scratchpad that models the memories of all cores, and the width of its DRAM channel
BANKS = {"gpu": 64}  #: number of banks of that scratchpad; 16 for other kinds
WIDE = 1_000_000_000_000  #: [cycle] limit of a run
REQUESTS = 64  #: transfers in flight at a time: enough to hide the latency of the DRAM
TREE_LANES = 128  #: vector lanes that share a reduction tree, on chips of other kinds than GPUs, whose cores have a tree each


class Datasheet(Section):
    """The vendor's figures of a chip."""

    schema_name: Literal["kernbench/chip/1"] = Field(alias="schema", description="kind and version of the file")
    name: str = Field(description="the vendor's name of the chip")
    like: str = Field(
        description="chip from which the constants of caches, starts of kernels, attention, links and shares are taken"
    )
    products_like: str | None = Field(
        default=None,
        description="chip from which the sustained share of the rated products (without the power limit) is taken; "
        "default: `like`",
    )
    memory_like: str | None = Field(
        default=None,
        description="chip from which the sustained share of the DRAM bandwidth and the DRAM latency are taken; default: `like`",
    )
    cores: Count = Field(description="number of cores that execute blocks of a kernel (SMs, CUs, Tensix cores, arrays)")
    clock_ghz: Frequency = Field(description="[GHz] clock for which the vendor states the rate of products")
    core_macs: Rates = Field(description="[MAC/cycle] rated rate of one core, by bits of the operands")
    core_lanes: Count = Field(description="number of operations on 32-bit elements that a core executes in a cycle")
    core_memory_bytes: Size = Field(description="[byte] scratchpad of a core: shared memory and registers of a GPU")
    core_threads: Count | None = Field(
        default=None, description="number of threads that a core holds at a time; default: the value of `like`"
    )
    float8: Flag = Field(default=True, description="whether the multipliers accept floats of 8 bits")
    compute_capability: Rate | None = Field(
        default=None,
        description="version of the instruction set of an NVIDIA GPU, which decides which kernels libraries choose",
    )
    core_shared_bytes: Size | None = Field(default=None, description="[byte] shared memory of a core; only for NVIDIA GPUs")
    array: Count | None = Field(
        default=None, description="number of rows and of columns of a systolic array; default: the value of `like`"
    )
    memory_bytes: Size = Field(description="[byte] size of the DRAM")
    memory_gb_s: Rate = Field(description="[GB/s] the vendor's DRAM bandwidth")
    dram_kind: DramKind | None = Field(
        default=None,
        description="kind of DRAM; default: the value of `memory_like`. If `like` has another kind, `memory_like` is needed",
    )
    cache_bytes: Size | None = Field(
        default=None, description="[byte] size of the last-level cache that all cores share; absent: no cache"
    )
    power_w: Rate | None = Field(
        default=None, description="[W] the vendor's power limit; absent: products never reach a power limit"
    )
    process_nm: Count | None = Field(default=None, description="[nm] name of the process node; needed with `power_w`")
    links: Count | None = Field(default=None, description="number of links to other chips; default: 1, the link to the host")
    link_gb_s: Rate | None = Field(default=None, description="[GB/s] bandwidth of one link in each direction")
    linked_chips: Count | None = Field(
        default=None, description="largest number of chips that the links connect; default: all chips of a node"
    )
    host_link_gb_s: Rate | None = Field(
        default=None, description="[GB/s] bandwidth that a transfer over PCIe reaches in each direction; default: 25"
    )
    machine: dict[str, Any] = Field(
        default_factory=dict, description="measured values of the machine, by section, which replace the derived values"
    )


@dataclass(frozen=True, slots=True)
class Constants:
    """The values of a chip that are not in its datasheet, in a form that is valid for other chips."""

    product_share: Fraction  #: of the rated products, beside the limit of power
    memory_share: Fraction  #: of the rated DRAM bandwidth
    memory_latency_ns: Fraction
    cache_rate: Fraction  #: [byte/cycle] of a core from the last-level cache
    stream_rate: Fraction  #: [byte/cycle] of a core in vector kernels
    cache_need: Fraction  #: [byte] of a core from the last-level cache for a 16-bit multiply-add at the rated rate
    chip: Mapping[str, Any]  #: values of TAKEN_OVER


def constants_of(machine: NpuConfig) -> Constants:
    """The constants of a chip."""
    chip = _chip(machine)
    return Constants(
        product_share(machine) / chip.power_share,
        memory_share(machine),
        Fraction(machine.dram.t_setup_cycles) / machine.freq_ghz,
        chip.cache_bytes_per_cycle / chip.cores,
        chip.stream_bytes_per_cycle / chip.cores,
        chip.cache_bytes_per_cycle / chip.cores / Fraction(chip.macs(16)),
        {name: getattr(chip, name) for name in TAKEN_OVER},
    )


def middle_of(found: Sequence[Constants]) -> Constants:
    """The median of each constant; of an even number of values the lower of the two in the middle."""
    names = ("product_share", "memory_share", "memory_latency_ns", "cache_rate", "stream_rate", "cache_need")
    some = {name: middle(getattr(one, name) for one in found) for name in names}
    return Constants(**some, chip={name: middle(one.chip[name] for one in found) for name in TAKEN_OVER})


def middle(values: Iterable[Any]) -> Any:
    """The median; of an even number of values the lower of the two in the middle, so that an integer remains an integer.

    A value that is absent in one place counts as the smallest.
    """
    some = sorted(values, key=lambda value: (value is not None, value if value is not None else 0))
    return some[(len(some) - 1) // 2]


def product_share(machine: NpuConfig) -> Fraction:
    """The share of the rated products that a chip sustains."""
    chip = _chip(machine)
    return machine.te.engines * machine.te.rate(8, 8) / (chip.cores * Fraction(chip.macs(8)))


def memory_share(machine: NpuConfig) -> Fraction:
    """The share of the rated DRAM bandwidth that a chip sustains."""
    return machine.dram.capacity * machine.dram.channels * machine.freq_ghz / _chip(machine).rated_memory_gb_s


def with_constants(machine: NpuConfig, constants: Constants, *, measured: bool = False) -> NpuConfig:
    """A chip with the constants of other chips, as if only its datasheet were known.

    `measured`: the chip keeps the constants that short programs measure: latencies, rates of the cache and starts of kernels.
    Without, a core takes from the cache what a core of other chips takes, and at least as many bytes for a multiply-add.
    """
    chip = _chip(machine)
    if measured:
        own = constants_of(machine)
        taken = {**constants.chip, **{name: own.chip[name] for name in MEASURED}}
        latency_ns, cache, stream = own.memory_latency_ns, own.cache_rate, own.stream_rate
    else:
        taken, latency_ns = dict(constants.chip), constants.memory_latency_ns
        cache = max(constants.cache_rate, constants.cache_need * Fraction(chip.macs(16)))
        stream = constants.stream_rate * cache / constants.cache_rate
    clock = machine.freq_ghz
    rated = chip.cores * Fraction(chip.macs(8)) * chip.rated_clock_ghz / clock  # a laboratory may state another clock
    rate = constants.product_share * chip.power_share * rated
    te = machine.te.model_copy(update={"macs_per_cycle": _near(rate / machine.te.engines)})
    peak = constants.memory_share * chip.rated_memory_gb_s / clock / machine.dram.channels
    latency = round(latency_ns * clock)
    dram = machine.dram.model_copy(update={"peak_bw_bytes_per_cycle": _near(peak), "t_setup_cycles": latency})
    rates = {"cache_bytes_per_cycle": _near(cache * chip.cores), "stream_bytes_per_cycle": _near(stream * chip.cores)}
    other = chip.model_copy(update={**taken, **rates})
    return machine.model_copy(update={"te": te, "dram": dram, "chip": other})


def is_datasheet(data: Any) -> bool:
    """Whether this top level is that of a datasheet."""
    return isinstance(data, Mapping) and data.get("schema") == SCHEMA


def machine_document(document: Document, load: Callable[[str], Any], names: Sequence[str]) -> Document:
    """The machine of a datasheet, with the origin of each value. `load` makes the machine of a chip by its name."""
    try:
        sheet = Datasheet.model_validate(document.data)
    except ValidationError as error:
        raise InputError(document.problems(_key_problem(item) for item in error.errors())) from None
    if sheet.power_w is not None and sheet.process_nm not in FLOP_PJ:
        rule = f"with power_w, it must be one of {', '.join(map(str, sorted(FLOP_PJ)))}"
        raise InputError(document.problem(("process_nm",), rule, sheet.process_nm))
    relatives = {}
    for key in ("like", "products_like", "memory_like"):
        name = getattr(sheet, key) or sheet.like
        if name not in names or f"{name}.yaml" == document.source:
            rule = "it must be the name of another chip; to list the chips, use kbsim config list"
            raise InputError(document.problem((key,), rule, name, meant(name, list(names))))
        relatives[key] = load(name)
    own, other = sheet.dram_kind, _chip(relatives["like"]).dram_kind
    if own and other and own != other and sheet.memory_like is None:
        rule = f"{sheet.like} has {other}"
        remedy = "name a chip in memory_like, from which the share of the DRAM bandwidth and the DRAM latency are taken"
        raise InputError(document.problem(("dram_kind",), rule, own, remedy))
    data, origins = _machine(sheet, relatives)
    places = _places(document, origins, sheet)
    return Document(document.source, _merged(data, sheet.machine), document.text, document.suffix, places)


def _key_problem(item: Mapping[str, Any]) -> tuple[PathLike, str, Any, str]:
    """A problem of a key: a key that is unknown or missing has no value to show."""
    path, key = item["loc"], item["loc"][-1]
    if item["type"] == "unknown_key":
        return (*path, KEY), item["msg"], ABSENT, meant(str(key), list(Datasheet.model_fields))
    return path, item["msg"], ABSENT if item["type"] == "missing" else item["input"], ""


def _machine(sheet: Datasheet, relatives: Mapping[str, NpuConfig]) -> tuple[dict[str, Any], dict[PathLike, str]]:
    """The data of the machine and, for each value, its key in the datasheet."""
    core, products, memory = (constants_of(relatives[key]) for key in ("like", "products_like", "memory_like"))
    model = _chip(relatives["like"])
    widest = Fraction(sheet.core_macs.get(8) or sheet.core_macs[min(sheet.core_macs)])
    chip: dict[str, Any] = {
        "name": sheet.name, "kind": model.kind, "calibrated": False, "cores": sheet.cores, "core_macs": dict(sheet.core_macs),
        "float8": sheet.float8, "rated_memory_gb_s": sheet.memory_gb_s, "rated_clock_ghz": sheet.clock_ghz,
        "core_threads": sheet.core_threads or model.core_threads, "array": sheet.array or model.array,
    }  # fmt: skip
    optional = (
        "power_w", "links", "link_gb_s", "linked_chips", "host_link_gb_s", "cache_bytes", "compute_capability",
        "core_shared_bytes",
    )  # fmt: skip
    chip |= {key: value for key in optional if (value := getattr(sheet, key)) is not None}
    if kind := sheet.dram_kind or _chip(relatives["memory_like"]).dram_kind:
        chip["dram_kind"] = kind
    if sheet.power_w is not None and sheet.process_nm is not None:
        chip["flop_pj"] = FLOP_PJ[sheet.process_nm]
    chip |= {name: value for name, value in core.chip.items() if value is not None}
    chip["cache_bytes_per_cycle"] = _near(core.cache_rate * sheet.cores)
    chip["stream_bytes_per_cycle"] = _near(core.stream_rate * sheet.cores)
    share = products.product_share * Chip.model_validate(chip).power_share
    banks = BANKS.get(model.kind, 16)
    half = sheet.core_macs.get(16, widest / 2)
    factors = {8: Fraction(1), 16: half / widest, 32: sheet.core_macs.get(32, half / 2) / widest}
    data = {
        "schema": "kernbench/npu/1", "freq_ghz": sheet.clock_ghz, "max_cycles": WIDE,
        "allocation": "fifo_v1",
        "dma": {"engines": 1, "max_concurrent_transfers": REQUESTS, "queue_depth_per_master": REQUESTS, "alignment_bytes": 32,
                "channels": {key: {"max_concurrent": REQUESTS} for key in TRANSFER_CHANNELS}},
        "dram": {
            "channels": 1, "capacity_bytes": sheet.memory_bytes, "bus_width_bytes": LINE, "dram_burst_cycles": 1,
            "peak_bw_bytes_per_cycle": _near(memory.memory_share * sheet.memory_gb_s / sheet.clock_ghz),
            "t_setup_cycles": round(memory.memory_latency_ns * sheet.clock_ghz),
        },
        "spm": {"num_banks": banks, "bank_size_bytes": max(1, sheet.core_memory_bytes * sheet.cores // banks // LINE) * LINE,
                "bank_width_bytes": LINE, "read_ports": 4, "write_ports": 4},
        "te": {"engines": 1, "macs_per_cycle": round(share * sheet.cores * widest), "f_w": {8: 1, 4: 1, 16: 1},
               "f_a": factors, "init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False},
        "ve": {"engines": 1, "lanes": sheet.core_lanes * sheet.cores, "f_a": {8: 1, 16: 1, 32: 1}, "init_cycles": 0,
               "finalize_cycles": 0, "reduction_pipeline": 0, "spm_traffic": False,
               "reduction_trees": sheet.cores if model.kind == "gpu" else max(1, sheet.core_lanes * sheet.cores // TREE_LANES)},
        "chip": chip,
    }  # fmt: skip
    origins = _origins(chip)
    if sheet.dram_kind is None:
        origins["chip", "dram_kind"] = "memory_like"
    return _plain(data), origins


def _origins(chip: Mapping[str, Any]) -> dict[PathLike, str]:
    """For each value of the machine, its key in the datasheet."""
    found: dict[PathLike, str] = {
        ("freq_ghz",): "clock_ghz", ("dram", "capacity_bytes"): "memory_bytes", ("ve", "lanes"): "core_lanes",
        ("dram", "peak_bw_bytes_per_cycle"): "memory_like", ("dram", "t_setup_cycles"): "memory_like",
        ("spm", "bank_size_bytes"): "core_memory_bytes", ("te", "macs_per_cycle"): "products_like",
    }  # fmt: skip
    renamed = {"rated_memory_gb_s": "memory_gb_s", "rated_clock_ghz": "clock_ghz", "flop_pj": "process_nm"}
    taken = {*TAKEN_OVER, "cache_bytes_per_cycle", "stream_bytes_per_cycle", "kind"}
    found["chip", "float8"] = "float8"
    for name in chip.keys() - {"calibrated", "float8"}:
        found["chip", name] = "like" if name in taken else renamed.get(name, name)
    return found


def _places(document: Document, origins: Mapping[PathLike, str], sheet: Datasheet) -> dict[PathLike, str]:
    """The origin of each value of the machine: a line of the datasheet, and the chip that this line names."""
    chips = {"like": sheet.like, "products_like": sheet.products_like, "memory_like": sheet.memory_like}
    keys = {key if key in document.data else "like" for key in origins.values()}
    places = document.find([(key,) for key in keys])
    found: dict[PathLike, str] = {}
    for path, asked in origins.items():
        key = asked if asked in document.data else "like"
        if asked == key or asked in (*chips, "core_threads", "array"):
            where = document.where(places.get((key,)))
            found[path] = f"{where} (as on {chips[key]})" if key in chips else where
    own = list(_leaves((), sheet.machine))
    inside = document.find([("machine", *path) for path in own])
    return found | {path: document.where(inside.get(("machine", *path))) for path in own}


def _leaves(path: PathLike, data: Any) -> Iterator[PathLike]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _leaves((*path, key), value)
    else:
        yield path


def _merged(data: Any, other: Any) -> Any:
    """Nested mappings with the values of another one."""
    if isinstance(data, Mapping) and isinstance(other, Mapping):
        return {**data, **{key: _merged(data.get(key), value) for key, value in other.items()}}
    return other


def _plain(value: Any) -> Any:
    """Data as files have them."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return plain_number(value) if isinstance(value, Fraction) else value


def _near(value: Fraction) -> Fraction:
    """A value with at most three decimals."""
    return Fraction(round(value * 1000), 1000)


def _chip(machine: NpuConfig) -> Chip:
    chip = machine.chip
    if chip is None:
        rule = "the machine has no chip section"
        raise InputError(Problem(machine.source, rule, "chip", remedy="name one of the chips that kbsim config list shows"))
    return chip
