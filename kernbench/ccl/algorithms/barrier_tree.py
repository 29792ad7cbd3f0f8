"""Barrier up and down a binomial tree: rank 0 receives a message from all ranks and then notifies all ranks, in `2 log2(n)`
steps.
"""

from kernbench.ccl.algorithm import (
    MESH,
    RING,
    TOPO_NAME_TO_KIND,
    TORUS,
    Memory,
    Schedule,
    Shape,
    Table,
    kernel_args,
    kernel_of,
    no_elements,
)
from kernbench.ccl.patterns import barrier_tree as signals
from kernbench.ccl.schedule import run_signals


@kernel_of
def barrier_tree(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """No rank returns before every rank has begun. The kernel ignores pointers and counts."""
    run_signals(memory.tl, signals(shape.ranks))


kernel = barrier_tree
reference = no_elements


def schedule(kind: int, shape: Shape) -> Schedule:
    """Return the messages of all ranks."""
    return signals(shape.ranks)


def neighbours(kind: int, shape: Shape) -> Table:
    """Return the queues between the ranks that exchange messages."""
    return schedule(kind, shape).table
