"""The algorithms against numpy, on a small machine of greenlets and deques that finds hangs (tests/unit/ccl_fake.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.ccl.call import place_in
from kernbench.ccl.collectives import CCL_DTYPES, COLLECTIVES
from kernbench.ccl.contract import KernelArgs, Shape, switch_queues
from kernbench.ccl.registry import Entry, read_registry
from kernbench.ccl.rings import MESH, RING, TORUS
from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from tests.unit.ccl_fake import OUT, Hang, Machine

ENTRIES = {one.full_name: one for one in read_registry().entries}
KINDS = (RING, TORUS, MESH)
SHAPES = (Shape(1, 1, 1), Shape(1, 1, 2), Shape(2, 1, 1), Shape(1, 1, 7), Shape(9, 1, 1), Shape(6, 1, 2), Shape(2, 2, 4))


def elements(dtype: str, count: int, seed: int) -> Array:
    random, kind = np.random.default_rng(seed), dtype_of(dtype)
    if kind.kind == "float":
        return narrow(random.standard_normal(count, np.float32), dtype)
    return random.integers(0, 100, count).astype(kind.numpy)


def run(
    entry: Entry, shape: Shape, kind: int, count: int, dtype: str = "f16", slots: int = 4, slot_bytes: int = 256, seed: int = 0,
    table: Callable[[Any], Any] = lambda table: table, in_place: bool = False,
) -> tuple[list[Array], list[Array], Machine]:  # fmt: skip
    """What each rank has, and what it got: as many elements as the reference says."""
    module, collective = entry.load(), COLLECTIVES[entry.collective]
    ranks, size = shape.ranks, dtype_of(dtype).numpy.itemsize
    inputs = [elements(dtype, collective.has(count, ranks), seed + rank) for rank in range(ranks)]
    out = [collective.gets(count, ranks) * size] * ranks
    switched = switch_queues(module, kind, shape, "add")
    machine = Machine(table(module.neighbours(kind, shape)), ranks, inputs, out, slots, slot_bytes, switched)
    to = 0 if in_place else OUT

    def kernel(tl: Any) -> None:
        sip, cube, _ = shape.place(tl.rank)
        args = module.kernel_args(0, to, count, dtype, sip, shape.sips, cube, shape.cubes, kind)
        assert tuple(args) == KernelArgs(0, to, count, dtype, sip, shape.sips, cube, shape.cubes, kind)
        module.kernel(*args, tl)

    machine.run(kernel, seed)
    return inputs, [memory[to == OUT].view(dtype_of(dtype).numpy) for memory in machine.memories], machine


def check(entry: Entry, shape: Shape, kind: int, count: int, **how: Any) -> None:
    inputs, got, machine = run(entry, shape, kind, count, **how)
    expected = entry.load().reference(inputs, kind, shape, machine.slot_bytes)
    for rank, right in enumerate(expected):
        assert np.array_equal(got[rank][: right.size].view(np.uint8), np.ascontiguousarray(right).view(np.uint8)), rank


@pytest.mark.parametrize("name", ENTRIES)
def test_what_an_algorithm_raises_is_found_in_its_own_file(name: str) -> None:
    """Also where its kernel is made by a frame of the package: of a schedule, what the schedule raises."""
    module = ENTRIES[name].load()
    ranks = math.nan if hasattr(module, "schedule") else 2
    with pytest.raises((AttributeError, TypeError, ValueError)) as raised:
        module.kernel(0, 0, 1, "f32", 0, 1, 0, 1, RING, SimpleNamespace(world_size=ranks, rank=0))
    assert place_in(module, raised.value).startswith(f"{name}.py:")


@pytest.mark.parametrize("name", ENTRIES)
def test_every_algorithm_gives_what_its_reference_says(name: str) -> None:
    """Sizes that do and do not divide by ranks, fewer elements than ranks, one slot and many; ranks run in a random order."""
    scheduled = hasattr(ENTRIES[name].load(), "schedule")  # with as many lanes by longer messages
    for number, shape in enumerate(SHAPES):
        for count in (1, 7, 100, 300 if scheduled else 700):
            kind, slots = KINDS[(number + count) % 3], (1, 2, 3, 8)[(number + count // 7) % 4]
            check(ENTRIES[name], shape, kind, count, slots=slots, slot_bytes=1024 if scheduled else 256, seed=count)


def in_numpy(collective: str, inputs: list[Array]) -> list[Array]:
    """What the ranks get, by rank, of integers, whose sums have no order; fewer rows where the other ranks get nothing."""
    given, ranks = np.stack(inputs), len(inputs)
    found: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: [given.sum(0, given.dtype)] * ranks,
        "all_gather": lambda: [given.reshape(-1)] * ranks,
        "reduce_scatter": lambda: given.sum(0, given.dtype).reshape(ranks, -1),
        "broadcast": lambda: [given[0]] * ranks,
        "reduce": lambda: [given.sum(0, given.dtype)],
        "gather": lambda: [given.reshape(-1)],
        "scatter": lambda: given[0].reshape(ranks, -1),
        "all_to_all": lambda: given.reshape(ranks, ranks, -1).swapaxes(0, 1).reshape(ranks, -1),
        "send_recv": lambda: np.roll(given, 1, axis=0),
        "barrier": list,
    }
    return list(found[collective]())


@pytest.mark.parametrize("name", ENTRIES)
def test_every_algorithm_gives_what_numpy_says(name: str) -> None:
    """References of schedules replay the same schedules, so they are no proof by themselves. On a flat ring, as all else."""
    for shape in (Shape(1, 1, 2), Shape(1, 1, 7), Shape(3, 1, 1), Shape(2, 2, 3)):
        inputs, got, _ = run(ENTRIES[name], shape, RING, 37, dtype="i32", slot_bytes=512)
        for rank, right in enumerate(in_numpy(ENTRIES[name].collective, inputs)):
            assert np.array_equal(got[rank], right), (shape, rank)


OTHER_SIZES = ("all_gather", "reduce_scatter", "barrier", "gather", "scatter")  #: of elements and results


@pytest.mark.parametrize("name", [name for name in ENTRIES if not name.startswith(OTHER_SIZES)])
def test_results_may_take_the_place_of_elements(name: str) -> None:
    """Nothing is stored over what is still to be loaded: more messages than run at a time, in random orders."""
    for seed, ranks in enumerate((2, 3, 5, 8) * 2):
        for slots in (1, 3, 4):
            how: dict[str, Any] = {"slots": slots, "slot_bytes": 256, "seed": seed, "in_place": True}
            check(ENTRIES[name], Shape(1, 1, ranks), RING, 400, dtype="i32", **how)


@pytest.mark.parametrize("dtype", CCL_DTYPES)
def test_every_type(dtype: str) -> None:
    for name in ("all_reduce_ring", "all_reduce_halving_doubling", "reduce_ring"):
        check(ENTRIES[name], Shape(1, 1, 5), RING, 77, dtype=dtype)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(ENTRIES)),
    st.sampled_from([Shape(1, 1, n) for n in range(2, 17)] + [Shape(4, 1, 3), Shape(3, 2, 2), Shape(16, 1, 1)]),
    st.sampled_from(KINDS), st.integers(1, 900), st.integers(1, 9), st.sampled_from([64, 256, 4096]), st.integers(0, 1000),
)  # fmt: skip
def test_any_size_ranks_and_slots(
    name: str, shape: Shape, kind: int, count: int, slots: int, slot_bytes: int, seed: int
) -> None:
    check(ENTRIES[name], shape, kind, count, slots=slots, slot_bytes=slot_bytes, seed=seed)


def test_64_ranks() -> None:
    for name in ("all_reduce_ring", "all_reduce_hierarchical", "all_reduce_halving_doubling"):
        check(ENTRIES[name], Shape(4, 2, 8), TORUS, 150)


@pytest.mark.parametrize("name", [name for name in ENTRIES if name.startswith("all_reduce")])
def test_the_references_are_sums(name: str) -> None:
    """An oracle that knows of no order: f64 sums, within what rounding n numbers in any order may lose."""
    shape = Shape(2, 2, 4)
    inputs = [elements("f32", 500, rank) for rank in range(shape.ranks)]
    right = np.sum([one.astype(np.float64) for one in inputs], axis=0)
    for found in ENTRIES[name].load().reference(inputs, MESH, shape, 256):
        assert np.max(np.abs(widen(found) - right)) < 16 * 16 * 2.0**-24 * 4


def test_messages_of_a_ring() -> None:
    """2 (n - 1) messages a rank where a chunk is one message: 8 ranks send 14 each; of 24 elements a chunk has 3."""
    _, _, machine = run(ENTRIES["all_reduce_ring"], Shape(1, 1, 8), RING, 24)
    assert machine.sent == 8 * 14


def test_a_barrier_waits_for_all() -> None:
    """Nobody is through before everybody has begun."""
    events: list[str] = []
    for name, ranks in product(("barrier_dissemination", "barrier_tree"), (2, 5, 16)):
        module = ENTRIES[name].load()
        machine = Machine(module.neighbours(RING, Shape(1, 1, ranks)), ranks, [np.zeros(1)] * ranks, [0] * ranks, 1, 64)

        def kernel(tl: Any, ranks: int = ranks, module: Any = module) -> None:
            events.append("begun")
            module.kernel(*module.kernel_args(0, OUT, 1, "i32", 0, 1, 0, 1, RING), tl)
            assert events.count("begun") >= ranks
            events.append("through")

        events.clear()
        machine.run(kernel, ranks)
        assert events.count("through") == ranks


def test_seeded_mistakes_are_seen() -> None:
    """The checks above see a swapped pair of neighbours, and the small machine a kernel that does not receive."""

    def swapped(table: dict[int, Any]) -> dict[int, Any]:
        east = {rank: ways[0, "E"] for rank, ways in table.items()}
        return {rank: {(0, "E"): east[(rank + 1) % 4], (0, "W"): ways[0, "W"]} for rank, ways in table.items()}

    with pytest.raises((Hang, AssertionError)):
        check(ENTRIES["all_gather_ring"], Shape(1, 1, 4), RING, 50, table=swapped)
    with pytest.raises(Hang):
        machine = Machine({0: {(0, "E"): (1, "W")}, 1: {(0, "W"): (0, "E")}}, 2, [np.zeros(1)] * 2, [0, 0], 1, 64)
        machine.run(lambda tl: tl.wait(tl.recv_async("W", (1,), "i32")) if tl.rank else None)
