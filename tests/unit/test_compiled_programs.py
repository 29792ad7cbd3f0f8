"""Programs in binary form: the same run, the same errors, nothing taken that is not whole and of this machine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench import InputError, Program, load_config, load_program, simulate
from kernbench.cmdq import compiled
from kernbench.cmdq.compiled import MAGIC, SEAL, Unreadable, load_compiled, pack, packed, save_compiled, unpack
from kernbench.cmdq.lower import lower_program
from kernbench.cmdq.plan import plan_npu, plan_program
from kernbench.cmdq.table_rules import broken_rule
from tests.cli.samples import MACHINE, tiles

NPU = load_config("npu_mobile")


def small() -> Program:
    """One entry of each class that an NPU runs, with metadata of each kind."""
    program = Program("small")
    tile = program.dma_load(
        tensor_role="weight", qbits=4, dram_addr=70, rows=3, row_elements=64, stride_bytes=300, spm_bank=1, spm_offset=0
    )
    place = {"dram_base_addr": 1 << 20, "qbits_kv": 8, "spm_bank": 2, "spm_offset": 0}
    kv = program.kv_store(head_id=1, kv_kind="k", t_start=4, t_len=2, **place, phase="decode", debug={"x": [1, 2.5, None]})
    gemm = program.te_gemm(
        m=8, n=8, k=8, qbits_weight=4, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1, wgt_offset=0,
        ofm_bank=3, ofm_offset=0, deps_before=[tile, kv], layer_id=7,
    )  # fmt: skip
    program.append("BARRIER", wait_for=[gemm])
    program.append(
        "VE_GELU_TILE", length=8, batch=8, qbits_activation=8, in_bank=3, in_offset=0, out_bank=4, out_offset=0,
        deps_before=[gemm],
    )  # fmt: skip
    program.end()
    return program


def on_a_system() -> Program:
    """Entries of each class that only a system runs, and of others, on two PEs."""
    program = Program("pair")
    place = {"spm_bank": 0, "spm_offset": 0}
    near, far = "sip0.cube0.pe0", "sip0.cube0.pe3"
    load = program.append("DMA_LOAD_TILE", node=far, tensor_role="weight", qbits=8, dram_addr=64, num_elements=4096, **place)
    sent = program.append(
        "DMA_SEND_TILE", node=far, peer=near, tensor_role="activation", qbits=8, num_elements=512, peer_bank=1, peer_offset=0,
        **place, deps_before=[load],
    )  # fmt: skip
    program.append("LAUNCH", node="sip0.cube0.m_cpu", deps_before=[sent])
    program.append("HOST_COPY_TILE", qbits=8, dram_addr=1 << 20, num_elements=1 << 16, direction="to_device")
    program.append(
        "TE_GEMM_TILE", node=near, m=8, n=8, k=8, qbits_weight=4, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1,
        wgt_offset=0, ofm_bank=3, ofm_offset=0,
    )  # fmt: skip
    return program


def sealed(rest: bytes) -> bytes:
    """With a checksum that fits."""
    return MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def resealed(data: bytes, **changed: Any) -> bytes:
    """The bytes of a program with other fields in its head."""
    head, _, body = data[len(MAGIC) + SEAL + 1 :].partition(b"\n")
    return sealed(json.dumps({**json.loads(head), **changed}).encode() + b"\n" + body)


def test_what_is_packed_comes_back() -> None:
    program = small()
    tables = lower_program(program, NPU)
    found = unpack(pack(program.name, program.entries, NPU.digest(), tables))
    assert (found.name, found.entries, found.machine) == ("small", program.entries, NPU.digest())
    assert [type(entry) for entry in found.entries] == [type(entry) for entry in program.entries]
    assert found.tables is not None and found.tables.keys() == tables.keys()
    for section in ("dma", "compute"):
        for name, table in tables[section].items():
            back = found.tables[section][name]
            assert back.dtype == np.int64 and back.flags["C_CONTIGUOUS"] and np.array_equal(back, table), name


def test_a_file_runs_as_its_program(tmp_path: Path) -> None:
    program = small()
    save_compiled(program, NPU, tmp_path / "small.kbp")
    compiled = load_compiled(tmp_path / "small.kbp", NPU)
    assert compiled == program and compiled.lowered is not None
    assert simulate(compiled, NPU).to_json() == simulate(small(), NPU).to_json()
    assert plan_program(compiled, NPU) is compiled.lowered.plan


def test_another_machine_reads_the_entries_with_every_check(tmp_path: Path) -> None:
    save_compiled(small(), NPU, tmp_path / "small.kbp")
    other = load_config("npu_mobile", {"dram.t_setup_cycles": 77})
    compiled = load_compiled(tmp_path / "small.kbp", other)
    assert compiled.lowered is None and compiled == small() == load_program(tmp_path / "small.kbp")
    assert simulate(compiled, other).to_json() == simulate(small(), other).to_json()
    narrow = load_config("npu_mobile", {"spm.num_banks": 2})
    with pytest.raises(InputError) as refused:
        simulate(load_compiled(tmp_path / "small.kbp", narrow), narrow)
    assert str(refused.value).split("\n")[0] == (
        f"{tmp_path}/small.kbp: cmdq[1] (id 1, KV_STORE_TILE): spm_bank = 2, but the scratchpad has 2 banks "
        "(spm.num_banks in npu_mobile.yaml)"
    )


def test_a_program_that_grows_is_lowered_again(tmp_path: Path) -> None:
    program = Program("grows")
    program.append("NOP")
    save_compiled(program, NPU, tmp_path / "x.kbp")
    compiled = load_compiled(tmp_path / "x.kbp", NPU)
    compiled.append("NOP")
    assert len(plan_program(compiled, NPU).program["op"]) == 2


def test_equal_programs_are_equal_bytes_under_any_hash_seed() -> None:
    code = (
        "import hashlib; from kernbench.cmdq.compiled import *; from tests.unit.test_compiled_programs import small, NPU; "
        "p = small(); lowered_on(p, NPU); print(hashlib.sha256(packed(p)).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda data: b"", "it is not a compiled program of version 4"),
        (lambda data: b"KBPROG 3\n" + data[len(MAGIC) :], "it is not a compiled program of version 4"),
        (lambda data: data[:-1], "it is damaged: its checksum is another"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "it is damaged: its checksum is another"),
        (lambda data: data + b"\0", "it is damaged: its checksum is another"),
        (lambda data: sealed(b"{}\n"), "its header is damaged: Object missing required field `kernbench`"),
        (lambda data: resealed(data, kernbench="9.9"), "it was compiled by kernbench 9.9, and this is 0.1.0"),
        (lambda data: resealed(data, entries=[]), "it holds no program: "),
        (lambda data: resealed(data, entries=[[99, 1, 1]]), "it holds no program: tuple index out of range"),
        (lambda data: resealed(data, tables=[["op", "<i8", [10**9, 10**9]]]), "it holds no program: "),
        (lambda data: resealed(data, tables=[["op", "O", [1]]]), "it holds no program: a table op of O"),
        (lambda data: resealed(data + b"\0"), "it holds no program: 1 more bytes"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, spoil: Any, rule: str) -> None:
    save_compiled(small(), NPU, tmp_path / "x.kbp")
    path = tmp_path / "y.kbp"
    path.write_bytes(spoil((tmp_path / "x.kbp").read_bytes()))
    with pytest.raises(InputError) as refused:
        load_compiled(path, NPU)
    text = str(refused.value)
    assert text.startswith(f"{path}: {rule}") and text.endswith("make it again with `kbsim program compile`")


def test_every_cut_and_flip_is_noticed() -> None:
    data = pack("small", small().entries, NPU.digest(), lower_program(small(), NPU))
    for k in range(0, len(data), 7):
        for spoiled in (data[:k], data[:k] + bytes([data[k] ^ 0x10]) + data[k + 1 :]):
            with pytest.raises(Unreadable):
                unpack(spoiled)


@pytest.mark.parametrize(
    ("table", "row", "value"),
    [
        ("op", 0, 1), ("op", 0, 9), ("job", 0, 5), ("waits", 2, 1), ("dependents", 0, 99), ("after", 1, -1),
        ("dma.engine", 0, 64), ("dma.engine", 0, -1), ("dma.channel", 0, 3), ("dma.group", 1, 2), ("dma.write", 0, 2),
        ("dma.t_start", 1, -1), ("dma.dram_addr", 0, -1), ("dma.dram_addr", 0, 2**62), ("dma.row_bytes", 0, 0),
        ("dma.stride", 0, 1), ("dma.rows", 0, 0), ("dma.rows", 0, 2**61), ("dma.spm_addr", 0, 2**40), ("dma.spm_addr", 0, -1),
        ("dma.entry", 0, 1), ("dma.memory", 0, 1), ("dma.route", 0, 10**6), ("dma.peer", 0, 0),
        ("compute.engine", 0, 99), ("compute.init", 0, -1), ("compute.body", 0, 2**62), ("compute.finalize", 0, -1),
        ("compute.work", 0, -1), ("compute.regions", 0, 5), ("compute.entry", 0, 0),
        ("compute.region_addr", 0, 2**40), ("compute.region_bytes", 0, 2**62), ("compute.region_write", 0, 7),
    ],
)  # fmt: skip
def test_tables_that_would_lead_the_core_astray_are_refused(table: str, row: int, value: int) -> None:
    """Files are sealed by whoever makes them, so a right checksum is no promise that tables are right."""
    plan = plan_npu(small(), NPU)
    tables = lower_program(small(), NPU)
    assert broken_rule(tables, 6, plan) is None
    section, _, name = table.rpartition(".")
    (tables[section] if section else tables)[name][row] = value
    assert broken_rule(tables, 6, plan) is not None
    assert broken_rule({**lower_program(small(), NPU), "more": tables["op"]}, 6, plan) == "tables"


def test_numbers_without_a_binary_form_stay_text(tmp_path: Path) -> None:
    program = Program("wide")
    program.append("NOP", debug={"wide": 2**100})
    program.save(tmp_path / "wide.json")
    assert load_program(tmp_path / "wide.json") == program
    with pytest.raises(InputError, match="it has no binary form: an integer of its metadata has more than 64 bits"):
        save_compiled(program, NPU, tmp_path / "wide.kbp")
    assert not (tmp_path / "wide.kbp").exists()


def test_programs_of_systems_have_entries_and_tables(tmp_path: Path) -> None:
    system = load_config("single_cube")
    program = on_a_system()
    program.save(tmp_path / "loads.json")
    said = simulate(load_program(tmp_path / "loads.json"), system).to_json()
    save_compiled(program, system, tmp_path / "loads.kbp")
    compiled = load_compiled(tmp_path / "loads.kbp", system)
    assert compiled.lowered is not None and plan_program(compiled, system) is compiled.lowered.plan
    assert simulate(compiled, system).to_json() == said.replace("json", "kbp")


@pytest.mark.parametrize(
    ("table", "row", "value", "rule"),
    [
        ("dma.engine", 0, 9, "do not fit the machine: dma.engine[0] = 9, and it must be from 0 to 2"),
        ("dma.peer", 1, 7, "do not fit the machine: dma.peer[1] = 7, and it must be from -1 to 1"),
        ("dma.route", 0, 1, "are not those of its entries: dma.route[0] = 1 instead of 0"),
        ("compute.init", 0, 1, "are not those of its entries: compute.init[0] = 1 instead of "),
    ],
)
def test_tables_of_a_system_are_compared_with_its_entries(tmp_path: Path, table: str, row: int, value: int, rule: str) -> None:
    system, program = load_config("single_cube"), on_a_system()
    plan = plan_program(program, system)
    assert broken_rule(plan.program, len(program), plan) is None
    section, _, name = table.rpartition(".")
    plan.program[section][name][row] = value
    (tmp_path / "x.kbp").write_bytes(pack(program.name, program.entries, system.digest(), plan.program))
    with pytest.raises(InputError) as refused:
        load_compiled(tmp_path / "x.kbp", system)
    assert f"its tables {rule}" in str(refused.value)


def test_a_program_of_another_system_is_read_with_every_check(tmp_path: Path) -> None:
    save_compiled(on_a_system(), load_config("single_cube"), tmp_path / "x.kbp")
    other = load_config("two_sips")
    compiled = load_compiled(tmp_path / "x.kbp", other)
    assert compiled.lowered is None and simulate(compiled, other).status == "done"
    with pytest.raises(InputError, match="is one NPU, and only a machine of kernbench/system/1"):
        simulate(load_compiled(tmp_path / "x.kbp", NPU), NPU)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from kernbench.cli.main import exit_code

    monkeypatch.chdir(tmp_path)
    Path("npu.yaml").write_text(MACHINE, encoding="utf-8")
    tiles().save("tiles.json")
    assert exit_code(["program", "compile", "tiles.json", "-o", "tiles.kbp", "-c", "npu.yaml"]) == 0
    assert "tiles.kbp: " in capsys.readouterr().err
    told = []
    for target in ("tiles.json", "tiles.kbp"):
        assert exit_code(["run", target, "-c", "npu.yaml", "--json"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert exit_code(["program", "compile", "tiles.json", "-o", "tiles.bin", "-c", "npu.yaml"]) == 2
    assert capsys.readouterr().err == "error: tiles.bin: the file name must end in .kbp\n"
    Path("bad.kbp").write_bytes(b"no")
    assert exit_code(["run", "bad.kbp", "-c", "npu.yaml"]) == 2
    assert capsys.readouterr().err == (
        "error: bad.kbp: it is not a compiled program of version 4; make it again with `kbsim program compile`\n"
    )
    assert exit_code(["run", "gone.kbp"]) == 2
    assert capsys.readouterr().err == "error: gone.kbp: the file does not exist\n"


def test_fields_stand_in_the_order_of_the_form() -> None:
    """Another order or number of fields is another form: MAGIC must change with it."""
    fields = [(kind.__name__, kind.__struct_fields__) for kind in compiled.CLASSES]
    assert hashlib.sha256(repr(fields).encode()).hexdigest()[:16] == "073fa26e50389f96"
    assert packed(small()).startswith(MAGIC)
