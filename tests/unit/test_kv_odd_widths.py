"""KV caches of 3, 5 and 6 bits: packed bytes in DRAM and in transfers, and plans whose engines read the next wider width."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from kernbench import Machine, Program, load_config, simulate
from kernbench.cmdq.entries import KvEntry, TeEntry
from kernbench.cmdq.footprint import transfer_of
from kernbench.common.errors import InputError
from kernbench.workloads.blocks.programs import BlockPrograms
from kernbench.workloads.llm.run import run_llm
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.precision import uniform_precision
from tests.model_cases import SMALL
from tests.unit.test_part_programs import read
from tests.workload_programs import (
    TINY,
    TINY_CASES,
    TINY_GROUPED,
    Case,
    accesses_of,
    dram_accesses,
    scratchpad_accesses,
    tiny_machine,
    unordered,
)

WIDER = {3: 4, 5: 8, 6: 8}
odd = pytest.mark.parametrize("bits", WIDER)


def tile(bits: int, **given: Any) -> dict[str, Any]:
    base = {"kv_kind": "k", "head_id": 1, "dram_base_addr": 4096, "spm_bank": 0, "spm_offset": 0, "qbits_kv": bits}
    return {**base, **given}


@odd
def test_the_bits_of_a_transfer_are_those_of_its_elements(bits: int) -> None:
    """Counted bit by bit from the address formula of docs/model/bytes.md."""
    config = load_config({"kv_layouts": [{"t_max": 40, "head_dim": 24}], "dma": {"alignment_bytes": 32}})
    for span in ({"t_start": 5, "t_len": 3}, {"t_start": 5, "t_len": 3, "d_start": 8, "d_len": 5}, {"t_start": 0, "t_len": 1}):
        program = Program("kv")
        program.kv_load(kv_range=span, **tile(bits))
        d_start = span.get("d_start", 0)
        rows: list[set[int]] = []
        for t in range(span["t_start"], span["t_start"] + span["t_len"]):
            of_row = set[int]()
            for d in range(d_start, d_start + span.get("d_len", 24 - d_start)):
                first = 4096 * 8 + ((1 * 40 + t) * 24 + d) * bits
                of_row |= {bit // 8 for bit in range(first, first + bits)}
            rows.append(of_row)
        if "d_len" not in span:
            rows = [set[int]().union(*rows)]
        moved = [{byte // 32 for byte in row} for row in rows]
        found = transfer_of(program.entries[0], config)
        assert found.dram_addr == min(rows[0]) and found.rows == len(rows)
        assert found.bytes_total == sum(map(len, rows)) and found.bytes_aligned == 32 * sum(map(len, moved))
        counters = simulate(program, config).counters
        assert counters["dma0"]["bytes"] == 32 * sum(map(len, moved))


def test_a_row_inside_a_byte_and_other_widths_are_refused() -> None:
    config = load_config({"kv_layouts": [{"t_max": 40, "head_dim": 24}]})
    program = Program("kv")
    program.kv_load(kv_range={"t_start": 0, "t_len": 2, "d_start": 4, "d_len": 8}, **tile(3))
    with pytest.raises(InputError, match="row 0 of the transfer would start at bit 4 of a byte, with 3 bits per element"):
        Machine(config, program)
    program = Program("kv")
    with pytest.raises(InputError, match="qbits_kv = 7, but it must be one of 1, 2, 3, 4, 5, 6, 8, 16, 32, 64"):
        program.kv_load(kv_range={"t_start": 0, "t_len": 2}, **tile(7))
        Machine(config, program)


@pytest.mark.parametrize(
    ("bits", "name"), [(3, "decode"), (3, "decode_grouped"), (5, "wide_alignment"), (6, "decode"), (6, "chunk")]
)
def test_layers_are_ordered_and_their_engines_read_the_next_width(bits: int, name: str) -> None:
    """On a machine that fails where jobs in flight overlap."""
    given = {**TINY_CASES, "chunk": Case(TINY_GROUPED, tiny_machine(40), 70, 5)}[name]
    case = replace(given, model=replace(given.model, kv_bits=bits))
    program, config = case.program(), case.config
    assert unordered(program, accesses_of(program, config, scratchpad_accesses)) == []
    assert unordered(program, accesses_of(program, config, dram_accesses)) == []
    assert {entry.qbits_kv for entry in program.entries if isinstance(entry, KvEntry)} == {bits}
    products = [entry for entry in program.entries if isinstance(entry, TeEntry) and entry.opcode != "TE_GEMM_TILE"]
    assert {entry.qbits_weight for entry in products} == {WIDER[bits]}
    moved = sum(transfer_of(entry, config).bytes_total for entry in program.entries if isinstance(entry, KvEntry))
    tokens = case.context + case.tokens
    assert moved == 2 * case.model.kv_heads * case.model.head_dim * tokens * bits // 8 or case.tokens > 1
    assert simulate(program, config).status == "done"


def test_dram_energy_follows_the_bits_of_the_cache() -> None:
    """Decode after 2,000 tokens: the energy of DRAM differs by the price of the bytes of the caches, and nothing else."""
    spent, kv_bytes = [], []
    for bits in (3, 6):
        model = replace(TINY_GROUPED, kv_bits=bits)
        case = Case(model, tiny_machine(160, kv_layouts=[{"t_max": 3000, "head_dim": 128}]), 2048, 1)
        program = case.program()
        result = simulate(program, case.config)
        spent.append(Fraction(str(result.metrics["energy_pj"]["dram"])))
        each = (transfer_of(entry, case.config).bytes_aligned for entry in program.entries if isinstance(entry, KvEntry))
        kv_bytes.append(sum(each))
    assert spent[1] - spent[0] == 20 * (kv_bytes[1] - kv_bytes[0]) and kv_bytes[1] == 2 * kv_bytes[0]


@odd
@pytest.mark.parametrize("name", ["qwen3", "deepseek"])
def test_layers_of_parts_hold_packed_caches(bits: int, name: str) -> None:
    """Their transfers state bytes; on a machine that fails where jobs in flight overlap."""
    job = Job(prompt=21, tokens=1, phases=("decode",))
    moved, cycles = [], []
    for kv in (bits, WIDER[bits]):
        programs = BlockPrograms(read(SMALL[name]), uniform_precision(kv=kv), load_config(tiny_machine(640)), job)
        (step,) = programs.steps
        loads = 0
        for segment in list(programs.segments(step))[1:-1]:
            program = programs.segment_program(segment)
            assert unordered(program, accesses_of(program, programs.machine, scratchpad_accesses)) == []
            for entry in program.entries:
                if getattr(entry, "tensor_role", "") == "kv":
                    loads += transfer_of(entry, programs.machine).bytes_total
        moved.append(loads)
        cycles.append(run_llm(programs).steps[0].total.cycles)
    assert Fraction(moved[0], bits) == Fraction(moved[1], WIDER[bits])
    assert cycles[0] <= cycles[1]


def test_a_tiny_model_has_caches_of_whole_bytes() -> None:
    with pytest.raises(InputError, match="a token of head_dim = 100 must be whole bytes"):
        replace(TINY, head_dim=100, kv_bits=3)
