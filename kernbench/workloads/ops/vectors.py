"""Plans of vector operations: a stream through the cores, from the last-level cache as far as that holds it.

The bytes of an operation cross the cache. Their rate is the smaller of two rates: the rate of the cache, and by Little's law
the bytes that the threads have in flight, divided by the time of a load and a store. Bytes of a stream that the cache cannot
hold also come from DRAM. Each kernel, and each reading of a row by one kernel, begins with a chain of loads. A block of
threads that is shorter than the row takes the row in turns, each with a chain; the last turn may leave threads idle. A row
that is read again comes from the cache as far as that holds the rows of all blocks that run at a time.
"""

from __future__ import annotations

from math import ceil

from kernbench.config.runtime import OpCost
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Vector

READ_SHARE = 0.5  #: share of the bytes that the cache cannot hold; operations write about as many bytes as they read
HELD = 0.5  #: share of the cache for the rows of running blocks, or for results in place; finished rows have the rest
TURN = 2  #: latencies of a thread's turn: its load and its store (gpu-benches 1038c5d0, bandwidth by occupancy)


def plan_vector(view: ChipView, op: Vector, cost: OpCost) -> Kernel:
    """One kernel that replaces all kernels of the operation."""
    times = cost.again if op.width > cost.held_elements else 0
    again = op.nbytes * READ_SHARE * times
    moved = op.nbytes * float(cost.traffic) + again
    distinct = op.nbytes * float(cost.resident if cost.resident is not None else cost.traffic)
    turns = ceil(op.width / cost.turn_elements) if cost.turn_elements and view.chip.kind == "gpu" else 1
    missed = max(0.0, distinct - view.kept_bytes) + (again * (1 - _held_share(view, op, cost)) if again else 0.0)
    blocks = op.rows if times else 0
    filled = op.width / (turns * cost.turn_elements) if turns > 1 else 1.0  # the last turn of a row is not full
    stream = moved / (filled * _rate(view, cost, min(1.0, missed / moved))) if moved else 0.0
    written = _written_back(view, op, cost, distinct)
    body = max(stream, op.flops / max(view.lanes, 1.0))
    body += blocks * view.chip.row_cycles / view.chip.cores
    chain = view.chain(cost)
    loads = (chain if chain is not None else float(bool(missed))) * max(cost.kernels, 1 + times) * turns
    loads += float(cost.row_chain) * op.rows if op.rows <= cost.serial_rows else 0.0
    return Kernel(
        op.name, "ve", body, missed * READ_SHARE, missed * (1 - READ_SHARE) + written,
        start=view.cycles(float(cost.start_ns)) + loads * view.latency,
        notes={"moved_bytes": int(moved), "missed_bytes": int(missed + written)},
    )  # fmt: skip


def _written_back(view: ChipView, op: Vector, cost: OpCost, distinct: float) -> float:
    """Bytes of results in place that the cache cannot hold, and writes back while the kernel runs.

    An operation in place writes where it has read, and the cache saves these writes as far as it can hold the results. No
    thread waits for bytes that are written back, so they do not lengthen the turns of threads. A gather saves reads, not
    writes: it reads the same rows again.
    """
    if cost.resident is None or op.kind == "gather":
        return 0.0
    return max(0.0, op.nbytes * float(cost.traffic) - HELD * (view.chip.cache_bytes or 0) - distinct)


def _held_share(view: ChipView, op: Vector, cost: OpCost) -> float:
    """The share of the rows in the cache, of those that blocks read and write at a time."""
    blocks = min(op.rows, view.chip.cores * max(1, view.chip.core_threads // cost.block_threads))
    return min(1.0, HELD * (view.chip.cache_bytes or 0) / (blocks * op.nbytes / op.rows))


def _rate(view: ChipView, cost: OpCost, missed: float) -> float:
    """[byte/cycle] of all cores together, where a share of the bytes misses the cache."""
    chip = view.chip
    if chip.kind != "gpu" or cost.thread_bytes is None:
        return view.stream_rate
    hit = float(chip.cache_latency_cycles)
    turn = TURN * (hit + missed * max(0.0, view.latency - hit))
    return min(view.stream_rate, chip.cores * chip.core_threads * float(cost.thread_bytes) / turn)
