"""Systolic tensor engines, all three dataflows: exact."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from kernbench.cmdq import Program
from kernbench.config import NpuConfig, load_config
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

Shape = tuple[int, int, int]  #: M, N, K
Array = tuple[int, int]  #: rows, columns
DATAFLOWS = ("os", "ws", "is")
WHY = "a formula of integers: nothing may differ"


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """The figures of SCALE-Sim, then shapes that fill no fold."""
    for case in data.cases:
        shape, array = _shape(case["shape"]), _array(case["array"])
        for dataflow in DATAFLOWS:
            if dataflow in case:
                yield _row("scalesim", shape, array, dataflow, int(case[dataflow]), runner)
    for array, shape, dataflow in product(data.fact("arrays"), data.fact("shapes"), DATAFLOWS):
        at = _shape(shape), _array(array)
        yield _row("folds", *at, dataflow, folds(*at, dataflow), runner)


def _row(source: str, shape: Shape, array: Array, dataflow: str, expected: int, runner: Runner) -> Row:
    case = f"{dataflow} {'x'.join(map(str, shape))} on {'x'.join(map(str, array))}"
    ours = systolic_cycles(shape, array, dataflow, runner)
    return Row(case=case, source=source, expected=expected, ours=ours, unit="cycles", allowed=0, why=WHY)


def _shape(given: list[Any]) -> Shape:
    m, n, k = (int(value) for value in given)
    return m, n, k


def _array(given: list[Any]) -> Array:
    rows, cols = (int(value) for value in given)
    return rows, cols


def folds(shape: Shape, array: Array, dataflow: str) -> int:
    """The cycles of a product, fold by fold. Cycle 0 is the cycle of the first operand."""
    (m, n, k), (r, c) = shape, array
    down, across, stream, load = {"os": (m, n, k, 0), "ws": (k, n, m, r), "is": (k, m, n, r)}[dataflow]
    return sum(load + stream + r + c - 2 for _ in range(0, down, r) for _ in range(0, across, c)) - 1


def systolic_cycles(shape: Shape, array: Array, dataflow: str, runner: Runner) -> int:
    """The simulated cycles of one job of that shape alone."""
    m, n, k = shape
    program = Program(f"{dataflow} {m}x{n}x{k}")
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    program.te_gemm(m=m, n=n, k=k, qbits_weight=8, qbits_activation=8, **places)
    entry = runner.run(program, systolic_machine(array, dataflow)).entries[0]
    assert entry.start is not None and entry.end is not None
    return entry.end - entry.start


def systolic_machine(array: Array, dataflow: str) -> NpuConfig:
    """One array, with nothing around it: no cycles before or after, no banks to wait for."""
    te = {"engines": 1, "timing": "systolic", "rows": array[0], "cols": array[1], "dataflow": dataflow}
    te |= {"init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False}
    spm = {"num_banks": 64, "bank_size_bytes": "4 MiB"}
    return load_config({"te": te, "spm": spm, "max_cycles": 1 << 40}, kind=NpuConfig)
