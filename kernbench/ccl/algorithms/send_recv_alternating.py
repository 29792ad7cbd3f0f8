"""Pairs of send and receive in two steps: first even ranks send, then odd ones, so that no rank sends and receives at once."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import alternating_shift


@scheduled
def send_recv_alternating(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of each rank = `in[:n_elem]` of the rank before it."""
    return alternating_shift(shape)


kernel = send_recv_alternating
schedule, neighbours, reference = parts_of(kernel)
