"""Queues between PEs: times by hand, credits, order, errors, deadlocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kernbench.common.errors import InputError
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu.launch import PeWork
from kernbench.triton_emu.queues import NeighbourTable
from tests.kernels import Run, at
from tests.queues import CREDIT, IPCQ, LATENCY, SCHEDULER, idle, line, names, now, queued, row

X = np.arange(4096, dtype=np.float32)


def copies(run: Run) -> list[tuple[int, int]]:
    """When each message moved."""
    return [(int(one.t_start), int(one.t_end)) for one in run.log if one.op_name == "ipcq_copy"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("elements", "cycles"), [(1, 1), (16, 1), (17, 2), (160, 10), (4096, 256)])
def test_a_message_takes_the_way_and_its_bytes(elements: int, cycles: int) -> None:
    """A send issued in cycle c moves from c + 2 on: one cycle of the scheduler, one of PE_IPCQ. Its bytes follow after the
    latency of the way, 64 a cycle, and it is there when the last has moved: in that cycle, and not in the one before."""
    seen = {}

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (elements,), "f32")
            seen["sent"] = now(tl)
            done = tl.send("E", x)
            assert now(tl) == seen["sent"]  # it does not wait
            tl.wait(done)
            seen["left"] = now(tl)
        else:
            assert np.array_equal(tl.recv("W", elements, "f32").data, X[:elements])
            seen["came"] = now(tl)

    run = queued(kernel, line(2), memory={0: X}).run()
    start = seen["sent"] + SCHEDULER + IPCQ
    assert copies(run) == [(start, start + LATENCY + cycles)]
    assert seen["came"] == seen["left"] == start + LATENCY + cycles


@pytest.mark.parametrize(("sent", "asked"), [("f32", "float32"), ("float32", "f32"), (np.float32, np.dtype("f4"))])
@pytest.mark.parametrize("shape", [16, np.int64(16), (16,), [16]])
def test_types_and_shapes_have_several_names(sent: Any, asked: Any, shape: Any) -> None:
    """A message of `f32` is what a receive of `float32` asks for."""
    seen = {}

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tl.send("E", tl.load(0, shape, sent))
        else:
            seen["came"] = tl.recv("W", shape, asked).data

    queued(kernel, line(2), memory={0: X}).run()
    assert np.array_equal(seen["came"], X[:16])


@pytest.mark.parametrize("late", [-1, 0, 1, 30])
def test_a_receive_takes_its_time_however_long_the_message_is_there(late: int) -> None:
    seen = {}

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tl.send("E", tl.load(0, (16,), "f32"))
        else:
            arrived = now(tl) + 1 + 19 + SCHEDULER + IPCQ + LATENCY + 1  # the load: 1 to issue, 19 in flight
            idle(tl, arrived - SCHEDULER - IPCQ + late - now(tl))
            seen["asked"] = now(tl)
            tl.recv("W", 16, "f32")
            seen["came"] = now(tl)
            seen["arrived"] = arrived

    run = queued(kernel, line(2), memory={0: X}).run()
    seen["arrived"] = copies(run)[0][1]
    assert seen["came"] == max(seen["arrived"], seen["asked"] + SCHEDULER + IPCQ)


def test_a_second_message_follows_on_the_same_way() -> None:
    """Both are in flight at a time: they share 64 B a cycle from the second one's first byte on.

    The second is issued one cycle later: the first has 64 of its 640 B by then, and both end after 640 + 640 B and a cycle.
    """

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x, y = tl.load(0, (160,), "f32"), tl.load(640, (160,), "f32")
            idle(tl, 5)
            tl.send("E", x)
            idle(tl, 1)
            tl.send("E", y)
        else:
            a, b = tl.recv("W", 160, "f32"), tl.recv("W", 160, "f32")
            assert a.data[0] == 0 and b.data[0] == 160

    (start, first), (second, end) = copies(queued(kernel, line(2), memory={0: X}).run())
    assert second == start + 1
    assert end == start + LATENCY + 20 and first == end - 1  # 64 B alone, 576 at half of it, then 64 alone


def test_a_short_message_does_not_overtake_a_long_one() -> None:
    """Its bytes are there long before, but the receiver sees it with the long one's end: both can be received then."""
    seen = []

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x, y = tl.load(0, (4096,), "f32"), tl.load(0, (16,), "f32")
            tl.send("E", x)
            tl.send("E", y)
        else:
            tiles = [tl.recv_async("W", size, "f32") for size in (4096, 16)]
            for tile in tiles:
                tl.wait(tile)
                seen.append((tile.shape, now(tl)))

    short, long = sorted(end for _, end in copies(queued(kernel, line(2), memory={0: X}).run()))
    assert short < long and seen == [((4096,), long), ((16,), long)]


def streams(sends: int, slots: int, hold: int) -> list[tuple[int, int]]:
    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (16,), "f32")
            for _ in range(sends):
                tl.send("E", x)
        else:
            for _ in range(sends):
                y = tl.recv("W", 16, "f32")
                idle(tl, hold)
                del y

    return copies(queued(kernel, line(2), memory={0: X}, slots=slots).run())


@pytest.mark.parametrize("hold", [0, 3, 40])
def test_with_one_slot_a_message_waits_for_the_credit_of_the_one_before(hold: int) -> None:
    found = streams(4, 1, hold)
    for (_, end), (start, _) in pairwise(found):
        # The second receive may have been asked for later than its message came: two cycles behind the first one's end.
        assert start >= end + hold + LATENCY + CREDIT
    assert found[1][0] == found[0][1] + hold + LATENCY + CREDIT


@pytest.mark.parametrize("late", [-30, -5, -1, 0, 1])
def test_a_send_waits_for_a_credit_that_is_on_its_way(late: int) -> None:
    """The only slot is freed in cycle 500. The second send has reached PE_IPCQ `late` cycles after the credit is back."""
    credit = 500 + LATENCY + CREDIT

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (16,), "f32")
            tl.send("E", x)
            idle(tl, credit + late - SCHEDULER - IPCQ - now(tl))
            tl.send("E", x)
        else:
            kept = tl.recv("W", 16, "f32")
            idle(tl, 500 - now(tl))
            del kept
            tl.recv("W", 16, "f32")

    found = copies(queued(kernel, line(2), memory={0: X}, slots=1).run())
    assert found[1][0] == credit + max(late, 0)


def test_fewer_credits_are_slower_and_still_right() -> None:
    ends = [streams(12, slots, 8)[-1][1] for slots in (1, 2, 3, 8)]
    assert ends[0] > ends[1] > ends[2] >= ends[3]


def test_credits_go_back_in_the_order_of_the_slots() -> None:
    """The first slot is kept; the second is free long before: its credit waits for the first one's."""
    seen = {}

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (16,), "f32")
            for _ in range(3):
                tl.send("E", x)
        else:
            kept = tl.recv("W", 16, "f32")
            other = tl.recv("W", 16, "f32")
            del other
            idle(tl, 100)
            seen["freed"] = now(tl)
            del kept
            tl.recv("W", 16, "f32")

    found = copies(queued(kernel, line(2), memory={0: X}, slots=2).run())
    assert found[2][0] == seen["freed"] + LATENCY + CREDIT


def test_a_slot_is_needed_as_long_as_a_command_uses_it() -> None:
    """The only handle goes at once, but the store of it takes long: the credit goes back when it has ended."""
    ends = {}

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (4096,), "f32")
            tl.send("E", x)
            tl.send("E", x)
        else:
            stored = tl.store(2**20, tl.recv("W", 4096, "f32"))
            tl.wait(stored)
            ends["store"] = now(tl)
            tl.recv("W", 4096, "f32")

    found = copies(queued(kernel, line(2), memory={0: X}, slots=1).run())
    assert found[1][0] == ends["store"] + LATENCY + CREDIT


def test_compute_traffic_does_not_hold_messages_up() -> None:
    """As many loads as the engine may have, and more behind them: a send starts beside them at once."""

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (16,), "f32")
            loads = [tl.load(1024 * i, (256,), "f32", wait=False) for i in range(8)]
            tl.send("E", x)
            tl.wait(*loads)
            seen["issued"] = now(tl)
        else:
            tl.recv("W", 16, "f32")

    seen: dict[str, int] = {}
    run = queued(kernel, line(2), memory={0: X}).run()
    loads = [one for one in run.log if one.op_name == "dma_read"]  # type: ignore[union-attr]
    first, send = loads[0].t_end, copies(run)[0][0]
    assert send == first + SCHEDULER + IPCQ and loads[-1].t_start > send


def test_ranks_neighbours_and_limits() -> None:
    seen = {}

    def kernel(tl: Any) -> None:
        seen[tl.rank] = (tl.world_size, tl.neighbour("E"), tl.neighbour("W"), tl.neighbour("N"), tl.neighbour("E", plane=1))
        assert (tl.slots, tl.slot_bytes) == (3, 100)

    queued(kernel, line(3), slots=3, slot_bytes=100).run()
    assert seen == {0: (3, 1, None, None, None), 1: (3, 2, 0, None, None), 2: (3, None, 1, None, None)}

    def alone(tl: Any) -> None:
        seen["alone"] = (tl.rank, tl.world_size, tl.slots, tl.slot_bytes, tl.neighbour("E"))

    Run(alone, config=row(2)).run()
    assert seen["alone"] == (None, 0, 0, 0, None)


def test_slots_lie_in_front_of_tiles_and_stay_when_tiles_are_kept() -> None:
    kept, seen = [], []

    def kernel(tl: Any) -> None:
        before = tl.limits().free_bytes
        assert before == tl.limits().scratchpad_bytes - 2 * 16384
        if tl.rank == 0:
            kept.append(tl.load(0, (16,), "f32"))  # a kernel that lets nothing go
            tl.send("E", kept[-1])
        else:
            kept.append(tl.recv("W", 16, "f32"))
            seen.append(kept[-1].addr - tl._runner.pe.tcm_base)

    def body(host: Any) -> None:
        for _ in range(3):
            host.launch("it", [PeWork(pe, kernel) for pe in names(2)])
            host.wait()

    run = Run(body=body, memory={0: X}, config=row(2))
    run.system.queues.install(line(2), slots=2)
    run.run()
    assert seen == [0, 16384, 0]


def test_queues_are_installed_anew_between_launches() -> None:
    seen = []

    def kernel(tl: Any) -> None:
        if tl.neighbour("S") is not None:
            tl.send("S", tl.load(0, (16,), "f32"))
        else:
            seen.append(float(tl.recv("N", 16, "f32", plane=0).data[3]))

    def first(tl: Any) -> None:
        (tl.send("E", tl.load(0, (16,), "f32")) if tl.rank == 0 else tl.recv("W", 16, "f32"))

    def body(host: Any) -> None:
        host.launch("first", [PeWork(pe, first) for pe in names(2)])
        with pytest.raises(InputError, match=r"^queues: launch first has not ended; wait for it first$"):
            run.system.queues.install(line(2))
        host.wait()
        links = {0: {(0, "N"): (1, "S")}, 1: {(0, "S"): (0, "N")}}
        run.system.queues.install(NeighbourTable(names(2), links), slots=1, slot_bytes=64)
        host.launch("second", [PeWork(pe, kernel) for pe in names(2)])
        host.wait()

    run = Run(body=body, memory={0: X}, config=row(2))
    run.system.queues.install(line(2))
    run.run()
    assert seen == [3.0]


# Elements ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["tcm", "sram", "hbm"])
def test_copies_and_parts(tier: str) -> None:
    """What is known stays known; `copy_to` a tile and to memory; a part that begins inside a line."""

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (64,), "f32")
            tl.send("E", x)
            tl.send("E", x)
            tl.send("E", tl.part(x, 5, 20))
            tl.send("E", x + 1.0)
            tl.send("E", tl.arange(0, 8))
        else:
            to = tl.alloc((64,), "f32")
            assert tl.recv("W", 64, "f32", copy_to=to) is to
            tl.store(4096, to)
            tl.recv("W", 64, "f32", copy_to=8192)
            part = tl.recv("W", 20, "f32")
            tl.store(12288, part)
            pending = tl.recv("W", 64, "f32")
            assert pending.pending
            tl.store(16384, pending * 2.0)
            assert list(tl.recv("W", 8, "i32").data) == list(range(8))

    run = queued(kernel, line(2), memory={0: X}, tier=tier, slots=3).run()
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    assert np.array_equal(store.read("hbm", 4096, (64,), "f32"), X[:64])
    assert np.array_equal(store.read("hbm", 8192, (64,), "f32"), X[:64])
    assert np.array_equal(store.read("hbm", 12288, (20,), "f32"), X[5:25])
    assert np.array_equal(store.read("hbm", 16384, (64,), "f32"), 2 * (X[:64] + 1))


def test_the_record_of_a_message() -> None:
    """Seed ADR-0052 D3.6: the receiver's PE_DMA logs it, pending elements are not in it, and it follows what made the tile."""

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (16,), "f32")
            tl.send("E", x)
            tl.send("E", x + 1.0)
        else:
            tl.recv("W", 16, "f32")
            tl.recv("W", 16, "f32")

    run = queued(kernel, line(2), memory={0: X}).run()
    log = list(run.log)  # type: ignore[arg-type]
    load, add = next(r for r in log if r.op_name == "dma_read"), next(r for r in log if r.op_name == "add")
    first, second = (r for r in log if r.op_name == "ipcq_copy")
    base = run.system.runners["sip0.cube0.pe1"].pe.tcm_base
    assert first.component_id == second.component_id == "sip0.cube0.pe1.pe_dma"
    assert first.params["src_space"] == first.params["dst_space"] == "tcm" and first.params["nbytes"] == 64
    assert (first.params["dst_addr"], second.params["dst_addr"]) == (base, base + 16384)
    assert np.array_equal(first.params["snapshot"], X[:16]) and second.params["snapshot"] is None
    assert first.dependency_ids == [load.op_id] and second.dependency_ids == [add.op_id]
    assert first.params["line"] == at(kernel, 3)
