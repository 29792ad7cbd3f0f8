"""With `portable`, variables follow the rules of Triton's compiler: their types in loops and branches, and where they exist."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl


@triton.jit
def grows(x_ptr, n, B: tl.constexpr):
    total = 0.0
    for _ in range(n):
        total += tl.load(x_ptr + tl.arange(0, B))
    tl.store(x_ptr + tl.arange(0, B), total)


@triton.jit
def widens(x_ptr, n, B: tl.constexpr):
    i = 0
    while i < n:
        i = i + tl.full((), 1, tl.int64)


@triton.jit
def from_none(x_ptr, n, B: tl.constexpr):
    last = None
    for _ in range(n):
        last = tl.load(x_ptr)
    tl.store(x_ptr, last)


@triton.jit
def doubles_a_constant(x_ptr, n, B: tl.constexpr):
    for _ in range(n):
        B = B * 2


@triton.jit
def in_one_branch(x_ptr, n, B: tl.constexpr):
    if n > 2:
        y = 1.0
    tl.store(x_ptr, y)


@triton.jit
def in_two_of_three(x_ptr, n, B: tl.constexpr):
    if not (n > 2):
        y = 1.0
    elif n > 3:
        y = 2.0
    tl.store(x_ptr, y)


@triton.jit
def of_a_plain_number(x_ptr, n, B: tl.constexpr):
    steps = 3
    if steps > 2:
        y = 1.0
    tl.store(x_ptr, y)


@triton.jit
def in_the_loop(x_ptr, n, B: tl.constexpr):
    for _ in range(n):
        y = tl.load(x_ptr)
    tl.store(x_ptr, y)


@triton.jit
def becomes_a_condition(x_ptr, n, B: tl.constexpr):
    y = tl.load(x_ptr)
    if n > 1:
        y = y > 0
    tl.store(x_ptr, y)


@triton.jit
def differs_between_branches(x_ptr, n, B: tl.constexpr):
    if tl.program_id(0) > 0:
        y = 1
    else:
        y = 1.5
    tl.store(x_ptr, y)


@triton.jit
def leaves(x_ptr, n, B: tl.constexpr):
    for i in range(n):
        if i > 2:
            break


@triton.jit
def has_a_dict(x_ptr, n, B: tl.constexpr):
    found = {1: 2.0}
    tl.store(x_ptr, found[1])


@triton.jit
def last_of(x_ptr, n):
    for _ in range(n):
        y = tl.load(x_ptr)
    return y


@triton.jit
def calls(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr, last_of(x_ptr, n))


def line(kernel: Any, text: str) -> int:
    """The line of a kernel with a text."""
    lines, first = kernel.raw_src, kernel.starting_line_number
    return first + next(i for i, one in enumerate(lines) if text in one)


@pytest.mark.parametrize(
    ("kernel", "where", "text"),
    [
        (grows, "total +=", "Loop-carried variable total has initial type fp32 but is re-assigned to <[4], fp32> in the loop"),
        (widens, "i = i +", "Loop-carried variable i has initial type int32 but is re-assigned to int64 in the loop"),
        (from_none, "last = tl", "Loop-carried variable last has initial type None but is re-assigned to fp32 in the loop"),
        (doubles_a_constant, "B = B", "cannot reassign constexpr B in the loop"),
        (in_one_branch, "tl.store", "y is not defined: it is assigned in one branch only of the if"),
        (in_two_of_three, "tl.store", "y is not defined: it is assigned in one branch only of the if"),
        (of_a_plain_number, "tl.store", "y is not defined: it is assigned in one branch only of the if"),
        (in_the_loop, "tl.store", "y is not defined: it is assigned in the loop"),
        (becomes_a_condition, "y = y", "initial value for y is of type fp32, but the then block of the if"),
        (differs_between_branches, "if tl", "Mismatched type for y between then block (int32) and else block (fp32)"),
        (leaves, "break", "Triton's compiler does not support break in loops in kernels"),
        (has_a_dict, "{1", "Triton's compiler does not support dicts in kernels"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_portable_refuses_variables_that_triton_s_compiler_refuses(kernel: Any, where: str, text: str) -> None:
    x = np.ones(8, np.float32)
    with kernbench.machine("single_cube", portable=True), pytest.raises(triton.CompilationError) as caught:
        kernel[(2,)](x, 5, 4)
    assert str(caught.value).startswith(f"test_triton_variables.py:{line(kernel, where)}: {text}")


def test_the_error_of_a_device_function_names_its_own_line() -> None:
    with kernbench.machine("single_cube", portable=True), pytest.raises(triton.CompilationError) as caught:
        calls[(1,)](np.ones(8, np.float32), 5, 4)
    at, loop = line(last_of, "return y"), line(last_of, "for _")
    name = "test_triton_variables.py"
    assert str(caught.value).startswith(f"{name}:{at}: y is not defined: it is assigned in the loop at {name}:{loop};")


@triton.jit
def keeps_the_rules(x_ptr, out_ptr, n, B: tl.constexpr):
    """What Triton's compiler takes: types that stay, constants that choose, loops that are unrolled."""
    places = tl.arange(0, B)
    total, steps, sum = tl.zeros([B], tl.float32), 0, 0.0
    for i in range(n):
        x = tl.load(x_ptr + places)
        total += x
        sum += tl.sum(x.to(tl.float16))
        if i > 2:
            steps += 1
            x = x + 1.0
    if n == 3:
        factor = 1.0
    else:
        factor = 2.0
    for j in tl.static_range(2):
        shifted = total + j
    if B == 4:
        shift = 0.5
    if out_ptr is not None:
        tl.store(out_ptr + places, shifted * factor + shift + steps + sum)


def test_portable_changes_no_result_and_no_cycle_of_a_kernel_that_keeps_the_rules() -> None:
    x, found = np.arange(4, dtype=np.float32), []
    for portable in (False, True):
        out = np.zeros(4, np.float32)
        with kernbench.machine("single_cube", portable=portable) as runs:
            keeps_the_rules[(3,)](x, out, 5, 4)
        found.append((out.tolist(), runs[0].cycles))
    assert found[0] == found[1] and found[0][0] == [(5 * one + 1) * 2 + 0.5 + 2 + 30 for one in range(4)]


def test_without_portable_a_kernel_runs_as_python() -> None:
    x = np.ones(8, np.float32)
    grows[(1,)](x, 5, 4)
    in_one_branch[(1,)](x[4:], 5, 4)
    assert x.tolist() == [5, 5, 5, 5, 1, 1, 1, 1]
