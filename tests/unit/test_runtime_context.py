"""`ctx` without a machine: where tensors lie, what kernels get for them, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench import load_config
from kernbench.common.errors import InputError
from kernbench.policy.placement import DPPolicy
from kernbench.runtime_api.context import Context
from kernbench.runtime_api.pe_set import PeSet, check_call, chosen_pes, deal, grid_of
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from tests.unit.test_runtime_allocator import SLICE, SYSTEM

ROWS = DPPolicy(cube="row_wise", pe="row_wise")


class FakeHost:
    """Notes what it is asked for; time stands at `cycle`."""

    def __init__(self) -> None:
        self.cycle = 0
        self.launched: list[tuple[str, Any]] = []
        self.copied: list[tuple[str, Any, bool]] = []
        self.waits: list[tuple[Any, ...]] = []

    def launch(self, name: str, work: Any) -> str:
        self.launched.append((name, work))
        return name

    def copy(self, endpoint: str, pieces: Any, *, write: bool) -> str:
        self.copied.append((endpoint, pieces, write))
        return f"copy {len(self.copied)}"

    def wait(self, *things: Any) -> None:
        self.waits.append(things)


def context(log: bool = True) -> Context:
    store = MemoryStore()
    made = Context(PeSet(load_config(SYSTEM)), {}, store, OpLogger(store) if log else None)
    made.host = FakeHost()  # type: ignore[assignment]
    return made


def kernel(x: Any, tl: Any) -> None:
    """Never called here."""


def scaled(x: Any, factor: int, tl: Any) -> None:
    """Never called here."""


def test_packed_tensors_are_the_same_for_every_pe() -> None:
    ctx = context()
    x = ctx.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), name="x")
    pointers = [x.pointer(pe, "") for pe in range(4)]
    assert [int(one) for one in pointers] == [ctx.memory.virtual_base] * 4
    assert (pointers[0].shape, pointers[0].dtype, pointers[0].itemsize, pointers[0].shard) == ((2, 3), "f32", 4, None)
    assert repr(pointers[0]) == "DevicePointer(0x1000000000000, x (2, 3) f32)"
    assert type(pointers[0] + 4) is int


def test_shards_lie_in_their_pes_slices_and_one_behind_the_other_in_the_window() -> None:
    ctx = context()
    ctx.zeros((64,), "i8", name="before")
    x = ctx.from_numpy(np.arange(10, dtype=np.float32).reshape(5, 2), name="x", placement=ROWS)
    # 5 rows over two cubes are 3 and 2, over their PEs 2, 1, 1, 1; rows are of 8 bytes.
    assert [(part.pe, part.physical, part.nbytes) for part in x.parts] == [
        (0, 256, 16), (1, SLICE, 8), (2, 2 * SLICE, 8), (3, 3 * SLICE, 8),
    ]  # fmt: skip
    pointers = [x.pointer(pe, "") for pe in range(4)]
    assert [int(one) - pointers[0].window for one in pointers] == [0, 16, 24, 32]
    assert [one.shape for one in pointers] == [(2, 2), (1, 2), (1, 2), (1, 2)]
    assert pointers[2].shard.offset == (3, 0) and pointers[2].tensor_shape == (5, 2)


def test_deployment_writes_both_addresses() -> None:
    ctx = context()
    x = ctx.from_numpy(np.arange(10, dtype=np.float32).reshape(5, 2), name="x", placement=ROWS)
    ctx.deploy_tensor(x)
    for part, rows in zip(x.parts, ([[0, 1], [2, 3]], [[4, 5]], [[6, 7]], [[8, 9]]), strict=True):
        for address in (part.physical, part.virtual):
            assert ctx._store.read("hbm", address, part.shape, "f32").tolist() == rows
    assert ctx.to_numpy(x).tolist() == np.arange(10).reshape(5, 2).tolist()
    assert len(ctx._log or ()) == 0  # before the first launch memories begin so


def test_replicas_hold_the_same() -> None:
    ctx = context()
    x = ctx.full((3,), 7, "i32", name="x", placement=DPPolicy())
    ctx.deploy_tensor(x)
    assert [ctx._store.read("hbm", part.physical, (3,), "i32").tolist() for part in x.parts] == [[7, 7, 7]] * 4


def test_a_packed_tensor_across_slices_is_whole() -> None:
    ctx = context()
    values = np.arange(1500, dtype=np.float32)
    x = ctx.from_numpy(values, name="x")
    ctx.deploy_tensor(x)
    assert [part.nbytes for part in x.parts] == [SLICE, 1500 * 4 - SLICE]
    assert np.array_equal(ctx.to_numpy(x), values)


@pytest.mark.parametrize(
    ("dtype", "stored"), [("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("i4", ml_dtypes.int4), ("f16", np.float16)]
)
def test_inputs_are_rounded_copies(dtype: str, stored: Any) -> None:
    ctx = context()
    values = np.array([1.3, -2.0, 3.0, 100.7])
    x = ctx.from_numpy(values, name="x", dtype=dtype)
    assert ctx.inputs["x"].dtype == stored and x.host is ctx.inputs["x"]
    values[0] = 50
    expected = [1, -2, 3, 7] if dtype == "i4" else np.array([1.3, -2, 3, 100.7], np.float32).astype(stored).tolist()
    assert ctx.inputs["x"].tolist() == expected
    with pytest.raises(ValueError, match="read-only"):
        ctx.inputs["x"][0] = 1


def test_without_a_dtype_elements_keep_their_type() -> None:
    ctx = context()
    assert ctx.from_numpy(np.array([1, 2], np.int32)).dtype == "i32"
    assert ctx.from_numpy(np.array([True, False])).dtype == "bool"
    assert [one.name for one in ctx.tensors.values()] == ["tensor0", "tensor1"]


def test_a_launch_gives_each_pe_its_shard_and_deploys_what_it_uses() -> None:
    ctx = context()
    x = ctx.from_numpy(np.arange(8, dtype=np.float32), name="x", placement=ROWS)
    ctx.launch("one", scaled, x, 3, grid=6, pes=["sip0.cube1.pe0", 1])
    (name, work), = ctx.host.launched  # type: ignore[attr-defined]
    assert name == "one" and x.deployed
    assert [(one.pe, one.programs, one.grid) for one in work] == [
        ("sip0.cube1.pe0", (0, 2, 4), (6,)), ("sip0.cube0.pe1", (1, 3, 5), (6,)),
    ]  # fmt: skip
    assert [one.args[0].shard.offset for one in work] == [(4,), (2,)] and work[0].args[1] == 3
    assert [one.kernel for one in work] == [scaled, scaled]


def test_what_is_deployed_after_a_launch_is_logged_and_waits() -> None:
    ctx = context()
    x = ctx.from_numpy(np.zeros(4, np.float32), name="x")
    ctx.launch("one", kernel, x)
    y = ctx.from_numpy(np.ones(4, np.float32), name="y")
    ctx.host.cycle = 25  # type: ignore[misc]
    ctx.deploy_tensor(y)
    assert ctx.host.waits == [()] and ctx._log is not None  # type: ignore[attr-defined]
    (record,) = ctx._log
    assert (record.t_start, record.component_id, record.op_name) == (25.0, "host", "memory_write")
    assert record.params["virtual_addr"] == y.virtual and record.params["dst_addr"] == y.parts[0].physical


def test_by_pcie_the_endpoint_of_the_sip_copies_each_slice() -> None:
    ctx = context()
    x = ctx.from_numpy(np.arange(10, dtype=np.float32), name="x", placement=DPPolicy(pe="row_wise", cubes=1))
    ctx.deploy_tensor(x, through="pcie")
    host: Any = ctx.host
    assert host.copied == [("sip0.io0.pcie_ep", [(0, 20)], True), ("sip0.io0.pcie_ep", [(SLICE, 20)], True)]
    assert host.waits == [("copy 1", "copy 2")] and x.deployed


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda c: c.zeros((2, 0), name="x"), "tensor x: shape: its axes must be integers of at least 1, and it is (2, 0)"),
        (lambda c: c.zeros((2.5,)), "tensor: shape: its axes must be integers of at least 1, and it is (2.5,)"),
        (
            lambda c: c.zeros((3,), "i4", name="x"),
            "tensor x: 3 elements of i4 do not fill whole bytes; make the last axis even",
        ),
        (
            lambda c: [c.zeros((2,), name="x") for _ in range(2)],
            "tensor x: a tensor of that name already exists; give each its own name",
        ),
        (
            lambda c: c.zeros((2,), name="x", placement="row_wise"),
            'tensor x: placement = "row_wise", but it must be a DPPolicy or None',
        ),
        (
            lambda c: c.deploy_tensor(c.empty((2,), name="x")),
            "tensor x: it has no elements to deploy; make it by zeros, full or from_numpy",
        ),
        (
            lambda c: c.deploy_tensor(c.zeros((2,), name="x"), through="usb"),
            'deploy_tensor: through = "usb", but it must be instant or pcie',
        ),
        (
            lambda c: c.to_numpy(c.empty((2,), name="x")),
            "tensor x: hbm[0x0]: of the 8 bytes from here on the one at 0x0 was never written; store all of its elements first",
        ),
        (
            lambda c: c.launch("one", kernel, c.zeros((4,), name="x", placement=DPPolicy(cubes=1))),
            "tensor x: sip0.cube1.pe0 has no shard of it; launch on the PEs that its placement names (pes=...), "
            "or place it on more",
        ),
        (
            lambda c: [c.output("out", c.zeros((2,))) for _ in range(2)],
            "output out: there is an output of that name already; give each its own name",
        ),
    ],
)
def test_a_wrong_call_of_the_context_is_refused(call: Any, text: str) -> None:
    with pytest.raises(InputError) as error:
        call(context())
    assert str(error.value) == text


def test_an_npu_has_no_pcie() -> None:
    store = MemoryStore()
    ctx = Context(PeSet(load_config({})), {}, store, None)
    with pytest.raises(InputError) as error:
        ctx.deploy_tensor(ctx.zeros((2,), name="x"), through="pcie")
    assert str(error.value) == (
        "deploy_tensor: the copy of a tensor from the host needs a PCIe endpoint, but machine is a single NPU; "
        "copy in zero time (through=instant); "
        "use one of these machines: pod_8sip, single_cube, sip_4x4, two_sips"
    )


def test_results_need_an_op_log() -> None:
    ctx = context(log=False)
    x = ctx.empty((2,), name="x")
    ctx._store.mark_pending("hbm", x.parts[0].physical, 8, 0)
    with pytest.raises(InputError) as error:
        ctx.to_numpy(x)
    assert str(error.value) == (
        "tensor x: it holds results of kernels, but this run keeps only times; keep an op log: kbsim run --verify does"
    )


@pytest.mark.parametrize(
    ("pes", "text"),
    [
        (5, "launch k: pes = 5, but it must be 1 to 4, the PEs of the machine"),
        (0, "launch k: pes = 0, but it must be 1 to 4, the PEs of the machine"),
        ([4], "launch k: pes = 4, but the machine has PEs 0 to 3, called sip0.cube0.pe0 to sip0.cube1.pe1"),
        (["pe0"], 'launch k: pes = "pe0", but the machine has PEs 0 to 3, called sip0.cube0.pe0 to sip0.cube1.pe1'),
        ([1, "sip0.cube0.pe1"], 'launch k: pes = "sip0.cube0.pe1", but sip0.cube0.pe1 stands twice; name each PE once'),
        ([], 'launch k: pes = "[]", but it must be a number of PEs, or a list of numbers or names'),
        (True, 'launch k: pes = "True", but it must be a number of PEs, or a list of numbers or names'),
    ],
)
def test_refused_pes(pes: Any, text: str) -> None:
    with pytest.raises(InputError) as error:
        chosen_pes("launch k", pes, PeSet(load_config(SYSTEM)))
    assert str(error.value) == text


@pytest.mark.parametrize("grid", [0, (), (2, 0), (1, 2, 3, 4), ("2",)])
def test_refused_grids(grid: Any) -> None:
    with pytest.raises(InputError, match="launch k: grid: it must be one to 3 integers of at least 1, and it is"):
        grid_of("launch k", grid, 4)


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        (
            lambda x, y, tl: None,
            (1,),
            "<lambda> cannot be called with the 1 arguments given and tl: missing a required argument: 'y'",
        ),
        (lambda x: None, (1,), "<lambda> cannot be called with the 1 arguments given and tl: too many positional arguments"),
        (kernel, (1, 2), "kernel cannot be called with the 2 arguments given and tl: multiple values for argument 'tl'"),
        (3, (), "the kernel cannot be called with the 0 arguments given and tl: 3 is not a callable object"),
    ],
)
def test_refused_calls(function: Any, args: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InputError) as error:
        check_call("launch k", function, args)
    assert str(error.value) == f"launch k: {said}; a kernel takes the launch's arguments in order, then tl"


def test_kernels_take_tl_by_name_or_last() -> None:
    check_call("k", kernel, (1,))
    check_call("k", lambda x, *, tl: None, (1,))
    check_call("k", lambda x, context: None, (1,))
    check_call("k", lambda *everything: None, (1, 2, 3))


def test_programs_are_dealt_in_turn() -> None:
    assert list(deal([3, 1], (5,))) == [(3, (0, 2, 4)), (1, (1, 3))]
    assert list(deal([0, 1, 2], (2,))) == [(0, (0,)), (1, (1,))]
    assert grid_of("k", None, 7) == (7,) and grid_of("k", (2, 3), 7) == (2, 3)
