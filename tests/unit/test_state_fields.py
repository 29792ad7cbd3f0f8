"""Which fields snapshots hold: declared in the comments of structs, one place each."""

from __future__ import annotations

import re

import pytest

from kernbench import Machine, load_config, load_program
from kernbench_core.state.field_table import declared_fields
from tests.meta.source import files, name, needs_source

SOURCE = """
cdef struct Entry:
    int16_t op                # Opkind
    cycle_t issue             # @past? NEVER: not yet
    cycle_t spent[4]          # @past
    cycle_t ready[COMMANDS]   # @later no earlier

cdef struct Other:
    int32_t n
"""


def test_fields_are_read_from_comments() -> None:
    assert declared_fields(SOURCE) == {
        "Entry": [("issue", "1", "past?"), ("spent", "4", "past"), ("ready", "COMMANDS", "later")]
    }


@pytest.mark.parametrize(
    "line",
    [
        "    int32_t first, second     # @count two fields",
        "    cycle_t issue             # @past?NEVER",
    ],
)
def test_a_range_that_belongs_to_no_field_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line 10: `# @range` belongs behind one field of a struct: "):
        declared_fields(SOURCE + line)


def test_a_run_shows_its_state_by_name() -> None:
    tile = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0}
    program = load_program({"metadata": {"version": "1.0", "name": "one"}, "cmdq": [{**tile, "num_elements": 4096}]})
    machine = Machine(load_config({}), program)
    machine.step(10)
    state = machine._core.state()
    assert state["Sim"][0]["cycle"] == 10
    assert state["Entry"] == [{"issue": 0, "start": 0, "end": 2**63 - 1, "number": 0}]
    [flow] = state["Flow"]
    assert (flow["num"], flow["den"], flow["member"]) == (16, 1, 1)
    assert flow["left"] + flow["carry"] == 4096 - 160


def silent_fields(text: str) -> list[str]:
    """Fields of structs without a comment, on their line or the one before."""
    found, inside, before = [], False, ""
    for line in text.splitlines():
        if re.match(r"(cdef|ctypedef) struct \w+:", line):
            inside = True
        elif inside and not line.startswith("    "):
            inside = False
        elif inside and "#" not in line + before and line.strip() != "pass":
            found.append(line.strip())
        before = line if line.lstrip().startswith("#") else ""
    return found


@needs_source
def test_every_field_of_a_struct_has_a_comment() -> None:
    assert silent_fields("cdef struct A:   # a thing\n    int x\n    # its size\n    int y\n    int z  # [B]\n") == ["int x"]
    paths = files("kernbench_core", suffixes=(".pxd",))
    silent = {name(path): silent_fields(path.read_text(encoding="utf-8")) for path in paths}
    assert len(silent) > 50
    assert not {path: fields for path, fields in silent.items() if fields}
