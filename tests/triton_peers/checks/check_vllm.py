"""vLLM's kernels of the KV cache, and the one that merges attention over parts of the keys, against PyTorch."""

import pytest
import torch
from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states  # type: ignore[import-not-found]
from vllm.v1.attention.ops.triton_reshape_and_cache_flash import (  # type: ignore[import-not-found]
    triton_reshape_and_cache_flash,
    triton_reshape_and_cache_flash_diffkv,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_reshape_and_cache(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    key, value = (torch.randn(11, 2, 32, dtype=dtype) for _ in range(2))
    caches = [torch.zeros(6, 4, 2, 32, dtype=dtype) for _ in range(2)]
    slots = torch.randperm(24)[:11]
    slots[3] = -1  # a token that is padding
    one = torch.ones(1)
    triton_reshape_and_cache_flash(key, value, *caches, slots, "auto", one, one)
    for cache, given in zip(caches, (key, value), strict=True):
        wanted = torch.zeros(24, 2, 32, dtype=dtype)
        wanted[slots[slots >= 0]] = given[slots >= 0]
        assert torch.equal(cache.view(24, 2, 32), wanted)


def test_reshape_and_cache_diffkv() -> None:
    torch.manual_seed(0)
    key, value = torch.randn(5, 2, 32), torch.randn(5, 2, 16)
    cache = torch.zeros(4, 4, 2, 48)
    slots = torch.tensor([3, 15, 0, 7, 9])
    one = torch.ones(1)
    triton_reshape_and_cache_flash_diffkv(key, value, cache, slots, "auto", one, one)
    wanted = torch.zeros(16, 2, 48)
    wanted[slots] = torch.cat((key, value), -1)
    assert torch.equal(cache.view(16, 2, 48), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_merge_attn_states(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    first, second = (torch.randn(7, 3, 24, dtype=dtype) for _ in range(2))
    a, b = torch.randn(3, 7), torch.randn(3, 7)
    a[1, 2] = float("-inf")  # no keys in the first part
    out, lse = torch.empty_like(first), torch.empty(3, 7)
    merge_attn_states(out, first, a, second, b, lse)
    total = torch.logaddexp(a, b)
    p, s = ((one - total).exp().T[:, :, None] for one in (a, b))
    torch.testing.assert_close(lse, total, rtol=1e-5, atol=1e-5)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(out.float(), first.float() * p + second.float() * s, rtol=tolerance, atol=tolerance)
