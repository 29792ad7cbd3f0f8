"""Unsloth's kernels against references in PyTorch. Its host modules ask for a GPU, so small stand-ins have their place."""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton  # type: ignore[import-not-found,unused-ignore]
from packaging.version import Version
from triton.language.extra import libdevice  # type: ignore[import-not-found,unused-ignore]

from tests.triton_peers.checks.packages import bare_package, stand_in

CHECKOUT = Path(os.environ["KB_PEERS_CHECKOUT"])
LARGEST = 128  #: of a block: rows that are longer take the chunked kernels


def settings(n: int) -> tuple[int, int]:
    return triton.next_power_of_2(n), 4


bare_package("unsloth", CHECKOUT / "unsloth")
bare_package("unsloth.kernels", CHECKOUT / "unsloth" / "kernels")
stand_in("unsloth.device_type", DEVICE_COUNT=1, DEVICE_TYPE="cpu")
stand_in(
    "unsloth.kernels.utils", calculate_settings=settings, MAX_FUSED_SIZE=LARGEST, triton_tanh=libdevice.tanh,
    triton_cast=triton.language.cast, torch_gpu_device=lambda device: nullcontext(), is_cdna=lambda: False,
    torch_device_stream=lambda device: SimpleNamespace(synchronize=lambda: None),
)  # fmt: skip
bare_package("unsloth_zoo", CHECKOUT / "none")
stand_in("unsloth_zoo.utils", Version=lambda text: Version(str(text)))
stand_in("unsloth_zoo.patching_utils", patch_layernorm=None)
stand_in("unsloth_zoo.loss_utils", patch_loss_functions=None, post_patch_loss_function=None)

from unsloth.kernels.cross_entropy_loss import fast_cross_entropy_loss  # type: ignore[import-not-found]  # noqa: E402
from unsloth.kernels.geglu import (  # type: ignore[import-not-found]  # noqa: E402
    geglu_approx_backward_kernel,
    geglu_approx_forward_kernel,
    geglu_exact_backward_kernel,
    geglu_exact_forward_kernel,
)
from unsloth.kernels.layernorm import fast_layernorm  # type: ignore[import-not-found]  # noqa: E402
from unsloth.kernels.rms_layernorm import fast_rms_layernorm  # type: ignore[import-not-found]  # noqa: E402
from unsloth.kernels.rope_embedding import fast_rope_embedding  # type: ignore[import-not-found]  # noqa: E402
from unsloth.kernels.swiglu import swiglu_DWf_DW_dfg_kernel, swiglu_fg_kernel  # type: ignore[import-not-found]  # noqa: E402


def both_ways(ours: Any, theirs: Any, *given: torch.Tensor) -> None:
    """Outputs and gradients of two functions of the same tensors."""
    sides = []
    for function in (ours, theirs):
        inputs = [one.clone().requires_grad_() for one in given]
        out = function(*inputs)
        torch.manual_seed(1)
        out.backward(torch.randn_like(out))
        sides.append([out, *(one.grad for one in inputs)])
    for got, wanted in zip(*sides, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gemma", [False, True])
@pytest.mark.parametrize("width", [64, 100])
def test_rms_layernorm(gemma: bool, width: int) -> None:
    torch.manual_seed(0)
    weight = torch.randn(width)
    layer = SimpleNamespace(weight=weight, variance_epsilon=1e-5)

    def wanted(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * (weight + 1 if gemma else weight)

    both_ways(lambda x: fast_rms_layernorm(layer, x, gemma), wanted, torch.randn(2, 5, width))


def test_layernorm() -> None:
    torch.manual_seed(0)
    layer = torch.nn.LayerNorm(100)
    torch.nn.init.normal_(layer.weight)
    both_ways(lambda x: fast_layernorm(layer, x), layer, torch.randn(2, 5, 100))


@pytest.mark.parametrize("heads", [(4, 2), (3, 3)])
def test_rope(heads: tuple[int, int]) -> None:
    torch.manual_seed(0)
    q, k = (torch.randn(2, count, 9, 32) for count in heads)
    angles = torch.rand(9, 16) * 6
    cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()

    def wanted(x: torch.Tensor) -> torch.Tensor:
        return x * cos + torch.cat((-x[..., 16:], x[..., :16]), -1) * sin

    out = fast_rope_embedding(q.clone(), k.clone(), cos, sin)
    torch.testing.assert_close(out[0], wanted(q), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out[1], wanted(k), rtol=1e-5, atol=1e-5)
    places = torch.arange(9, dtype=torch.int32).repeat(2)
    out = fast_rope_embedding(q.clone(), k.clone(), cos, sin, places)
    torch.testing.assert_close(out[0], wanted(q), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("vocabulary", [100, 300])
@pytest.mark.parametrize(("cap", "scale"), [(0, 0), (30.0, 0), (0, 0.5)])
def test_cross_entropy(vocabulary: int, cap: float, scale: float) -> None:
    """More than LARGEST words take the chunked kernel."""
    torch.manual_seed(0)
    labels = torch.randint(0, vocabulary, (2, 4))
    labels[0, 1] = -100

    def wanted(logits: torch.Tensor) -> torch.Tensor:
        scaled = logits * scale if scale else logits
        capped = cap * torch.tanh(scaled / cap) if cap else scaled
        return torch.nn.functional.cross_entropy(capped.view(-1, vocabulary), labels.view(-1))

    both_ways(lambda one: fast_cross_entropy_loss(one * 1, labels, cap, scale), wanted, torch.randn(2, 4, vocabulary))


@pytest.mark.parametrize(
    ("forward", "backward", "activation"),
    [
        (swiglu_fg_kernel, swiglu_DWf_DW_dfg_kernel, torch.nn.functional.silu),
        (geglu_exact_forward_kernel, geglu_exact_backward_kernel, torch.nn.functional.gelu),
        (
            geglu_approx_forward_kernel,
            geglu_approx_backward_kernel,
            lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        ),
    ],
)
def test_gated(forward: Any, backward: Any, activation: Any) -> None:
    torch.manual_seed(0)
    e, g, dw = (torch.randn(6, 50) for _ in range(3))
    out = forward(e[None], g[None])[0]
    torch.testing.assert_close(out, activation(e) * g, rtol=1e-4, atol=1e-5)
    x, y = e.clone().requires_grad_(), g.clone().requires_grad_()
    (activation(x) * y).backward(dw)
    h, df, de = backward(dw.clone(), e.clone(), g.clone())
    torch.testing.assert_close(h, activation(e) * g, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(df, y.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(de, x.grad, rtol=1e-4, atol=1e-5)
