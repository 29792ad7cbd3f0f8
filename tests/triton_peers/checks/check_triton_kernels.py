"""Kernels of triton_kernels (routing and products of a mixture of experts), compared with its references in PyTorch."""

from typing import Any

import pytest
import torch
from triton_kernels.compaction import compaction, compaction_torch  # type: ignore[import-not-found]
from triton_kernels.matmul import PrecisionConfig, matmul, matmul_torch  # type: ignore[import-not-found]
from triton_kernels.reduce import reduce  # type: ignore[import-not-found]
from triton_kernels.swiglu import PrecisionConfig as Limit  # type: ignore[import-not-found]
from triton_kernels.swiglu import swiglu, swiglu_torch
from triton_kernels.tensor_details.ragged_tensor import make_ragged_tensor_metadata_torch  # type: ignore[import-not-found]
from triton_kernels.testing import assert_close, assert_equal  # type: ignore[import-not-found]
from triton_kernels.topk import topk, topk_torch  # type: ignore[import-not-found]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(("tokens", "columns", "k", "kept"), [(64, 64, 4, 0.5), (131, 128, 16, 0.6), (96, 128, 16, 0.0)])
def test_compaction(tokens: int, columns: int, k: int, kept: float) -> None:
    index = torch.rand((tokens, columns)).argsort(dim=-1)[:, :k].to(torch.int32)
    values = torch.randn((tokens, k), dtype=torch.bfloat16)
    mask = torch.zeros((tokens, columns), dtype=torch.int32)
    keep = torch.rand(index.shape) < kept
    rows = torch.arange(tokens).unsqueeze(1).expand_as(index)
    mask[rows[keep], index[keep]] = 1
    bits = (mask.view(tokens, -1, 32) * (1 << torch.arange(32, dtype=torch.int32))).sum(dim=-1)
    for got, wanted in zip(compaction(values, index, bits), compaction_torch(values, index, bits), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("columns", [13, 32, 128])
@pytest.mark.parametrize("softmax", [True, False])
def test_topk(rows: int, columns: int, softmax: bool) -> None:
    x = torch.randn((rows, columns))
    got, wanted = (one(x, 8, apply_softmax=softmax) for one in (topk, topk_torch))
    assert_close(got.vals, wanted.vals)
    assert_equal(got.indx, wanted.indx)
    assert_equal(got.mask.storage.data, wanted.mask.storage.data)


def test_routing() -> None:
    """Where the tokens of each expert lie, from the mask of `topk`."""
    found = topk(torch.randn((64, 32)), 4)
    metadata = found.mask_metadata
    chosen = found.indx.long().flatten()
    assert_equal(metadata.col_sum, torch.bincount(chosen, minlength=32).to(torch.int32))
    order = metadata.row_sorted_indx.long()
    assert torch.equal(metadata.col_sorted_indx.long()[order], torch.arange(order.numel()))


@pytest.mark.parametrize("limit", [1e-2, 10])
def test_swiglu(limit: float) -> None:
    x = torch.randn((33, 128), dtype=torch.bfloat16)
    assert_close(swiglu(x, 0.5, Limit(limit=limit)), swiglu_torch(x, 0.5, Limit(limit=limit)))


@pytest.mark.parametrize("dim", [0, 1])
def test_reduce(dim: int) -> None:
    x = torch.randn((4, 5, 64))
    assert_close(reduce(x, dim=dim)[0], x.sum(dim))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (40, 96, 128)])
def test_matmul(m: int, n: int, k: int) -> None:
    a, b = torch.randn((m, k), dtype=torch.float16), torch.randn((k, n), dtype=torch.float16)
    bias = torch.randn(n)
    assert_close(matmul_torch(a, b, bias, precision_config=PrecisionConfig()), matmul(a, b, bias))


def test_matmul_of_experts() -> None:
    """A stack of matrices, each for the rows of one expert."""
    sizes = torch.tensor([10, 0, 30, 8], dtype=torch.int32)
    ragged: Any = make_ragged_tensor_metadata_torch(sizes, 48)  # its kernel writes past the view that it is given
    a, b = torch.randn((48, 64), dtype=torch.float16), torch.randn((4, 64, 32), dtype=torch.float16)
    got = matmul(a, b, None, a_ragged_metadata=ragged)
    wanted = matmul_torch(a, b, None, a_ragged_metadata=ragged, precision_config=PrecisionConfig())
    assert_close(wanted, got)
