"""Replays of small traces on a small chip, their cycles worked out by hand, and of recorded ones."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.analysis.noc.device import Device, load_device
from kernbench.analysis.noc.events import OVERHEAD, read_trace, trace_of
from kernbench.analysis.noc.outcome import MODES, mean_error, outcome
from kernbench.analysis.noc.replay import Mode, Replay, replayed
from tests.meta.source import ROOT
from tests.noc_samples import Events, barrier, chip, kernel, read, write

TRACES = ROOT.parent / "shared" / "data" / "noc_traces"


def played(*kernels: Events, device: Device | None = None, mode: Mode = "closed") -> Replay:
    """Kernels together."""
    toy = device or chip()
    return replayed(trace_of([event for events in kernels for event in events], "t", toy), toy, mode)


def test_a_read_alone() -> None:
    """(1, 1) reads 256 B of (2, 1): NOC_0 goes east alone, so the request has 1 hop and the answer 3.

    The request takes 10 and a quarter of the 20 cycles of hops: the tile begins at 100 + 15. 64 B leave in 4 cycles, the
    other 192 wait
    in the buffers of three hops and pass in 12: 131; 16 B/cycle into the network take as long. 15 cycles of answer: 146.
    The barrier
    says so half of 8 cycles later.
    """
    replay = played(kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 900)))
    packet = replay.packets[0][0]
    assert (packet.queued_at, packet.sent_at, packet.flows_at, packet.arrived_at, replay.ends[0]) == (115, 115, 115, 131, 146)
    assert replay.clerks[0].at == 150


def test_the_own_tile_is_no_way() -> None:
    """10 cycles, 256 B through its door in 16: 126, and the barrier's 4."""
    assert played(kernel(1, 1, read(100, 1, 1, 256), *barrier(104, 900))).clerks[0].at == 130


def test_other_tiles_may_be_nearer_than_the_own_one() -> None:
    """The request then takes the whole latency, and no answer arrives before its data."""
    toy = chip()
    far = toy.model_copy(update={"read_latency": toy.read_latency.model_copy(update={"same_tile": 2**31 - 1})})
    replay = played(kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 900)), device=far)
    packet = replay.packets[0][0]
    assert packet.queued_at == 130 and replay.ends[0] == packet.arrived_at == 146


def test_dram_is_slower_and_shares_its_controller() -> None:
    """Of (0, 1): 3 hops there, 1 back, 10 + 15 + 100; 256 B leave at 8 B/cycle in 32; 5 of answer: 262."""
    replay = played(kernel(1, 1, read(100, 0, 1, 256), *barrier(104, 900)))
    assert replay.packets[0][0].queued_at == 225 and replay.ends[0] == 262


def test_a_tile_sends_one_packet_at_a_time_but_for_what_buffers_hold() -> None:
    """(1, 1) and (1, 1)'s other processor both read 256 B of (2, 1): the first packet has left when 64 B have passed and
    its 16 cycles of
    sending are over, 131; the second one has the links to itself then, 147, and 15 cycles of answer."""
    one = kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 900))
    two = kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 900), proc="BRISC")
    replay = played(one, two)
    assert [replay.packets[k][0].sent_at for k in (0, 1)] == [115, 131]
    assert [replay.ends[k] for k in (0, 1)] == [146, 162]


def test_without_buffers_the_tile_waits_until_all_has_arrived() -> None:
    """To the own tile there are no hops: the second packet begins when the first is there, 110 + 16."""
    events = [kernel(1, 1, read(100, 1, 1, 256), *barrier(104, 900), proc=proc) for proc in ("BRISC", "NCRISC")]
    replay = played(*events)
    assert [replay.packets[k][0].sent_at for k in (0, 1)] == [110, 126]


def test_what_buffers_hold_of_a_slow_packet_is_out() -> None:
    """Doors of 8 B/cycle: 64 B are through at 123, the other 192 are in the buffers of three hops when the tile has sent
    for 16 cycles.

    So the second packet leaves at 131, though the first is there only at 115 + 32. Without hops, nothing holds it: 110 + 32.
    """
    slow = chip(absorption={"worker": 8, "dram": 8, "ethernet": 8})
    for source, times in ((2, [115, 131]), (1, [110, 142])):
        events = [kernel(1, 1, read(100, source, 1, 256), *barrier(104, 900), proc=proc) for proc in ("BRISC", "NCRISC")]
        replay = played(*events, device=slow)
        assert [replay.packets[k][0].sent_at for k in (0, 1)] == times


def test_answers_do_not_queue_behind_what_a_tile_writes() -> None:
    """(2, 1) writes 1,024 B from 100 on; the answer to a read leaves at 115 all the same."""
    replay = played(
        kernel(2, 1, write(100, 3, 1, 1024), *barrier(104, 900, "WRITE")),
        kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 900)),
    )
    assert [replay.packets[k][0].sent_at for k in (0, 1)] == [100, 115]


def test_packets_wait_for_links_that_are_held() -> None:
    """128 B of (2, 1) begin at 115 and of (3, 1), a hop nearer to where they go, at 120, both over the last link into (1,
    1), of 8 cycles.

    Held by one, it is free at 123, and the second has arrived at 131. Shared, each has 8 B/cycle from 120 on: of the
    first 48 B are left,
    6 cycles, 126; of the second 80 B then, 5 cycles, 131.
    """
    readers = [kernel(1, 1, read(100, x, 1, 128), *barrier(104, 900), proc=f"P{x}") for x in (2, 3)]
    for packets, flows, arrived in ((1, [115, 123], [123, 131]), (2, [115, 120], [126, 131])):
        replay = played(*readers, device=chip(link_packets=packets))
        assert [replay.packets[k][0].flows_at for k in (0, 1)] == flows
        assert [replay.packets[k][0].arrived_at for k in (0, 1)] == arrived


def test_the_two_sides_of_the_seam_do_not_wait_for_each_other() -> None:
    """(1, 1) reads of its neighbour (0, 1), and of (2, 1) round the ring: both need the link between, and neither
    waits to hold it.
    """
    reads = [kernel(1, 1, read(at, x, 1, 128), *barrier(400, 900), proc=f"P{x}") for x, at in ((0, 100), (2, 211))]
    replay = played(*reads, device=chip(link_packets=1))
    packets = [replay.packets[k][0] for k in (0, 1)]
    names = list(replay.device.kept["links"])  # by number: resource, side and whether it is of a read
    (one, first, _), (other, second, _) = (names[packet.holds[-1]] for packet in packets)
    assert one == other and (first, second) == (0, 1)
    assert [packet.sent_at for packet in packets] == [packet.flows_at for packet in packets] == [225, 226]


def test_a_write_ends_with_its_acknowledgement() -> None:
    """(1, 1) to (3, 1): 2 hops and 2 back. 256 B: 8 of them through at once, 16 cycles: 116; 20 + 4 * 5 of way and
    acknowledgement.
    """
    replay = played(kernel(1, 1, write(100, 3, 1, 256), *barrier(104, 900, "WRITE")))
    assert replay.ends[0] == 156 and replay.clerks[0].at == 160


def test_long_transfers_are_several_packets() -> None:
    """2,500 B are packets of 1,024, 1,024 and 452: 64 + 64 + 29 cycles out of the own tile."""
    replay = played(kernel(1, 1, read(100, 1, 1, 2500), *barrier(104, 900)))
    assert [packet.nbytes for packet in replay.packets[0]] == [1024, 1024, 452]
    assert replay.ends[0] == 110 + 64 + 64 + 29


def test_a_multicast_takes_each_link_once() -> None:
    """From (1, 1) to the workers of columns 2 and 3: a trunk of two links, a branch down each column; as long as one alone."""
    many: dict[str, Any] = {
        "type": "WRITE_MULTICAST",
        "mcast_start_x": 2,
        "mcast_start_y": 1,
        "mcast_end_x": 3,
        "mcast_end_y": 2,
    }
    replay = played(kernel(1, 1, write(100, -1, -1, 256, **many), *barrier(104, 900, "WRITE")))
    packet = replay.packets[0][0]
    assert packet.transfer.targets == ((2, 1), (2, 2), (3, 1))  # (3, 2) is an Ethernet tile
    links = [resource for way in packet.routes for resource in way]
    assert len(packet.routes) == 3 and len(links) == len(set(links)) == 2 + 1 + 3
    assert packet.arrived_at == 116


def test_closed_loop_goes_on_when_the_barrier_allows() -> None:
    """The recorded barrier ended at 900 and a second read came at 950: 50 cycles after 150 it comes in closed loop."""
    events = kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 900), read(950, 2, 1, 256), *barrier(954, 1000))
    assert played(events).issued == {0: 100, 1: 200} and played(events).clerks[0].waits == [(900, 150), (1000, 250)]
    recorded = played(events, mode="recorded")
    assert recorded.issued == {0: 100, 1: 950} and recorded.clerks[0].waits == [(900, 150), (1000, 1000)]


def test_a_barrier_with_nothing_to_wait_for_takes_as_long_as_it_did() -> None:
    assert played(kernel(1, 1, *barrier(100, 170))).clerks[0].at == 170
    done_long_ago = kernel(1, 1, read(100, 2, 1, 32), *barrier(300, 370))
    assert played(done_long_ago).clerks[0].at == 308
    twice = kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 900), *barrier(910, 980))  # 150, and the second as it was recorded
    assert played(twice).clerks[0].at == 150 + 10 + 70


def test_what_is_estimated_and_why_it_waited() -> None:
    one = kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 170))
    two = kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 190), proc="BRISC")
    toy = chip()
    found = outcome(trace_of([*one, *two], "t.json", toy), toy, "closed", slowest=1)
    assert (found.measured, found.estimated) == (190 - OVERHEAD, 166 - OVERHEAD)
    assert found.error == pytest.approx(-24 / 170) and found.wait_error == pytest.approx((20 + 24) / 360)
    slow = found.slowest[0]
    assert slow.what == "read 256 B 2,1 -> 1,1 NOC_0"
    assert (slow.issued, slow.cycles, slow.endpoint, slow.links, slow.sharing, slow.delay) == (100, 62, 16, 0, 0, 16)
    assert json.loads(json.dumps(found.to_dict()))["slowest"][0]["delay"] == 16


KERNELS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(0, 3), st.integers(0, 2), st.integers(1, 3000), st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(KERNELS, st.sampled_from(MODES))
def test_every_byte_arrives_and_none_before_it_could(transfers: list[tuple[int, int, int, int, int, bool]], mode: Mode) -> None:
    """Each tile's processor issues its reads 3 cycles apart and waits. The core's laws watch capacities and bytes."""
    kernels: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for x, y, sx, sy, nbytes, second in transfers:
        mine = kernels.setdefault((x, y), [])
        mine.append(read(100 + 3 * len(mine), sx, sy, nbytes, "NOC_1" if second else "NOC_0"))
    replay = played(*(kernel(x, y, *mine, *barrier(300, 5000)) for (x, y), mine in kernels.items()), mode=mode)
    assert sorted(replay.ends) == list(range(len(transfers)))
    for index, packets in replay.packets.items():
        transfer = packets[0].transfer
        assert sum(packet.nbytes for packet in packets) == transfer.nbytes
        assert replay.ends[index] - replay.issued[index] >= 10 + transfer.nbytes / 16
    assert max(clerk.at for clerk in replay.clerks) == max(308, max(replay.ends.values()) + 4)


@pytest.mark.skipif(not TRACES.exists(), reason="recorded traces are not beside this checkout (../shared/data/noc_traces)")
def test_recorded_kernels_are_near_the_chip() -> None:
    """tt-npe's mean error on these fifteen is 4.35 %; 8 % is what is asked of closed loop. Both are 2.5 % or less."""
    device = load_device("wormhole")
    traces = [read_trace(path, device) for path in sorted(TRACES.glob("*.json"))]
    errors = {mode: [outcome(trace, device, mode, slowest=0) for trace in traces] for mode in MODES}
    assert mean_error(errors["recorded"]) < 0.025 and mean_error(errors["closed"]) < 0.025
    assert max(abs(one.error) for found in errors.values() for one in found) < 0.06


def test_the_measured_cycles_are_those_that_were_published() -> None:
    readme = Path(TRACES).parent / "README.md"
    if not readme.exists():
        pytest.skip("recorded traces are not beside this checkout (../shared/data/noc_traces)")
    device = load_device("wormhole")
    for line in readme.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].endswith(".json"):
            trace = read_trace(TRACES / cells[0], device)
            moved = sum(transfer.nbytes for transfer in trace.transfers)
            assert [len(trace.transfers), moved, trace.measured] == [int(cell) for cell in cells[1:4]], cells[0]


def test_what_is_kept_of_a_device_changes_no_replay() -> None:
    """Routes, packets' shapes and plans are kept for a device: another trace, and slower links, find theirs."""
    first = kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 900))
    second = kernel(1, 1, read(100, 2, 1, 512), write(120, 0, 1, 256), *barrier(130, 900))
    shared = chip()
    for events in (first, second, first):
        for slower in (1, 4):
            ends = []
            for device in (shared, chip()):
                ends.append(replayed(trace_of(events, "t", device), device, "closed", Fraction(slower)).ends)
            assert ends[0] == ends[1] and ends[0]
