"""The planners against the bounds of every machine: a large product, and a prefill of the largest model that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.validate.run import Stand
from kernbench.validate.suite import Figure, Row, SuiteData
from kernbench.workloads.graphs.graph import Graph, Node, Tensor
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.llm.floor import floor_of
from kernbench.workloads.llm.steps import Job, LlmPrograms, Segment
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import Precision

WHY = "the goal of the planner: the rest is what a plan fills, drains and cannot overlap"


def rows(data: SuiteData, stand: Stand) -> Iterator[Row]:
    """Two shares of the bound a machine; of a machine whose DRAM holds no listed model only that of the product."""
    for case in data.cases:
        name = str(case["machine"])
        if stand.options.quick and name not in data.fact("quick"):
            continue
        size, bits = int(data.fact("size")), int(case["bits"])
        why = f"reported only: {case['reported']}" if "reported" in case else WHY
        if not stand.options.quick or name in data.fact("quick_products"):
            yield _row(f"{name}: product, {bits} bits", product_share(name, size, bits, stand), data, why)
        shards = int(case.get("shards", 1))
        programs = largest_model(name, data, shards)
        if programs is not None:
            of = f"{programs.model.name}" if shards == 1 else f"{programs.model.name} on {shards} PEs"
            yield _row(f"{name}: prefill of {of}", prefill_share(programs, stand), data, why)


def _row(case: str, share: Fraction, data: SuiteData, why: str) -> Row:
    expected, allowed = (Fraction(str(data.fact("least"))), 1), 0 if why == WHY else None
    return Row(case=case, source="bounds", expected=expected, ours=share, unit="of the bound", allowed=allowed, why=why)


def product_share(machine: str, size: int, bits: int, stand: Stand) -> Fraction:
    """The bound of a square product over its cycles."""
    shape = size, size
    tensors = {"a": Tensor("a", shape, bits, "input"), "b": Tensor("b", shape, bits, "weight"), "c": Tensor("c", shape, bits)}
    graph = Graph("product", (Node("product", "MatMul", ("a", "b"), ("c",)),), tensors, {}, ("c",))
    made = GraphProgram(graph, load_config(machine), bits)
    _, dram, macs, _ = made.floor()
    bound = max(dram, macs, least_traffic(made, size, bits))
    return Fraction(bound, stand.cycles(made.program, made.target))


def least_traffic(made: GraphProgram, size: int, bits: int) -> int:
    """[cycle] of the bytes that any schedule of a square product moves with the scratchpad of the machine.

    With room for S elements, at least 2 size^3 / sqrt(S) - 2 S elements are loaded (Smith et al., 2019), and size^2 are stored.
    """
    dram, room = made.machine.dram, made.machine.spm.size_bytes * 8 // bits
    loaded = max(2 * size**2, 2 * size**3 // (isqrt(room) + 1) - 2 * room)
    rate = dram.capacity * dram.channels
    return (loaded + size**2) * bits // 8 * rate.denominator // rate.numerator


def largest_model(machine: str, data: SuiteData, shards: int = 1) -> LlmPrograms | None:
    """The prefill of the first listed model that so many PEs of the machine have room for."""
    job = Job(prompt=int(data.fact("prompt")), tokens=1, phases=("prefill",), shards=shards)
    for name in data.fact("models"):
        try:
            programs = LlmPrograms(load_model(name), Precision(), load_config(machine), job)
            _ = programs.dram
        except InputError:
            continue
        return programs
    return None


def prefill_share(programs: LlmPrograms, stand: Stand) -> Fraction:
    """The bound of a prefill over its cycles; segments that are alike run once."""
    (step,) = programs.steps
    counts: Counter[Any] = Counter()
    first: dict[Any, Segment] = {}
    for segment in programs.segments(step):
        counts[segment.key] += 1
        first.setdefault(segment.key, segment)
    cycles = sum(
        counts[key] * stand.cycles(programs.segment_program(segment), programs.target) for key, segment in first.items()
    )
    floor = floor_of(programs, step)
    return Fraction(max(floor.dram_cycles, floor.mac_cycles), cycles)


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """None: the table says it."""
    return []
