"""Long texts and queues are read at once by msgspec; the result is that of the readers that look at each key and entry.

Both readers get the same mutated files: the same program comes out, or the same error, word for word.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.cmdq import Program, load_program, parse, read_entries, read_text
from kernbench.cmdq.opcodes import META_FIELDS
from kernbench.cmdq.program import entry_dict
from kernbench.cmdq.read_entry import read_entry
from kernbench.common.errors import InputError
from kernbench.config import json_text
from tests.property.test_bad_input_fuzz import KV, LONG, PLACE, QUICK, TE, VE, mutate, mutated_text, sound_program

COPIES = 8  #: of the sound program, which make a text and a queue that are long enough


def long_program(debug: bool = False) -> dict[str, Any]:
    """Sound, with every kind of field; `debug` has metadata that are not read at once."""
    queue: list[dict[str, Any]] = []
    for copy in range(COPIES):
        first = len(queue)
        for entry in sound_program()["cmdq"]:
            if entry["opcode"] == "END":
                continue
            moved = {**entry, "id": entry["id"] + first}
            moved |= {name: [other + first for other in entry[name]] for name in ("deps_before", "wait_for") if name in entry}
            moved.pop("deps_after", None)
            if not debug:
                moved.pop("debug", None)
            queue.append(moved)
        queue.append({"opcode": "NOP", "marker": f"copy: {copy}", "token": copy, "deps_after": []})
        queue.append({"opcode": "TE_GEMM_TILE", **TE, "tile_m": 4, "tile_n": 4})
    return {"metadata": {"version": "1.0", "name": "long"}, "cmdq": queue}


def plain_program() -> dict[str, Any]:
    """The same without metadata and ranges: its text is decoded into entries."""
    made = long_program()
    for entry in made["cmdq"]:
        for name in [name for name in entry if name in {field.name for field in META_FIELDS}]:
            del entry[name]
        if entry["opcode"].startswith("KV_"):
            keep = {name: entry[name] for name in ("id", "deps_before") if name in entry}
            entry.clear()
            entry.update({"opcode": "VE_ADD_TILE", **VE, "in2_bank": 0, "in2_offset": 8, **keep})
    return made


def outcome(path: Path) -> tuple[list[Any], str]:
    try:
        program = load_program(path)
    except InputError as error:
        return [], str(error)
    return [program.name, [(type(entry), entry, entry_dict(entry)) for entry in program.entries]], ""


def both_agree(path: Path) -> None:
    quick = outcome(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_text, "LONG", 0)
        assert outcome(path) == quick
        patch.setattr(read_text, "LONG", 1 << 60)
        patch.setattr(json_text, "_LONG", 1 << 60)
        patch.setattr(parse, "_MANY", 1 << 60)
        assert outcome(path) == quick


def test_a_sound_program_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(long_program()), encoding="utf-8")
    both_agree(path)
    monkeypatch.setattr(parse, "read_entry", None)  # nothing is left for it
    monkeypatch.setattr(json_text, "_DECODER", None)
    assert len(load_program(path)) == len(long_program()["cmdq"])


def test_a_plain_program_is_decoded_into_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(plain_program()), encoding="utf-8")
    both_agree(path)
    monkeypatch.setattr(read_text, "LONG", 0)
    monkeypatch.setattr(parse, "text_document", None)  # no data are made of the text
    program = load_program(path)
    assert [entry.index for entry in program.entries] == list(range(len(plain_program()["cmdq"])))
    assert program.sound is not None and program.document is not None and program.document.text == path.read_text()
    assert program.name == "long"


@pytest.mark.parametrize(
    "old, new",
    [
        ('"m": 8', '"m": 8, "m": 9'),  # a key twice
        ('"m": 8', '"m": 8.0'),
        ('"m": 8', '"m": true'),
        ('"m": 8', '"m": null'),
        ('"m": 8', '"m": 0'),
        ('"m": 8', f'"m": {2**63}'),
        ('"m": 8', f'"m": {10**70}'),
        ('"m": 8', '"\\u006d": 8'),
        ('"m": 8', '"m": 8, "index": 3'),
        ('"m": 8', '"m": 8, "meta": {}'),
        ('"m": 8', '"m": 8, "reserved_x": [[[[[[[[1.5]]]]]]]]'),
        ('"m": 8, ', ""),
        ('"t_start": 0, ', '"t_start": 0, "spm_bank": 1, '),
        ('"num_elements": 64', '"num_elements": 64, "rows": 3'),
        ('"stride_bytes": 7', '"stride_bytes": 2'),
        ('"marker": "copy: 0"', '"marker": "copy: 0", "marker": "a:b"'),
        ('"TE_GEMM_TILE"', '["TE_GEMM_TILE"]'),
        ('"name": "long"', '"name": "' + "[" * 100 + '"'),
    ],
)
def test_a_text_that_differs_in_one_place(tmp_path: Path, old: str, new: str) -> None:
    texts = [json.dumps(long_program()), json.dumps(plain_program())]
    assert old in texts[0]
    for text in texts:
        path = tmp_path / "p.json"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        both_agree(path)


@pytest.mark.parametrize(
    "old, new",
    [
        ('"dma_id": 0', '"dma_id": 0, "dma_id": 0'),  # a key twice that may be left out
        ('"opcode": "TE_GEMM_TILE"', '"opcode": "TE_GEMM_TILE", "opcode": "TE_GEMM_TILE"'),
        ('"name": "long"', '"name": "a:b"'),
        ('"name": "long"', '"name": "long", "name": "long"'),
        ('"name": "long"', '"name": 3'),
        ('"version": "1.0", ', ""),
        ('"version": "1.0"', '"version": "2.0"'),
        (', "name": "long"', ""),
        ('"m": 8', '"m": 8, "in2_bank": 0'),  # a field of another opcode of the class, or of another class
        ('"in2_bank": 0, ', ""),
        ('"opcode": "VE_ADD_TILE"', '"opcode": "VE_COPY_TILE"'),
        ('"m": 8', '"m": 8, "\x7findex": 3'),
        ('"m": 8', '"m": 8, "\x7fin2_bank": 3'),
        ('"rows": 3, ', ""),
        ('"opcode": "NOP"', '"opcode": "NOP", "node": "a:b"'),
        ('"opcode": "NOP"', '"opcode": "NOP", "id": 0'),
        ('"opcode": "NOP"', '"opcode": "NOPE"'),
        ('"cmdq": [', '"cmdq": [], "cmdq": ['),
        ('{"metadata"', '{"further": 1, "metadata"'),
    ],
)
def test_a_plain_text_that_differs_in_one_place(tmp_path: Path, old: str, new: str) -> None:
    text = json.dumps(plain_program())
    assert old in text
    path = tmp_path / "p.json"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    both_agree(path)


def test_an_id_may_be_left_out_or_wrong(tmp_path: Path) -> None:
    queue = [{"opcode": "NOP"} for _ in range(100)]
    for wrong in ({}, {"id": 3}, {"id": -1}, {"deps_before": [7]}, {"deps_before": [100]}, {"deps_before": 3}):
        queue[7] = {"opcode": "NOP", **wrong}
        path = tmp_path / "p.json"
        path.write_text(json.dumps({"metadata": {"version": "1.0"}, "cmdq": queue}) + " " * 4096, encoding="utf-8")
        both_agree(path)


def test_every_shape_of_an_entry_is_known() -> None:
    """Fields in another order, defaults written out, and left out."""
    for entry in (
        {"opcode": "VE_COPY_TILE", **VE},
        {**VE, "batch": 1, "opcode": "VE_COPY_TILE", "ve_id": 0},
        {"opcode": "KV_LOAD_TILE", **KV, "kv_range": {"t_len": 1, "t_start": 0}},
        {"opcode": "DMA_LOAD_TILE", **PLACE, "tensor_role": "kv", "qbits": 4, "dram_addr": 0, "num_elements": 2, "head_id": 3},
    ):
        (made,) = read_entries.read_entries([entry]) or [None]
        assert made == load_program({"metadata": {"version": "1.0"}, "cmdq": [entry]}).entries[0]


def built_alike(raw: dict[str, Any]) -> bool:
    """Whether an entry of a builder is made quickly; it is the one that `read_entry` makes."""
    quick = read_entries.quick_entry(raw, 7)
    entry, problems = read_entry(raw, 7)
    assert quick is None or (quick, type(quick), []) == (entry, type(entry), problems)
    return quick is not None


ODD: list[Any] = [True, None, 8.0, 0, -1, 2**63, "8", "\udc80", "é", np.int64(8), [8], (8,), [True], {"m": 8}, {}]


@settings(QUICK, max_examples=60)
@given(st.data())
def test_entries_of_builders(data: st.DataObject) -> None:
    queue = long_program(debug=data.draw(st.booleans()))["cmdq"]
    raw = {"id": 3, **data.draw(st.sampled_from(queue))}
    for name in data.draw(st.lists(st.sampled_from([*raw, "m", "rows", "marker", "node", "deps_after", "x"]), max_size=2)):
        raw[name] = data.draw(st.sampled_from(ODD))
    if data.draw(st.booleans()):
        raw.pop(data.draw(st.sampled_from(sorted(raw.keys() - {"opcode", "id"} or {"id"}))))
    if isinstance(raw.get("opcode"), str) and "id" in raw:
        built_alike(raw)


def test_sound_entries_of_builders_are_made_quickly() -> None:
    assert all(built_alike({"id": 3, **raw}) for raw in long_program()["cmdq"])
    assert not any(built_alike({"id": 3, "opcode": "TE_GEMM_TILE", **TE, "m": odd}) for odd in ODD)
    assert not built_alike({"id": 3, "opcode": "NOP", "marker": "\udc80"})


@st.composite
def changed_file(draw: Any) -> bytes:
    data = draw(st.sampled_from((long_program, lambda: long_program(debug=True), plain_program)))()
    for _ in range(draw(st.integers(0, 2))):
        mutate(data, draw)
    try:
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError):  # it holds itself, or has keys that JSON has not
        text = json.dumps(long_program())
    return mutated_text(text, draw) if draw(st.booleans()) else text.encode(errors="replace")


@settings(QUICK, max_examples=15)
@given(changed_file())
def test_mutated_files(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_bytes(content)
    both_agree(path)


@pytest.mark.nightly
@LONG
@given(changed_file())
def test_mutated_files_for_long(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_bytes(content)
    both_agree(path)


def test_the_program_has_a_saved_form(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    program = Program("saved", load_program(long_program()).entries)
    program.save(path)
    assert load_program(path) == program


def test_ranges_of_builders() -> None:
    """With any part odd or missing, a further one, or something else than a mapping."""
    whole = {"t_start": 4, "t_len": 8, "d_start": 0, "d_len": 16}
    load = {"id": 3, "opcode": "KV_LOAD_TILE", **KV}
    for name in (*whole, "x"):
        for odd in ODD:
            built_alike({**load, "kv_range": {**whole, name: odd}})
        built_alike({**load, "kv_range": {part: value for part, value in whole.items() if part != name}})
    for odd in ODD:
        assert not built_alike({**load, "kv_range": odd})
