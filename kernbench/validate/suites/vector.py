"""Vector engines, every op on a grid of shapes: exact."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from kernbench.cmdq import Program
from kernbench.config import load_config
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

WHY = "a sum of whole passes, trees and functions: nothing may differ"
BITS = 8


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Each op on each shape."""
    for case, (length, batch) in product(data.cases, data.fact("shapes")):
        yield Row(
            case=f"{case['op']} {length} x {batch}",
            source="formula",
            expected=_expected(case, length, batch, data),
            ours=_cycles(case["op"], length, batch, data, runner),
            unit="cycles",
            allowed=0,
            why=WHY,
        )


def _expected(case: dict[str, Any], length: int, batch: int, data: SuiteData) -> int:
    one_pass = -(-length * batch // data.fact("lanes"))
    levels = 0
    while length > 1 << levels:
        levels += 1
    tree = data.fact("pipeline") + levels + batch - 1
    functions = sum(data.fact("sfu")[name] for name in case.get("functions", ()))
    around = data.fact("init") + data.fact("finalize")
    return int(around + case["passes"] * one_pass + case.get("trees", 0) * tree + functions)


def _cycles(op: str, length: int, batch: int, data: SuiteData, runner: Runner) -> int:
    ve = {"lanes": data.fact("lanes"), "init_cycles": data.fact("init"), "finalize_cycles": data.fact("finalize")}
    ve |= {"reduction_pipeline": data.fact("pipeline"), "sfu": data.fact("sfu"), "spm_traffic": False}
    program = Program(op)
    names = ("in", "in2", "out") if op in ("add", "mul") else ("in", "out")
    places = {f"{name}_{what}": 0 for name in names for what in ("bank", "offset")}
    program.ve(op, length=length, batch=batch, qbits_activation=BITS, **places)
    return runner.cycles(program, load_config({"ve": ve}))
