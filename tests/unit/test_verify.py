"""Verification: seed ADR-0020 D11 (and D10's way to ask for it), tolerances, and who is to blame."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench.common.dtypes import DTYPES, Array, narrow
from kernbench.common.errors import InputError
from kernbench.common.pe_commands import DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.op_log import OpLogger, OpRecord, Output
from kernbench.sim_engine.verify import TOLERANCES, Failure, Verification, compare, tolerance_text
from tests.op_logs import DMA, GEMM, MATH, holding, tile

A = np.array([[1, 2], [3, 4]], np.float16)
B = np.array([[5, 6], [7, 8]], np.float16)


def log_of(*messages: tuple[str, Any], **options: Any) -> OpLogger:
    """A log of messages, each at a time of its own, over A and B in HBM."""
    log = OpLogger(holding(hbm={0: A, 8: B}), **options)
    for t, (component, msg) in enumerate(messages):
        log.record_start(float(t), component, msg)
        log.record_end(t + 0.5, component, msg)
    return log


def gemm_log() -> OpLogger:
    """C = A @ B at hbm[0x100]: two loads, a product and a store, on lines 1 to 4 of a kernel."""
    a, b, c = (tile(addr, (2, 2)) for addr in (0, 8, 16))
    return log_of(
        (DMA, DmaReadCmd(a, 0, 8, line="k.py:1")),
        (DMA, DmaReadCmd(b, 8, 8, line="k.py:2")),
        (GEMM, GemmCmd(a, b, c, 2, 2, 2, line="k.py:3")),
        (DMA, DmaWriteCmd(c, 0x100, 8, line="k.py:4")),
    )


def test_adr0020_d10_phase_2_and_its_verification_are_asked_for() -> None:
    executor = DataExecutor(gemm_log())
    executor.run()
    assert executor.verify(A.astype(np.float32) @ B.astype(np.float32)).ok
    assert DataExecutor(gemm_log()).run().verify(A @ B).exit_code == 0


def test_adr0020_d11_final_outputs_are_compared() -> None:
    log = gemm_log()
    log.outputs.append(Output("c", "hbm", 0x100, (2, 2), "f16"))
    found = DataExecutor(log).verify({"c": A @ B})
    assert found and found.checked == ("c",) and str(found) == "1 of 1 tensors as expected"


def test_adr0020_d11_a_failure_says_where_and_who() -> None:
    wrong = A @ B
    wrong[1, 0] += 1
    found = DataExecutor(gemm_log(), outputs=[Output("c", "hbm", 0x100, (2, 2), "f16")]).verify({"c": wrong})
    assert not found and found.exit_code == 1
    assert str(found) == (
        "0 of 1 tensors as expected\n"
        "c[1, 0]: expected 44.0, got 43.0 (f16: rtol 0.001, atol 0.001); 1 of 4 elements differ; "
        "moved by op 3 (dma_write at sip0.cube0.pe0.pe_dma, k.py:4); "
        "computed by op 2 (gemm_f16 at sip0.cube0.pe0.pe_gemm, k.py:3)"
    )
    (failure,) = found.failures
    assert (failure.tensor, failure.index, failure.line) == ("c", (1, 0), "k.py:3")
    assert (float(failure.expected), float(failure.got)) == (44.0, 43.0)


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [("f32", 1e-5, 1e-5), ("f16", 1e-3, 1e-3), ("bf16", 1e-2, 1e-2)])
def test_adr0020_d11_tolerances_of_floats(dtype: str, rtol: float, atol: float) -> None:
    assert TOLERANCES[dtype] == (rtol, atol)
    value = np.array([1.0]).astype(DTYPES[dtype].numpy)
    assert compare("t", value, np.array([1 + 0.99 * (rtol + atol)]), dtype) is None
    assert compare("t", value, np.array([1 + 1.02 * (rtol + atol)]), dtype) is not None


@pytest.mark.parametrize("dtype", ["i8", "i32", "i4", "bool"])
def test_adr0020_d11_integers_are_equal_or_wrong(dtype: str) -> None:
    values = narrow(np.array([0, 1, 1, 0]), dtype)
    assert compare("t", values, np.array([0, 1, 1, 0]), dtype) is None
    failure = compare("t", values, narrow(np.array([0, 1, 0, 0]), dtype), dtype)
    assert failure is not None and failure.index == (2,) and tolerance_text(dtype) == f"{dtype}: exact"


@pytest.mark.parametrize(("dtype", "numpy"), [("f8e4m3", ml_dtypes.float8_e4m3fn), ("f8e5m2", ml_dtypes.float8_e5m2)])
def test_f8_may_be_one_step_off_and_not_two(dtype: str, numpy: Any) -> None:
    """Every finite number against its neighbours, one and two bit patterns away."""
    last = 0x7E if dtype == "f8e4m3" else 0x7B
    every = np.arange(last + 1, dtype=np.uint8).view(numpy)
    assert np.isfinite(every.astype(np.float32)).all()
    assert compare("t", every[1:], every[:-1], dtype) is None and compare("t", every[:-1], every[1:], dtype) is None
    # Two steps up from the start of a binade are too many: rtol is one step there.
    mantissa = 3 if dtype == "f8e4m3" else 2
    begin = 4 << mantissa
    assert compare("t", every[begin + 2 : begin + 3], every[begin : begin + 1], dtype) is not None


def test_nan_agrees_with_nan_and_with_nothing_else() -> None:
    nan, inf = np.array([np.nan, np.inf], np.float32), np.array([np.nan, -np.inf], np.float32)
    assert compare("t", nan, nan, "f32") is None
    failure = compare("t", nan, inf, "f32")
    assert failure is not None and failure.index == (1,)
    failure = compare("t", nan, np.array([0.0, np.inf]), "f32")
    assert failure is not None and failure.index == (0,) and failure.differing == 1


def test_another_shape_is_a_failure() -> None:
    found = DataExecutor(gemm_log(), outputs=[Output("c", "hbm", 0x100, (2, 2), "f16")]).verify({"c": np.zeros(4)})
    assert str(found.failures[0]) == "c: its shape is (2, 2), and that of the reference (4,)"


def test_a_tensor_that_nothing_wrote_is_a_failure() -> None:
    found = DataExecutor(gemm_log(), outputs=[Output("d", "hbm", 0x200, (1,), "f16")]).verify({"d": np.zeros(1)})
    text = "d: it is not there: hbm[0x200]: of the 2 bytes from here on the one at 0x200 was never written"
    assert str(found.failures[0]) == text


def test_an_element_that_no_op_wrote_has_nobody_to_blame() -> None:
    found = DataExecutor(gemm_log(), outputs=[Output("a", "hbm", 0, (2, 2), "f16")]).verify({"a": A + 1})
    assert str(found.failures[0]).endswith("; 4 of 4 elements differ; no op of the log wrote it")


def test_blame_goes_back_through_tiles_to_what_computed_them() -> None:
    """Each column of A goes through the scratchpad into a column of the result; the second one is negated in flight."""
    messages: list[tuple[str, Any]] = []
    for j in range(2):
        x, y = tile(0, (2, 1)), tile(4, (2, 1))
        messages.append((DMA, DmaReadCmd(x, 2 * j, 4, src_strides=(4, 2), line=f"k.py:{j}1")))
        if j:
            messages.append((MATH, MathCmd("neg", [x], y, line="k.py:12")))
        messages.append((DMA, DmaWriteCmd(y if j else x, 0x100 + 2 * j, 4, dst_strides=(4, 2), line=f"k.py:{j}3")))
    log = log_of(*messages)
    log.record_write(-1.0, "host", "hbm", 0, A, virtual_addr=0x8000)
    outputs = [Output("y", "hbm", 0x100, (2, 2), "f16")]
    assert DataExecutor(log, outputs=outputs).verify({"y": A * [1, -1]})
    negated = DataExecutor(log, outputs=outputs).verify({"y": A})
    assert negated.failures[0].index == (0, 1) and negated.failures[0].line == "k.py:12"
    assert [one.partition(" (")[0] for one in negated.failures[0].ops] == ["moved by op 4", "computed by op 3"]
    copied = DataExecutor(log, outputs=outputs).verify({"y": [[1, -2], [0, -4]]})  # type: ignore[dict-item]
    assert copied.failures[0].index == (1, 0)
    assert [one.partition(" (")[0] for one in copied.failures[0].ops] == ["moved by op 1", "moved by op 0", "moved by op 5"]


def test_adr0020_d11_debug_mode_compares_every_op() -> None:
    executor = DataExecutor(gemm_log(), debug=True).run()
    assert [one.record.op_name for one in executor.boundaries] == ["dma_read", "dma_read", "gemm_f16", "dma_write"]
    assert executor.verify(A @ B, ops={2: A @ B}).checked == ("hbm[0x100]", "op 2")

    def reference(record: OpRecord, inputs: Any) -> Array | None:
        return np.asarray(inputs[0] @ inputs[1] + 1) if record.op_kind == "gemm" else None

    found = executor.verify(A @ B, ops=reference)
    assert str(found.failures[0]) == (
        "op 2[0, 0]: expected 20.0, got 19.0 (f16: rtol 0.001, atol 0.001); 4 of 4 elements differ; "
        "computed by op 2 (gemm_f16 at sip0.cube0.pe0.pe_gemm, k.py:3)"
    )
    with pytest.raises(InputError) as caught:
        DataExecutor(gemm_log()).verify(A @ B, ops={})
    text = "verify: results of single ops are kept only in debug mode; use DataExecutor(..., debug=True)"
    assert str(caught.value) == text


def test_what_phase_1_computed_itself_is_verified() -> None:
    x, total = tile(0, (4,)), tile(8, (1,), "f32")
    for value, ok in ((10.0, True), (11.0, False)):
        msg = MathCmd("sum", [x], total, value=np.array([value], np.float32), line="k.py:2")
        log = log_of((DMA, DmaReadCmd(x, 0, 8)), (MATH, msg), (DMA, DmaWriteCmd(total, 0x100, 4)))
        assert log[1].params["materialized_in_phase1"]
        found = DataExecutor(log).verify(np.array([10.0]))
        assert found.ok is ok and found.checked == ("hbm[0x100]", "op 1")
        assert ok or found.failures[0].line == "k.py:2"


def test_it_must_be_clear_which_tensor_is_meant() -> None:
    both = [Output("c", "hbm", 0x100, (2, 2), "f16"), Output("d", "hbm", 0x100, (4,), "f16")]
    apart = log_of(*[(DMA, DmaWriteCmd(tile(0, (4,), space="hbm"), addr, 8)) for addr in (0x100, 0x200)])
    remedy = "name the outputs: DataExecutor(op_log, outputs=[Output(...)])"
    unknown = "but there is no output with this name; outputs"
    cases: list[tuple[DataExecutor, Any, str]] = [
        (DataExecutor(gemm_log(), outputs=both), A, "one array is given for 2 outputs; name them: c, d"),
        (DataExecutor(gemm_log()), {"c": A}, f'expected = "c", {unknown}: none is named'),
        (DataExecutor(gemm_log(), outputs=both), {"e": A}, f'expected = "e", {unknown}: c, d'),
        (DataExecutor(apart), A, f"the log writes 2 ranges of HBM, and one array is given; {remedy}"),
        (DataExecutor(log_of()), A, f"the log writes nothing of HBM, and one array is given; {remedy}"),
        (DataExecutor(gemm_log()), np.zeros(3), f"the log writes 8 bytes of HBM, and (3,) of f16 takes 6; {remedy}"),
    ]
    for executor, expected, text in cases:
        with pytest.raises(InputError) as caught:
            executor.verify(expected)
        assert str(caught.value) == f"verify: {text}"


def test_two_verifications_are_one() -> None:
    joined = Verification(("a",)).joined(Verification(("b",), (Failure("b", "it is not there"),)))
    assert joined.checked == ("a", "b") and not joined.ok and str(joined) == "1 of 2 tensors as expected\nb: it is not there"
