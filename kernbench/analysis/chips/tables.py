"""Published tables as cases: the measured figure of a row, its roofline, and the simulated figure."""

from __future__ import annotations

import csv
import fnmatch
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from kernbench.analysis.chips.columns import alike, columns_of, completed
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded
from kernbench.common.spelling import meant, nearest
from kernbench.config import NpuConfig, chip_names, load_config
from kernbench.config.document import MACHINE_BYTES, read_document
from kernbench.config.runtime import CLASSES, runtime_names
from kernbench.workloads.models.parts import Attention as AttentionPart
from kernbench.workloads.models.parts import Description
from kernbench.workloads.ops.blocks import Widths
from kernbench.workloads.ops.decoder import DecoderShape, description_of
from kernbench.workloads.ops.networks import network_of
from kernbench.workloads.ops.operation import COLLECTIVES, Attention, Collective, Operation, Product, Sequences, Vector
from kernbench.workloads.ops.step import decode_ns, network_ns, prefill_ns
from kernbench.workloads.ops.timing import OperationTimer

Cells = Mapping[str, str]
Value = TypeVar("Value")
TABLE_BYTES = 16 << 20
LAYER_CHIPS = 4  #: number of chips that share a layer in tables of the operations of a layer
MAX_PREFILL = 2048  #: tokens of a prefill step
LINE = "line of the file"  #: a column that every row gets
LIMIT = 1e18  #: the largest number in a table; steps of the largest models have fewer operations
MAX_TOKENS = 1 << 20  #: most tokens of a step
MAX_LAYERS = 1000  #: of a model that columns describe
QUANTISED_GROUP = 4 / 32  #: [byte] a weight of 4 bits: a scale and a zero of 16 bits for each group of 32
LLM_HEAD = 128  #: default head width of a table of attention


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table that can be simulated."""

    label: str
    op: str
    measured: float
    unit: str
    roofline: float | None  #: in the table's unit
    compute_us: float  #: [us] flops over the rated peak; 0 if no rate is known
    memory_us: float  #: [us] bytes over the rated bandwidth of DRAM or of links
    kernels: float  #: number of kernels, each of which costs the time of a launch
    ask: Callable[[OperationTimer], float]  #: computes the figure of the simulator, in the table's unit
    rate: bool = False  #: whether the figure is a rate, so that more is faster
    operation: Operation | None = None  #: if the row is one operation
    traced: bool = False  #: whether the operation is launched from a trace, whatever the profile of the table is

    def causes(self, timer: OperationTimer) -> dict[str, float]:
        """[ns] The parts of the time of an operation; empty for a row of another kind."""
        if self.operation is None:
            return {}
        return (timer.traced() if self.traced else timer).time(self.operation).causes

    @property
    def took(self) -> float:
        """The measured time, or the inverse of the measured rate."""
        return 1 / self.measured if self.rate else self.measured


@dataclass(frozen=True, slots=True)
class Table:
    """A file of cases for one chip and one profile."""

    name: str  #: of the file below the folder
    chip: str
    runtime: str
    family: str  #: family of the constants that its rows determine: operations, attention, collective, model
    machine: NpuConfig | None  #: None if the table is skipped
    cases: list[Case]
    rows: int  #: rows of the file; `notes` name those that are not cases
    skipped: str = ""
    notes: list[str] = field(default_factory=list)
    place: str = ""  #: the laboratory that measured the table, if it is not the usual one
    elsewhere: NpuConfig | None = None  #: the machine without the values that were fitted to tables of this laboratory


def read_tables(folder: Path) -> Iterator[Table]:
    """Every table for which there is a reader, sorted by name."""
    settings = _settings()
    for path in sorted(folder.rglob("*.csv")):
        name, rows = path.relative_to(folder).as_posix(), rows_of(path, table_text(path))
        entry = _entry(settings, name, rows)
        if entry is not None:
            yield from _read(rows, path.parent.name, name, entry, settings["places"], settings["variants"])


def other_tables(folder: Path) -> Iterator[tuple[str, int, str]]:
    """Name, number of rows and reason of each file without a reader, sorted by name."""
    settings = _settings()
    for path in sorted(folder.rglob("*.csv")):
        name, rows = path.relative_to(folder).as_posix(), rows_of(path, table_text(path))
        if _entry(settings, name, rows) is None:
            found = (one["why"] for one in settings["elsewhere"] if fnmatch.fnmatch(name, one["match"]))
            unknown = "no reader is known for its name or its columns" if rows else "it has no rows"
            yield name, len(rows), next(found, separator_meant(rows) or unknown)


def _entry(settings: Mapping[str, Any], name: str, rows: Sequence[Cells]) -> Mapping[str, Any] | None:
    """The first entry of the settings whose pattern fits the name of a file, and whose columns the file has."""
    columns = set(rows[0]) if rows else set()
    for one in settings["tables"]:
        if fnmatch.fnmatch(name, one["match"]) and columns.issuperset(one.get("columns", ())):
            found: Mapping[str, Any] = one
            return found
    return None


def separator_meant(rows: Sequence[Cells]) -> str:
    """What to do with a table whose values are not separated by commas, or ''."""
    names = [name for name in rows[0] if name != LINE] if rows else []
    names_of = {";": "semicolons", "\t": "tabs"}
    found = next((other for one, other in names_of.items() if len(names) == 1 and one in names[0]), "")
    return f"separate the values by commas instead of {found}" if found else ""


def _settings() -> dict[str, Any]:
    path = Path(str(resources.files("kernbench.analysis.chips"))) / "tables.yaml"
    data: dict[str, Any] = read_document(path, MACHINE_BYTES).data
    return data


def table_text(path: Path) -> str:
    """The text of a table; InputError if it is too large or not UTF-8."""
    try:
        return read_bounded(str(path), TABLE_BYTES, remedy="split the table").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        rule = f"byte {error.start} is not UTF-8"
        raise InputError(Problem(str(path), rule, remedy="save the table as comma-separated UTF-8 text")) from None


def rows_of(path: Path, text: str) -> list[Cells]:
    """The rows of a table by the names of columns that readers know.

    Raises InputError if a row has more cells than there are columns, or if two columns have the same meaning.
    """
    rows: list[Cells] = []
    try:
        stream = csv.DictReader(io.StringIO(text))
        try:
            stream.fieldnames, unit = columns_of(stream.fieldnames or [])
        except ValueError as error:
            raise InputError(Problem(f"{path}:1", str(error))) from None
        for row in stream:
            number = str(stream.line_num)
            if None in row:
                raise InputError(Problem(f"{path}:{number}", "the row has more cells than the first line has columns"))
            cells = {name: (cell or "").strip() for name, cell in row.items()}
            rows.append(completed(cells, unit) | {LINE: number})
    except csv.Error as error:
        raise InputError(Problem(str(path), f"it is not comma-separated text: {error}")) from None
    return rows


def _read(
    rows: Sequence[Cells], folder: str, name: str, entry: Mapping[str, Any], places: Mapping[str, Any],
    variants: Mapping[str, Any],
) -> Iterator[Table]:  # fmt: skip
    groups: dict[tuple[str, bool, str], list[Cells]] = {}
    for row in rows:
        key = (_chip_of(row.get("chip", "") or folder), _crosses(row), row.get("runtime") or "")
        groups.setdefault(key, []).append(row)
    chips, profiles = ({key[at] for key in groups} for at in (0, 2))
    for (chip, across, profile), some in groups.items():
        label = (name if len(chips) == 1 else f"{name} ({chip})") + (", across nodes" if across else "")
        label += f", {profile}" if len(profiles) > 1 and profile else ""
        family = "network" if across else FAMILIES[entry["reader"]]
        chip, overrides = _machine_of(chip, variants)
        runtime = profile or _profile_of(entry["runtime"], chip)
        why = "" if chip in chip_names() else f"there is no machine for {chip}"
        if runtime not in runtime_names():
            why = f"there is no runtime profile {runtime}; the profiles are {', '.join(runtime_names())}"
        if why:
            yield Table(label, chip, runtime, family, None, [], len(some), why)
            continue
        place = places.get(entry.get("place", ""), {}).get(chip, {})
        stated = overrides | place.get("stated", {})
        elsewhere, machine = (
            load_config(chip, {key: str(value) for key, value in some_values.items()})
            for some_values in (stated, stated | place.get("fitted", {}))
        )
        reader = READERS[entry["reader"]]
        cases, notes = [], []
        context = Context(machine, chip, some, name)
        for row in some:
            try:
                case = reader(row, context)
            except ValueError as error:
                notes.append(f"{_name(row)} cannot be read: {error}")
                continue
            if case is None:
                notes.append(f"{_name(row)} is skipped: there is no plan for {row.get('op') or row.get('model')}")
            else:
                cases.append(case)
        where = entry.get("place", "")
        yield Table(label, chip, runtime, family, machine, cases, len(some), "", notes, where, elsewhere)


def _profile_of(given: str | Mapping[str, str], chip: str) -> str:
    """The profile of an entry; some entries have one for each kind of chip."""
    if isinstance(given, str):
        return given
    return next(profile for names, profile in given.items() if fnmatch.fnmatch(chip, names))


ALIASES = {"wormhole": "wormhole_n150", "a100_80gb": "a100", "trn1": "trainium1", "tpu_v5e": "tpuv5e", "tpu_v6e": "tpuv6e"}


def _chip_of(name: str) -> str:
    return ALIASES.get(name.lower(), name.lower())


def _machine_of(name: str, variants: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The chip file for a name in a table, and the values that differ from this file."""
    clock = re.search(r"_([0-9]+(?:\.[0-9]+)?)mhz$", name)
    plain = name[: clock.start()] if clock else name
    found = variants.get(plain, {"chip": plain})
    mhz = {"freq_ghz": Decimal(clock[1]) / 1000} if clock else {}
    return str(found["chip"]), found.get("set", {}) | mhz


class Context:
    """The common values of the rows of one table."""

    def __init__(self, machine: NpuConfig, chip: str, rows: list[Cells], table: str) -> None:
        section = machine.chip
        assert section is not None
        self.machine, self.chip, self.rows, self.table = machine, chip, rows, table
        self.section = section
        self.peak = {
            bits: 2e-6 * section.cores * float(section.macs(bits)) * float(section.rated_clock_ghz) * 1e9 for bits in (8, 16)
        }
        self.bandwidth = float(section.rated_memory_gb_s) * 1e3  # [byte/us]
        self.links = section.links * float(section.link_gb_s) * 1e3
        self._heads: dict[tuple[str, ...], tuple[int, int, int]] = {}

    def heads(self, row: Cells) -> tuple[int, int, int]:
        """The number of query heads and KV heads, and the width of a head: as columns say, or else derived from the work and
        traffic of the first decode step, or of the first prefill, of the same model and division."""
        if row.get("heads"):
            heads, kv_heads = _at_least_1(row, "heads"), _kv_heads(row)
            return heads, kv_heads, _whole(row, "head_dim") or LLM_HEAD
        key = tuple(row.get(name) or "" for name in ("model", "tp", "head_dim"))
        if key not in self._heads:
            same = [one for one in self.rows if tuple(one.get(name) or "" for name in ("model", "tp", "head_dim")) == key]
            width = _whole(row, "head_dim") or LLM_HEAD
            found = next((one for work in (_decode_work, _prefill_work) for one in map(work, same) if one), None)
            heads, kv_heads = (max(1, round(one / width)) for one in found) if found else (32, 8)
            self._heads[key] = heads, kv_heads, width
        return self._heads[key]


def _name(row: Cells) -> str:
    """How messages call a row."""
    return f"row {row['id']}" if row.get("id") else f"line {row.get(LINE, '?')}"


def _number(row: Cells, name: str) -> float:
    """A cell; 0 if it is empty or the column does not exist."""
    text = row.get(name) or ""
    if not text:
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LIMIT:
        unit = re.fullmatch(r"([0-9.]+)\s*([num]?s)", text.strip())
        remedy = f"; write {unit[1]}, and {unit[2]} in a column unit" if unit else ""
        raise ValueError(f"{name} = {text!r}, but it must be a number from 0 to {LIMIT:.0e}{remedy}")
    return value


def _whole(row: Cells, name: str) -> int:
    value = _number(row, name)
    if not value.is_integer():
        raise ValueError(f"{name} = {row[name]!r}, but it must be a whole number")
    return int(value)


def _tokens(row: Cells, name: str) -> int:
    value = _whole(row, name)
    if value > MAX_TOKENS:
        raise ValueError(f"{name} = {value}, but a step takes at most {MAX_TOKENS} tokens or sequences")
    return value


def _shape(row: Cells, names: str) -> list[int]:
    """The sizes of a product, each at least 1."""
    sizes = [_whole(row, name) for name in names]
    for name, size in zip(names, sizes, strict=True):
        if size < 1:
            raise ValueError(f"{_given(row, name)}, but a product needs at least 1{_meant_column(row, name)}")
    return sizes


def _at_least_1(row: Cells, name: str) -> int:
    value = _whole(row, name)
    if value < 1:
        raise ValueError(f"{_given(row, name)}, but it must be at least 1{_meant_column(row, name)}")
    return value


def _kv_heads(row: Cells) -> int:
    """The KV heads of queries with the heads of a row; without the column, each query head has its own."""
    heads = _whole(row, "heads")
    kv_heads = _whole(row, "kv_heads") or heads
    if heads % kv_heads:
        raise ValueError(f"kv_heads = {kv_heads}, but it must divide heads = {heads}")
    return kv_heads


def _given(row: Cells, name: str) -> str:
    return f"{name} = {row.get(name) or 'nothing'}"


def _meant_column(row: Cells, name: str) -> str:
    """The remedy for a missing column of which several other columns could have the values."""
    found = [] if name in row else alike(row, name)
    return f"; rename one of {', '.join(found)} to {name}" if found else ""


def _measured(row: Cells) -> float:
    value = _number(row, "measured")
    if value < 1 / LIMIT:
        raise ValueError(f"measured = {row.get('measured') or 'nothing'}, but it must be above 0")
    return value


def _choice(row: Cells, name: str, known: Mapping[str, Value]) -> Value:
    text = row.get(name) or ""
    if text not in known:
        near = nearest(text.lower().replace("μ", "u").replace("µ", "u").replace("micro", "u").replace("milli", "m"), known)
        remedy = f"; did you mean {near}?" if near else ""
        raise ValueError(f"{name} = {text!r}, but it must be one of {', '.join(known)}{remedy}")
    return known[text]


UNITS = {"ns": 1e3, "us": 1.0, "ms": 1e-3, "s": 1e-6}  #: units of the measured times of operations: how many are a microsecond
#: Bits of the multiplier and bytes of an element, by the value in the column `dtype` of a table of operations.
TYPES = {
    **dict.fromkeys(("fp32", "float32", "f32", "tf32"), (32, 4.0)),
    **dict.fromkeys(("", "fp16", "float16", "f16", "half", "bf16", "bfloat16"), (16, 2.0)),
    **dict.fromkeys(("fp8", "float8", "f8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2"), (8, 1.0)),
    **dict.fromkeys(("int8", "i8"), (8, 1.0)),
    **dict.fromkeys(("int4", "i4", "fp4"), (4, 0.5)),
}  # fmt: skip


def _type_name(row: Cells) -> str:
    return (row.get("dtype") or "").lower().removeprefix("torch.")


def _type(row: Cells) -> tuple[int, float]:
    """Bits of the multiplier and bytes of an element of an operation; 16 bits without the column `dtype`."""
    text = _type_name(row)
    if text not in TYPES:
        raise ValueError(f"dtype = {row['dtype']!r}, but it must be one of {', '.join(filter(None, TYPES))}")
    return TYPES[text]


def _per_us(row: Cells) -> float:
    """Units of the measured time of an operation in a microsecond."""
    return _choice({"unit": row.get("unit") or "us"}, "unit", UNITS)


def _case(row: Cells, context: Context, ask: Callable[[OperationTimer], float], **given: Any) -> Case:
    flops, moved = _number(row, "flops"), _number(row, "bytes")
    if not moved and row.get("k") and row.get("class") == "matmul":
        m, n, k = (_number(row, one) for one in "mnk")
        size = _type(row)[1] if row.get("fidelity") is None else 2.0
        flops, moved = 2 * m * n * k, size * (m * k + k * n) + max(2.0, size) * m * n
    memory = moved / (context.links if row.get("class") == "collective" else context.bandwidth)
    fields: dict[str, Any] = {
        "label": _name(row),
        "op": row.get("op") or row.get("model") or row.get("class") or "",
        "measured": _measured(row),
        "unit": row.get("unit", "us"),
        "roofline": _number(row, "roofline") or None,
        "compute_us": flops / context.peak[16] if flops else 0.0,
        "memory_us": memory,
        "kernels": 1.0,
        "ask": ask,
        "rate": False,
    }
    return Case(**(fields | given))


def _single(row: Cells, context: Context, op: Operation, times: int = 1, **given: Any) -> Case:
    """A row with one operation, which is measured a number of times in sequence."""
    per_us = _per_us(row)
    one = _case(row, context, lambda timer: times * timer.time(op).ns / 1e3 * per_us, operation=op, **given)
    compute, memory = one.compute_us * per_us, one.memory_us * per_us
    return replace(one, compute_us=compute, memory_us=memory, roofline=one.roofline or max(compute, memory) or None)


def _plain(name: str) -> str:
    """The operation of a layer for the name of its kind: `LayerNorm_FFN` is a layernorm."""
    lower = name.lower()
    return next((one for one in ("softmax", "layernorm", "gelu") if lower.startswith(one)), name)


def _operation(row: Cells, context: Context) -> Case | None:
    kind, name = row.get("class") or "", _plain(row.get("op") or "")
    if kind not in CLASSES:
        near = "did you mean matmul?" if kind.lower() in ("gemm", "mm", "gemv", "linear", "bmm") else meant(kind, CLASSES)
        rule = f"class = {kind!r}, but it must be one of {', '.join(CLASSES)}"
        raise ValueError(f"{rule}; {near}" if near else rule)
    m, n, k = (_whole(row, one) for one in "mnk")
    op: Operation
    times = 1
    if kind == "collective":
        if not name.lower().replace("_", "").startswith("allreduce"):
            raise ValueError(
                f"{_given(row, 'workers')}, but a collective needs the number of chips{_meant_column(row, 'workers')}"
            )
        op = Collective("all_reduce", LAYER_CHIPS, _at_least_1(row, "bytes"))
    elif kind == "moe":
        op = _experts(row, name)
    elif kind == "matmul" and k:
        m, n, k = _shape(row, "mnk")
        count = max(1, round(_number(row, "flops") / (2 * m * n * k)))  # in a table without flops, each row has one product
        if name == "Q_K_V":
            times, n = 3, n // 3
            count = 1
        bits, size = _type(row)
        name_of_one = "matmul" if count > 1 or times > 1 else name
        op = Product(m, n, k, size, size, max(2.0, size), bits, count, name_of_one, floats=not _type_name(row).startswith("i"))
    elif kind == "attention":
        if not (row.get("n_decode") or row.get("prefill_chunk") or row.get("kv_cache")):
            return None
        return (_batch_attention if row.get("kv_cache") else _attention)(row, context)
    else:
        if kind == "matmul" and not row.get("bytes"):
            _shape(row, "k")
        moved = _number(row, "bytes") or 4.0 * _at_least_1(row, "m") * (n or 1)
        op = Vector(name, kind, m, n or 1, moved, _number(row, "flops"))
    label = f"{name} {m} {n or ''} {k or ''}".strip()
    return _single(row, context, op, times, label=label)


def _experts(row: Cells, name: str) -> Product:
    """The matrices of the experts that a step uses, as one product for each; the work and the traffic of the row decide how
    many there are.

    Work is two operations for each row and weight. Traffic is the weights, and the rows before and after them.
    """
    flops, moved = _number(row, "flops"), _number(row, "bytes")
    m, n, k = (_whole(row, one) for one in "mnk")
    n, k = n or k, k or n  # a table may give the width of a token alone
    bits, size = _type(row)
    if not (m and n):
        raise ValueError(f"m, n, k = {m}, {n}, {k}, but experts need the number of tokens and a width")
    rows = max(1, round(flops / (2 * n * k))) if flops else m
    count = min(rows, max(1, round((moved / size - m * (n + k)) / (n * k)))) if moved else 1
    floats = not _type_name(row).startswith("i")
    return Product(math.ceil(rows / count), n, k, size, size, max(2.0, size), bits, count, name, "moe", floats=floats)


def _tensix_product(row: Cells, context: Context) -> Case:
    m, n, k = _shape(row, "mnk")
    size = _choice(row, "dtype", {"BFLOAT16": 2.0, "BFLOAT8_B": 1.0625, "BFLOAT4_B": 0.5625})
    passes = _choice(row, "fidelity", {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4})
    near = (row.get("in0") == "L1", row.get("in1") == "L1", row.get("out") == "L1")
    op = Product(
        m,
        n,
        k,
        size,
        size,
        size,
        8,
        passes=passes,
        near=near,
        name="matmul_by_hand" if "gemm.csv" in context.table else "matmul",
    )
    traced = row.get("use_trace") == "1"
    flops = 2.0 * m * n * k
    return _case(
        row, context, lambda timer: timer.time(op).ns / 1e3 if not traced else timer.traced().time(op).ns / 1e3,
        op=f"{row['dtype']} {row['fidelity']} {'trace' if traced else 'dispatch'}", label=f"{m} {n} {k}",
        compute_us=flops * passes / (64 * 4096 * 1e3), memory_us=_number(row, "bytes") / context.bandwidth, operation=op,
        traced=traced,
    )  # fmt: skip


def _node(row: Cells) -> int:
    """The number of chips of a node; 0 if the row does not have an integer there."""
    text = row.get("devices_per_node") or ""
    return int(text) if text.isdigit() else 0


def _crosses(row: Cells) -> bool:
    workers = row.get("workers") or ""
    return workers.isdigit() and 0 < _node(row) < int(workers)


def _collective(row: Cells, context: Context) -> Case | None:
    workers = _whole(row, "workers")
    if workers < 2:
        return None
    names: dict[str, Any] = {name: name for name in COLLECTIVES}
    op = Collective(_choice(row, "op", names), workers, _at_least_1(row, "size_bytes"), node=_node(row) if _crosses(row) else 0)
    memory = _number(row, "roofline") if op.crosses else _number(row, "bytes") / context.links
    return _single(row, context, op, label=f"{op.name} {workers} x {op.nbytes} B", memory_us=memory)


def _decode_work(row: Cells) -> tuple[float, float] | None:
    """The width of all query heads and of all KV heads, by the work and traffic of a decode step; None for another row."""
    if row.get("op") != "decode":
        return None
    many = _whole(row, "n_decode") or _whole(row, "batch")
    keys = _whole(row, "kv_decode") or _whole(row, "kv_cache")
    flops, moved = _number(row, "flops"), _number(row, "bytes")
    if not (many and keys and flops):
        return None
    width = flops / (4 * many * keys)
    return width, (moved - 4 * many * width) / (4 * many * keys)


def _prefill_work(row: Cells) -> tuple[float, float] | None:
    """The same for one prefill, whose queries see the keys up to their own."""
    new, before = _whole(row, "prefill_chunk"), _whole(row, "kv_prefill") or _whole(row, "kv_cache")
    flops, moved, many = _number(row, "flops"), _number(row, "bytes"), _whole(row, "batch") or 1
    if not (new and flops) or _whole(row, "n_decode"):
        return None
    width = flops / (4 * Sequences(many, new, before).pairs)
    return width, (moved - 4 * many * new * width) / (4 * many * (new + before))


def _attention_op(row: Cells, context: Context, groups: list[Sequences]) -> Attention:
    heads, kv_heads, width = context.heads(row)
    some = tuple(one for one in groups if one.count)
    if not some:
        columns = "n_decode and kv_decode, prefill_chunk and kv_prefill, or batch and kv_cache"
        raise ValueError(f"a step needs at least one sequence: give {columns}")
    return Attention(some, heads, kv_heads, width)


def _attention(row: Cells, context: Context) -> Case:
    chunk, before = _tokens(row, "prefill_chunk"), _tokens(row, "kv_prefill")
    many, keys = _tokens(row, "n_decode"), _tokens(row, "kv_decode")
    groups = [Sequences(many, 1, keys), Sequences(1 if chunk else 0, chunk, before)]
    label = f"{chunk} after {before}, {many} x {keys}"
    return _single(row, context, _attention_op(row, context, groups), label=label)


def _batch_attention(row: Cells, context: Context) -> Case:
    """A row of a table whose `kv_cache` counts all keys of a sequence, those of its new tokens too; no key is masked.

    Times of its prefills are the same for 32 and 128 new tokens, and whole waves of blocks that each read `kv_cache` keys.
    """
    new, keys, many = _tokens(row, "prefill_chunk") or 1, _tokens(row, "kv_cache"), _tokens(row, "batch")
    if many and not (keys or row.get("prefill_chunk")):
        raise ValueError(f"{_given(row, 'kv_cache')}, but attention of {many} sequences needs their keys")
    op = replace(_attention_op(row, context, [Sequences(many, new, max(0, keys - new))]), causal=False)
    return _single(row, context, op, label=f"{many} x {new} in {keys}")


def _skewed_attention(row: Cells, context: Context) -> Case:
    big, many = _tokens(row, "n_big"), _tokens(row, "n_decode")
    if big > many:
        raise ValueError(f"n_big = {big}, but it must be at most n_decode = {many}")
    chunk, before = _tokens(row, "prefill_chunk"), _tokens(row, "kv_prefill")
    groups = [
        Sequences(big, 1, _tokens(row, "kv_big")),
        Sequences(many - big, 1, _tokens(row, "kv_small")),
        Sequences(1 if chunk else 0, chunk, before),
    ]
    label = f"{chunk} after {before}, {big} x {groups[0].cached}, {many - big} x {groups[1].cached}"
    return _single(row, context, _attention_op(row, context, groups), label=label)


def _model(row: Cells) -> Description:
    """The model whose sizes the columns give, or else the model of this name."""
    if row.get("layers") and row.get("hidden"):
        return _described(row)
    name = row.get("model") or ""
    model = description_of(name)
    if model is None:
        given = "layers, hidden, heads, kv_heads, head_dim, mlp, vocab, and for a mixture experts, active"
        raise ValueError(f"model = {name!r}, but the shape of that model is not known; give it in the columns {given}")
    return model


def _described(row: Cells) -> Description:
    """A decoder of layers that are alike, by the sizes in its columns; those of `config.json` have the same names."""
    layers, hidden, heads, mlp, vocab = (_at_least_1(row, name) for name in ("layers", "hidden", "heads", "mlp", "vocab"))
    kv_heads, width = _kv_heads(row), _whole(row, "head_dim") or max(1, hidden // heads)
    if layers > MAX_LAYERS:
        raise ValueError(f"layers = {layers}, but a model has at most {MAX_LAYERS}")
    experts, active = _whole(row, "experts") or 1, _whole(row, "active") or 1
    if active > experts:
        raise ValueError(f"active = {active}, but the model has {experts} experts")
    return DecoderShape(layers, hidden, heads, kv_heads, width, mlp, vocab, experts=experts, active=active).description


def _has_one_kv_head(model: Description) -> bool:
    return all(isinstance(one.mixer, AttentionPart) and one.mixer.kv_heads == 1 for one in model.blocks)


def _weight_bytes(row: Cells) -> float:
    given = _number(row, "weight_bytes_per_param") or _number(row, "weight_bits") / 8
    if given:
        return given + (QUANTISED_GROUP if given == 0.5 else 0.0)
    text = row.get("dtype") or row.get("weight_dtype") or row.get("precision") or ""
    if "bfp4" in row.get("weights", ""):
        return 0.7  # matrices of the MLP have 4 bits, those of attention 8 bits
    return 1.0 if "8" in text.replace("16", "") else 2.0


def _activation_bits(row: Cells) -> int:
    """The bits of an element of the activations: 8 for models of FP8 and W8A8, otherwise 16, also for models in which only the
    weights are quantised."""
    text = (row.get("dtype") or row.get("precision") or "").lower()
    return 8 if "fp8" in text or "a8" in text or _number(row, "weight_bytes_per_param") == 1 else 16


def _cache_bytes(row: Cells) -> float:
    """The bytes of an element of the KV cache. FP8 models store it in 8 bits; models in which only the weights are quantised do
    not."""
    text = row.get("dtype") or row.get("precision") or ""
    return 1.0 if "fp8" in text.lower() or _number(row, "weight_bytes_per_param") == 1 else 2.0


def _widths(row: Cells) -> Widths:
    return Widths(_weight_bytes(row), _cache_bytes(row), _activation_bits(row))


def _rooflined(row: Cells, context: Context, value: Callable[[OperationTimer], float], *, rate: bool) -> Case:
    """A row without flops and bytes: its roofline is used for both."""
    bound = _number(row, "roofline")
    time = (1 / bound if rate else bound) if bound else 0.0
    return _case(row, context, value, compute_us=0.0, memory_us=time, rate=rate)


def _decode_rate(row: Cells, context: Context) -> Case:
    model, batch = _model(row), _whole(row, "batch") or 1
    tp = _whole(row, "gpus") or _whole(row, "chips") or 1
    cached = _whole(row, "prompt_tokens") + 100 if row.get("prompt_tokens") else 128
    widths = Widths(_weight_bytes(row), activation_bits=_activation_bits(row))

    def rate(timer: OperationTimer) -> float:
        return batch * 1e9 / decode_ns(timer, model, batch, cached, tp=tp, widths=widths)

    return _rooflined(row, context, rate, rate=True)


def _static_batch(row: Cells, context: Context) -> Case:
    model, widths = _model(row), _widths(row)
    batch = _whole(row, "batch") or _whole(row, "concurrency") or 1
    tp = _whole(row, "tp") or _whole(row, "chips") or 1
    copies, sequences = 1, batch  # one host serves the requests of all chips
    if _has_one_kv_head(model) and not row.get("tp"):  # with one KV head, each chip serves its own requests
        copies, tp, batch = tp, 1, max(1, batch // tp)
    room = _whole(row, "cache_length")
    before = _whole(row, "input_tokens") or _whole(row, "max_input") // 4
    made = _whole(row, "output_tokens") or _whole(row, "max_output") // 4
    each = _whole(row, "tp") or 1 if "a GPU" in row.get("unit", "") else 1

    def rate(timer: OperationTimer) -> float:
        at_once = max(1, min(batch, MAX_PREFILL // max(1, before)))
        waiting = batch
        if timer.runtime.prefill_alone:
            at_once, waiting = 1, sequences
        first = prefill_ns(timer, model, at_once, before, tp=tp, widths=widths) * waiting / at_once
        token = decode_ns(timer, model, batch, before + made // 2, tp=tp, room=room, sequences=sequences, widths=widths)
        return copies * batch * made * 1e9 / (first + made * token) / each

    return _rooflined(row, context, rate, rate=True)


def _first_token(row: Cells, context: Context) -> Case:
    model, widths = _model(row), _widths(row)
    tokens, batch, tp = _whole(row, "input_tokens"), _whole(row, "batch") or 1, _whole(row, "tp") or 1

    def first(timer: OperationTimer) -> float:
        return prefill_ns(timer, model, batch, tokens, tp=tp, widths=widths) / 1e6

    return _rooflined(row, context, first, rate=False)


def _token_time(row: Cells, context: Context) -> Case:
    model, widths = _model(row), Widths(_weight_bytes(row))
    shards = _whole(row, "tp") or _whole(row, "chips") or 1
    batch, tp = _whole(row, "batch") or 1, _whole(row, "chips") or shards
    before, made = _whole(row, "input_tokens"), _whole(row, "output_tokens")

    def token(timer: OperationTimer) -> float:
        return decode_ns(
            timer, model, batch, before + made // 2, tp=tp, room=before + made, shards=max(tp, shards), widths=widths
        ) / 1e6  # fmt: skip

    return _rooflined(row, context, token, rate=False)


def _model_row(row: Cells, context: Context) -> Case | None:
    """A row of a whole model in a table of an unknown source: its unit and its phase say what was measured."""
    unit, phase = (row.get("unit") or "").lower(), (row.get("phase") or row.get("op") or "").lower()
    if re.search("sample|frame|image|inference", unit):
        return _network_rate(row, context)
    first = any(word in f"{phase} {unit}" for word in ("prefill", "first", "ttft", "prompt"))
    later = any(word in f"{phase} {unit}" for word in ("decode", "tpot", "itl", "per output token", "per token"))
    per_us = next((UNITS[one] for one in UNITS if re.match(rf"{one}\b", unit)), 0.0)
    if re.search(r"tok\w*\s*(/|per)\s*s", unit):
        if not (first or later) and row.get("output_tokens"):
            return _static_batch(row, context)
        each = (_whole(row, "batch") or 1) if "user" in unit else 1
    elif not per_us or not (first or later or row.get("output_tokens")):
        rule = "it must be tokens/s, or a time with prefill or decode in a column phase"
        raise ValueError(f"unit = {row.get('unit') or ''!r}, but {rule}")
    else:
        each = 0
    model, widths = _model(row), _widths(row)
    batch, tp = _tokens(row, "batch") or 1, _whole(row, "tp") or _whole(row, "gpus") or _whole(row, "chips") or 1
    before = _tokens(row, "input_tokens") or _tokens(row, "prompt_tokens")
    made = _tokens(row, "output_tokens") or 1
    if not before:
        raise ValueError("input_tokens = nothing, but the tokens of a prompt must be given")

    def ns(timer: OperationTimer) -> float:
        token = 0.0 if first else decode_ns(timer, model, batch, before + made // 2, tp=tp, widths=widths)
        if later:
            return token
        return prefill_ns(timer, model, batch, before, tp=tp, widths=widths) + made * token

    tokens = batch * (before if first else 1)
    if each:
        return _rooflined(row, context, lambda timer: tokens * 1e9 / ns(timer) / each, rate=True)
    return _rooflined(row, context, lambda timer: ns(timer) / 1e3 * per_us, rate=False)


def _active_share(row: Cells) -> float:
    """For a mixture of experts, the share of the parameters that a token uses: 0.57 of 3 billion for `3B(A570M)`."""
    found = re.match(r"([0-9.]+)([BM])\(A([0-9.]+)([BM])\)", row.get("size") or "")
    if found is None:
        return 1.0
    unit = {"B": 1e3, "M": 1.0}
    return min(1.0, float(found[3]) * unit[found[4]] / (float(found[1]) * unit[found[2]]))


def _stream_rate(row: Cells, context: Context) -> Case:
    weights = int(_number(row, "memory_mb") * 1e3 * _active_share(row))
    op = Product(1, 1000, max(1, weights), right_bytes=1.0, bits=8)
    return _rooflined(row, context, lambda timer: 1e9 / (timer.time(op).ns + float(timer.runtime.step_ns)), rate=True)


def _network_ns(row: Cells, context: Context) -> Callable[[OperationTimer], float] | None:
    """The time of a batch through the network of a row; if the layers are not known, the time of a product with as many
    multiply-adds."""
    net, batch = network_of(row.get("model") or row.get("task") or ""), _whole(row, "batch") or 1
    size = 1.0625 if context.section.kind == "tensix" else 1.0  # block floats of 8 bits share exponents
    gmacs = _number(row, "gmacs")
    if net is None and not gmacs:
        return None
    side = 1024
    op = Product(side, side, max(1, int(batch * gmacs * 1e9 / (side * side))), 1.0, 1.0, 1.0, bits=8)

    def took(timer: OperationTimer) -> float:
        some = timer.one_core() if "single_core" in context.table else timer
        if net is None:
            return some.time(op).ns + float(some.runtime.step_ns)
        return network_ns(some, net, batch, element=size, weight=size)

    return took


def _network_rate(row: Cells, context: Context) -> Case | None:
    took = _network_ns(row, context)
    if took is None:
        return None
    batch = _whole(row, "batch") or 1
    return _rooflined(row, context, lambda timer: batch * 1e9 / took(timer), rate=True)


def _network_cycles(row: Cells, context: Context) -> Case | None:
    took = _network_ns(row, context)
    if took is None:
        return None
    return _rooflined(row, context, lambda timer: took(timer) * timer.view.freq, rate=False)


def _bandwidth(row: Cells, context: Context) -> Case:
    """[GB/s] The bandwidth of a stream of weights, from a large product with one row of tiles."""
    op = Product(32, 28672, 8192, 1.0625, 1.0625, 1.0625, 8)
    return _rooflined(row, context, lambda timer: op.nbytes / timer.time(op).ns, rate=True)


def _best_product(row: Cells, context: Context) -> Case:
    m, n, k = _shape(row, "mnk")
    bits, size = _type(row)
    op = Product(m, n, k, size, size, max(2.0, size), bits, floats=not _type_name(row).startswith("i"))
    return _rooflined(row, context, lambda timer: 2e-3 * op.macs / timer.time(op).ns, rate=True)


def read_row(row: Cells, context: Context) -> Case | None:
    """A row of a table of any operations; the columns of the table decide how the row is read."""
    if row.get("class") == "attention":
        if row.get("n_big"):
            return _skewed_attention(row, context)
        return _attention(row, context) if row.get("n_decode") else _batch_attention(row, context)
    if row.get("class") == "collective" and row.get("workers"):
        return _collective(row, context)
    if row.get("class") == "matmul" and (row.get("unit") or "").lower().startswith("tflop"):
        return _best_product(row, context)
    return _tensix_product(row, context) if row.get("fidelity") else _operation(row, context)


READERS: dict[str, Callable[[Cells, Context], Case | None]] = {
    "any": read_row,
    "operations": _operation,
    "collective": _collective,
    "attention": _attention,
    "batch_attention": _batch_attention,
    "skewed_attention": _skewed_attention,
    "tensix_product": _tensix_product,
    "decode_rate": _decode_rate,
    "static_batch": _static_batch,
    "first_token": _first_token,
    "token_time": _token_time,
    "stream_rate": _stream_rate,
    "network_rate": _network_rate,
    "network_cycles": _network_cycles,
    "bandwidth": _bandwidth,
    "best_product": _best_product,
    "model": _model_row,
}
#: Families of readers, by the constants that their tables determine.
FAMILIES = {
    name: "attention" if "attention" in name else "operations" if name in ("any", "operations", "tensix_product") else name
    if name == "collective" else "model"
    for name in READERS
}  # fmt: skip
