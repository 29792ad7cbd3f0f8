"""flash-attention's Triton kernels against references in PyTorch."""

import os
from pathlib import Path

import pytest
import torch

from tests.triton_peers.checks.packages import bare_package

CHECKOUT = Path(os.environ["KB_PEERS_CHECKOUT"])
bare_package("flash_attn", CHECKOUT / "flash_attn")

from flash_attn.flash_attn_triton import flash_attn_func  # type: ignore[import-not-found]  # noqa: E402
from flash_attn.ops.triton.cross_entropy import cross_entropy_loss  # type: ignore[import-not-found]  # noqa: E402
from flash_attn.ops.triton.layer_norm import layer_norm_fn, layer_norm_ref, rms_norm_ref  # type: ignore  # noqa: E402
from flash_attn.ops.triton.rotary import apply_rotary  # type: ignore[import-not-found]  # noqa: E402


@pytest.mark.parametrize(("queries", "keys", "size"), [(40, 40, 32), (128, 128, 64), (20, 70, 48)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", ["none", "vector", "matrix"])
def test_attention(queries: int, keys: int, size: int, causal: bool, bias: str) -> None:
    if causal and queries != keys:
        pytest.skip("causal attention of these kernels is for as many queries as keys")
    torch.manual_seed(0)
    heads = 2
    q, k, v = (torch.randn(1, length, heads, size, dtype=torch.float16) for length in (queries, keys, keys))
    added = None
    if bias != "none":
        added = torch.randn(1, heads, 1 if bias == "vector" else queries, keys, dtype=torch.float32)
    given = torch.randn(1, queries, heads, size, dtype=torch.float16)
    ours = [one.clone().requires_grad_() for one in (q, k, v)]
    out = flash_attn_func(*ours, added, causal)
    out.backward(given)

    theirs = [one.float().requires_grad_() for one in (q, k, v)]
    scores = torch.einsum("bqhd,bkhd->bhqk", theirs[0], theirs[1]) / size**0.5
    if added is not None:
        scores = scores + added
    if causal:
        scores = scores.masked_fill(torch.ones(queries, keys).triu(1).bool(), float("-inf"))
    wanted = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), theirs[2])
    wanted.backward(given.float())
    torch.testing.assert_close(out.float(), wanted, rtol=5e-3, atol=5e-3)
    for got, one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got.grad.float(), one.grad, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("width", [64, 100])
def test_layer_norm(rms: bool, residual: bool, width: int) -> None:
    torch.manual_seed(0)
    x, before = torch.randn(9, width), torch.randn(9, width) if residual else None
    weight, bias = torch.randn(width), None if rms else torch.randn(width)
    sides = []
    for function in (layer_norm_fn, rms_norm_ref if rms else layer_norm_ref):
        given = [None if one is None else one.clone().requires_grad_() for one in (x, weight, bias, before)]
        more = {"is_rms_norm": rms} if function is layer_norm_fn else {}
        out = function(*given, prenorm=residual, **more)
        first = out[0] if residual else out
        (first * torch.arange(width)).sum().backward()
        sides.append([first, *(one.grad for one in given if one is not None)])
    for got, wanted in zip(*sides, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("rotated", [16, 32])
def test_rotary(interleaved: bool, conjugate: bool, rotated: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 12, 3, 32)
    angles = torch.rand(12, rotated // 2) * 6
    out = apply_rotary(x, angles.cos(), angles.sin(), interleaved=interleaved, conjugate=conjugate)
    turned = x[..., :rotated]
    first, second = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None] * (-1 if conjugate else 1)
    a, b = first * cos - second * sin, first * sin + second * cos
    wanted = torch.stack((a, b), -1).flatten(-2) if interleaved else torch.cat((a, b), -1)
    torch.testing.assert_close(out, torch.cat((wanted, x[..., rotated:]), -1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_cross_entropy(smoothing: float, scale: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(7, 300)
    labels = torch.randint(0, 300, (7,))
    labels[2] = -100
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    losses, _ = cross_entropy_loss(ours, labels, label_smoothing=smoothing, logit_scale=scale)
    wanted = torch.nn.functional.cross_entropy(theirs * scale, labels, label_smoothing=smoothing, reduction="none")
    given = torch.randn(7)
    losses.backward(given)
    wanted.backward(given)
    torch.testing.assert_close(losses, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)
