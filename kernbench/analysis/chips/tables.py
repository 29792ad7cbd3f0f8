"""Published tables as cases, one reader for each kind of table."""

from __future__ import annotations

import csv
import fnmatch
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from kernbench.analysis.chips.cases import Case, Context
from kernbench.analysis.chips.cells import LINE, Cells, crosses_nodes, row_name
from kernbench.analysis.chips.columns import columns_of, completed
from kernbench.analysis.chips.model_rows import (
    decode_rate,
    first_token,
    model_row,
    network_cycles,
    network_rate,
    static_batch,
    stream_rate,
    token_time,
)
from kernbench.analysis.chips.operation_rows import (
    attention_row,
    bandwidth_row,
    batch_attention_row,
    best_product_row,
    collective_row,
    operation_row,
    read_row,
    skewed_attention_row,
    tensix_row,
)
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded
from kernbench.config import NpuConfig, chip_names, load_config
from kernbench.config.document import MACHINE_BYTES, read_document
from kernbench.config.runtime import runtime_names

Reader: TypeAlias = Callable[[Cells, Context], Case | None]
TABLE_BYTES = 16 << 20


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
        key = (_chip_of(row.get("chip", "") or folder), crosses_nodes(row), row.get("runtime") or "")
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
        cases, notes = _cases(READERS[entry["reader"]], some, Context(machine, chip, some, name))
        where = entry.get("place", "")
        yield Table(label, chip, runtime, family, machine, cases, len(some), "", notes, where, elsewhere)


def _cases(reader: Reader, rows: Sequence[Cells], context: Context) -> tuple[list[Case], list[str]]:
    """The cases of the rows of one table, and the reasons why other rows are no cases."""
    cases, notes = [], []
    for row in rows:
        try:
            case = reader(row, context)
        except ValueError as error:
            notes.append(f"{row_name(row)} cannot be read: {error}")
            continue
        if case is None:
            notes.append(f"{row_name(row)} is skipped: there is no plan for {_thing(row)}")
        else:
            cases.append(case)
    return cases, notes


def _profile_of(given: str | Mapping[str, str], chip: str) -> str:
    """The profile of an entry; some entries have one for each kind of chip."""
    if isinstance(given, str):
        return given
    return next(profile for names, profile in given.items() if fnmatch.fnmatch(chip, names))


#: Other names of chips, in letters and digits alone.
ALIASES = {
    "agxorin": "jetson_agx_orin", "jetsonorin": "jetson_agx_orin", "n150": "wormhole_n150", "orin": "jetson_agx_orin",
    "rtxa6000": "a6000", "trillium": "tpuv6e", "trn1": "trainium1", "trn2": "trainium2", "v5e": "tpuv5e",
    "v5litepod": "tpuv5e", "v6e": "tpuv6e", "wormhole": "wormhole_n150",
}  # fmt: skip
#: Words of names of chips that files do not have: makers, sockets, sizes of the memory that most cards have.
_MAKERS = re.compile(
    r"nvidia|geforce|tesla|amd|instinct|google|cloud|aws|amazon|intel|habana|tenstorrent|syntiant|arm|rockchip|tensor|cores?|gpu|npu|"
    r"sxm\d?|oam|dgx|hgx|server|workstation|edition|blackwell|ada|[0-9]+gb"
)


@lru_cache(maxsize=256)
def _chip_of(name: str) -> str:
    """The name of a chip as its file has it: `NVIDIA H100 80GB SXM5` is h100."""
    lower = name.lower()
    names = {re.sub("[^a-z0-9]", "", one): one for one in chip_names()}
    words = [one for one in re.split("[^a-z0-9]+", lower) if one]
    for some in (words, [one for one in words if not _MAKERS.fullmatch(one)]):
        joined = "".join(some)
        if joined in names or joined in ALIASES:
            return names.get(joined) or ALIASES[joined]
    return lower


def _machine_of(name: str, variants: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The chip file for a name in a table, and the values that differ from this file."""
    clock = re.search(r"_([0-9]+(?:\.[0-9]+)?)mhz$", name)
    plain = name[: clock.start()] if clock else name
    found = variants.get(plain) or {"chip": _chip_of(plain)}
    mhz = dict.fromkeys(("freq_ghz", "chip.rated_clock_ghz"), Decimal(clock[1]) / 1000) if clock else {}
    return str(found["chip"]), found.get("set", {}) | mhz


def _thing(row: Cells) -> str:
    """What a row is about."""
    return next((row[name] for name in ("op", "model", "task") if row.get(name)), "a row without op, model or task")


READERS: dict[str, Reader] = {
    "any": read_row,
    "operations": operation_row,
    "collective": collective_row,
    "attention": attention_row,
    "batch_attention": batch_attention_row,
    "skewed_attention": skewed_attention_row,
    "tensix_product": tensix_row,
    "decode_rate": decode_rate,
    "static_batch": static_batch,
    "first_token": first_token,
    "token_time": token_time,
    "stream_rate": stream_rate,
    "network_rate": network_rate,
    "network_cycles": network_cycles,
    "bandwidth": bandwidth_row,
    "best_product": best_product_row,
    "model": model_row,
}
#: Families of readers, by the constants that their tables determine.
FAMILIES = {
    name: "attention" if "attention" in name else "operations" if name in ("any", "operations", "tensix_product") else name
    if name == "collective" else "model"
    for name in READERS
}  # fmt: skip
