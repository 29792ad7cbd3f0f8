"""`DPPolicy` against an oracle that deals out single indices: every element is in one shard, or in each replica."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from kernbench.policy.placement import DPPolicy, Size
from tests.oracles.ref_placement import dealt

WAYS = st.sampled_from(["replicate", "row_wise", "column_wise", "tiled"])
SIZES = st.builds(Size, st.integers(1, 3), st.integers(1, 6), st.integers(1, 9))
SHAPES = st.lists(st.integers(1, 11), min_size=2, max_size=3).map(tuple)


def elements(offset: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(at, at + length) for at, length in zip(offset, shape, strict=True))))


@given(WAYS, WAYS, WAYS, SIZES, SHAPES)
def test_every_element_has_its_replicas(sip: str, cube: str, pe: str, size: Size, shape: tuple[int, ...]) -> None:
    policy = DPPolicy(sip, cube, pe)  # type: ignore[arg-type]
    shards = policy.shards(shape, size)
    assert [(s.sip, s.cube, s.pe) for s in shards] == list(product(range(size.sips), range(size.cubes), range(size.pes)))
    replicas = prod(count for way, count in zip((sip, cube, pe), size, strict=True) if way == "replicate")
    found = Counter(element for shard in shards for element in elements(shard.offset, shard.shape))
    assert found == dict.fromkeys(elements((0,) * len(shape), shape), replicas)


@given(WAYS, WAYS, WAYS, SIZES, SHAPES)
def test_shards_are_those_of_the_oracle(sip: str, cube: str, pe: str, size: Size, shape: tuple[int, ...]) -> None:
    policy = DPPolicy(sip, cube, pe)  # type: ignore[arg-type]
    found = [sorted(elements(shard.offset, shard.shape)) for shard in policy.shards(shape, size)]
    assert found == dealt(shape, [(sip, size.sips), (cube, size.cubes), (pe, size.pes)])


@given(st.integers(0, 40), st.integers(1, 12))
def test_sizes_differ_by_one_at_most_and_shrink(length: int, pes: int) -> None:
    sizes = [shard.shape[0] for shard in DPPolicy(pe="row_wise").shards((length,), Size(1, 1, pes))]
    assert sizes == sorted(sizes, reverse=True) and max(sizes) - min(sizes) <= 1
