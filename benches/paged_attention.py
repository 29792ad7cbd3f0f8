"""Decode attention over a paged KV cache: the kernel loads its page table, and what it loads next depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kernbench.benches._attention import Running, blockwise
from kernbench.benches._blocks import Work, blocks_in_flight, together
from kernbench.benches._reference import DTYPE, IN_FLIGHT, SEED, normal, spread, wide
from kernbench.common.dtypes import Array
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, bench
from kernbench.runtime_api.bench import Param


def runs_of(pages: Iterable[int], bank_pages: int) -> list[tuple[int, int]]:
    """Runs of consecutive pages in one bank, as first page and number of pages."""
    runs: list[tuple[int, int]] = []
    for page in pages:
        if runs and page == sum(runs[-1]) and page % bank_pages:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((page, 1))
    return runs


def spans_of(pages: Iterable[int], length: int, bank_pages: int, page_tokens: int) -> list[tuple[int, int]]:
    """First token in the cache and number of tokens of each transfer, for a sequence of `length` tokens."""
    spans, left = [], length
    for first, count in runs_of(pages, bank_pages):
        tokens = min(count * page_tokens, left)
        spans.append((first * page_tokens, tokens))
        left -= tokens
    return spans


def paged_attention(
    q: DevicePointer,
    k_pages: DevicePointer,
    v_pages: DevicePointer,
    table: DevicePointer,
    lengths: DevicePointer,
    out: DevicePointer,
    width: int,
    tl: Any,
) -> None:
    """One program for `width` sequences: the queries of each (heads that share a KV head) against the pages that its row of
    `table` names.

    The caches are `(banks, pages of a bank, tokens of a page, depth)`. A bank lies in one memory, anywhere in the system: the
    caches are used from their windows' first addresses.
    """
    (sequences, heads, depth), (_, bank_pages, page_tokens, _), row_pages = q.shape, k_pages.tensor_shape, table.shape[1]

    def fetch(first: int, tokens: int) -> tuple[Any, ...]:
        at = first * depth * q.itemsize
        return tuple(
            tl.load(cache.window + at, (tokens, depth), cache.dtype, wait=False, channel="kv_load")
            for cache in (k_pages, v_pages)
        )

    def work(sequence: int) -> Work:
        length = int(tl.load(lengths + sequence * lengths.itemsize, (1,), lengths.dtype)[0])
        if length == 0:
            return
        row = tl.load(table + sequence * row_pages * table.itemsize, (row_pages,), table.dtype)
        pages = [int(row[i]) for i in range(-(-length // page_tokens))]
        queries = tl.load(q + sequence * heads * depth * q.itemsize, (heads, depth), q.dtype, wait=False)
        spans = spans_of(pages, length, bank_pages, page_tokens)
        coming = fetch(*spans[0])
        yield
        tl.wait(queries)
        seen = Running(queries, depth**-0.5, tl)
        for after in [*spans[1:], None]:
            here = coming
            coming = fetch(*after) if after else ()
            yield
            tl.wait(*here)
            yield from seen.add(*here)
        result = yield from seen.result(out.dtype)
        tl.store(out + sequence * heads * depth * out.itemsize, result)

    first = tl.program_id() * width
    together([work(sequence) for sequence in range(first, min(first + width, sequences))])


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """Sequence by sequence, in the kernel's transfers."""
    q, depth = wide(inputs["q"]), params["depth"]
    caches = [wide(inputs[name]).reshape(-1, depth) for name in ("k_pages", "v_pages")]
    out = np.zeros(q.shape, np.float32)
    for sequence, length in enumerate(int(one) for one in inputs["lengths"]):
        if length:
            pages = inputs["table"][sequence, : -(-length // params["page_tokens"])]
            spans = spans_of((int(page) for page in pages), length, params["bank_pages"], params["page_tokens"])
            blocks = [(caches[0][at : at + n], caches[1][at : at + n]) for at, n in spans]
            out[sequence] = blockwise(q[sequence], blocks, depth**-0.5, params["dtype"])
    return {"out": out}


def page_table(params: Mapping[str, Any], pages_each: int) -> Array:
    """A row of pages for each sequence: in sequence, or dealt out at random over all that are used."""
    pages = np.arange(params["sequences"] * pages_each, dtype=np.int32)
    if params["layout"] == "shuffled":
        np.random.default_rng(params["seed"]).shuffle(pages)
    return pages.reshape(params["sequences"], pages_each)


@bench(
    name="paged_attention",
    description="decode attention with a page table in DRAM: consecutive pages are one transfer",
    params={
        "sequences": Param(16, "number of sequences, each with one new token", least=1),
        "heads": Param(8, "query heads that share a KV head", least=1),
        "depth": Param(64, "elements of a query", least=1),
        "tokens": Param(512, "number of tokens of the longest sequence; the other sequences are shorter", least=1),
        "page_tokens": Param(32, "tokens of a page", least=1),
        "bank_pages": Param(4, "consecutive pages in one memory, which one transfer can load", least=1),
        "layout": Param("shuffled", "order of the pages of a sequence in memory", choices=("shuffled", "contiguous")),
        "in_flight": IN_FLIGHT,
        "dtype": DTYPE,
        "seed": SEED,
    },
    reference=reference,
)
def run(ctx: Context) -> None:
    """A program for some sequences; the banks of the caches are spread over all PEs' memories."""
    params = ctx.params
    sequences, depth, dtype = params["sequences"], params["depth"], params["dtype"]
    pages_each = -(-params["tokens"] // params["page_tokens"])
    banks = -(-sequences * pages_each // params["bank_pages"])
    cache = banks, params["bank_pages"], params["page_tokens"], depth
    random = np.random.default_rng(params["seed"] + 3)
    lengths = random.integers(params["tokens"] // 2, params["tokens"] + 1, sequences).astype(np.int32)
    lengths[0] = params["tokens"]
    tensors = [
        ctx.from_numpy(normal(params["seed"], sequences, params["heads"], depth), name="q", dtype=dtype),
        ctx.from_numpy(normal(params["seed"] + 1, *cache), name="k_pages", dtype=dtype, placement=spread()),
        ctx.from_numpy(normal(params["seed"] + 2, *cache), name="v_pages", dtype=dtype, placement=spread()),
        ctx.from_numpy(page_table(params, pages_each), name="table"),
        ctx.from_numpy(lengths, name="lengths"),
        ctx.zeros((sequences, params["heads"], depth), dtype, name="out"),
    ]
    width = blocks_in_flight(ctx, "te", "ve")
    ctx.launch("paged_attention", paged_attention, *tensors, width, grid=-(-sequences // width))
    ctx.output("out", tensors[-1])
