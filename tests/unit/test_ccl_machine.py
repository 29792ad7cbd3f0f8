"""Collectives on real machines: right in every bit, never faster than links allow, and near that where links bind."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import GraphEngine
from kernbench.benches.tp_mlp import run as tp_mlp
from kernbench.ccl import contract as cuts
from kernbench.ccl.call import Call, Launcher, Outcome, Queues, _random, run_call
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.group_routes import latencies_of
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config
from kernbench.runtime_api import DPPolicy, bench
from kernbench.sim_engine.engine import KernelFailed
from kernbench.sim_engine.run.waits import wait_lines
from tests import all_reduce_own

REGISTRY = read_registry()
ENTRIES = {one.full_name: one for one in REGISTRY.entries}
SWITCHES = ("system.kind=switch", "system.switch.reduce=true")


def call(
    name: str, machine: str, shape: Shape | int, count: int, dtype: str = "f16", *, slots: int = 16, slot_bytes: int = 32768,
    tier: str = "tcm", check: bool = True, topo: str | None = None, over: tuple[str, ...] = (), module: Any = None,
    skew: tuple[int, ...] = (),
) -> Outcome:  # fmt: skip
    config, entry = load_config(machine, over), ENTRIES[name]
    group = group_of(config, shape if isinstance(shape, Shape) else shape_for(config, shape), topo)
    made = Call(name, module or entry.load(), group, count, dtype, slot_bytes, skew)
    return run_call(config, made, COLLECTIVES[entry.collective], Queues(slots, slot_bytes, tier), check=check)


@pytest.mark.parametrize("name", ENTRIES)
def test_every_algorithm_is_right_in_every_bit(name: str) -> None:
    how = {"slots": 6, "slot_bytes": 1024, "over": SWITCHES if ENTRIES[name].through_switches else ()}
    for topo, dtype, count in (("ring", "f16", 1), ("torus", "bf16", 700), ("mesh", "i32", 333)):
        assert call(name, "two_sips", Shape(2, 2, 2), count, dtype, topo=topo, **how).wrong == 0


SCHEDULES = [
    name for name, one in ENTRIES.items()
    if hasattr(one.load(), "schedule") and COLLECTIVES[one.collective].moves and not one.through_switches
]  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_long_lanes_between_chips_are_right_in_every_bit(name: str) -> None:
    """With slots of more than 32 KiB, lanes may be longer than 128 KiB; a lane of blocks depends on the scratchpad."""
    assert call(name, "h100_8x", Shape(4, 1, 1), 400_001, slots=4, slot_bytes=1 << 16).wrong == 0


CASES = st.tuples(
    st.sampled_from(sorted(ENTRIES)), st.sampled_from([2, 3, 5, 8, 12]), st.integers(1, 3000), st.integers(1, 6),
    st.sampled_from(["tcm", "sram", "hbm"]), st.sampled_from(["f32", "f16", "f8e4m3", "u8", "i64"]),
    st.lists(st.integers(0, 4), min_size=12, max_size=12),
)  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(CASES)
def test_any_size_ranks_slots_tiers_and_skews(case: Any) -> None:
    check(*case)


@pytest.mark.nightly
@settings(max_examples=1000, deadline=None)
@given(CASES)
def test_any_size_ranks_slots_tiers_and_skews_for_long(case: Any) -> None:
    check(*case)


def check(name: str, ranks: int, count: int, slots: int, tier: str, dtype: str, skews: list[int]) -> None:
    skew = () if name.startswith("barrier") else tuple(skews[:ranks])
    found = call(name, "two_sips", ranks, count, dtype, slots=slots, slot_bytes=1024, tier=tier, skew=skew)
    assert (found.status, found.wrong) == ("done", 0)


@pytest.mark.parametrize(
    ("machine", "shape", "link", "rate", "most"),
    [
        ("single_cube", Shape(1, 1, 8), "cube.mesh.link", 32, 1 << 18),  # neighbours round a cube
        ("pod_8sip", Shape(8, 1, 1), "system.link", 25, 1 << 17),  # a rank a SIP
    ],
)
def test_a_ring_comes_near_its_bound_where_links_bind(machine: str, shape: Shape, link: str, rate: int, most: int) -> None:
    """`2 (n - 1) / n * S / B` and 5 %, and the latency term: what one element a rank takes. Never below the first."""
    over = (f"{link}.bytes_per_cycle={rate}",)
    latency = call("all_reduce_ring", machine, shape, 8, check=False, over=over).cycles
    for count in (1 << 12, most):
        bound = 2 * 7 / 8 * count * 2 / rate
        taken = call("all_reduce_ring", machine, shape, count, check=False, over=over).cycles
        assert bound <= taken
    assert taken <= 1.05 * bound + latency


@pytest.mark.parametrize("chunk", [4 << 10, 16 << 10])
def test_a_ring_over_sips_sends_longer_messages(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message waits there for its way: with as short ones as on one SIP the same all-reduce takes longer."""
    shape = Shape(2, 1, 8)
    taken = call("all_reduce_ring", "two_sips", shape, chunk * shape.ranks // 2)
    monkeypatch.setattr(cuts, "LEAST_FAR_BYTES", cuts.LEAST_BYTES)
    short = call("all_reduce_ring", "two_sips", shape, chunk * shape.ranks // 2)
    assert (taken.wrong, short.wrong) == (0, 0)
    assert taken.cycles < 0.92 * short.cycles


@pytest.mark.parametrize("name", ["all_reduce_recursive_doubling", "all_reduce_ring", "broadcast_ring"])
def test_longer_messages_over_long_links_take_no_latency_more(name: str) -> None:
    """The links of a board have many bytes in flight: parts of a message in turn would take a latency each."""
    entry, config = ENTRIES[name], load_config("h200_8x", kind=SystemConfig)
    group = group_of(config, shape_for(config, 4))
    given = queues_of(REGISTRY, entry, config=config, group=group)
    assert given.slots is not None and given.slot_bytes is not None
    taken = []
    for nbytes in (2 << 10, 20 << 10, given.slot_bytes // 8):
        found = call(name, "h200_8x", 4, nbytes // 4, "f32", slots=given.slots, slot_bytes=given.slot_bytes)
        assert found.wrong == 0
        taken.append(found.cycles)
    latency = latencies_of(config).sip
    assert taken[1] < taken[0] + latency / 8
    assert taken[2] < taken[0] + latency / 2


@pytest.mark.parametrize("name", [name for name in ENTRIES if not name.startswith("barrier")])
def test_nothing_is_faster_than_the_links_of_a_pe(name: str) -> None:
    """Each rank must send so many bytes over the 128 bytes a cycle between its DMA and its router."""
    count, ranks = 6000, 8
    collective = COLLECTIVES[ENTRIES[name].collective]
    size = max(collective.has(count, ranks), collective.gets(count, ranks)) * 2
    assert call(name, "single_cube", ranks, count, check=False).cycles >= float(collective.bus_factor(ranks)) * size / 128


@pytest.mark.parametrize(
    ("name", "ranks", "count", "more"),
    [
        ("send_recv_ring", 2, 2040, 2100),  # two short messages take longer than one
        ("all_gather_ring", 3, 2040, 2100),
        ("all_to_all_ring", 8, 2040, 2100),
        ("all_gather_ring", 5, 210_000, 240_000),  # 13 and 15 messages: as many as slots, less one, would wait for credits
        ("all_reduce_ring", 8, 12 << 17, 15 << 17),
    ],
)
def test_a_size_a_little_larger_takes_little_longer(name: str, ranks: int, count: int, more: int) -> None:
    taken = [call(name, "single_cube", ranks, size - 9, check=False).cycles for size in (count, more)]
    assert taken[1] <= 1.1 * more / count * taken[0]


@pytest.mark.parametrize("name", ["all_reduce_ring", "reduce_ring", "all_to_all_ring"])
def test_a_slot_more_is_not_slower(name: str) -> None:
    """Lanes are not fewer where messages could go on from their slots."""
    taken = [call(name, "single_cube", 8, 20_000, slots=slots, slot_bytes=4096, check=False).cycles for slots in (2, 3, 4)]
    assert max(taken) < 1.08 * taken[0]


def test_fewer_credits_are_slower_and_right() -> None:
    taken = [call("all_reduce_ring", "single_cube", 4, 20_000, slots=slots, slot_bytes=1024) for slots in (16, 4, 1)]
    assert [one.wrong for one in taken] == [0, 0, 0]
    assert taken[0].cycles < taken[1].cycles < taken[2].cycles


def wrapped(name: str, kernel: Any) -> Any:
    """A module with another kernel."""
    module = ENTRIES[name].load()
    members = {one: getattr(module, one) for one in ("kernel_args", "neighbours", "reference")}
    return SimpleNamespace(kernel=kernel, **members)


def test_a_missing_receive_is_told_as_a_hang() -> None:
    """Rank 2 sends nothing and receives nothing: the ranks behind it wait, and the run says for whom."""
    module = ENTRIES["all_gather_ring"].load()

    def kernel(*args: Any) -> None:
        if args[-1].rank != 2:
            module.kernel(*args)

    found = call("all_gather_ring", "single_cube", 4, 100, module=wrapped("all_gather_ring", kernel))
    assert found.status == "deadlock"
    lines = wait_lines(found.engine.machine.result().waiting)
    assert any(line.startswith("rank 3 (") and "waits for a message of rank 2" in line for line in lines)


def test_counts_that_differ_are_told() -> None:
    module = ENTRIES["all_reduce_ring"].load()

    def kernel(*args: Any) -> None:
        module.kernel(*args[:2], args[2] - 4 * (args[-1].rank == 1), *args[3:])

    with pytest.raises(KernelFailed, match=r"receives f16\[25\], but .* sent f16\[24\]"):
        call("all_reduce_ring", "single_cube", 4, 100, module=wrapped("all_reduce_ring", kernel))


def test_a_swapped_neighbour_is_refused() -> None:
    module = ENTRIES["all_reduce_ring"].load()
    bad = wrapped("all_reduce_ring", module.kernel)
    bad.neighbours = lambda kind, shape: {**module.neighbours(kind, shape), 0: {(0, "E"): (2, "W"), (0, "W"): (3, "E")}}
    with pytest.raises(InputError, match=r"rank 0 E of plane 0 leads to rank 2 W, but rank 2 W of plane 0 leads to rank 1 E"):
        call("all_reduce_ring", "single_cube", 4, 100, module=bad)


def test_an_exchange_in_the_place_of_its_elements() -> None:
    """32 messages for each rank, and two at a time: none is stored over what the other way has still to load."""
    config, entry, count = load_config("single_cube"), ENTRIES["all_to_all_ring"], 2000
    group = group_of(config, shape_for(config, 3))
    blocks = np.arange(9 * count, dtype=np.int32).reshape(3, 3, count)
    made = Call("exchange", entry.load(), group, count, "i32", 256)
    got: dict[str, Any] = {}

    @bench(name="exchange", description="in place", machine="single_cube")
    def run(ctx: Any) -> None:
        x = ctx.from_numpy(blocks.reshape(3, -1)[np.argsort(group.rows)], placement=DPPolicy(*["row_wise"] * 3, *group.shape))
        Launcher(ctx, Queues(3, 256))(made, x, x)
        got["x"] = ctx.to_numpy(x)

    GraphEngine(config).run(run)
    for rank, at in enumerate(group.rows):
        assert np.array_equal(got["x"][at], blocks[:, rank].reshape(-1))


@pytest.mark.parametrize(("tier", "algo"), [("tcm", "ring"), ("sram", "hierarchical"), ("hbm", "halving_doubling")])
def test_gemm_all_reduce_gemm(tier: str, algo: str) -> None:
    """Kernels of one PE follow each other in its scratchpad; Phase 2 op by op, and in batches, gives the same."""
    engine = GraphEngine("single_cube")
    engine.run(tp_mlp, tier=tier, algo=algo, tokens=8, hidden=64, ffn=128, ranks=4)
    assert engine.activity.verify().ok
    assert engine.activity.verify(debug=True).ok


def test_a_module_of_the_user(tmp_path: Path) -> None:
    """A .py beside a file like ccl.yaml works as the package's do; one that lacks something is refused with its line."""
    source = Path(all_reduce_own.__file__)
    (tmp_path / "mine.py").write_text(source.read_text(encoding="utf-8").replace("all_reduce_own", "all_reduce_mine"))
    (tmp_path / "empty.py").write_text("")
    file = tmp_path / "ccl.yaml"
    lines = ["schema: kernbench/ccl/1", "algorithms:", "  all_reduce:", "    mine: {module: mine.py, topologies: [ring]}"]
    file.write_text("\n".join([*lines, "    empty: {module: empty.py, topologies: [ring]}"]))
    registry = read_registry(file, allow_code=tmp_path)
    found = call("all_reduce_ring", "single_cube", 3, 50, module=registry.find("all_reduce", "mine").load())
    assert found.wrong == 0
    with pytest.raises(InputError, match=r"ccl.yaml:5:\d+: module = .*it must have a function all_reduce_empty"):
        registry.find("all_reduce", "empty").load()


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ("1 / 0", r"mine.py:\d+, in reference: ZeroDivisionError: division by zero$"),
        ("inputs[:2]", "IndexError: list index out of range; it must return the elements of each of 3 ranks$"),
        ("None", "TypeError: 'NoneType' object is not subscriptable; it must return the elements of each of 3 ranks$"),
        ("exit(3)", r"mine.py:\d+, in reference: SystemExit: 3$"),
        ("[inputs[0].__iadd__(inputs[1])] * 3", r"mine.py:\d+, in reference: ValueError: output array is read-only$"),
    ],
)
def test_a_reference_that_fails_is_the_users(instead: str, said: str, tmp_path: Path) -> None:
    module = _mine(tmp_path, f"def reference(inputs, kind, shape, slot_bytes):\n    return {instead}\n")
    with pytest.raises(InputError, match=f"^all_reduce_ring: its reference failed: {said}"):
        call("all_reduce_ring", "single_cube", 3, 50, module=module)


@pytest.mark.parametrize(("instead", "size"), [("one[:0]", 0), ("one[:10]", 10), ("np.tile(one, 2)", 100), ("one[0]", 1)])
def test_a_reference_says_all_that_ranks_get(instead: str, size: int, tmp_path: Path) -> None:
    """What it left out was verified against nothing: no element was wrong."""
    own = f"def reference(inputs, kind, shape, slot_bytes):\n    import numpy as np\n    return [{instead} for one in inputs]\n"
    said = f"its reference gives {size} elements for rank 0, which gets 50; it must give everything that a rank receives"
    with pytest.raises(InputError, match=f"^all_reduce_ring: {said}$"):
        call("all_reduce_ring", "single_cube", 3, 50, module=_mine(tmp_path, own))


def test_a_sign_is_a_bit() -> None:
    """-0 is no 0."""
    module = wrapped("send_recv_ring", _zeros)
    for zero, wrong in ((0.0, 0), (-0.0, 150)):
        module.reference = lambda inputs, *_, zero=zero: [np.full_like(one, zero) for one in inputs]
        assert call("send_recv_ring", "single_cube", 3, 50, module=module).wrong == wrong


def _zeros(*args: Any) -> None:
    tl = args[-1]
    tl.store(args[1], tl.zeros((args[2],), args[3]))


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("def neighbours(shape): ...", "its neighbours must take kind, shape$"),
        ("def reference(inputs, kind, shape): ...", "its reference must take inputs, kind, shape, slot_bytes$"),
        ("def kernel_args(*eight, tl): ...", "its kernel_args must take in_ptr, out_ptr, .*, sip_topo_kind$"),
        ("kernel = all_reduce_mine = dict", "the arguments of its kernel must be in_ptr, .*, and are not known to Python$"),
    ],
)
def test_functions_that_take_something_else_are_refused_at_their_entry(own: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"ccl.yaml:4:\d+: module = .*, but {said}"):
        _mine(tmp_path, own)


def test_what_an_algorithm_makes_of_its_arguments() -> None:
    module = wrapped("all_reduce_ring", ENTRIES["all_reduce_ring"].load().kernel)
    module.kernel_args = lambda *nine: nine[:8]
    with pytest.raises(InputError, match=r"^all_reduce_ring: its kernel_args must return the nine arguments of its kernel"):
        call("all_reduce_ring", "single_cube", 2, 50, module=module)
    module = wrapped("all_reduce_ring", lambda *args: (yield))
    with pytest.raises(KernelFailed, match="the kernel all_reduce_ring is a generator, so nothing of it has run"):
        call("all_reduce_ring", "single_cube", 2, 50, module=module)


def _mine(folder: Path, own: str) -> Any:
    """The ring as `mine.py`, with something of one's own behind it."""
    source = Path(all_reduce_own.__file__)
    text = source.read_text(encoding="utf-8").replace("all_reduce_own", "all_reduce_mine")
    (folder / "mine.py").write_text(f"{text}\n\n{own}\n")
    return _registered(folder)


def _registered(folder: Path) -> Any:
    """The algorithm of `mine.py`."""
    file = folder / "ccl.yaml"
    lines = ["schema: kernbench/ccl/1", "algorithms:", "  all_reduce:", "    mine: {module: mine.py, topologies: [ring]}"]
    file.write_text("\n".join(lines))
    return read_registry(file, allow_code=folder / "mine.py").find("all_reduce", "mine").load()


def test_a_module_that_exits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(InputError, match=r"ccl.yaml:4:\d+: module = .*cannot be imported: SystemExit: 0, in .*/mine.py:2$"):
        _registered(tmp_path)


def test_groups_say_what_does_not_fit() -> None:
    config = load_config("two_sips")
    assert shape_for(config, 12) == Shape(1, 2, 6)
    with pytest.raises(InputError, match=r"ranks = 65, but two_sips.yaml has 64 PEs \(2 SIPs x 4 cubes x 8 PEs\)"):
        shape_for(config, 65)
    with pytest.raises(InputError, match='shape = "3x1x1", but the group takes 3 SIPs, and there are 2'):
        group_of(config, Shape(3, 1, 1))
    needed = "group: a system of several PEs is needed, but npu_mobile.yaml is a single NPU; use one of"
    with pytest.raises(InputError, match=f"^{re.escape(needed)}"):
        shape_for(load_config("npu_mobile"), 2)


def test_ranks_lie_next_to_each_other() -> None:
    """Round a cube, and cube by neighbouring cube: 2 x 2 cubes are a circle 1, 3, 2, 0."""
    group = group_of(load_config("two_sips"), Shape(1, 4, 1))
    assert [name.split(".")[1] for name in group.pes] == ["cube1", "cube3", "cube2", "cube0"]
    assert replace(group, kind=1).kind_name == "torus"


def test_the_time_of_a_broadcast_has_no_jumps() -> None:
    """A rank forwards a message before it stores it. At once, both shared the PE's link or not by chance of a few bytes."""
    config = load_config("single_cube")
    group, entry = group_of(config, Shape(1, 1, 8)), ENTRIES["broadcast_ring"]
    times = []
    for count in (11_200, 11_250, 11_264, 11_300):
        made = Call("broadcast", entry.load(), group, count, "f16", 32768)
        times.append(run_call(config, made, COLLECTIVES["broadcast"], Queues(16, 32768, "tcm"), check=False).cycles)
    assert max(times) < 1.03 * min(times)


def test_a_long_vector_over_a_grid_fits_into_scratchpads() -> None:
    """Four slices at a time would not: fewer are begun where less is free."""
    config = load_config("two_sips", ["pe.spm.bank_size_bytes=64KiB"], kind=SystemConfig)
    entry = ENTRIES["all_reduce_torus"]
    request = CclRequest(config, group_of(config, shape_for(config, 16)), entry, "f16", Queues(16, 16384, "tcm"), check=False)
    made, _ = row(request, 1 << 20)
    assert made is not None and made.cycles == 89_119


@pytest.mark.parametrize(("free", "cycles"), [(28, 9903), (32, 9903), (40, 9839)])
def test_two_slices_over_levels_run_at_a_time_only_if_a_message_more_fits(free: int, cycles: int) -> None:
    """`free`: KiB of the scratchpad beside four queues. With exactly the room of four tiles, two slices did not fit."""
    config = load_config("two_sips", [f"pe.spm.bank_size_bytes={(64 + free) * 1024 // 32}"], kind=SystemConfig)
    group, entry = group_of(config, Shape(2, 1, 4)), ENTRIES["all_reduce_hierarchical"]
    made, _ = row(CclRequest(config, group, entry, "f16", Queues(16, 1024, "tcm"), True), 48 << 10)
    assert made is not None and (made.wrong, made.cycles) == (0, cycles)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f8e4m3", "f8e5m2"])
def test_random_floats_are_from_a_half_to_two_and_of_both_signs(dtype: str) -> None:
    values = _random(dtype, 1001, 3).astype(np.float64)
    sizes = np.abs(values)
    assert values.shape == (1001,) and values.min() < 0 < values.max()
    assert 0.5 <= sizes.min() < 1 <= sizes.max() < 2
    assert not np.array_equal(values, _random(dtype, 1001, 4).astype(np.float64))
