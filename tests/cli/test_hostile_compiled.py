"""`kbsim run` of compiled programs whose tables or entries were changed and sealed again: each is refused with its reason."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kernbench import load_config
from kernbench.cmdq.compiled import pack, save_compiled, unpack
from kernbench.cmdq.parse import load_program
from tests.cli.conftest import Kbsim

REMEDY = "make it again with `kbsim program compile`"
Tables = dict[str, Any]


def compiled(change: Callable[[Tables], object] = lambda tables: None, **fields: int) -> None:
    """`bad.kbp`: the samples' program with changed tables, and changed fields of all entries that have them."""
    save_compiled(load_program("tiles.json"), load_config("small.yaml"), "good.kbp")
    found = unpack(Path("good.kbp").read_bytes())
    tables = found.tables
    assert tables is not None
    change(tables)
    entries = []
    for entry in found.entries:
        own = {name: value for name, value in fields.items() if hasattr(entry, name)}
        entries.append(msgspec.structs.replace(entry, **own))
    Path("bad.kbp").write_bytes(pack(found.name, entries, found.machine, tables))


def put(section: str, name: str, place: int | tuple[int, int], value: int) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        (tables[section] if section else tables)[name][place] = value

    return change


def reshaped(section: str, name: str) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        table = tables[section] if section else tables
        table[name] = table[name].reshape(1, -1)

    return change


def scalar(section: str, name: str) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        table = tables[section] if section else tables
        table[name] = table[name][0]

    return change


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (put("compute", "region_bytes", (0, 0), 0), "compute.region_bytes"),
        (put("compute", "region_bytes", (0, 0), -1), "compute.region_bytes[0, 0] = -1, and it must be from 0 to 131072"),
        (put("", "dependents", 0, 2**31 - 1), "dependents[0] = 2147483647, and it must be from 0 to 21"),
        (put("dma", "t_start", 0, 2**63 - 1), f"dma.t_start[0] = {2**63 - 1}, and it must be from 0 to {2**62 - 1}"),
        (reshaped("", "op"), "op has another shape"),
        (reshaped("dma", "engine"), "dma.engine has another shape"),
        (scalar("", "op"), "op has another shape"),
        (scalar("dma", "entry"), "dma.engine has another shape"),
        (scalar("compute", "parts"), "compute.parts has another shape"),
        (put("dma", "rows", 0, 2**62), "dma.rows[0] = 4611686018427387904, and it must be from 1 to 16777216"),
        (put("dma", "stride", 0, 2**61), None),
        (put("compute", "body", 0, 2**62 - 1), "compute.body"),
        (put("compute", "body", 0, 7), None),
        (put("dma", "group", 0, 3), None),
    ],
)  # fmt: skip
def test_tables_are_refused(kbsim: Kbsim, change: Callable[[Tables], None], rule: str | None) -> None:
    """`None`: the tables are ones that the core could run, but not those of the entries."""
    compiled(change)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = kbsim("run", "bad.kbp", "--config", "small.yaml")
    if rule is not None:
        assert said.err == f"error: bad.kbp: its tables do not fit the machine: {rule}; {REMEDY}\n"
    else:
        assert said.err.startswith("error: bad.kbp: its tables are not those of its entries: ")
    assert (said.code, said.out) == (2, "")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # [KiB]


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        (
            {"kv_layout_id": 2**63 - 1},
            "error: bad.kbp: cmdq[1] (id 1, KV_LOAD_TILE): kv_layout_id = 9223372036854775807, but the machine has 1 "
            "(kv_layouts in small.yaml)",
        ),
        (
            {"t_start": 2**63 - 1},
            "error: bad.kbp: cmdq[1] (id 1, KV_LOAD_TILE): kv_range.t_len = 32, but t_start + t_len = 9223372036854775839 "
            "must not be above t_max = 2048 of the KV layout",
        ),
        ({"t_start": 2**63}, f"error: bad.kbp: it holds no program: Expected `int` <= {2**63 - 1} - at `$[0][15]`; {REMEDY}"),
        ({"k": 0}, "error: bad.kbp: it holds no program: Expected `int` >= 1 - at `$[0][10]`; " + REMEDY),
        ({"batch": 31}, "error: bad.kbp: its tables are not those of its entries: "),
        ({"in2_bank": 0}, "error: bad.kbp: its entries are not as reading makes them; " + REMEDY),
    ],
)  # fmt: skip
def test_entries_are_refused(kbsim: Kbsim, fields: dict[str, int], rule: str) -> None:
    compiled(**fields)
    said = kbsim("run", "bad.kbp", "--config", "small.yaml")
    assert said.code == 2 and said.err.split("\n")[0].startswith(rule), said.err


def test_a_circle_is_refused(kbsim: Kbsim) -> None:
    """Entries that wait for each other, with the tables that say the same."""

    def circle(tables: Tables) -> None:
        tables["dependents"] = np.array([1, 0], dtype=np.int64)
        tables["after"] = np.array([0, 1, 2], dtype=np.int64)
        tables["waits"] = np.array([1, 1], dtype=np.int64)

    Path("two.json").write_text('{"metadata": {"version": "1.0"}, "cmdq": [{"opcode": "NOP"}, {"opcode": "NOP"}]}')
    save_compiled(load_program("two.json"), load_config("small.yaml"), "two.kbp")
    found = unpack(Path("two.kbp").read_bytes())
    tables = found.tables
    assert tables is not None
    circle(tables)
    entries = [msgspec.structs.replace(entry, deps_before=(1 - entry.index,)) for entry in found.entries]
    Path("circle.kbp").write_bytes(pack(found.name, entries, found.machine, tables))
    said = kbsim("run", "circle.kbp", "--config", "small.yaml")
    circle_told = "it waits for itself in a circle: 0 -> 1 -> 0 (each waits for the next)"
    assert (said.code, said.err) == (2, f"error: circle.kbp: cmdq[0] (id 0, NOP): {circle_told}\n")
