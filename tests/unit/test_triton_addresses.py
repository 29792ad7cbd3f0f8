"""Kernels that load addresses of torch tensors, which the host takes by `data_ptr`."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench.triton as triton
import kernbench.triton.language as tl

torch = pytest.importorskip("torch")


@triton.jit
def adds(addresses_ptr, sizes_ptr, BLOCK: tl.constexpr):
    group, places = tl.program_id(0), tl.arange(0, BLOCK)
    x_ptr = tl.load(addresses_ptr + group).to(tl.pointer_type(tl.float16))
    mask = places < tl.load(sizes_ptr + group)
    tl.store(x_ptr + places, tl.load(x_ptr + places, mask=mask, other=0.0) + group, mask=mask)


def test_a_kernel_reaches_tensors_by_addresses_of_data_ptr() -> None:
    tensors = [torch.arange(size, dtype=torch.float16) for size in (5, 8)]
    addresses = torch.tensor([one.data_ptr() for one in tensors])
    kept = addresses.clone()
    run = adds[(2,)](addresses, torch.tensor([5, 8]), BLOCK=8)
    assert torch.equal(tensors[0], torch.arange(5).half()) and torch.equal(tensors[1], 1 + torch.arange(8).half())
    assert torch.equal(addresses, kept) and run.cycles > 0


def test_an_access_outside_of_a_tensor_at_an_address_is_an_error() -> None:
    tensors = [torch.zeros(size, dtype=torch.float16) for size in (5, 8)]
    addresses = torch.tensor([one.data_ptr() for one in tensors])
    with pytest.raises(triton.TritonError, match=r"element 5 of addresses_ptr\.0, which has 5"):
        adds[(2,)](addresses, torch.tensor([8, 8]), BLOCK=8)


@triton.jit
def doubles(x_ptr, N: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, N), 2 * tl.load(x_ptr + tl.arange(0, N)))


def test_large_integers_that_are_no_addresses_stay_integers() -> None:
    x = torch.tensor([1 << 40, torch.zeros(1).data_ptr() + 1])
    expected = 2 * x.numpy()
    doubles[(1,)](x, 2)
    assert np.array_equal(x.numpy(), expected)
