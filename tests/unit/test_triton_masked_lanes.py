"""Lanes that a mask leaves out of a load without `other`: 0 as on GPUs, poison where it is asked for, and counted in notes."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.cli.main import exit_code
from kernbench.runtime_api.json_schema import bench_json_schema
from tests.kernels import at

RNG = np.random.default_rng(24)
N, ROWS, BLOCK = 100, 6, 128


@triton.jit
def norm_backward(x_ptr, w_ptr, dy_ptr, dx_ptr, dw_ptr, mean_ptr, rstd_ptr, columns, rows, BLOCK: tl.constexpr):
    """The gradients of a layer norm, of one row a time; the weight alone is loaded without `other`."""
    column = tl.arange(0, BLOCK)
    inside = column < columns
    weight = tl.load(w_ptr + column, mask=inside).to(tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(rows):
        x = tl.load(x_ptr + row * columns + column, mask=inside, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + row * columns + column, mask=inside, other=0).to(tl.float32)
        mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
        normed = tl.where(inside, (x - mean) * rstd, 0.0)
        wdy = weight * dy
        along, across = tl.sum(normed * wdy, axis=0) / columns, tl.sum(wdy, axis=0) / columns
        tl.store(dx_ptr + row * columns + column, (wdy - (normed * along + across)) * rstd, mask=inside)
        total += dy * normed
    tl.store(dw_ptr + column, total, mask=inside)


def gradients(x: np.ndarray, w: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """In f64: mean, 1 / deviation, dx and dw."""
    mean, rstd = x.mean(1, keepdims=True), 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    normed, wdy = (x - mean) * rstd, w * dy
    along, across = (normed * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    return mean, rstd, (wdy - (normed * along + across)) * rstd, (dy * normed).sum(0)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_the_gradients_of_a_layer_norm(kind: Any) -> None:
    """A correct kernel: what the weight is where it was left out is multiplied by a gradient that is 0 there."""
    x, w, dy = (RNG.standard_normal(shape).astype(kind) for shape in ((ROWS, N), (N,), (ROWS, N)))
    mean, rstd, dx, dw = gradients(*(one.astype(np.float64) for one in (x, w, dy)))
    got_dx, got_dw = np.zeros((ROWS, N), np.float32), np.zeros(N, np.float32)
    given = x, w, dy, got_dx, got_dw, mean.astype(np.float32), rstd.astype(np.float32)
    run = norm_backward[(1,)](*given, N, ROWS, BLOCK=BLOCK)
    np.testing.assert_allclose(got_dx, dx, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got_dw, dw, rtol=1e-4, atol=1e-5)
    assert run.notes == []


def test_its_cycles_are_those_with_poison() -> None:
    x, w = RNG.standard_normal((ROWS, N)).astype(np.float32), np.ones(N, np.float32)
    found = []
    for check in ("", "memory"):
        with kernbench.machine(check=check):
            arrays = x, w, x, x.copy(), w.copy(), np.zeros(ROWS, np.float32), np.ones(ROWS, np.float32)
            found.append(norm_backward[(1,)](*arrays, N, ROWS, BLOCK=BLOCK))
    assert found[0].cycles == found[1].cycles and found[0].problems == [] and np.isnan(found[1].arrays["dx_ptr"]).any()


def test_they_are_0_and_poison_where_memory_is_checked() -> None:
    @triton.jit
    def kernel(x_ptr, i_ptr, u_ptr, out_ptr, i_out, u_out):
        places = tl.arange(0, 4)
        tl.store(out_ptr + places, tl.load(x_ptr + places, mask=places < 2))
        tl.store(i_out + places, tl.load(i_ptr + places, mask=places < 2))
        tl.store(u_out + places, tl.atomic_load(u_ptr + places, mask=places < 0))

    def stored(check: str) -> list[list[Any]]:
        out, ints, none = np.ones(4, np.float32), np.ones(4, np.int32), np.ones(4, np.uint16)
        with kernbench.machine(check=check):
            kernel[(1,)](np.ones(4, np.float32), np.ones(4, np.int32), none.copy(), out, ints, none)
        return [out.tolist(), ints.tolist(), none.tolist()]

    assert stored("") == stored("races") == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    poisoned = stored("memory")
    assert poisoned[1:] == [[1, 1, -(2**31), -(2**31)], [2**16 - 1] * 4] and np.isnan(poisoned[0][2:]).all()


def noted(body: Any, *, block: int = 8, n: int = 5, check: str = "") -> list[str]:
    """The notes of a kernel whose body is given pointers, places and the mask of the first `n`."""
    x, i, out = np.ones((block, block), np.float32), np.arange(block, dtype=np.int32), np.zeros((block, block), np.float32)

    @triton.jit
    def kernel(x_ptr, i_ptr, out_ptr, block: tl.constexpr):
        places = tl.arange(0, block)
        body(x_ptr, i_ptr, out_ptr, places, places < n)

    with kernbench.machine(check=check):
        return kernel[(1,)](x, i, out, block).notes  # type: ignore[no-any-return]


def copied(x, i, out, at, mask):
    tl.store(out + at, tl.load(x + at, mask=mask))


def summed(x, i, out, at, mask):
    tl.store(out, tl.sum(tl.load(x + at, mask=mask), 0))


def of_scalar(x, i, out, at, mask):
    tl.store(out + at, tl.load(x + at) * tl.load(x, mask=tl.program_id(0) > 0))


def by_dot(x, i, out, at, mask):
    square = at[:, None] * 8 + at[None, :]
    tl.store(out + square, tl.dot(tl.load(x + square, mask=mask[None, :] & (at < 2)[:, None]), tl.load(x + square)))


def accumulated(x, i, out, at, mask):
    total = tl.zeros((8,), tl.float32)
    for _ in range(3):
        total += tl.load(x + at, mask=mask)
    tl.store(out + at, total)


def flipped(x, i, out, at, mask):
    tl.store(out + at, tl.flip(tl.exp(tl.load(x + at, mask=mask))), mask=mask)


def scanned(x, i, out, at, mask):
    tl.store(out + at, tl.cumsum(tl.load(x + at, mask=mask & (at != 2)), 0), mask=mask)


def gathered(x, i, out, at, mask):
    tl.store(out + at, tl.gather(tl.load(x + at, mask=mask), tl.full((8,), 6, tl.int32), 0))


def by_index(x, i, out, at, mask):
    tl.store(out + at, tl.load(x + tl.load(i + at, mask=mask)))


def to_index(x, i, out, at, mask):
    tl.store(out + tl.load(i + at, mask=mask), 1.0)


def added(x, i, out, at, mask):
    tl.atomic_add(out + at, tl.load(x + at, mask=mask))


def by_condition(x, i, out, at, mask):
    tl.store(out + at, tl.where(tl.load(x + at, mask=mask) > 0, 1.0, 2.0))


def joined(x, i, out, at, mask):
    tl.store(out + tl.arange(0, 16).reshape(8, 2), tl.join(tl.load(x + at, mask=mask), tl.load(x + at)))


def transposed(x, i, out, at, mask):
    square = at[:, None] * 8 + at[None, :]
    tl.store(out + square, tl.trans(tl.load(x + square, mask=mask[None, :])), mask=(at < 6)[:, None])


REACHES = {
    copied: 3, summed: 1, of_scalar: 8, by_dot: 64, accumulated: 3, flipped: 3, scanned: 3, gathered: 8, by_index: 3,
    to_index: 3, added: 3, by_condition: 3, joined: 3, transposed: 8,
}  # fmt: skip


@pytest.mark.parametrize("body", REACHES, ids=lambda one: one.__name__)
def test_what_reaches_a_result_is_noted(body: Any) -> None:
    (note,) = noted(body)
    count = REACHES[body]
    assert note.startswith(f"{count} element{'' if count == 1 else 's'} stored at test_triton_masked_lanes.py:")
    assert note.endswith(" without other=): they are 0; give it other=")


def test_a_note_names_lines_and_lanes() -> None:
    line = f"test_triton_masked_lanes.py:{copied.__code__.co_firstlineno + 1}"
    text = f"3 elements stored at {line} depend on lanes that a mask leaves out of tl.load at {line} (3 lanes without other=)"
    assert noted(copied) == [f"{text}: they are 0; give it other="]
    assert noted(copied, check="memory") == [f"{text}: they are poisoned; give it other="]
    assert at(copied, 1).endswith(line)


def masked_again(x, i, out, at, mask):
    tl.store(out + at, tl.load(x + at, mask=mask) * 2 + 1, mask=mask)


def chosen(x, i, out, at, mask):
    tl.store(out, tl.sum(tl.where(mask, tl.load(x + at, mask=mask), 0.0), 0))


def with_other(x, i, out, at, mask):
    tl.store(out + at, tl.load(x + at, mask=mask, other=0.0))


def times_zero(x, i, out, at, mask):
    zeros = tl.load(x + at, mask=mask, other=0)
    tl.store(out, tl.sum(-tl.flip(tl.flip(zeros)).to(tl.float16) * tl.load(x + at, mask=mask), 0))


def times_chosen(x, i, out, at, mask):
    tl.store(out, tl.sum(tl.where(mask, tl.load(x + at), 0.0) * tl.load(x + at, mask=mask), 0))


def in_a_long_loop(x, i, out, at, mask):
    zeros = tl.load(x + at, mask=mask, other=0)
    for _ in range(1500):
        zeros = -zeros
    tl.store(out, tl.sum(zeros * tl.load(x + at, mask=mask), 0))


def inside_dot(x, i, out, at, mask):
    square = at[:, None] * 8 + at[None, :]
    rows = tl.load(x + square, mask=mask[:, None], other=0)
    tl.store(out + square, tl.dot(tl.load(x + square, mask=mask[None, :]), rows))


def all_inside(x, i, out, at, mask):
    tl.store(out + at, tl.load(x + at, mask=at < 8))


def through_index(x, i, out, at, mask):
    tl.store(out + at, tl.load(x + tl.load(i + at, mask=mask), mask=mask, other=0))


@pytest.mark.parametrize(
    "body",
    [masked_again, chosen, with_other, times_zero, times_chosen, in_a_long_loop, inside_dot, all_inside, through_index],
    ids=lambda one: one.__name__,
)
def test_what_reaches_none_is_not(body: Any) -> None:
    assert noted(body) == []


def test_a_bench_that_launches_a_triton_kernel_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once for all programs and launches of it, in the text and as `notes` of the JSON."""
    file = tmp_path / "masked.py"
    file.write_text(
        textwrap.dedent(
            """
            import numpy as np
            import kernbench.triton as triton
            import kernbench.triton.language as tl
            from kernbench.runtime_api import bench

            @triton.jit
            def copied(x, out, n: tl.constexpr):
                at = tl.program_id(0) * 8 + tl.arange(0, 8)
                tl.store(out + at, tl.load(x + at, mask=at < n))

            @bench(name="masked", description="it relies on 0", params={"n": 13})
            def run(ctx):
                x = ctx.from_numpy(np.ones(16, np.float32), name="x")
                out = ctx.zeros((16,), "f32", name="out")
                ctx.launch("copied", copied, x, out, ctx.params["n"], grid=2, pes=2)
            """
        ),
        encoding="utf-8",
    )
    note = (
        "3 elements stored at masked.py:10 depend on lanes that a mask leaves out of tl.load at masked.py:10 "
        "(3 lanes without other=): they are 0; give it other="
    )
    assert exit_code(["run", str(file), "--config", "single_cube"]) == 0 and note in " ".join(capsys.readouterr().out.split())
    assert exit_code(["run", str(file), "--config", "single_cube", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["notes"] == [note]
    jsonschema.validate(found, bench_json_schema())
    assert exit_code(["run", str(file), "--config", "single_cube", "--set", "n=16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
