"""Tensor engines that count MACs, on a grid of shapes and bits: exact."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

from kernbench.cmdq import Program
from kernbench.config import load_config
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

WHY = "work divided by rate, rounded up: must be equal"


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Each shape on each machine."""
    for case, (m, n, k) in product(data.cases, data.fact("shapes")):
        weights, activations = case["bits"]
        init, finalize = case["around"]
        rate = case["macs"] * Fraction(data.fact("f_w")[weights]) * Fraction(data.fact("f_a")[activations])
        yield Row(
            case=f"{m}x{n}x{k}, W{weights}A{activations}, {case['macs']} MAC/cycle",
            source="formula",
            expected=init + ceil(m * n * k / rate) + finalize,
            ours=_cycles(case, (m, n, k), data, runner),
            unit="cycles",
            allowed=0,
            why=WHY,
        )


def _cycles(case: dict[str, Any], shape: tuple[int, int, int], data: SuiteData, runner: Runner) -> int:
    init, finalize = case["around"]
    te = {"macs_per_cycle": case["macs"], "init_cycles": init, "finalize_cycles": finalize, "spm_traffic": False}
    te |= {"f_w": data.fact("f_w"), "f_a": data.fact("f_a")}
    program = Program("product")
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    m, n, k = shape
    weights, activations = case["bits"]
    program.te_gemm(m=m, n=n, k=k, qbits_weight=weights, qbits_activation=activations, **places)
    return runner.cycles(program, load_config({"te": te, "spm": {"bank_size_bytes": "1 MiB"}}))
