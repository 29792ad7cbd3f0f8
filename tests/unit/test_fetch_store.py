"""`pe.fetch_store.bytes_per_cycle`: the tiles of composite ops go through one port of a PE, one after the other."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import GraphEngine, load_config
from kernbench.common.errors import InputError
from kernbench.runtime_api.bench import Bench
from tests.oracles.ref_fetch_store import stages


def product(size: tuple[int, int, int], tile: tuple[int, int, int], *overrides: str, pinned: bool = False) -> list[Any]:
    """The records of a product of f16 in the log, and the cycles of the run."""
    m, n, k = size

    def kernel(tl: Any) -> None:
        a = tl.zeros((m, k), "f16") if pinned else tl.ref(0, (m, k), "f16")
        tl.wait(tl.composite("gemm", a, tl.ref(1 << 20, (k, n), "f16"), 2 << 20, tile=tile))

    def run(ctx: Any) -> None:
        ctx.launch("product", kernel, grid=1)

    engine = GraphEngine(load_config("single_cube", list(overrides)))
    cycles = engine.run(Bench("port", "one product", run, None)).cycles
    assert engine.op_log is not None
    return [cycles, *(one for one in engine.op_log if one.op_name.startswith("TileToken/"))]


def cycle_stages(records: list[Any], kind: str) -> list[tuple[int, int]]:
    """Start and end of the stages of a kind, in the order of their ends."""
    freq = load_config("single_cube").freq_ghz
    found = [(round(one.t_start * freq), round(one.t_end * freq)) for one in records if one.op_name == f"TileToken/{kind}"]
    return sorted(found, key=lambda one: (one[1], one[0]))


PORT = "pe.fetch_store.bytes_per_cycle"


def test_a_tile_takes_its_bytes_through_the_port() -> None:
    """One tile of 16 x 16 x 16, f16: a FETCH of 1,024 bytes and a STORE of 512, 2 cycles each beside the port."""
    size = (16, 16, 16)
    free, *_ = product(size, size)
    for rate, fetch, store in (("100", 11, 6), ("1/3", 3072, 1536)):
        cycles, *records = product(size, size, f"{PORT}={rate}")
        [(start, end)], [(later, last)] = cycle_stages(records, "FETCH"), cycle_stages(records, "STORE")
        assert (end - start, last - later) == (fetch + 2, store + 2)
        assert cycles == free + fetch + store


def test_operands_that_are_not_streamed_go_through_the_port_too() -> None:
    size = (16, 16, 16)
    _, *records = product(size, size, f"{PORT}=64", pinned=True)
    [(start, end)] = cycle_stages(records, "FETCH")
    assert end - start == 1024 // 64 + 2


@settings(max_examples=5, deadline=None)
@given(
    tile=st.tuples(st.sampled_from([8, 16, 24]), st.sampled_from([8, 16, 24]), st.sampled_from([16, 32])),
    tiles=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)),
    rate=st.sampled_from(["16", "37", "64", "128", "1000", "5/2"]),
    cycles=st.integers(0, 5),
)
def test_the_port_is_that_of_the_model(tile: Any, tiles: Any, rate: str, cycles: int) -> None:
    """Every tile reads, so a FETCH can begin when its read has ended, and a STORE when its product has ended."""
    size = tuple(a * b for a, b in zip(tile, tiles, strict=True))
    _, *records = product(size, tile, f"{PORT}={rate}", f"pe.fetch_store.cycles={cycles}")  # type: ignore[arg-type]
    m, n, k = tile
    steps = tiles[2]
    reads, fetches = cycle_stages(records, "DMA_READ"), cycle_stages(records, "FETCH")
    stores = cycle_stages(records, "STORE")
    sums = cycle_stages(records, "GEMM")[steps - 1 :: steps]  # the last step of each sum
    asked = [(read[1], 2 * (m * k + k * n), fetch) for read, fetch in zip(reads, fetches, strict=True)]
    asked += [(done[1], 2 * m * n, store) for done, store in zip(sums, stores, strict=True)]
    asked.sort(key=lambda one: one[2])
    assert [one[0] for one in asked] == sorted(one[0] for one in asked)
    assert [one[2] for one in asked] == stages([one[:2] for one in asked], Fraction(rate), cycles)


def test_a_bandwidth_of_zero_is_refused() -> None:
    with pytest.raises(InputError, match=r"fetch_store.bytes_per_cycle = 0.*above 0"):
        load_config("single_cube", [f"{PORT}=0"])
