"""What can be wrong with queues between PEs, and how it is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernbench.common.errors import InputError
from kernbench.sim_engine.run.waits import wait_lines
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.queues import NeighbourTable, _circle
from tests.kernels import Run, at, easy
from tests.queues import line, names, queued, ring, row

X = np.arange(4096, dtype=np.float32)


def sends(tl: Any) -> None:
    x = tl.load(0, (16,), "f32")
    if tl.rank == 0:
        tl.send("E", x)


def too_large(tl: Any) -> None:
    tl.send("E", tl.load(0, (33,), "f32"))


def of_another_shape(tl: Any) -> None:
    sends(tl)
    if tl.rank == 1:
        tl.recv("W", (4, 4), "f32")


def of_another_type(tl: Any) -> None:
    sends(tl)
    if tl.rank == 1:
        tl.recv("W", 16, "i32")


def nobody_there(tl: Any) -> None:
    if tl.rank == 0:
        tl.recv("W", 16, "f32")


def no_direction(tl: Any) -> None:
    tl.recv("up", 16, "f32")


def no_plane(tl: Any) -> None:
    tl.recv("E", 16, "f32", plane=1)


def no_elements(tl: Any) -> None:
    tl.recv("E" if tl.rank == 0 else "W", (0,), "f32")


def no_shape(tl: Any) -> None:
    tl.recv("E" if tl.rank == 0 else "W", 16.0, "f32")


def no_tensor(tl: Any) -> None:
    tl.send("E", 7)


WRONG: list[tuple[Callable[..., Any], int, str]] = [
    (
        too_large,
        1,
        "t1 f32[33] has 132 bytes, and a slot of the queue to rank 1 (sip0.cube0.pe1) W has 128; "
        "send smaller pieces, or install queues with a larger slot_bytes",
    ),
    (
        of_another_shape,
        3,
        f"rank 1 (sip0.cube0.pe1) W receives f32[4, 4], but rank 0 (sip0.cube0.pe0) E sent f32[16] ({at(sends, 3)}); "
        "send and receive in the same order, with the same shapes",
    ),
    (
        of_another_type,
        3,
        f"rank 1 (sip0.cube0.pe1) W receives i32[16], but rank 0 (sip0.cube0.pe0) E sent f32[16] ({at(sends, 3)}); "
        "send and receive in the same order, with the same shapes",
    ),
    (nobody_there, 2, "rank 0 (sip0.cube0.pe0) has no neighbour W in plane 0, but E"),
    (no_direction, 1, "the direction must be one of N, E, S, W, not 'up'"),
    (no_plane, 1, "rank 0 (sip0.cube0.pe0) has planes 0, and not plane 1"),
    (no_elements, 1, "a tensor of f32[0] has no elements, and a command needs one at least"),
    (no_shape, 1, "a shape must be an integer or a tuple of integers, and this is 16.0"),
    (no_tensor, 1, "an operand must be a tensor of tl, and this is a int"),
]


@pytest.mark.parametrize("tier", ["tcm", "hbm"])
@pytest.mark.parametrize(("kernel", "below", "said"), WRONG)
def test_errors_of_kernels(kernel: Callable[..., Any], below: int, said: str, tier: str) -> None:
    error = queued(kernel, line(2), memory={0: X}, slot_bytes=128, tier=tier).fail()
    assert isinstance(error, KernelError) and str(error) == f"{at(kernel, below)}: {said}"


def test_a_pe_without_queues_has_none() -> None:
    def kernel(tl: Any) -> None:
        tl.recv("E", 16, "f32")

    error = Run(kernel, config=row(2)).fail()
    assert str(error) == f"{at(kernel, 1)}: sip0.cube0.pe0 has no queues; install them before the launch"


OTHER = "a neighbour is another one of the ranks 0 to 1"
FORM = "it must be {rank: {(plane, direction): (the rank there, its direction back)}}"
EAST = {0: {(0, "E"): (1, "W")}}
TABLES: list[tuple[list[str], Any, str]] = [
    (
        names(2),
        EAST,
        "rank 0 E of plane 0 leads to rank 1 W, but rank 1 W of plane 0 leads nowhere; "
        "neighbours must be mutual",
    ),
    (
        names(2),
        {**EAST, 1: {(0, "W"): (0, "S")}},
        "rank 0 E of plane 0 leads to rank 1 W, but rank 1 W of plane 0 leads to rank 0 S; "
        "neighbours must be mutual",
    ),
    (names(2), {0: {(0, "E"): (0, "W")}}, f"rank 0 E of plane 0 leads to rank 0: {OTHER}"),
    (names(2), {0: {(0, "E"): (2, "W")}}, f"rank 0 E of plane 0 leads to rank 2: {OTHER}"),
    (names(2), {2: {}}, "it has a row for rank 2, and there are ranks 0 to 1"),
    (
        names(2),
        {0: {(0, "up"): (1, "W")}},
        "rank 0 up of plane 0 leads to rank 1 W: planes are 0 or more, and directions N, E, S, W",
    ),
    (names(2), None, FORM),
    (names(2), {0: None}, FORM),
    (names(2), {0: {"E": (1, "W")}}, FORM),
    (names(2), {0: {(0, "E"): 1}}, FORM),
    (["sip0.cube0.pe0", "pe9"], {}, "rank 1 is pe9, and the machine has sip0.cube0.pe0 to sip0.cube0.pe1"),
    (["sip0.cube0.pe0", "sip0.cube0.pe0"], {}, "sip0.cube0.pe0 is both rank 0 and rank 1"),
]


@pytest.mark.parametrize(("pes", "links", "said"), TABLES)
def test_a_table_that_cannot_be_is_refused(pes: list[str], links: Any, said: str) -> None:
    run = Run(sends, config=row(2))
    with pytest.raises(InputError) as raised:
        run.system.queues.install(NeighbourTable(pes, links))
    assert str(raised.value) == f"neighbour table: {said}"


@pytest.mark.parametrize("pes", ["sip0.cube0.pe0", [0, 1], None])
def test_ranks_are_names_of_pes(pes: Any) -> None:
    queues = Run(sends, config=row(2)).system.queues
    said = f"queues: ranks: it must be a list of the PEs' names, like sip0.cube0.pe1, by rank, and is {pes!r}"
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        queues.install(NeighbourTable(pes, EAST))


def test_forms_that_cannot_be_are_refused() -> None:
    queues = Run(sends, config=row(2)).system.queues
    for form, said in (
        ({"slots": 0}, "queues: slots = 0, but it must be an integer from 1 to 65536"),
        ({"tier": "l2"}, 'queues: tier = "l2", but it must be one of tcm, sram, hbm'),
        (
            {"slots": 5000, "tier": "hbm"},
            "hbm of sip0.cube0.pe1: 5000 slots of 16384 bytes, from rank 0 (sip0.cube0.pe0) E, find no room in 4194304 bytes; "
            "use fewer or smaller slots",
        ),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
            queues.install(line(2), **form)
    full = r"^queues of sip0.cube0.pe0: the queue from rank 1 .*: ipcq u8\[100, 16384\] takes 1638400"
    with pytest.raises(InputError, match=full):
        queues.install(line(2), slots=100)
    needed = "queues: a system of several PEs is needed, but machine is a single NPU; use one of these machines: "
    with pytest.raises(InputError, match=f"^{needed}"):
        Run(sends, config=easy()).system.queues.install(line(2))


def told(run: Run) -> list[str]:
    run.machine.run()
    assert run.machine.status == "deadlock"
    return wait_lines(run.machine.result().waiting)


def test_everybody_waits_for_the_one_before() -> None:
    def kernel(tl: Any) -> None:
        y = tl.recv("W", 16, "f32")
        tl.send("E", y)

    run = queued(kernel, ring(3))
    lines = told(run)
    since = run.launch.per_pe["sip0.cube0.pe0"].start
    assert lines[:2] == [
        "they wait in a circle: rank 0 -> rank 2 -> rank 1 -> rank 0",
        f"rank 0 (sip0.cube0.pe0) waits for a message of rank 2, W, since cycle {since} ({at(kernel, 1)}); "
        "0 of 4 slots are taken, nothing was received",
    ]
    assert len(lines) == 4 and [wait["circle"] for wait in run.machine.result().waiting] == [0, 2, 1]


def test_one_receive_too_many_waits_for_a_kernel_that_is_over() -> None:
    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tl.send("E", tl.load(0, (16,), "f32"))
        else:
            tl.recv("W", 16, "f32")
            tl.recv("W", 16, "f32")

    (said,) = told(queued(kernel, line(2), memory={0: X}))
    assert re.fullmatch(
        r"rank 1 \(sip0.cube0.pe1\) waits for a message of rank 0, W, since cycle \d+ "
        rf"\({at(kernel, 5)}\); 0 of 4 slots are taken, last received: {at(kernel, 2)} by {at(kernel, 4)}; "
        "rank 0 runs no program",
        said,
    )


def test_who_waits_for_any_message_does_not_wait_for_its_sends() -> None:
    """Rank 0's second send has no slot, but what it waits for is rank 2, which is over: there is no circle with rank 1."""

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tl.send("E", tl.load(0, (16,), "f32"))
            tl.send("E", tl.load(0, (16,), "f32"))
            tl.wait_any(tl.recv_async("W", 16, "f32"))
        if tl.rank == 1:
            tl.recv("E", 16, "f32")

    lines = told(queued(kernel, ring(3), memory={0: X}, slots=1))
    assert len(lines) == 2 and lines[0].startswith("rank 0 (sip0.cube0.pe0) waits for a message of rank 2, W, since cycle")
    assert f"({at(kernel, 4)})" in lines[0] and lines[1].endswith("nothing was received; rank 2 runs no program")


def test_of_two_circles_that_of_the_lowest_rank_is_told() -> None:
    """Rank 0 leads to the other one, and rank 6 to nobody."""
    assert _circle({0: 4, 1: 3, 3: 2, 2: 1, 4: 5, 5: 4, 6: 7}) == [1, 3, 2]
    assert _circle({0: 1, 1: 2, 2: 3}) == [] and _circle({}) == []
    assert _circle({rank: rank + 1 for rank in range(99)} | {99: 98}) == [98, 99]


def test_too_few_slots_for_tensors_that_are_kept() -> None:
    """Each still holds the last message when it asks for the next one."""

    def kernel(tl: Any) -> None:
        y = tl.load(0, (16,), "f32")
        for _ in range(3):
            tl.send("E", y)
            y = tl.recv("W", 16, "f32")

    lines = told(queued(kernel, ring(2), memory={0: X}, slots=1))
    assert lines[0] == "they wait in a circle: rank 0 -> rank 1 -> rank 0"
    assert lines[1].endswith(
        f"1 of 1 slots are taken, last received: {at(kernel, 3)} by {at(kernel, 4)}; the message was sent ({at(kernel, 3)}), "
        "and no slot is free for it: let go of tensors that were received, give recv a copy_to, or install more slots"
    )
    queued(kernel, ring(2), memory={0: X}, slots=2).run()


def test_sends_that_nobody_receives_fill_the_slots() -> None:
    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            x = tl.load(0, (16,), "f32")
            for _ in range(3):
                tl.send("E", x, wait=True)

    run = queued(kernel, line(2), memory={0: X}, slots=2)
    (said,) = told(run)
    assert re.fullmatch(
        r"rank 0 \(sip0.cube0.pe0\) waits for a free slot of rank 1, E, since cycle \d+ "
        rf"\({at(kernel, 4)}\); 2 of 2 slots are taken, nothing was received; rank 1 runs no program",
        said,
    )
    (warning,) = run.machine.result().warnings
    assert warning["message"] == (
        f"3 messages from rank 0 (sip0.cube0.pe0) E to rank 1 (sip0.cube0.pe1) W ({at(kernel, 4)}): never received"
    )


def test_swapped_neighbours_are_found_by_their_shapes_or_wait() -> None:
    """Rank 1 believes its source to be in the east."""

    def kernel(tl: Any) -> None:
        if tl.rank == 1:
            tl.recv("E", 16, "f32")
        if tl.rank != 1:
            tl.recv("W" if tl.rank else "E", 16, "f32")
            sends(tl)

    lines = told(queued(kernel, line(3), memory={0: X}))
    assert lines[0] == "they wait in a circle: rank 1 -> rank 2 -> rank 1" and len(lines) == 4


def test_messages_that_nobody_received_are_told_at_the_end() -> None:
    def kernel(tl: Any) -> None:
        sends(tl)

    run = queued(kernel, line(2), memory={0: X}).run()
    (warning,) = run.machine.result().warnings
    assert warning == {
        "code": "UNRECEIVED",
        "cycle": run.machine.cycle,
        "rank": 0,
        "to": 1,
        "direction": "E",
        "plane": 0,
        "count": 1,
        "line": at(sends, 3),
        "message": f"a message from rank 0 (sip0.cube0.pe0) E to rank 1 (sip0.cube0.pe1) W ({at(sends, 3)}): never received",
    }


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("period", [1, 2, 3, 7])
def test_a_deadlock_ends_in_the_cycle_in_which_the_last_job_ends(period: int, skip: bool) -> None:
    """No job waits for the engines of the last job, so nothing happens in the next cycle that is a multiple of their period."""

    def kernel(tl: Any) -> None:
        tl.load(0, (16,), "f32", wait=False)
        tl.recv("W" if tl.rank else "E", (16,), "f32")

    run = queued(kernel, line(2), memory={0: X}, config=row(pe__dma__period=period))
    run.machine.run(skip=skip)
    assert run.log is not None
    assert (run.machine.status, run.machine.cycle) == ("deadlock", max(int(one.t_end) for one in run.log))
