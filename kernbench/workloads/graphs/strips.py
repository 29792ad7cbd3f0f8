"""A large product as several programs in a row, each with some rows of the result.

Where the scratchpad is small, the best way to cut a product takes more entries than a program may have. A program for each row
of blocks has a part of them. The programs are alike, so that one run tells the time of all.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.config.kinds import as_npu
from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.workloads.graphs.graph import Graph, Node, Product, Tensor
from kernbench.workloads.graphs.grouped import GroupCosts
from kernbench.workloads.graphs.lowering import lower_graph
from kernbench.workloads.graphs.planner import plan_graph, plan_with_cuts, reloads
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.graphs.split import GAIN, MAX_JOBS

UNLIMITED = 1 << 24  #: entries of a product that several programs share, at most


@dataclass(frozen=True, slots=True)
class Strip:
    """A program that computes some rows of a product."""

    program: GraphProgram
    rows: int
    count: int  #: how often it runs, each time for other rows


def product_graph(m: int, n: int, k: int, bits: int) -> Graph:
    """A graph of one product of `[m, k]` and stored `[k, n]` elements of `bits` bits."""
    tensors = {
        "a": Tensor("a", (m, k), bits, "input"), "b": Tensor("b", (k, n), bits, "weight"), "c": Tensor("c", (m, n), bits),
    }  # fmt: skip
    return Graph("product", (Node("product", "MatMul", ("a", "b"), ("c",)),), tensors, {}, ("c",))


def product_strips(m: int, n: int, k: int, bits: int, config: MachineConfig, most: int = MAX_JOBS) -> list[Strip]:
    """The programs of a product of `[m, k]` and stored `[k, n]` elements of `bits` bits; of a system, the first PE runs them.

    One program for all rows, unless the best cut needs more than `most` entries. Raises InputError as `GraphProgram` does.

    Example:
        >>> from kernbench.config import load_config
        >>> [(strip.rows, strip.count) for strip in product_strips(64, 64, 64, 8, load_config("npu_mobile"))]
        [(64, 1)]
    """
    rows = _rows_of_program(as_npu(config), product_graph(m, n, k, bits), most)
    return [
        Strip(GraphProgram(product_graph(some, n, k, bits), config, bits), some, count)
        for some, count in ((rows, m // rows), (m % rows, 1)) if some
    ]


def _rows_of_program(machine: NpuConfig, graph: Graph, most: int) -> int:
    """The rows of a program: those of a block of the best cut if that has too many entries for one program, otherwise all."""
    bits = graph.tensors["a"].bits
    lowered = lower_graph(graph, bits, GroupCosts(machine, bits, bits))
    ((_, work),) = lowered.jobs
    assert isinstance(work, Product)
    plan = plan_graph(lowered, machine)
    if plan.sizes[0].cut is None and not reloads(plan, lowered, machine):
        return work.m
    one, several = (plan_with_cuts(lowered, machine, most=limit) for limit in (most, UNLIMITED))
    if several is None or (cut := several.sizes[0].cut) is None or cut.entries(work) <= most:
        return work.m
    gains = one is None or several.least_cycles * GAIN[0] < one.least_cycles * GAIN[1]
    whole = plan.sizes[0].cut is None and plan.least_cycles <= several.least_cycles
    return cut.rows if gains and not whole else work.m
