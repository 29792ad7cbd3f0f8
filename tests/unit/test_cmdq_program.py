"""Programs: reading, building, saving; the opcode table drives them all."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import numpy as np
import pytest

from kernbench.cmdq import Program, check_program, load_program, program_json_schema
from kernbench.cmdq.entries import BarrierEntry, DmaEntry, Entry, KvEntry, TeEntry, VeEntry, entry_type
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.plan import plan_program
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.trace.writer import TraceFile

DMA: dict[str, Any] = {"tensor_role": "weight", "qbits": 8, "dram_addr": 64, "spm_bank": 1, "spm_offset": 2, "num_elements": 256}
ROWS: dict[str, Any] = {"tensor_role": "kv", "qbits": 4, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0, "rows": 3, "row_elements": 5,
        "stride_bytes": 7}  # fmt: skip
KV: dict[str, Any] = {"head_id": 1, "kv_kind": "v", "dram_base_addr": 128, "qbits_kv": 4, "spm_bank": 0, "spm_offset": 0}
TE: dict[str, Any] = {"m": 4, "n": 5, "k": 6, "qbits_weight": 4, "qbits_activation": 8, "ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 0,
      "wgt_offset": 64, "ofm_bank": 0, "ofm_offset": 128}  # fmt: skip
VE: dict[str, Any] = {"length": 7, "qbits_activation": 8, "in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 64}
IN2: dict[str, Any] = {"in2_bank": 0, "in2_offset": 32}


def program_of(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"version": "1.0"}, "cmdq": list(entries)}


def read_one(entry: dict[str, Any]) -> Entry:
    return load_program(program_of(entry)).entries[0]


def fields_of(opcode: str) -> dict[str, Any]:
    """The smallest sound entry of an opcode."""
    if opcode in ("DMA_SEND_TILE", "DMA_RECV_TILE"):
        between = {name: value for name, value in DMA.items() if name != "dram_addr"}
        return {**between, "peer": "sip0.cube0.pe1", "peer_bank": 0, "peer_offset": 0}
    if opcode == "HOST_COPY_TILE":
        return {"direction": "to_device", "qbits": 8, "dram_addr": 0, "num_elements": 64}
    if opcode.startswith("DMA_"):
        return DMA
    if opcode == "KV_LOAD_TILE":
        return {**KV, "kv_range": {"t_start": 2, "t_len": 3}}
    if opcode == "KV_STORE_TILE":
        return {**KV, "t_start": 2, "t_len": 3}
    if opcode.startswith("TE_"):
        return TE
    if opcode in ("VE_ADD_TILE", "VE_MUL_TILE"):
        return {**VE, **IN2}
    return VE if opcode.startswith("VE_") else {}


def test_the_opcodes_are_those_of_formats_md() -> None:
    ve = ["LAYERNORM", "RMSNORM", "SOFTMAX", "GELU", "SILU", "SIGMOID", "TANH", "EXP", "ADD", "MUL", "COPY", "SUM", "MAX", "MIN"]
    assert list(OPCODES) == [
        "DMA_LOAD_TILE", "DMA_STORE_TILE", "DMA_PREFETCH_TILE", "KV_LOAD_TILE", "KV_STORE_TILE",
        "TE_GEMM_TILE", "TE_MATMUL_TILE", "TE_QKT_TILE", "TE_AV_TILE", *(f"VE_{op}_TILE" for op in ve), "BARRIER", "NOP", "END",
        "DMA_SEND_TILE", "DMA_RECV_TILE", "HOST_COPY_TILE", "LAUNCH",  # of systems
    ]  # fmt: skip


@pytest.mark.parametrize("opcode", OPCODES)
def test_an_entry_has_the_attributes_of_its_row_of_the_table(opcode: str) -> None:
    names = {f.name for field in OPCODES[opcode].fields for f in (field.fields or (field,))}
    attributes = {field.name for field in msgspec.structs.fields(entry_type(opcode))}
    only_some = {"in2_bank", "in2_offset"}  # of ADD and MUL
    assert names <= attributes
    assert attributes - names <= {"index", "id", "opcode", "deps_before", "deps_after", "meta", "node"} | only_some


@pytest.mark.parametrize("opcode", OPCODES)
def test_every_opcode_is_read_and_its_defaults_filled_in(opcode: str) -> None:
    entry = read_one({"opcode": opcode, **fields_of(opcode)})
    assert (entry.opcode, entry.id, entry.index, entry.deps_before, entry.meta) == (opcode, 0, 0, (), {})
    assert entry.engine == OPCODES[opcode].engine
    assert entry.engine_id == 0
    assert load_program(program_of({"opcode": opcode, **fields_of(opcode)})).to_dict() == load_program(
        load_program(program_of({"opcode": opcode, **fields_of(opcode)})).to_dict()
    ).to_dict()


def test_types_and_defaults() -> None:
    dma = read_one({"opcode": "DMA_LOAD_TILE", "dma_id": 3, **DMA})
    assert isinstance(dma, DmaEntry)
    assert (dma.dma_id, dma.engine_id, dma.num_elements, dma.rows) == (3, 3, 256, None)
    load = read_one({"opcode": "KV_LOAD_TILE", **KV, "kv_range": {"t_start": 2, "t_len": 3, "d_start": 4}})
    assert isinstance(load, KvEntry)
    assert (load.t_start, load.t_len, load.d_start, load.d_len, load.kv_layout_id) == (2, 3, 4, None, 0)
    store = read_one({"opcode": "KV_STORE_TILE", **KV, "t_start": 2, "t_len": 3, "d_len": 8})
    assert isinstance(store, KvEntry)
    assert (store.d_start, store.d_len, store.head_id, store.meta) == (0, 8, 1, {})
    te = read_one({"opcode": "TE_AV_TILE", **TE, "te_id": 1, "head_id": 5})
    assert isinstance(te, TeEntry)
    assert (te.op, te.engine_id, te.meta) == ("av", 1, {"head_id": 5})
    ve = read_one({"opcode": "VE_ADD_TILE", **VE, **IN2, "ve_id": 1})
    assert isinstance(ve, VeEntry)
    assert (ve.op, ve.batch, ve.in2_offset, ve.engine_id) == ("add", 1, 32, 1)
    barrier = load_program(program_of({"opcode": "NOP"}, {"opcode": "BARRIER", "wait_for": [0]})).entries[1]
    assert isinstance(barrier, BarrierEntry)
    assert (barrier.wait_for, barrier.op, barrier.engine_id) == ((0,), "", 0)


def test_common_metadata() -> None:
    given = {
        "layer_id": 1, "phase": "decode", "head_id": 2, "token_idx": 3, "seq_len": 4, "block_id": 5, "tile_id": 6,
        "precision": "W4A8", "model_name": "llama2_7b", "tenant_id": 7, "core_id": 8, "npu_id": 9, "thread_id": 10,
        "source": "MMIO", "desc_addr": 140737488355328, "token": 11, "irq_line": 12, "marker": "tile done",
        "debug": {"note": [1, 2.5, None, {"x": True}]},
    }  # fmt: skip
    entry = read_one({"opcode": "NOP", **given, "reserved_0": {"ignored": float("nan")}, "reserved_x": 1})
    assert entry.meta == given
    assert read_one({"opcode": "NOP", "marker": 5}).meta == {"marker": 5}


def test_debug_keeps_decimals_as_json_has_them(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text('{"metadata": {"version": "1.0"}, "cmdq": [{"opcode": "NOP", "debug": [0.1, 1e3, 2]}]}')
    program = load_program(file)
    assert program.entries[0].meta["debug"] == [0.1, 1000, 2]
    program.save(tmp_path / "q.json")
    assert load_program(tmp_path / "q.json") == program


def test_ids_default_to_the_index() -> None:
    program = load_program(program_of({"opcode": "NOP"}, {"opcode": "NOP", "id": 7}, {"opcode": "NOP", "deps_before": [7, 0]}))
    assert [entry.id for entry in program.entries] == [0, 7, 2]
    assert program.entries[2].deps_before == (7, 0)


def test_numpy_integers_are_integers() -> None:
    entry = read_one({"opcode": "VE_EXP_TILE", **VE, "length": np.int64(9), "qbits_activation": np.int32(4)})
    assert isinstance(entry, VeEntry)
    assert (entry.length, entry.qbits_activation) == (9, 4)
    assert type(entry.length) is type(entry.qbits_activation) is int


def test_numpy_texts_are_texts(tmp_path: Path) -> None:
    """A checkpoint, a trace and a debugger encode entries, and their encoder knows only Python's own types."""
    program = Program(np.str_("named"))
    debug = {np.str_("seen"): [np.str_("x"), np.float64(1.5)]}
    program.dma_load(**DMA, phase=np.str_("decode"), model_name=np.str_("caf\u00e9"), debug=debug)
    assert msgspec.json.encode(program.to_dict()) == msgspec.json.encode(load_program(program.to_dict()).to_dict())
    machine = Machine(load_config({}), program)
    with TraceFile(tmp_path / "t.jsonl") as file:
        machine.trace(file)
        machine.run()
    assert '"phase":"decode","model_name":"caf\u00e9"' in (tmp_path / "t.jsonl").read_text()


def everything() -> Program:
    """A program with every opcode and every kind of field."""
    program = Program("everything")
    weights = program.dma_load(**DMA, layer_id=1, phase="decode")
    rows = program.dma_prefetch(**ROWS, dma_id=0)
    kv = program.kv_load(**KV, kv_range={"t_start": 0, "t_len": 4, "d_start": 16, "d_len": 32}, id=40)
    te = [getattr(program, f"te_{op}")(**TE, deps_before=(weights, rows)) for op in ("gemm", "matmul", "qkt", "av")]
    simple = ("layernorm", "rmsnorm", "softmax", "gelu", "silu", "sigmoid", "tanh", "exp", "copy", "sum", "max", "min")
    ve = [getattr(program, f"ve_{op}")(**VE, deps_before=te[0], batch=2) for op in simple]
    ve += [program.ve_add(**VE, **IN2), program.ve("mul", **VE, **IN2)]
    program.barrier(wait_for=iter(ve))
    nop = program.nop(marker="here", debug={"a": [1]}, source="ISA")
    program.kv_store(**KV, t_start=4, t_len=1, deps_before=[kv], deps_after=())
    program.dma_store(**DMA, deps_before=nop)
    program.end()
    return program


def test_building_and_loading_agree() -> None:
    program = everything()
    check_program(program, load_config({}))
    again = load_program(program.to_dict())
    assert again == program
    assert again.to_dict() == program.to_dict()
    assert again.metadata == {"version": "1.0", "name": "everything"}
    assert {entry.opcode for entry in again.entries} == {name for name, spec in OPCODES.items() if not spec.system}
    assert len(again) == len(program.entries)


@pytest.mark.parametrize("name", ["p.json", "p.yaml"])
def test_saving_and_loading_agree(tmp_path: Path, name: str) -> None:
    program = everything()
    program.save(tmp_path / name)
    assert load_program(tmp_path / name) == program
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_saved_json_is_plain_and_has_one_entry_a_line(tmp_path: Path) -> None:
    program = Program("a")
    program.nop()
    program.end(deps_before=[0])
    program.save(tmp_path / "p.json")
    assert (tmp_path / "p.json").read_text() == (
        '{"metadata": {"version": "1.0", "name": "a"}, "cmdq": [\n'
        '  {"opcode": "NOP", "id": 0},\n'
        '  {"opcode": "END", "id": 1, "deps_before": [0]}\n'
        "]}\n"
    )
    Program().save(tmp_path / "empty.json")
    assert load_program(tmp_path / "empty.json") == Program()


def test_a_save_that_fails_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program("first")
    program.save(tmp_path / "p.json")
    before = (tmp_path / "p.json").read_bytes()
    program.nop()

    def disk_full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(InputError, match=r"p\.json: it cannot be written: No space left on device; make room, or choose another place"):
        program.save(tmp_path / "p.json")
    assert (tmp_path / "p.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_where_a_program_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the file name must end in \.json, \.yaml or \.yml"):
        Program().save(tmp_path / "p.txt")
    with pytest.raises(InputError, match="it cannot be written: No such file or directory"):
        Program().save(tmp_path / "no" / "p.json")


def test_ids_given_by_the_builder() -> None:
    program = Program()
    assert [program.nop(), program.nop(id=9), program.nop(), program.nop(id=3), program.nop()] == [0, 9, 10, 3, 11]
    check_program(program, load_config({}))


@pytest.mark.parametrize(
    ("append", "line"),
    [
        (lambda p: p.dma_load(qbits=3), 'program: cmdq[1] (id 1, DMA_LOAD_TILE): qbits = 3, but it must be one of 1, 2, 4, 8, 16, 32, 64'),
        (lambda p: p.nop(deps_before="0"), 'program: cmdq[1] (id 1, NOP): deps_before = "0", but it must be a list of ids'),
        (lambda p: p.nop(deps_before=[0, -1]), "program: cmdq[1] (id 1, NOP): deps_before = [0, -1], but of each id in it: it must be "
         "at least 0"),
        (lambda p: p.ve("sqrt"), 'program: cmdq[1]: op = "sqrt", but VE has the ops layernorm, rmsnorm, softmax, gelu, silu, sigmoid, '
         "tanh, exp, add, mul, copy, sum, max, min"),
        (lambda p: p.nop(debug=object), "program: cmdq[1] (id 1, NOP): debug = <class 'object'>, but it must be plain data: mappings, "
         "lists, text, numbers, true, false, null"),
        (lambda p: p.append("HALT"), 'program: cmdq[1] (id 1, HALT): opcode = "HALT", but there is no such opcode; opcodes are '
         + ", ".join(OPCODES)),
    ],
)  # fmt: skip
def test_the_builder_refuses_at_once(append: Callable[[Program], int], line: str) -> None:
    program = Program()
    program.nop()
    with pytest.raises(InputError) as caught:
        append(program)
    assert str(caught.value).splitlines()[0] == line
    assert len(program.entries) == 1


def test_entries_given_to_a_program_are_numbered() -> None:
    entries = everything().entries
    program = Program("part", entries[3:5])
    assert [entry.index for entry in program.entries] == [0, 1]
    assert [entry.id for entry in program.entries] == [41, 42]


def test_program_equality_and_text() -> None:
    assert Program("a") != Program("b")
    assert Program("a", source="x") == Program("a", source="y")
    assert Program("a") != 3
    assert repr(Program("a", source="x.json")) == "Program('a', 0 entries from x.json)"


def test_the_schema_agrees_with_the_reader() -> None:
    schema = jsonschema.Draft202012Validator(program_json_schema())
    schema.check_schema(program_json_schema())
    schema.validate(everything().to_dict())
    bad: list[dict[str, Any]] = [
        {"opcode": "NOPE"}, {"opcode": "NOP", "x": 1}, {"opcode": "NOP", "id": -1}, {"opcode": "DMA_LOAD_TILE"},
        {"opcode": "DMA_LOAD_TILE", **DMA, "rows": 1}, {"opcode": "DMA_LOAD_TILE", **DMA, "qbits": 3},
        {"opcode": "VE_EXP_TILE", **VE, "in2_bank": 0}, {"opcode": "VE_ADD_TILE", **VE}, {"opcode": "NOP", "source": "X"},
        {"opcode": "KV_LOAD_TILE", **KV, "kv_range": {"t_start": 0, "t_len": 0}}, {"opcode": "NOP", "phase": 1},
        {"opcode": "BARRIER", "wait_for": 3}, {"opcode": "TE_GEMM_TILE", **TE, "m": 0}, {},
    ]  # fmt: skip
    for entry in bad:
        assert not schema.is_valid(program_of(entry)), entry
        with pytest.raises(InputError):
            load_program(program_of(entry))
    tops: list[dict[str, Any]] = [{}, {"metadata": {}, "cmdq": []}, {"metadata": {"version": "1.0", "x": 1}, "cmdq": []}, {**program_of(), "x": 1}]
    for program in tops:
        assert not schema.is_valid(program)
        with pytest.raises(InputError):
            load_program(program)


def test_a_program_of_twenty_thousand_entries_is_read_whole(tmp_path: Path) -> None:
    """Size alone is no reason to fail; how fast it goes is measured in tests/speed."""
    lines = ",\n".join(f'{{"opcode": "NOP", "deps_before": [{i}]}}' for i in range(19_999))
    file = tmp_path / "p.json"
    file.write_text(f'{{"metadata": {{"version": "1.0"}}, "cmdq": [{{"opcode": "NOP"}},\n{lines}\n]}}')
    program = load_program(file)
    assert len(program) == 20_000
    check_program(program, load_config({}))
    broken = file.read_text().replace('"deps_before": [19998]', '"deps_before": [20000]')
    file.write_text(broken)
    with pytest.raises(InputError) as caught:
        load_program(file)
    assert str(caught.value).replace(str(file), "p.json") == (
        "p.json:20000:35: cmdq[19999] (id 19999, NOP): deps_before[0] = 20000, but the program has no entry with this id"
    )


def test_decimals_are_no_integers(tmp_path: Path) -> None:
    for value in (2.0, Fraction(2), True, "2", None, [2]):
        with pytest.raises(InputError, match="it must be an integer"):
            read_one({"opcode": "TE_GEMM_TILE", **TE, "m": value})


def test_a_program_that_grew_after_it_was_read_is_looked_at_again(tmp_path: Path) -> None:
    """The pairs of entries that wait for each other are kept from the reading, for these entries alone."""
    path = tmp_path / "long.json"
    queue = [{"opcode": "NOP", "id": k, **({"deps_before": [k - 1]} if k else {})} for k in range(100)]
    path.write_text(json.dumps({"metadata": {"version": "1.0"}, "cmdq": queue}))
    program = load_program(path)
    assert program.known_edges is not None and len(program.known_edges[0]) == 99
    assert plan_program(program, load_config({})).program["dependents"].tolist() == list(range(1, 100))
    program.nop(deps_before=[7])
    assert program.known_edges is None
    assert plan_program(program, load_config({})).program["dependents"].tolist().count(100) == 1
    program.nop(deps_before=[5000])
    with pytest.raises(InputError, match="the program has no entry with this id"):
        plan_program(program, load_config({}))
