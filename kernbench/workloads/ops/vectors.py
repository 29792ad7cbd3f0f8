"""Plans of vector operations: a stream through the cores, from the last-level cache as far as that holds it.

The bytes of an operation come from the cache at its rate. Those past what the cache keeps of a stream come from DRAM too.
"""

from __future__ import annotations

from kernbench.config.runtime import OpCost
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Vector

READ_SHARE = 0.5  #: of the bytes past the cache; operations write about what they read


def plan_vector(view: ChipView, op: Vector, cost: OpCost) -> Kernel:
    """One kernel that stands for all that the operation is made of."""
    again = float(cost.again) if cost.row_elements and op.width > cost.row_elements else 1.0
    moved = op.nbytes * float(cost.traffic) * again
    distinct = op.nbytes * again * float(cost.resident if cost.resident is not None else cost.traffic)
    missed = max(0.0, distinct - view.kept_bytes)
    body = max(moved / view.stream_rate, op.flops / max(view.lanes, 1.0))
    return Kernel(
        op.name, "ve", body, missed * READ_SHARE, missed * (1 - READ_SHARE),
        start=view.cycles(float(cost.start_ns)), notes={"moved_bytes": int(moved), "missed_bytes": int(missed)},
    )  # fmt: skip
