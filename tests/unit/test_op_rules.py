"""Records that no logger made: what no op can have is refused before anything is replayed, with op, field and rule."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpRecord
from tests.op_logs import holding

A = np.array([[1, 2, 3], [4, 5, 6]], np.float16)
B = np.array([[1, 0], [0, 1], [2, 2]], np.float16)
TOP = 4611686018427387903
COPY: dict[str, Any] = {"src_space": "hbm", "src_addr": 0, "dst_space": "tcm", "dst_addr": 64, "shape": (2, 3), "dtype": "f16"}
GEMM: dict[str, Any] = {
    "src_a_addr": 0, "src_b_addr": 16, "dst_addr": 64, "shape_a": (2, 3), "shape_b": (3, 2), "shape_out": (2, 2),
    "dtype_in": "f16", "dtype_out": "f16", "src_a_space": "hbm", "src_b_space": "hbm", "dst_space": "tcm",
}  # fmt: skip
MATH: dict[str, Any] = {
    "input_addrs": [0], "input_shapes": [(2, 3)], "input_spaces": ["hbm"], "input_dtypes": ["f16"], "dst_addr": 64,
    "dst_space": "tcm", "shape_out": (2, 3), "dtype": "f16", "scalars": {1: 2.0},
}  # fmt: skip
GOOD: dict[str, tuple[str, str, dict[str, Any]]] = {
    "memory": ("memory", "dma_read", COPY),
    "gemm": ("gemm", "gemm_f16", GEMM),
    "math": ("math", "add", MATH),
}


def replay_record(kind: str, changed: dict[str, Any], **fields: Any) -> MemoryStore:
    """Replay one record by hand: A and B are in HBM. Returns what memories hold then."""
    op_kind, name, params = GOOD[kind]
    given = {key: value for key, value in {**params, **changed}.items() if value is not GONE}
    made = {"t_start": 0.0, "t_end": 1.0, "component_id": "pe", "op_kind": op_kind, "op_name": name, "op_id": 7}
    return DataExecutor([OpRecord(**{**made, "params": given, **fields})], holding(hbm={0: A, 16: B})).run().store


GONE = object()


@pytest.mark.parametrize(("kind", "result"), [("memory", A), ("gemm", A @ B), ("math", A + 2)])
def test_records_made_by_hand_are_replayed(kind: str, result: Array) -> None:
    assert replay_record(kind, {}).read("tcm", 64, result.shape, "f16").tolist() == result.tolist()


@pytest.mark.parametrize(
    ("kind", "changed", "rule"),
    [
        ("math", {"masked": True}, "scalars = 1, but its keys must be places from 0 to 0"),
        ("memory", {"shape": "ab"}, 'shape = "ab", but it must be a list of at most 32 integers from 0 on'),
        ("memory", {"shape": (2, -3)}, "shape = [2, -3], but it must be a list of at most 32 integers from 0 on"),
        ("memory", {"shape": (1 << 20, 1 << 20)}, "1048576], but its elements must have at most 1073741824 bytes"),
        ("memory", {"shape": (3,), "dtype": "i4"}, "shape = [3], but its elements of i4 must fill whole bytes"),
        ("memory", {"dtype": ["f16"]}, 'dtype = ["f16"], but it must be one of '),
        ("memory", {"dst_addr": "64"}, 'dst_addr = "64", but it must be an integer from 0 to ' + str(TOP)),
        ("memory", {"dst_addr": 1 << 62}, f"dst_addr = {TOP + 1}, but it must be an integer from 0 to {TOP}"),
        ("memory", {"dst_addr": 65}, "it cannot be moved: tcm[0x41]: the address is not a multiple"),
        ("memory", {"src_strides": (6,)}, "src_strides = [6], but it must be a list of integers, one for each axis"),
        ("memory", {"snapshot": np.zeros(3, np.float16)}, "but it must be an array of f16 of the shape (2, 3)"),
        ("memory", {"shape": GONE}, "nbytes = null, but it is required"),
        ("memory", {"shape": GONE, "src_addr": GONE, "dst_addr": GONE}, "nbytes = null, but it is required"),
        ("gemm", {"shape_b": (2, 2)}, "shape_b = [2, 2], but it must fit shape_a, whose rows have 3 elements"),
        ("gemm", {"shape_a": (3,)}, "shape_a = [3], but it must have at least two axes"),
        ("gemm", {"shape_out": (2, 9)}, "shape_out = [2, 9], but it must be [2, 2]"),
        ("gemm", {"dtype_in": GONE}, "dtype_in = null, but it is required"),
        ("gemm", {"transpose_a": 3}, "transpose_a = 3, but it must be true or false"),
        ("gemm", {"tile_k": -1}, "tile_k = -1, but it must be an integer from 0 on"),
        ("gemm", {"epilogue": [{"op": "and"}]}, 'epilogue[0].op = "and", but it must be a math op of floats'),
        ("gemm", {"epilogue": [{"op": "add", "addr": 0}]}, "epilogue[0].space = null, but it is required"),
        ("math", {"input_addrs": [0, 16]}, 'input_dtypes = ["f16"], but it must have 2 items'),
        ("math", {"input_addrs": [0] * 65}, "input_addrs = a list of 65 items, but it must be a list of at most 64 addresses"),
        ("math", {"input_addrs": 5}, "input_addrs = 5, but it must be a list of at most 64 addresses"),
        ("math", {"scalars": {4: 1.0}}, "scalars = 4, but its keys must be places from 0 to 1"),
        ("math", {"scalars": {1: "x"}}, 'scalars = "x", but its values must be numbers'),
        ("math", {"op": "nothing"}, 'op = "nothing", but there is no such math op'),
        ("math", {"op": "and"}, 'op = "and", but it takes no floats'),
        ("math", {"op": "sum", "masked": True}, 'op = "sum", but it takes at least 2 inputs, and has 1'),
        ("math", {"axis": "x"}, 'axis = "x", but it must be the number of an axis'),
        ("math", {"shape_out": (2, 4)}, "it cannot be computed: its result has the shape (2, 3), and not (2, 4)"),
        ("math", {"dst_addr": 65}, "it cannot write its result: tcm[0x41]: the address is not a multiple"),
    ],
)
def test_a_record_that_no_op_can_have_is_refused(kind: str, changed: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError) as caught:
        replay_record(kind, changed)
    assert str(caught.value).startswith(f"op 7 ({GOOD[kind][1]} at pe): ") and rule in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"t_start": float("nan")}, "t_start = nan, but it must be a number of nanoseconds"),
        ({"dependency_ids": 3}, "dependency_ids = 3, but it must be a list of op ids"),
        ({"params": [1]}, "params = [1], but it must be a mapping"),
        ({"op_name": None}, "op_name = null, but it must be text"),
    ],
)
def test_a_record_with_odd_fields_is_refused(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=re.escape(rule)):
        replay_record("memory", {}, **fields)


@pytest.mark.parametrize(
    ("kind", "field"),
    [("math", "op"), ("math", "math_op"), ("math", "dtype_acc"), ("math", "masked"), ("gemm", "dtype_b"), ("gemm", "layout_a")],
)
def test_an_array_where_none_belongs_is_refused(kind: str, field: str) -> None:
    """numpy gives no truth value of an array, and compares it by element."""
    problem = f"op 7 ({GOOD[kind][1]} at pe): {field} = [1 2], but it must not be an array"
    with pytest.raises(InputError, match=re.escape(problem)):
        replay_record(kind, {field: np.array([1, 2])})


@pytest.mark.parametrize(
    ("op", "how", "rule"),
    [("gather", 1, "index 3 is out of bounds for axis 1 with size 3"), ("concat", True, "an integer is required for the axis")],
)
def test_a_move_to_a_place_that_does_not_exist_is_refused(op: str, how: Any, rule: str) -> None:
    """The indices are known only during the replay."""
    inputs = {"input_addrs": [0, 0], "input_shapes": [(2, 3)] * 2, "input_spaces": ["hbm"] * 2, "input_dtypes": ["f16"] * 2}
    with pytest.raises(InputError, match=rule):
        replay_record("math", {**inputs, "math_op": op, "scalars": {0: how}})
