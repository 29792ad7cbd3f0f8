"""Twelve kernels in the Triton language, each with its inputs and its reference. KB_SPEED_OF=triton runs Triton's interpreter,
KB_SPEED_CHECK=memory,races runs kernbench with these checks.

`python -m tests.speed.triton_kernels` prints the names of the kernels, as JSON. For each line of its input, which names a
kernel, it launches the kernel, and prints the seconds of CPU that this took. At the end of the input it prints, as JSON, the
largest error and the cycles of each kernel that ran.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

if os.environ.get("KB_SPEED_OF") == "triton":
    os.environ["TRITON_INTERPRET"] = "1"
    import triton
    import triton.language as tl
else:
    import kernbench
    import kernbench.triton as triton
    import kernbench.triton.language as tl

Case = tuple[Callable[[], Any], Callable[[], tuple[torch.Tensor, torch.Tensor]]]


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask), mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    raised = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + at, raised / tl.sum(raised, axis=0), mask=at < columns)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + columns[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, T, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    base = tl.program_id(1) * T
    q = tl.load(q_ptr + (base + rows)[:, None] * D + d[None, :])
    top = tl.zeros((BM,), tl.float32) - float("inf")
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, T, BN):
        columns = base + start + tl.arange(0, BN)
        k = tl.load(k_ptr + columns[:, None] * D + d[None, :])
        v = tl.load(v_ptr + columns[:, None] * D + d[None, :])
        s = tl.dot(q, tl.trans(k)) * scale
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        keep = tl.exp(top - higher)
        total = total * keep + tl.sum(p, 1)
        acc = acc * keep[:, None] + tl.dot(p.to(v.dtype), v)
        top = higher
    tl.store(out_ptr + (base + rows)[:, None] * D + d[None, :], (acc / total[:, None]).to(q.dtype))
    tl.store(lse_ptr + base + rows, top + tl.log(total))


@triton.jit
def attention_dkv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, T, scale, D: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    columns, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    base = tl.program_id(1) * T
    places = (base + columns)[:, None] * D + d[None, :]
    k, v = tl.load(k_ptr + places), tl.load(v_ptr + places)
    dk, dv = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for start in range(0, T, BM):
        rows = base + start + tl.arange(0, BM)
        q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
        do = tl.load(do_ptr + rows[:, None] * D + d[None, :])
        p = tl.exp(tl.dot(q, tl.trans(k)) * scale - tl.load(lse_ptr + rows)[:, None])
        dv += tl.dot(tl.trans(p.to(do.dtype)), do)
        ds = p * (tl.dot(do, tl.trans(v)) - tl.load(delta_ptr + rows)[:, None]) * scale
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
    tl.store(dk_ptr + places, dk)
    tl.store(dv_ptr + places, dv)


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, N, eps, CENTRE: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < N
    x = tl.load(x_ptr + row * N + at, mask=mask, other=0.0)
    if CENTRE:
        x = tl.where(mask, x - tl.sum(x, 0) / N, 0.0)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / N + eps) * tl.load(w_ptr + at, mask=mask)
    if CENTRE:
        y += tl.load(b_ptr + at, mask=mask)
    tl.store(out_ptr + row * N + at, y, mask=mask)


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, V, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * V + at, mask=at < V, other=-float("inf"))
    top = tl.max(x, 0)
    target = tl.load(target_ptr + row)
    tl.store(loss_ptr + row, tl.log(tl.sum(tl.exp(x - top), 0)) + top - tl.load(x_ptr + row * V + target))


@triton.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, H, D: tl.constexpr):
    t, h, at = tl.program_id(0), tl.program_id(1), tl.arange(0, D // 2)
    base = (t * H + h) * D
    a, b = tl.load(x_ptr + base + at), tl.load(x_ptr + base + D // 2 + at)
    c, s = tl.load(cos_ptr + t * (D // 2) + at), tl.load(sin_ptr + t * (D // 2) + at)
    tl.store(out_ptr + base + at, a * c - b * s)
    tl.store(out_ptr + base + D // 2 + at, b * c + a * s)


@triton.jit
def paged_kernel(q_ptr, cache_k, cache_v, table_ptr, length_ptr, out_ptr, scale, PAGES, D: tl.constexpr, PAGE: tl.constexpr):
    seq, d, inside = tl.program_id(0), tl.arange(0, D), tl.arange(0, PAGE)
    q, length = tl.load(q_ptr + seq * D + d), tl.load(length_ptr + seq)
    top, total, acc = -float("inf"), 0.0, tl.zeros((D,), tl.float32)
    for page in range(tl.cdiv(length, PAGE)):
        block = tl.load(table_ptr + seq * PAGES + page)
        places = (block * PAGE + inside)[:, None] * D + d[None, :]
        k, v = tl.load(cache_k + places), tl.load(cache_v + places)
        s = tl.where(page * PAGE + inside < length, tl.sum(q[None, :] * k, 1) * scale, -float("inf"))
        higher = tl.maximum(tl.max(s, 0), top)
        p, keep = tl.exp(s - higher), tl.exp(top - higher)
        total, acc, top = total * keep + tl.sum(p, 0), acc * keep + tl.sum(p[:, None] * v, 0), higher
    tl.store(out_ptr + seq * D + d, acc / total)


@triton.jit
def gating_kernel(x_ptr, weight_ptr, index_ptr, E: tl.constexpr, K: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, E)
    x = tl.load(x_ptr + row * E + at)
    p = tl.exp(x - tl.max(x, 0))
    p = p / tl.sum(p, 0)
    for k in tl.static_range(K):
        best, place = tl.max(p, 0), tl.argmax(p, 0)
        tl.store(weight_ptr + row * K + k, best)
        tl.store(index_ptr + row * K + k, place)
        p = tl.where(at == place, -1.0, p)


def _close(got: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return got.double(), wanted.double()


def cases() -> dict[str, Case]:
    """Name: how it is launched, and its result with the reference."""
    torch.manual_seed(0)
    x, y, out = torch.randn(1 << 16), torch.randn(1 << 16), torch.zeros(1 << 16)
    rows, soft = torch.randn(64, 1000), torch.zeros(64, 1000)
    found: dict[str, Case] = {
        "vector add": (lambda: add_kernel[(64,)](x, y, out, x.numel(), BLOCK=1024), lambda: _close(out, x + y)),
        "softmax": (lambda: softmax_kernel[(64,)](rows, soft, 1000, BLOCK=1024), lambda: _close(soft, rows.softmax(1))),
    }
    for name, kind in (("matmul f16", torch.float16), ("matmul f32", torch.float32)):
        a, b, c = torch.randn(256, 256).to(kind), torch.randn(256, 256).to(kind), torch.zeros(256, 256)
        found[name] = (
            lambda a=a, b=b, c=c: matmul_kernel[(4, 4)](a, b, c, 256, 256, 256, BM=64, BN=64, BK=64),
            lambda a=a, b=b, c=c: _close(c, a.double() @ b.double()),
        )
    T, D, H, scale = 256, 64, 4, 0.125
    q, k, v, do = (torch.randn(H, T, D) for _ in range(4))
    o, lse, dk, dv = torch.zeros(H, T, D), torch.zeros(H, T), torch.zeros(H, T, D), torch.zeros(H, T, D)
    scores = (q @ k.transpose(1, 2) * scale).double()
    p = scores.softmax(-1)
    wanted = p @ v.double()
    true_lse, delta = scores.logsumexp(-1).float(), (do.double() * wanted).sum(-1).float()
    found["flash attention"] = (
        lambda: attention_kernel[(4, H)](q, k, v, o, lse, T, scale, D=D, BM=64, BN=64),
        lambda: _close(o, wanted),
    )
    found["flash attention backward"] = (
        lambda: attention_dkv_kernel[(4, H)](q, k, v, do, true_lse, delta, dk, dv, T, scale, D=D, BM=64, BN=64),
        lambda: _close(dv, p.transpose(1, 2) @ do.double()),
    )
    h, w, bias = torch.randn(64, 1000), torch.randn(1000), torch.randn(1000)
    ln, rms = torch.zeros(64, 1000), torch.zeros(64, 1000)
    found["layer norm"] = (
        lambda: norm_kernel[(64,)](h, w, bias, ln, 1000, 1e-5, CENTRE=True, BLOCK=1024),
        lambda: _close(ln, torch.nn.functional.layer_norm(h, (1000,), w, bias)),
    )
    found["RMS norm"] = (
        lambda: norm_kernel[(64,)](h, w, bias, rms, 1000, 1e-5, CENTRE=False, BLOCK=1024),
        lambda: _close(rms, h * (h.pow(2).mean(1, keepdim=True) + 1e-5).rsqrt() * w),
    )
    logits, target, loss = torch.randn(64, 4000), torch.randint(0, 4000, (64,)), torch.zeros(64)
    found["cross entropy"] = (
        lambda: cross_entropy_kernel[(64,)](logits, target, loss, 4000, BLOCK=4096),
        lambda: _close(loss, torch.nn.functional.cross_entropy(logits, target, reduction="none")),
    )
    r, angle, turned = torch.randn(32, 4, 64), torch.randn(32, 32), torch.zeros(32, 4, 64)
    cos, sin = angle.cos(), angle.sin()
    low, high = r[..., :32], r[..., 32:]
    c, s = cos[:, None], sin[:, None]
    found["rope"] = (
        lambda: rope_kernel[(32, 4)](r, cos, sin, turned, 4, D=64),
        lambda: _close(turned, torch.cat([low * c - high * s, high * c + low * s], -1)),
    )
    pq, ck, cv, po = torch.randn(8, 64), torch.randn(64, 16, 64), torch.randn(64, 16, 64), torch.zeros(8, 64)
    table, lengths = torch.randperm(64).reshape(8, 8).int(), torch.randint(20, 128, (8,)).int()

    def paged() -> tuple[torch.Tensor, torch.Tensor]:
        done = []
        for i in range(8):
            keys, values = (one[table[i].long()].reshape(-1, 64)[: int(lengths[i])] for one in (ck, cv))
            done.append((keys @ pq[i] * scale).softmax(0) @ values)
        return _close(po, torch.stack(done))

    found["paged attention"] = (
        lambda: paged_kernel[(8,)](pq, ck, cv, table, lengths, po, scale, 8, D=64, PAGE=16),
        paged,
    )
    gate, weight, index = torch.randn(64, 64), torch.zeros(64, 4), torch.zeros(64, 4, dtype=torch.int32)
    found["top-k gating"] = (
        lambda: gating_kernel[(64,)](gate, weight, index, E=64, K=4),
        lambda: _close(weight, gate.softmax(1).topk(4).values),
    )
    return found


def _checked() -> AbstractContextManager[Any]:
    """Where launches are checked; nothing where no check is asked for."""
    check = os.environ.get("KB_SPEED_CHECK", "")
    return kernbench.machine("single_cube", check=check) if check else nullcontext()


def main() -> None:
    all_cases = cases()
    print(json.dumps(list(all_cases)), flush=True)
    cycles: dict[str, int | None] = {}
    for line in sys.stdin:
        name = line.strip()
        with _checked():
            began = time.process_time()
            run = all_cases[name][0]()
            seconds = time.process_time() - began
        cycles[name] = getattr(run, "cycles", None)
        print(seconds, flush=True)
    answer = {}
    for name, count in cycles.items():
        got, wanted = all_cases[name][1]()
        answer[name] = {"error": float((got - wanted).abs().max()), "cycles": count}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
