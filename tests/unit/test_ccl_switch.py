"""Queues through switches, and the collectives that use them: values, times, links, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench import Machine
from kernbench.ccl import dist
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import Group, group_of
from kernbench.ccl.measure import CclRequest, counts_of, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import Tuner
from kernbench.cmdq import Program
from kernbench.common.errors import InputError
from kernbench.components.builtin.switch_queue import MULTICAST, REDUCE, SwitchQueueForm
from kernbench.config import SystemConfig, load_config
from kernbench.runtime_api import Context, bench
from kernbench.sim_engine.engine import GraphEngine, KernelFailed
from tests.queues import idle, now

SWITCH = ["system.kind=switch", "system.switch.reduce=true"]
PES = [f"sip{sip}.cube0.pe0" for sip in range(4)]


def machine(*more: str, sips: int = 4) -> SystemConfig:
    return load_config("two_sips", [f"system.sips={sips}", *SWITCH, *more], kind=SystemConfig)


def wrong(collective: str, shape: Shape, size: int, dtype: str = "f16", redop: str = "sum", algo: str = "switch") -> Any:
    small = ["sip.rows=1", f"sip.cols={shape.cubes}", f"cube.pes={shape.pes}"]
    config, registry = machine(*small, sips=shape.sips), read_registry()
    entry, group = registry.find(collective, algo), group_of(config, shape)
    request = CclRequest(config, group, entry, dtype, queues_of(registry, entry), check=True, redop=redop)
    made, outcome = row(request, counts_of(request, size, size, 2)[0])
    assert made is not None, outcome.status
    return made.wrong


@pytest.mark.parametrize("shape", [Shape(4, 1, 1), Shape(2, 2, 3), Shape(3, 1, 2)])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_values(collective: str, shape: Shape) -> None:
    for size in (2, 5000, 200_000) if shape.ranks == 4 else (2, 5000):
        assert wrong(collective, shape, size) == 0


@pytest.mark.parametrize(
    ("dtype", "redop"), [("f32", "max"), ("i32", "sum"), ("bf16", "prod"), ("f16", "avg"), ("i8", "min"), ("i32", "bxor")]
)
def test_operations(dtype: str, redop: str) -> None:
    assert wrong("all_reduce", Shape(3, 1, 2), 9000, dtype, redop) == 0


def run(
    config: SystemConfig, kernel: Any, *forms: SwitchQueueForm, pes: list[str] = PES, slots: int = 2
) -> tuple[Any, GraphEngine]:
    """The elements that a kernel stores for each rank, 512 of f32 each."""
    found: dict[str, Any] = {}

    @bench(name="through", description="a kernel with queues through switches")
    def through(ctx: Context) -> None:
        out = ctx.zeros((len(pes), 512), name="out")
        ctx.install_queues({}, ranks=pes, slots=slots, slot_bytes=2048, through_switches=forms)
        ctx.launch("through", kernel, out, pes=pes)
        found["out"] = ctx.to_numpy(out)

    engine = GraphEngine(config)
    engine.run(through)
    return found.get("out"), engine


def summed(out: Any, tl: Any) -> None:
    """Each rank gives its number and one; the second rank stores the sum."""
    tl.send(REDUCE, tl.full((512,), tl.rank + 1.0, "f32"))
    if tl.rank == 1:
        tl.store(out + 2048 * tl.rank, tl.recv(REDUCE, (512,), "f32"))


def spread(out: Any, tl: Any) -> None:
    if tl.rank == 0:
        tl.send(MULTICAST, tl.full((512,), 7.0, "f32"))
    else:
        tl.store(out + 2048 * tl.rank, tl.recv(MULTICAST, (512,), "f32"))


def once(out: Any, tl: Any) -> None:
    """One message in the direction of the queue, and no store of its elements."""
    way = next(way for _, way in tl._runner.scheduler.queues.queues_out | tl._runner.scheduler.queues.queues_in)
    if way == REDUCE or tl.rank == 1:
        tl.send(way, tl.zeros((512,), "f32"))
    if (tl.rank == 1) == (way == REDUCE):
        tl.recv(way, (512,), "f32")


def bytes_at_switch(engine: GraphEngine) -> dict[str, int]:
    """Bytes on each link of the switch."""
    return {name: int(one["bytes"]) for name, one in engine.machine.result().counters.items() if "switch0" in name}


ALL = (0, 1, 2, 3)


def test_a_switch_adds_what_all_members_send() -> None:
    found, _ = run(machine(), summed, SwitchQueueForm(0, REDUCE, 1, ALL))
    assert (found[1] == 10).all() and not found[[0, 2, 3]].any()
    found, _ = run(machine(), summed, SwitchQueueForm(0, REDUCE, 1, ALL, "mul"))
    assert (found[1] == 24).all()


def test_a_switch_copies_to_all_other_members() -> None:
    found, _ = run(machine(), spread, SwitchQueueForm(0, MULTICAST, 0, ALL))
    assert (found[1:] == 7).all() and not found[0].any()


@pytest.mark.parametrize("way", [REDUCE, MULTICAST])
def test_every_link_carries_a_message_once(way: str) -> None:
    _, engine = run(machine(), once, SwitchQueueForm(0, way, 1, ALL))
    moved = bytes_at_switch(engine)
    up = [moved.get(f"sip{sip}.io0.io_noc-switch0", 0) for sip in range(4)]
    down = [moved.get(f"switch0-sip{sip}.io0.io_noc", 0) for sip in range(4)]
    assert (up, down) == (([2048] * 4, [0, 2048, 0, 0]) if way == REDUCE else ([0, 2048, 0, 0], [2048, 0, 2048, 2048]))


def test_the_time_of_a_message_does_not_depend_on_the_number_of_members() -> None:
    """Latency and bytes of one route; a second message waits only for the bytes of the first."""
    came: dict[int, list[int]] = {}
    for members in ((0, 1), ALL):
        _, engine = run(machine(), spread, SwitchQueueForm(0, MULTICAST, 0, members), pes=PES[: len(members)])
        log = [one for one in engine.op_log if one.op_name == "ipcq_copy"]
        came[len(members)] = [round(one.t_end - one.t_start) for one in log]
    assert came[4] == came[2] * 3


def starts(engine: GraphEngine) -> list[int]:
    """[cycle] Of each message."""
    return sorted({round(one.t_start) for one in engine.op_log if one.op_name == "ipcq_copy"})


@pytest.mark.parametrize("last", ALL)
@pytest.mark.parametrize("root", [1, 3])
def test_a_message_starts_when_the_send_of_the_last_member_has_reached_its_ipcq(root: int, last: int) -> None:
    config, issued = machine(), []

    def kernel(out: Any, tl: Any) -> None:
        x = tl.zeros((512,), "f32")
        idle(tl, (1100 if tl.rank == last else 1000) - now(tl))
        issued.append(now(tl))
        tl.send(REDUCE, x)
        if tl.rank == root:
            tl.recv(REDUCE, (512,), "f32")

    _, engine = run(config, kernel, SwitchQueueForm(0, REDUCE, root, ALL))
    assert sorted(issued) == [1000, 1000, 1000, 1100]
    assert starts(engine) == [1100 + config.pe.scheduler.cycles + config.pe.ipcq.cycles]


@pytest.mark.parametrize("late", [-40, -1, 0, 1])
@pytest.mark.parametrize("way", [REDUCE, MULTICAST])
def test_a_message_through_a_switch_waits_for_credits_that_are_on_their_way(way: str, late: int) -> None:
    """Each receiver frees its only slot in cycle 1000; the second sends have reached PE_IPCQ `late` cycles after the last
    credit is back."""
    config = machine()
    reach = Machine(config, Program("none"), whole=True).plan.reach
    pes = [config.pe_names.index(pe) for pe in PES]
    assert reach is not None
    credit = 1000 + config.pe.ipcq.credit_cycles + max(reach.peer_cycles(pes[1], pes[rank]) for rank in (0, 2, 3))

    def kernel(out: Any, tl: Any) -> None:
        sends, receives = way == REDUCE or tl.rank == 1, (way == REDUCE) == (tl.rank == 1)
        x = tl.zeros((512,), "f32")
        if sends:
            tl.send(way, x)
        if receives:
            kept = tl.recv(way, (512,), "f32")
            idle(tl, 1000 - now(tl))
            del kept
        if sends:
            idle(tl, credit + late - config.pe.scheduler.cycles - config.pe.ipcq.cycles - now(tl))
            tl.send(way, x)
        if receives:
            tl.recv(way, (512,), "f32")

    _, engine = run(config, kernel, SwitchQueueForm(0, way, 1, ALL), slots=1)
    assert starts(engine)[1:] == [credit + max(late, 0)]


@pytest.mark.parametrize(("members", "total"), [(ALL, 0), ((3, 2, 1, 0), 2), ((0, 3, 1, 2), 2)])
def test_messages_are_added_in_the_order_of_the_members(members: tuple[int, ...], total: int) -> None:
    """2**24 + 1 is 2**24 as f32, and -2**24 + 1 has its exact value."""

    def kernel(out: Any, tl: Any) -> None:
        tl.send(REDUCE, tl.full((512,), (2.0**24, 1.0, 1.0, -(2.0**24))[tl.rank], "f32"))
        if tl.rank == 1:
            tl.store(out + 2048 * tl.rank, tl.recv(REDUCE, (512,), "f32"))

    found, _ = run(machine(), kernel, SwitchQueueForm(0, REDUCE, 1, members))
    assert (found[1] == total).all()


def odd(out: Any, tl: Any) -> None:
    tl.send(REDUCE, tl.zeros((512 - tl.rank // 3,), "f32"))
    if tl.rank == 1:
        tl.recv(REDUCE, (512,), "f32")


def test_all_members_send_the_same_shape() -> None:
    with pytest.raises(KernelFailed, match=r"f32\[512\].*to be combined with f32\[511\] of rank 3"):
        run(machine(), odd, SwitchQueueForm(0, REDUCE, 1, ALL))


def silent(out: Any, tl: Any) -> None:
    if tl.rank != 3:
        tl.send(REDUCE, tl.zeros((512,), "f32"))
    if tl.rank == 1:
        tl.recv(REDUCE, (512,), "f32")


def test_a_deadlock_names_the_member_that_sent_nothing() -> None:
    _, engine = run(machine(), silent, SwitchQueueForm(0, REDUCE, 1, ALL))
    result = engine.machine.result()
    assert result.status == "deadlock"
    waits = {one["rank"]: (one["waits_for"], one["reason"]) for one in result.waiting}
    assert waits[1] == (3, "message")


@pytest.mark.parametrize(
    ("config", "form", "said"),
    [
        (["system.sips=4"], SwitchQueueForm(0, REDUCE, 1, ALL), "need switches that combine"),
        (["system.sips=4", "system.kind=switch"], SwitchQueueForm(0, REDUCE, 1, ALL), "need switches that combine"),
        ([*SWITCH, "system.sips=4"], SwitchQueueForm(0, REDUCE, 1, (1,)), "two or more of the ranks"),
        ([*SWITCH, "system.sips=4"], SwitchQueueForm(0, REDUCE, 3, (0, 1)), "its root is one of them"),
        ([*SWITCH, "system.sips=4"], SwitchQueueForm(0, "SUM", 1, ALL), "one of REDUCE, MULTICAST"),
    ],
)
def test_refusals(config: list[str], form: SwitchQueueForm, said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(load_config("two_sips", config, kind=SystemConfig), summed, form)


@pytest.mark.parametrize(("direction", "members"), [(REDUCE, (0, 3)), (REDUCE, (1, 2, 3)), (MULTICAST, (1, 2, 3))])
def test_a_switch_is_on_the_routes_of_all_members(direction: str, members: tuple[int, ...]) -> None:
    """Two nodes of two SIPs: the routes to the other SIP of the root's node and to the one on its rail have no common switch.
    Those to and from the fourth SIP pass through different ones."""
    config = load_config("two_sips", ["system.sips=4", "system.kind=rails", "system.rows=2", "system.switch.reduce=true"])
    with pytest.raises(InputError, match=r"no switch is on the routes between sip3\.cube0\.pe0 and all other members"):
        run(config, summed, SwitchQueueForm(0, direction, 3, members))


def test_members_are_on_different_sips_and_slots_in_scratchpads() -> None:
    pes = ["sip0.cube0.pe0", "sip0.cube0.pe1"]
    with pytest.raises(InputError, match="must be on different SIPs"):
        run(machine(), summed, SwitchQueueForm(0, REDUCE, 1, (0, 1)), pes=pes)
    with pytest.raises(InputError, match="slots in scratchpads"):
        run(machine("pe.ipcq.tier=hbm"), summed, SwitchQueueForm(0, REDUCE, 1, ALL))


def test_the_tuner_knows_the_algorithm_only_where_switches_add() -> None:
    config, plain = machine(), load_config("two_sips", kind=SystemConfig)
    group, other = group_of(config, Shape(4, 1, 1)), group_of(plain, Shape(2, 1, 1))

    def names(where: SystemConfig, ranks: Group) -> set[str]:
        return {one.name for one in Tuner(where, ranks, read_registry()).candidates("all_reduce")}

    assert "switch" in names(config, group) and "switch" not in names(plain, other)
    assert "switch" not in names(config, group_of(config, Shape(1, 2, 2)))


def test_the_tuner_chooses_it_where_it_is_the_fastest() -> None:
    config, registry = machine(), read_registry()
    group = group_of(config, Shape(4, 1, 1))
    choice = Tuner(config, group, registry).choose("all_reduce", 32768, "f16")
    times = {}
    for name in ("switch", "recursive_doubling", "hierarchical"):  # the best of those without a switch
        entry = registry.find("all_reduce", name)
        made, _ = row(CclRequest(config, group, entry, "f16", queues_of(registry, entry), check=False), 32768)
        assert made is not None
        times[name] = made.cycles
    assert choice.name == "switch" == min(times, key=lambda name: times[name])
    assert choice.cycles["switch"] == pytest.approx(times["switch"], rel=0.2)


def test_dist_runs_it() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group(backend="kernbench")
        x = dist.from_numpy(np.full(1000, rank + 1, np.float32))
        dist.all_reduce(x)
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        assert (dist.to_numpy(x) == 10).all()

    @bench(name="d", description="all-reduces in a switch")
    def d(ctx: Context) -> None:
        dist.spawn(ctx, worker, ranks=4, algorithms={"all_reduce": "switch"})

    assert GraphEngine(machine("sip.rows=1", "sip.cols=1", "cube.pes=1")).run(d).status == "done"
