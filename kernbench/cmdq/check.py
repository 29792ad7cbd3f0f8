"""Checks a program against a machine: everything of docs/model/endings.md, before cycle 0."""

from __future__ import annotations

from collections.abc import Iterator

from kernbench.cmdq.depend import structure_problems
from kernbench.cmdq.entries import DmaEntry, Entry, KvEntry, TeEntry, VeEntry
from kernbench.cmdq.footprint import MOST_ROWS, kv_rows, regions_of, service_cycles, transfer_of, work_of
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.parse import entry_problems
from kernbench.cmdq.program import Program
from kernbench.cmdq.read_entry import FieldProblem
from kernbench.common.errors import InputError
from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.schema import NpuConfig

_ENGINES = {"dma": ("dma_id", "DMA engine"), "te": ("te_id", "tensor engine"), "ve": ("ve_id", "vector engine")}


def check_program(program: Program, config: NpuConfig) -> None:
    """Raises InputError naming every problem of `program` on this machine; returns when it can be run.

    Ids, dependencies and END are checked again here: a program built from Python has not been parsed.
    """
    problems = structure_problems(program.entries)
    for index, entry in enumerate(program.entries):
        problems += [(index, problem) for problem in (*_system_problems(entry, config), *npu_problems(entry, config))]
    if problems:
        names = {index: program.entries[index].where for index, _ in problems}
        raise InputError(entry_problems(problems, names, program.document, program.source))


def _system_problems(entry: Entry, config: NpuConfig) -> Iterator[FieldProblem]:
    if OPCODES[entry.opcode].system:
        rule = f"{config.source} is one NPU, and only a machine of kernbench/system/1 runs it"
        yield FieldProblem(("opcode",), rule, entry.opcode)
    elif entry.node is not None:
        rule = f"{config.source} is one NPU, and only a machine of kernbench/system/1 has nodes"
        yield FieldProblem(("node",), rule, entry.node)


def npu_problems(entry: Entry, config: NpuConfig) -> Iterator[FieldProblem]:
    """What is wrong with one entry on one NPU."""
    if entry.engine == "control" or OPCODES[entry.opcode].system:
        return
    yield from _engine_problem(entry, config)
    if isinstance(entry, DmaEntry):
        yield from _move_problems(entry, config)
    elif isinstance(entry, KvEntry):
        out_of_range = list(_kv_problems(entry, config))
        yield from out_of_range or _move_problems(entry, config)
    else:
        yield from _compute_problems(entry, config)


def _engine_problem(entry: Entry, config: NpuConfig) -> Iterator[FieldProblem]:
    field, name = _ENGINES[entry.engine]
    count: int = getattr(config, entry.engine).engines
    if entry.engine_id >= count:
        rule = f"the machine has {count} {name}{'s' if count > 1 else ''} ({entry.engine}.engines in {config.source})"
        yield FieldProblem((field,), rule, entry.engine_id)


def _kv_problems(entry: KvEntry, config: NpuConfig) -> Iterator[FieldProblem]:
    layouts = config.kv_layouts
    if entry.kv_layout_id >= len(layouts):
        rule = f"the machine has {len(layouts)} (kv_layouts in {config.source})"
        yield FieldProblem(("kv_layout_id",), rule, entry.kv_layout_id)
        return
    layout = layouts[entry.kv_layout_id]
    nest = _range_of(entry)
    sound = True
    if entry.t_start + entry.t_len > layout.t_max:
        sound = False
        rule = (
            f"t_start + t_len = {entry.t_start + entry.t_len} must not be above t_max = {layout.t_max} of the KV layout"
        )
        yield FieldProblem((*nest, "t_len"), rule, entry.t_len)
    if entry.d_start >= layout.head_dim:
        sound = False
        rule = f"it must be below head_dim = {layout.head_dim} of the KV layout"
        yield FieldProblem((*nest, "d_start"), rule, entry.d_start)
    elif entry.d_len is not None and entry.d_start + entry.d_len > layout.head_dim:
        sound = False
        end = entry.d_start + entry.d_len
        rule = f"d_start + d_len = {end} must not be above head_dim = {layout.head_dim} of the KV layout"
        yield FieldProblem((*nest, "d_len"), rule, entry.d_len)
    if sound:
        yield from _byte_problems(entry, config, nest)


def _range_of(entry: KvEntry) -> tuple[str, ...]:
    """Where the range of a KV tile stands in its entry."""
    return ("kv_range",) if entry.opcode == "KV_LOAD_TILE" else ()


def _byte_problems(entry: KvEntry, config: NpuConfig, nest: tuple[str, ...]) -> Iterator[FieldProblem]:
    """Every row begins at a whole byte: the first does, and the step from row to row is whole bytes."""
    span = kv_rows(entry, config)
    for row in range(min(span.rows, 2)):
        bit = (span.first_bit + row * span.stride_bits) % 8
        if bit:
            rule = (
                f"row {row} of the transfer would start at bit {bit} of a byte, with {entry.qbits_kv} bits per element"
            )
            yield FieldProblem((*nest, "d_start"), rule, entry.d_start, "rows must start at a whole byte")
            return


def _move_problems(entry: DmaEntry | KvEntry, config: NpuConfig) -> Iterator[FieldProblem]:
    transfer = transfer_of(entry, config)
    if transfer.rows > MOST_ROWS:
        rule = f"the transfer would have {transfer.rows} rows, and one has at most {MOST_ROWS}"
        named = ("rows",) if isinstance(entry, DmaEntry) else (*_range_of(entry), "t_len")
        yield FieldProblem(named, rule, transfer.rows)
        return
    capacity = config.dram.capacity_bytes
    if transfer.dram_end > capacity:
        field = "dram_addr" if isinstance(entry, DmaEntry) else "dram_base_addr"
        rule = (
            f"the transfer's bytes, aligned to {transfer.alignment}, are [{transfer.dram_start}, {transfer.dram_end}), "
            f"and the DRAM has {capacity} (dram.capacity_bytes in {config.source})"
        )
        yield FieldProblem((field,), rule, getattr(entry, field))
    yield from place_problem(entry, "spm", transfer.spm_addr, transfer.bytes_aligned, config)


def _compute_problems(entry: Entry, config: NpuConfig) -> Iterator[FieldProblem]:
    prefixes: tuple[str, ...] = ()
    if isinstance(entry, TeEntry):
        prefixes = ("ifm", "wgt", "ofm")
    elif isinstance(entry, VeEntry):
        prefixes = ("in", "out") if entry.in2_bank is None else ("in", "in2", "out")
    for prefix, region in zip(prefixes, regions_of(entry, config), strict=True):
        yield from place_problem(entry, prefix, region.addr, region.nbytes, config)
    period = config.te.period if entry.engine == "te" else config.ve.period
    cycles = service_cycles(entry, config).total * period
    if max(cycles, work_of(entry)) >= WIDE_LIMIT:
        field = "m" if isinstance(entry, TeEntry) else "length"
        rule = f"the job would take {cycles} cycles, and a run has fewer than 2^62"
        if cycles < WIDE_LIMIT:
            rule = f"the job would do {work_of(entry)} operations, and one has fewer than 2^62"
        yield FieldProblem((field,), rule, getattr(entry, field))


def place_problem(entry: Entry, prefix: str, addr: int, nbytes: int, config: NpuConfig) -> Iterator[FieldProblem]:
    """`<prefix>_bank` exists, and the bytes from there on are inside the scratchpad."""
    spm = config.spm
    bank: int = getattr(entry, f"{prefix}_bank")
    if bank >= spm.num_banks:
        rule = f"the scratchpad has {spm.num_banks} banks (spm.num_banks in {config.source})"
        yield FieldProblem((f"{prefix}_bank",), rule, bank)
    elif addr + nbytes > spm.size_bytes:
        rule = (
            f"its {nbytes} bytes would be at [{addr}, {addr + nbytes}) of the scratchpad, which has {spm.size_bytes} "
            f"(spm in {config.source})"
        )
        yield FieldProblem((f"{prefix}_offset",), rule, getattr(entry, f"{prefix}_offset"))
