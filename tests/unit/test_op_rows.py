"""What the op log says of each message: the rows of seed ADR-0052 D3, and seed ADR-0020 D5's further fields."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernbench.common.handles import PendingDataError, TensorHandle
from kernbench.common.pe_commands import (
    CompositeCmd,
    DmaReadCmd,
    DmaWriteCmd,
    Epilogue,
    GemmCmd,
    MathCmd,
    MemoryWriteMsg,
    MsgBase,
)
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.sim_engine.ops.params import Params, shared
from tests.op_logs import MATH, copied, logged, tile


def test_adr0052_d3_1_dma_read() -> None:
    record = logged(DmaReadCmd(tile(0x40, name="x"), 0x1000, 16, line="k.py:3"))
    assert (record.op_kind, record.op_name) == ("memory", "dma_read")
    assert {key: record.params[key] for key in ("src_addr", "nbytes", "handle_id")} == {
        "src_addr": 0x1000,
        "nbytes": 16,
        "handle_id": "x",
    }
    further = {"src_space": "hbm", "dst_space": "tcm", "dst_addr": 0x40, "shape": (2, 4), "dtype": "f16", "src_strides": None}
    assert record.params == {"src_addr": 0x1000, "nbytes": 16, "handle_id": "x", "line": "k.py:3", **further}


def test_adr0052_d3_2_dma_write() -> None:
    record = logged(DmaWriteCmd(tile(0x40, name="x"), 0x1000, 16))
    assert (record.op_kind, record.op_name) == ("memory", "dma_write")
    seed = {"src_space": "tcm", "src_addr": 0x40, "shape": (2, 4), "dtype": "f16", "dst_space": "hbm", "dst_addr": 0x1000}
    assert record.params == {**seed, "nbytes": 16, "handle_id": "x", "snapshot": None, "dst_strides": None, "line": ""}


def test_adr0052_d3_3_gemm() -> None:
    a, b, out = tile(0, (4, 8), "bf16"), tile(64, (8, 2), "bf16", "sram"), tile(128, (4, 2), "f32")
    record = logged(GemmCmd(a, b, out, 4, 8, 2))
    assert (record.op_kind, record.op_name) == ("gemm", "gemm_bf16")
    seed = {"src_a_addr": 0, "src_b_addr": 64, "dst_addr": 128, "shape_a": (4, 8), "shape_b": (8, 2), "shape_out": (4, 2)}
    seed |= {"dtype_in": "bf16", "dtype_out": "f32", "m": 4, "k": 8, "n": 2}
    seed |= {"src_a_space": "tcm", "src_b_space": "sram", "dst_space": "tcm"}
    assert {key: record.params[key] for key in seed} == seed


def test_adr0052_d3_4_math() -> None:
    condition, x = tile(0, (4,), "bool"), tile(8, (4,), "f32", "sram")
    record = logged(MathCmd("where", [condition, x, 0.5], tile(64, (4,), "f16")))
    assert (record.op_kind, record.op_name) == ("math", "where")
    seed: dict[str, Any] = {"input_addrs": [0, 8], "input_shapes": [(4,), (4,)], "input_spaces": ["tcm", "sram"]}
    seed |= {"input_dtypes": ["bool", "f32"]}
    seed |= {"dst_addr": 64, "dst_space": "tcm", "shape_out": (4,), "dtype": "f16", "axis": None}
    assert {key: record.params[key] for key in seed} == seed
    assert record.params["input_snapshots"] == [None, None]
    reduced = logged(MathCmd("sum", [x], tile(64, (1,), "f32"), axis=0)).params
    assert reduced["axis"] == 0


def test_adr0052_d3_5_composite() -> None:
    a, b, out = tile(0, (4, 8), space="hbm"), tile(64, (8, 2)), tile(0x200, (4, 2), space="hbm")
    bias = tile(32, (2,), "f32")
    steps = [Epilogue("add", bias), Epilogue("mul", 2.0), Epilogue("relu")]
    record = logged(CompositeCmd("gemm", 0x200, 16, GemmCmd(a, b, out, 4, 8, 2, tile_k=4), steps))
    assert (record.op_kind, record.op_name) == ("gemm", "composite_gemm")
    seed: dict[str, Any] = {"op": "gemm", "out_addr": 0x200, "out_nbytes": 16, "src_a_addr": 0, "src_b_addr": 64}
    seed |= {"shape_a": (4, 8), "shape_b": (8, 2), "dtype_in": "f16", "dtype_out": "f16", "src_a_space": "hbm"}
    seed |= {"src_b_space": "tcm", "dst_space": "hbm", "dst_addr": 0x200}
    assert {key: record.params[key] for key in seed} == seed and record.params["tile_k"] == 4
    place = {"addr": 32, "space": "tcm", "shape": (2,), "dtype": "f32"}
    assert record.params["epilogue"] == [{"op": "add", **place}, {"op": "mul", "scalar": 2.0}, {"op": "relu"}]
    other = logged(CompositeCmd("math", 0x200, 16, MathCmd("exp", [a], out)))
    assert (other.op_kind, other.op_name) == ("math", "composite_math")
    assert {key: other.params[key] for key in ("op", "math_op", "out_addr", "out_nbytes", "input_addrs")} == {
        "op": "math",
        "math_op": "exp",
        "out_addr": 0x200,
        "out_nbytes": 16,
        "input_addrs": [0],
    }


def test_adr0052_d3_6_ipcq_copy() -> None:
    record = copied(OpLogger(), dependency_ids=[7], line="k.py:9")
    assert (record.op_kind, record.op_name, record.t_start, record.t_end) == ("memory", "ipcq_copy", 3.0, 4.0)
    seed = {"src_space": "tcm", "src_addr": 0, "dst_space": "sram", "dst_addr": 64, "shape": (4,), "dtype": "f32", "nbytes": 16}
    assert record.params == {**seed, "snapshot": None, "line": "k.py:9"} and record.dependency_ids == [7]


def test_adr0052_d3_7_unknown() -> None:
    class Doorbell(MsgBase):
        data_op = True

    record = logged(Doorbell())
    assert (record.op_kind, record.op_name, record.params) == ("unknown", "Doorbell", {})


def test_a_subclass_of_a_command_is_logged_as_the_command() -> None:
    class Prefetch(DmaReadCmd):
        pass

    assert logged(Prefetch(tile(0), 64, 16)).op_name == "dma_read"


def test_known_elements_written_while_kernels_run_are_a_row_of_their_own() -> None:
    values = np.arange(4, dtype=np.float16)
    log = OpLogger(MemoryStore())
    log.record_write(2.0, "host", "hbm", 0x100, values, virtual_addr=0x9000)
    msg = MemoryWriteMsg("tcm", 8, values)
    log.record_start(3.0, "pe", msg)
    log.record_end(4.0, "pe", msg)
    values[:] = 0
    host, own = log.records
    assert (host.op_kind, host.op_name, host.t_start, host.t_end) == ("memory", "memory_write", 2.0, 2.0)
    place = {"dst_space": "hbm", "dst_addr": 0x100, "virtual_addr": 0x9000, "shape": (4,), "dtype": "f16", "nbytes": 8}
    assert {key: host.params[key] for key in place} == place and own.params["dst_addr"] == 8
    assert host.params["snapshot"].tolist() == own.params["snapshot"].tolist() == [0, 1, 2, 3]


def test_adr0020_d5_gemm_params_keep_transposes_layouts_and_accumulation() -> None:
    a, b, out = tile(0, (8, 4)), tile(64, (2, 8)), tile(128, (4, 2))
    flags: dict[str, Any] = {"transpose_a": True, "transpose_b": True, "layout_a": "col_major", "layout_b": "row_major"}
    flags["layout_out"] = "col_major"
    params = logged(GemmCmd(a, b, out, 4, 8, 2, acc=out, dtype_acc="f16", **flags)).params
    wanted = {**flags, "dtype_acc": "f16", "addr_space": "tcm", "acc_addr": 128, "acc_space": "tcm", "acc_dtype": "f16"}
    assert {key: params[key] for key in wanted} == wanted


def test_adr0020_d5_math_params_keep_scalars_masks_and_dims() -> None:
    msg = MathCmd("sub", [2, tile(0)], tile(64), keep_dims=True, mask=tile(32, dtype="bool"), other=-1.0)
    params = logged(msg).params
    wanted = {"op": "sub", "scalars": {0: 2}, "keep_dims": True, "masked": True, "other": -1.0, "addr_space": "tcm"}
    assert {key: params[key] for key in wanted} == wanted and params["input_addrs"] == [0, 32]


def test_adr0020_d5_scalars_of_other_types_are_other_scalars() -> None:
    log = OpLogger()
    for scalar in (1, 1.0, True, 0.0, -0.0):
        msg = MathCmd("add", [tile(0), scalar], tile(64))
        log.record_start(0.0, MATH, msg)
        log.record_end(0.0, MATH, msg)
    assert [repr(one.params["scalars"][1]) for one in log] == ["1", "1.0", "True", "0.0", "-0.0"]
    assert len({id(shared({"op": scalar}).template) for scalar in (1, 1.0, True, 0.0, -0.0)}) == 5


def test_params_are_a_mapping_that_cannot_be_changed() -> None:
    params = logged(DmaReadCmd(tile(0), 64, 16)).params
    assert isinstance(params, Params) and len(params) == len(dict(params)) and "src_addr" in params
    assert params.get("nothing") is None and repr(params) == repr(dict(params))
    with pytest.raises(KeyError):
        params["nothing"]
    again = pickle.loads(pickle.dumps(params))
    assert again == params and pickle.loads(pickle.dumps(params)).template is again.template


def test_a_pending_handle_does_not_show_its_elements() -> None:
    handle = TensorHandle("y", 64, (2,), "f16", op="gemm_f16", line="k.py:7")
    assert handle.pending and handle.nbytes == 4
    looks: dict[str, Callable[[], Any]] = {
        "its data": lambda: handle.data,
        "a numpy array of it": lambda: np.asarray(handle),
        "an element of it": lambda: handle[0],
        "its truth value": lambda: bool(handle),
    }
    for wanted, look in looks.items():
        with pytest.raises(PendingDataError) as caught:
            look()
        assert str(caught.value) == (
            f"k.py:7: y (the result of gemm_f16) is pending in Phase 1, so {wanted} cannot be had; "
            "branch on what tl.load returns, or look at results after Phase 2"
        )
    with pytest.raises(PendingDataError, match=r"^kernel: z is pending in Phase 1"):
        _ = DmaWriteCmd(TensorHandle("z", 0, (1,), "f16"), 64, 2).data
    known = TensorHandle("x", 0, (2,), "f16", value=np.array([1, 2], np.float16))
    assert not known.pending and known[1] == 2 and np.asarray(known).tolist() == [1, 2] and known.data is known.value
    assert bool(TensorHandle("c", 0, (), "bool", value=np.array(True)))
