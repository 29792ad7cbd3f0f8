"""What Triton's interpreter cannot be asked: masks and branches on what is computed, rounding to 8 and 16 bits, torch."""

from __future__ import annotations

import importlib.util

import ml_dtypes
import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.triton.language.extra import libdevice
from kernbench.triton.tools.tensor_descriptor import TensorDescriptor

RNG = np.random.default_rng(3)


@triton.jit
def positive(x_ptr, out_ptr, sum_ptr, most_ptr, loaded_ptr, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + places)
    tl.store(out_ptr + places, x, mask=(x > 0) & (places < BLOCK - 1))
    tl.atomic_add(sum_ptr + places % 4, x, mask=x > 0)
    tl.atomic_max(most_ptr + places % 4, x, mask=x < 0)
    tl.store(loaded_ptr + tl.program_id(0) * BLOCK + places, tl.load(x_ptr + places + 8, mask=x > 0, other=5.0))


def test_masks_that_are_computed_from_floats() -> None:
    """Each lane is positive in one program, so no store of another may undo it. Lanes past the end are left out."""
    owner = RNG.integers(0, 4, 64)
    x = np.where(owner == np.arange(4)[:, None], RNG.random((4, 64)) + 1, -RNG.random((4, 64))).astype(np.float32)
    out, total, most, loaded = np.zeros(63, np.float32), np.zeros(4, np.float32), np.full(4, -9, np.float32), np.zeros_like(x)
    run = positive[(4,)](x, out, total, most, loaded, BLOCK=64)
    np.testing.assert_array_equal(out, x.max(0)[:63])
    np.testing.assert_allclose(total, np.where(x > 0, x, 0).reshape(-1, 4).sum(0), rtol=1e-5)
    np.testing.assert_array_equal(most, np.where(x < 0, x, -9).reshape(-1, 4).max(0))
    np.testing.assert_array_equal(loaded, np.where(x > 0, x.reshape(-1)[8:72], 5))
    assert run.notes == ["a mask that comes after the timing: all lanes inside of the tensor move, those of stores twice"]


@triton.jit
def pairs(a, b):
    if a > b:
        return b, a
    return a, b


@triton.jit
def sorted_pairs(x_ptr, low_ptr, all_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = tl.load(x_ptr + BLOCK + tl.arange(0, BLOCK))
    low, high = tl.map_elementwise(pairs, x, y)
    tl.store(low_ptr + tl.arange(0, BLOCK), high - low)
    tl.store(all_ptr + tl.arange(0, BLOCK), tl.map_elementwise(pairs, x, pack=2))


def test_functions_of_neighbours() -> None:
    x, low, every = RNG.standard_normal(64).astype(np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32)
    sorted_pairs[(1,)](x, low, every, BLOCK=32)
    np.testing.assert_array_equal(low, np.abs(x[:32] - x[32:]))
    np.testing.assert_array_equal(every, np.sort(x[:32].reshape(-1, 2), 1).reshape(-1))


def test_a_loop_on_elements_is_refused() -> None:
    @triton.jit
    def halved(x):
        while x > 1:
            x = x / 2
        return x

    @triton.jit
    def kernel(x_ptr):
        tl.store(x_ptr + tl.arange(0, 4), tl.map_elementwise(halved, tl.load(x_ptr + tl.arange(0, 4))))

    with pytest.raises(
        triton.TritonError, match=r"tl\.map_elementwise: there are more than 64 paths through the function; a loop"
    ):
        kernel[(1,)](np.ones(4, np.float32))


@triton.jit
def rounded(x_ptr, brain_ptr, e4_ptr, e5_ptr, N: tl.constexpr):
    places = tl.arange(0, N)
    x = tl.load(x_ptr + places)
    tl.store(brain_ptr + places, x.to(tl.bfloat16) * 3)
    tl.store(e4_ptr + places, x.to(tl.float8e4nv))
    tl.store(e5_ptr + places, (x * 1000).to(tl.float8e5))


def test_narrow_floats_round_to_even_and_f8_saturates() -> None:
    """Triton's interpreter cuts bf16 off and adds halves up; hardware rounds to nearest even, as ml_dtypes does."""
    x = (RNG.standard_normal(64) * 300).astype(np.float32)
    brain, e4, e5 = (np.zeros(64, kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))
    rounded[(1,)](x, brain, e4, e5, N=64)
    bits = x.astype(ml_dtypes.bfloat16).astype(np.float32) * 3
    np.testing.assert_array_equal(brain.view(np.uint16), bits.astype(ml_dtypes.bfloat16).view(np.uint16))
    assert np.abs(x).max() > 448 and np.abs(x).max() > 58
    np.testing.assert_array_equal(e4.view(np.uint8), x.clip(-448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
    np.testing.assert_array_equal(
        e5.view(np.uint8), (x * np.float32(1000)).clip(-57344, 57344).astype(ml_dtypes.float8_e5m2).view(np.uint8)
    )


@triton.jit
def four_bits(a_ptr, scale_ptr, out_ptr, N: tl.constexpr, GROUP: tl.constexpr):
    rows = tl.arange(0, N)[:, None]
    a = tl.load(a_ptr + rows * (N // 2) + tl.arange(0, N // 2)[None, :])
    scale = tl.load(scale_ptr + rows * (N // GROUP) + tl.arange(0, N // GROUP)[None, :])
    out = tl.dot_scaled(a, scale, "e2m1", tl.trans(a), scale, "e2m1")
    tl.store(out_ptr + rows * N + tl.arange(0, N)[None, :], out)


def test_products_of_four_bits_with_scales_of_eight() -> None:
    """A scale of f8e4m3 for each 16 numbers of 4 bits, two to a byte."""
    n, group = 32, 16
    bits = RNG.integers(0, 256, (n, n // 2)).astype(np.uint8)
    scale = RNG.random((n, n // group)).astype(ml_dtypes.float8_e4m3fn)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    wide = np.stack([values[bits & 15], values[bits >> 4]], 2).reshape(n, n) * np.repeat(scale.astype("f4"), group, 1)
    out = np.zeros((n, n), np.float32)
    four_bits[(1,)](bits, scale, out, N=n, GROUP=group)
    np.testing.assert_allclose(out, wide @ wide.T, rtol=1e-5, atol=1e-4)


@triton.jit
def hashed(x_ptr, out_ptr, table_ptr, N: tl.constexpr):
    key = tl.load(x_ptr + tl.arange(0, N)) * 0x9E3779B97F4A7C15
    tl.store(out_ptr + tl.arange(0, N), key >> 40)
    tl.atomic_max(table_ptr + (key % 4).to(tl.int32), key)


def test_arrays_of_uint64() -> None:
    x, out, table = RNG.integers(0, 2**64, 32, dtype=np.uint64), np.zeros(32, np.uint64), np.zeros(4, np.uint64)
    run = hashed[(1,)](x, out, table, N=32)
    key = x * np.uint64(0x9E3779B97F4A7C15)
    np.testing.assert_array_equal(table, [max([0, *key[key % np.uint64(4) == i].tolist()]) for i in range(4)])
    assert run.verify({"out_ptr": key >> np.uint64(40)}) and not run.verify({"out_ptr": key})


def test_functions_of_libdevice() -> None:
    n = 64
    i, x = RNG.integers(-(2**31), 2**31, n).astype(np.int32), RNG.standard_normal(n).astype(np.float32) * 9
    bits = i.view(np.uint32).tolist()
    cases = {
        "popc": [one.bit_count() for one in bits],
        "clz": [32 - one.bit_length() for one in bits],
        "ffs": [(one & -one).bit_length() for one in bits],
        "brev": np.array([int(f"{one:032b}"[::-1], 2) for one in bits], np.uint32).view(np.int32).tolist(),
        "float2int_rn": np.rint(x).astype(np.int32).tolist(),
        "float2int_rd": np.floor(x).astype(np.int32).tolist(),
        "float_as_int": x.view(np.int32).tolist(),
        "signbit": np.signbit(x).astype(np.int32).tolist(),
    }

    @triton.jit
    def kernel(i_ptr, x_ptr, out_ptr, name: tl.constexpr, N: tl.constexpr):
        places = tl.arange(0, N)
        given = tl.load(i_ptr + places) if name in ("popc", "clz", "ffs", "brev") else tl.load(x_ptr + places)
        tl.store(out_ptr + places, getattr(libdevice, name)(given))

    for name, expected in cases.items():
        out = np.zeros(n, np.int32)
        kernel[(1,)](i, x, out, name, N=n)
        assert out.tolist() == expected, name


def test_descriptors_say_what_is_wrong() -> None:
    x = np.zeros((4, 8), np.float32)
    for given, text in {
        ((4, 8), (8, 1), (4,)): "TensorDescriptor: shape, strides and block_shape have [2, 2, 1] axes; they must be equal",
        ((4, 8), (1, 8), (4, 4)): "TensorDescriptor: the last stride must be 1, but is 8; swap the axes",
    }.items():
        with pytest.raises(triton.TritonError) as caught:
            TensorDescriptor(x, *given)
        assert str(caught.value) == text


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_tensors_of_torch() -> None:
    import torch

    @triton.jit
    def kernel(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
        places = tl.arange(0, N)
        tl.store(out_ptr + places, tl.load(x_ptr + places).to(tl.float32) * 2 + tl.load(y_ptr + places))

    y = torch.arange(32, dtype=torch.float32)
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn):
        x, out = (torch.arange(32) % 8).to(kind), torch.zeros(64)
        run = kernel[(1,)](x, y, out[32:], N=32)
        assert torch.equal(out[32:], 2 * x.to(torch.float32) + y) and not out[:32].any(), kind
        assert run.verify({"out_ptr": (2 * x.to(torch.float32) + y).numpy()})
    brain = torch.zeros(32, dtype=torch.bfloat16)
    kernel[(1,)](y, y, brain, N=32)
    assert torch.equal(brain, (3 * y).to(torch.bfloat16))
    block = TensorDescriptor.from_tensor(torch.zeros(8, 16), [4, 16])
    assert block.strides == [16, 1] and block.shape == [8, 16]
    with pytest.raises(triton.TritonError, match="argument x_ptr: elements of complex64 are not on these"):
        kernel[(1,)](y.to(torch.complex64), y, brain, N=32)


def test_spinning_for_what_never_comes() -> None:
    @triton.jit
    def wait(flag_ptr):
        while tl.atomic_cas(flag_ptr, 1, 0) != 1:
            pass

    with pytest.raises(triton.TritonError) as caught, kernbench.machine("single_cube"):
        wait[(1,)](np.zeros(1, np.int32))
    text = str(caught.value)
    assert ": program 0 has waited here for 150," in text
    assert text.endswith(
        " cycles, in which no program did anything but wait: what it waits for never comes. Programs of one PE run one after "
        "the other, so wait for earlier ones alone"
    )


def test_programs_on_one_lock_try_in_proportion_to_their_number() -> None:
    """A program tries again as long as another holds the lock, which at most the other PEs do before its turn."""

    @triton.jit
    def add(lock_ptr, count_ptr):
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        tl.store(count_ptr, tl.load(count_ptr) + 1)
        tl.debug_barrier()
        tl.atomic_xchg(lock_ptr, 0)

    commands = []
    for programs in (24, 48):
        lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
        with kernbench.machine("single_cube"):
            run = add[(programs,)](lock, count)
        assert count[0] == programs and lock[0] == 0
        commands.append(len(run.engine.op_log.records))
    assert commands[0] * 1.5 < commands[1] < commands[0] * 2.5


def test_what_python_raises_has_its_line() -> None:
    @triton.jit
    def kernel(x_ptr):
        tl.load(x_ptr).foo()

    with pytest.raises(triton.TritonError) as caught:
        kernel[(1,)](np.zeros(1, np.float32))
    line = kernel.fn.__code__.co_firstlineno + 2
    assert str(caught.value) == f"test_triton_wide.py:{line}: AttributeError: a tensor of triton.language has no foo"


@triton.jit
def doubled(x_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + places, 2 * tl.load(x_ptr + places, places < n, 0.0), places < n)


def test_autotune_prunes_as_triton_does() -> None:
    """What is given by position comes in one mapping, what is given by name by name; a model leaves the best `top_k`."""
    seen: list[int] = []

    def early(configs: list[triton.Config], named: dict[str, object], n: int) -> list[triton.Config]:
        assert set(named) == {"x_ptr"} and n == 64
        return [one for one in configs if one.kwargs["BLOCK"] < 64]

    def model(x_ptr: object, n: int, BLOCK: int, num_warps: int, num_stages: int, num_ctas: int) -> int:
        seen.append(BLOCK)
        return -BLOCK

    configs = [triton.Config({"BLOCK": size}) for size in (8, 16, 32, 64)]
    prune = {"early_config_prune": early, "perf_model": model, "top_k": 2}
    tuned = triton.autotune(configs=configs, key=["n"], prune_configs_by=prune)(doubled)
    x = np.ones(64, np.float32)
    tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, n=64)
    assert seen == [8, 16, 32] and [one.kwargs["BLOCK"] for one, _ in tuned.timings] == [32, 16] and np.all(x == 2)
    with pytest.raises(TypeError, match="speed"):
        triton.autotune(configs=configs, key=["n"], speed=print)


@pytest.mark.parametrize(("top", "left"), [({}, [8, 16, 32]), ({"top_k": 0.5}, [32, 16]), ({"top_k": 0.1}, [32])])
def test_top_k_is_a_fraction_of_all_configurations(top: dict[str, float], left: list[int]) -> None:
    """Also after `early_config_prune` removed some. Without `top_k`, the model is not called, and removes none."""
    configs = [triton.Config({"BLOCK": size}) for size in (8, 16, 32, 64)]
    prune = {"early_config_prune": lambda configs, named, **_: configs[:3], "perf_model": lambda **named: -named["BLOCK"]}
    tuned = triton.autotune(configs=configs, key=["n"], prune_configs_by={**prune, **top})(doubled)
    assert [one.kwargs["BLOCK"] for one in tuned.prune_configs({})] == left


def test_a_top_k_that_counts_nothing_is_refused() -> None:
    prune = {"perf_model": lambda **_: 0, "top_k": 1.5}
    tuned = triton.autotune(configs=[triton.Config({"BLOCK": 8})], key=["n"], prune_configs_by=prune)(doubled)
    with pytest.raises(triton.TritonError, match=r"top_k of prune_configs_by is 1\.5; give an integer, or a float"):
        tuned[(8,)](np.ones(64, np.float32), n=64)


def test_configurations_are_compared_by_all_that_they_set() -> None:
    made = triton.Config({"BLOCK": 8}, num_warps=2, maxnreg=64, ir_override="kernel.ttgir")
    hints = {"num_warps": 2, "num_ctas": 1, "num_stages": 3, "maxnreg": 64, "ir_override": "kernel.ttgir"}
    assert made.all_kwargs() == {"BLOCK": 8, **hints}
    same = triton.Config({"BLOCK": 8}, num_warps=2, maxnreg=64, ir_override="kernel.ttgir")
    assert made == same and len({made, same}) == 1
    assert made != triton.Config({"BLOCK": 8}, num_warps=2, ir_override="kernel.ttgir") and made != "BLOCK: 8"
