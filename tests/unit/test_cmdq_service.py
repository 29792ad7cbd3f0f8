"""Service times: the table of docs/model/golden_numbers.md and every row of docs/model/compute.md, worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench.cmdq import load_program
from kernbench.cmdq.entries import Entry
from kernbench.cmdq.footprint import service_cycles, work_of
from kernbench.common.errors import InternalError
from kernbench.config import load_config

PLACES: dict[str, Any] = {f"{p}_{q}": 0 for p in ("ifm", "wgt", "ofm") for q in ("bank", "offset")}
VE_PLACES: dict[str, Any] = {f"{p}_{q}": 0 for p in ("in", "out") for q in ("bank", "offset")}


def entry(opcode: str, **fields: Any) -> Entry:
    return load_program({"metadata": {"version": "1.0"}, "cmdq": [{"opcode": opcode, **fields}]}).entries[0]


def gemm(m: int, n: int, k: int, weight_bits: int = 4, activation_bits: int = 8) -> Entry:
    return entry("TE_GEMM_TILE", m=m, n=n, k=k, qbits_weight=weight_bits, qbits_activation=activation_bits, **PLACES)


def vector(op: str, length: int, batch: int = 1, bits: int = 8, **more: int) -> Entry:
    second = {"in2_bank": 0, "in2_offset": 0} if op in ("add", "mul") else {}
    return entry(f"VE_{op.upper()}_TILE", length=length, batch=batch, qbits_activation=bits, **VE_PLACES, **second, **more)


@pytest.mark.parametrize(
    ("te", "shape", "cycles"),
    [
        ({"macs_per_cycle": 4096, "f_w": {4: 1.5}, "f_a": {8: 1}}, (64, 128, 256), 354),
        ({"macs_per_cycle": 8192, "f_w": {4: 2}}, (256, 256, 256), 1036),
        ({"macs_per_cycle": 8192, "f_w": {4: 2}}, (16, 16, 16), 13),
    ],
)
def test_golden_gemms(te: dict[str, Any], shape: tuple[int, int, int], cycles: int) -> None:
    assert service_cycles(gemm(*shape), load_config({"te": te})).total == cycles


@pytest.mark.parametrize(("op", "cycles"), [("layernorm", 96), ("softmax", 180)])
def test_golden_vector_ops(op: str, cycles: int) -> None:
    assert service_cycles(vector(op, 4096), load_config({})).total == cycles


def test_lanes_have_the_wider_of_input_and_result() -> None:
    config = load_config({"ve": {"lanes": 32, "ops_per_lane": 1, "f_a": {8: 1, 32: "1/4"}}})

    def body(op: str, bits: int, result: int) -> int:
        return service_cycles(vector(op, 1024, bits=bits, qbits_result=result), config).body

    assert body("copy", 8, 8) == 32 and body("copy", 8, 32) == body("copy", 32, 8) == body("copy", 32, 32) == 128
    assert body("max", 32, 8) - body("max", 8, 32) == 128 - 32  # a reduction has the lanes of its input
    product = entry("TE_GEMM_TILE", m=4, n=4, k=4096, qbits_weight=8, qbits_activation=8, qbits_result=32, **PLACES)
    assert service_cycles(product, load_config({})) == service_cycles(gemm(4, 4, 4096, weight_bits=8), load_config({}))


def test_the_body_is_rounded_up_once_in_exact_arithmetic() -> None:
    # 4096 * 3/2 * 11/10 = 33792/5 MACs per cycle; 33792 MACs are exactly 5 cycles, one more is 6
    config = load_config({})
    assert service_cycles(gemm(1, 1, 33792, activation_bits=4), config).body == 5
    assert service_cycles(gemm(1, 1, 33793, activation_bits=4), config).body == 6
    assert service_cycles(gemm(1, 1, 1), config).body == 1


SYSTOLIC: dict[str, Any] = {"timing": "systolic", "rows": 8, "cols": 4}


@pytest.mark.parametrize(
    ("dataflow", "body"),
    [
        ("os", 3 * 6 * (30 + 8 + 4 - 2) - 1),  # ceil(20/8) * ceil(21/4) * (k + R + C - 2) - 1
        ("ws", 4 * 6 * (20 + 16 + 4 - 2) - 1),  # ceil(30/8) * ceil(21/4) * (m + 2R + C - 2) - 1
        ("is", 4 * 5 * (21 + 16 + 4 - 2) - 1),  # ceil(30/8) * ceil(20/4) * (n + 2R + C - 2) - 1
    ],
)
def test_systolic_bodies(dataflow: str, body: int) -> None:
    config = load_config({"te": {**SYSTOLIC, "dataflow": dataflow}})
    time = service_cycles(gemm(20, 21, 30), config)
    assert (time.init, time.body, time.finalize, time.total) == (8, body, 4, body + 12)


def test_a_job_takes_at_least_one_cycle() -> None:
    te = {"timing": "systolic", "rows": 1, "cols": 1, "dataflow": "os", "finalize_cycles": 0}
    time = service_cycles(gemm(1, 1, 1), load_config({"te": {**te, "init_cycles": 0}}))
    assert (time.init, time.body, time.finalize, time.total) == (1, 0, 0, 1)
    time = service_cycles(gemm(1, 1, 1), load_config({"te": {**te, "init_cycles": 2}}))
    assert (time.init, time.body, time.total) == (2, 0, 2)


VE: dict[str, Any] = {
    "lanes": 8, "ops_per_lane": 2, "f_a": {8: 1, 4: 1.5}, "init_cycles": 3, "finalize_cycles": 5, "reduction_pipeline": 7,
    "sfu": {"exp": 11, "rsqrt": 13, "gelu": 17, "tanh": 19, "sigmoid": 23, "silu": 29},
}  # fmt: skip
EW, RED = 7, 7 + 7  # ceil(100 / 16); pipeline + ceil(log2(100))


@pytest.mark.parametrize(
    ("op", "body"),
    [
        ("add", EW), ("mul", EW), ("copy", EW), ("exp", EW + 11), ("tanh", EW + 19), ("sigmoid", EW + 23), ("gelu", EW + 17),
        ("silu", EW + 29), ("sum", EW + RED), ("max", EW + RED), ("min", EW + RED), ("layernorm", RED + EW + 13),
        ("rmsnorm", RED + EW + 13), ("softmax", EW + RED + 11 + RED + EW),
    ],
)  # fmt: skip
def test_every_row_of_the_vector_table(op: str, body: int) -> None:
    time = service_cycles(vector(op, 100), load_config({"ve": VE}))
    assert (time.init, time.body, time.finalize) == (3, body, 5)
    without = service_cycles(vector(op, 100), load_config({"ve": {**VE, "sfu": {}}}))
    assert without.body == {"exp": EW, "tanh": EW, "sigmoid": EW, "gelu": EW, "silu": EW, "layernorm": RED + EW,
                            "rmsnorm": RED + EW, "softmax": 2 * EW + 2 * RED}.get(op, body)  # fmt: skip


def test_batch_multiplies_before_rounding_and_lengthens_each_reduction() -> None:
    config = load_config({"ve": VE})
    assert service_cycles(vector("add", 100, batch=3), config).body == 19  # ceil(300 / 16), not 3 * 7
    assert service_cycles(vector("softmax", 100, batch=3), config).body == 2 * 19 + 11 + 2 * (RED + 2)
    assert service_cycles(vector("add", 100, bits=4), config).body == 5  # ceil(100 / 24)
    assert service_cycles(vector("add", 100, bits=16), config).body == EW  # a missing factor is 1


@pytest.mark.parametrize(("rows", "more"), [(1, 0), (4, 0), (5, 1), (8, 1), (9, 2)])
def test_reduction_trees_share_the_rows(rows: int, more: int) -> None:
    config = load_config({"ve": {**VE, "reduction_trees": 4}})
    assert service_cycles(vector("sum", 100, batch=rows), config).body == -(-100 * rows // 16) + RED + more
    assert service_cycles(vector("softmax", 100, batch=rows), config).body == 2 * -(-100 * rows // 16) + 11 + 2 * (RED + more)
    assert service_cycles(vector("add", 100, batch=rows), config).body == -(-100 * rows // 16)


@pytest.mark.parametrize(("length", "log"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (4096, 12), (4097, 13)])
def test_log2_is_rounded_up(length: int, log: int) -> None:
    config = load_config({"ve": {**VE, "lanes": 8192}})
    assert service_cycles(vector("sum", length), config).body == 1 + 7 + log


def test_work_is_macs_or_elements() -> None:
    assert work_of(gemm(2, 3, 5)) == 30
    assert work_of(vector("exp", 7, batch=3)) == 21
    for wrong in (work_of, lambda e: service_cycles(e, load_config({}))):
        with pytest.raises(InternalError, match="is neither a TE nor a VE entry"):
            wrong(entry("NOP"))
