"""Trace files: what their events mean, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.analysis.noc.device import load_device
from kernbench.analysis.noc.events import Do, read_trace, trace_of
from kernbench.analysis.noc.torus import Torus
from kernbench.common.errors import InputError
from tests.noc_samples import CHIP, Events, barrier, chip, kernel, read, write

TOY = chip()


def of(*kernels: Events) -> Any:
    """The trace of kernels."""
    return trace_of([event for events in kernels for event in events], "dir/t.json", TOY)


def refused(*events: Any) -> str:
    """Why events cannot be."""
    with pytest.raises(InputError) as error:
        trace_of(list(events), "t.json", TOY)
    return str(error.value)


def test_events_of_a_processor() -> None:
    trace = of(kernel(1, 1, read(100, 2, 1, 256), *barrier(110, 170), write(200, 3, 1, 64, "NOC_1")), kernel(2, 1, begin=990))
    assert (trace.name, trace.measured, [one.name for one in trace.processors]) == (
        "t",
        1200 - 990 - 20,
        ["NCRISC of (1, 1)", "NCRISC of (2, 1)"],
    )
    assert [(event.at, event.do, event.waits) for event in trace.processors[0].events] == [
        (10, Do.PASS, ""), (110, Do.SEND, ""), (120, Do.PASS, ""), (180, Do.WAIT, "read"), (210, Do.SEND, ""),
    ]  # fmt: skip
    first, second = trace.transfers
    assert (first.read, first.source, first.targets, first.owner, first.nbytes) == (True, (2, 1), ((1, 1),), (1, 1), 256)
    assert (second.read, second.source, second.targets, second.noc) == (False, (1, 1), ((3, 1),), "NOC_1")


def test_a_begin_that_a_profiler_repeats_is_no_event() -> None:
    events = kernel(1, 1, read(100, 2, 1, 256))
    quick = events[0] | {"proc": "", "zone": "PROFILER-NOC-QUICK-SEND", "timestamp": 1500}
    trace = of([*events, events[0], quick, *kernel(1, 1, read(900, 2, 1, 256))[1:]])
    assert [event.at for event in trace.processors[0].events] == [0, 100, 900] and len(trace.processors) == 1


def test_events_are_taken_by_time() -> None:
    events = kernel(1, 1, read(100, 2, 1, 256), read(50, 2, 1, 64))
    assert [event.at for event in of(events).processors[0].events] == [0, 50, 100]


def test_states_fill_in_what_an_event_leaves_open() -> None:
    state = read(90, 2, 2, 512) | {"type": "READ_SET_STATE"}
    short = {"type": "READ_WITH_STATE", "dx": -1, "dy": -1, "num_bytes": 0, "timestamp": 100}
    own = read(110, 3, 1, 64) | {"type": "READ_WITH_STATE"}
    first, second = of(kernel(1, 1, state, short, own)).transfers
    assert (first.source, first.nbytes, first.noc) == ((2, 2), 512, "NOC_0") and (second.source, second.nbytes) == ((3, 1), 64)
    assert refused(*kernel(1, 1, short)) == (
        't.json: event 1: type = "READ_WITH_STATE", but its processor has not set the state of a read before'
    )


def test_what_is_not_simulated_is_said() -> None:
    opaque = {"type": "SEMAPHORE_WAIT", "timestamp": 50}
    trace = of(kernel(1, 1, opaque, opaque | {"timestamp": 60}, read(100, 2, 1, 0)))
    assert trace.notes == (
        "2 x SEMAPHORE_WAIT: it takes as long as it was recorded to take",
        "transfers of 0 bytes are left out: 1",
    )
    assert not trace.transfers


def test_a_multicast_reaches_workers_whatever_the_order_of_its_corners() -> None:
    corners: dict[str, Any] = {
        "type": "WRITE_MULTICAST",
        "mcast_start_x": 3,
        "mcast_start_y": 2,
        "mcast_end_x": 1,
        "mcast_end_y": 2,
    }
    assert of(kernel(1, 1, write(100, -1, -1, 64, "NOC_1", **corners))).transfers[0].targets == ((1, 2), (2, 2))
    only_port = corners | {"mcast_end_x": 3}
    assert (
        refused(*kernel(1, 1, write(100, -1, -1, 64, **only_port))) == "t.json: event 1: no worker is between [3, 2] and [3, 2]"
    )


def test_wrong_events_are_refused() -> None:
    assert refused() == "t.json: it must be an array of events, at least one"
    assert refused(3) == "t.json: event 0: it must be a mapping of keys"
    assert refused(kernel(1, 1, read(1, 2, 1, 8))[1]) == "t.json: no event has the zone_phase begin, from which time is counted"
    assert refused(*kernel(1, 1, read(1, 7, 1, 8))) == "t.json: event 1: (dx, dy) = [7, 1], but toy has 4 columns and 3 rows"
    assert (
        refused(*kernel(1, 1, read(1, 2, 1, -8)))
        == "t.json: event 1: num_bytes = -8, but it must be an integer from 0 to 67108864"
    )
    assert refused(*kernel(1, 1, read(1, 2, 1, 8, "NOC_2"))) == 't.json: event 1: noc = "NOC_2", but toy has NOC_0, NOC_1'
    assert refused(*kernel(1, 1, {"type": "FABRIC_UNICAST_WRITE", "timestamp": 5})).startswith(
        't.json: event 1: type = "FABRIC_UNICAST_WRITE", but events of this kind cannot be replayed; the known kinds are '
        "ATOMIC_BARRIER, "
    )
    assert refused(*kernel(1, 1, {"type": [], "timestamp": 5})) == "t.json: event 1: type = [], but it must be a text"
    assert refused(*kernel(1, 1, read(1, 2, 1, 8) | {"noc": []})) == "t.json: event 1: noc = [], but toy has NOC_0, NOC_1"
    assert refused(*kernel(1, 1, {"timestamp": 4}), {"sx": 1}) == (
        "t.json: event 2: timestamp = null, but it must be an integer from 0 to 4611686018427387904"
    )


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    for text, why in (("{", "this is not valid JSON: Expecting property name"), ("[]", "it must be an array of events")):
        path = tmp_path / "t.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=why):
            read_trace(path, TOY)
    with pytest.raises(InputError, match="the file does not exist"):
        read_trace(tmp_path / "none.json", TOY)


def test_ways_follow_their_directions_round_the_torus() -> None:
    torus = Torus(TOY)
    names = torus.names()
    assert [names[hop.resource] for hop in torus.hops("NOC_0", (3, 2), (1, 0))] == [
        "NOC_0.east.3,2", "NOC_0.east.0,2", "NOC_0.south.1,2",
    ]  # fmt: skip
    assert [hop.side for hop in torus.hops("NOC_0", (3, 2), (1, 0))] == [0, 1, 0]
    assert [names[hop.resource] for hop in torus.hops("NOC_1", (1, 0), (0, 2))] == ["NOC_1.north.1,0", "NOC_1.west.1,2"]
    for source in ((0, 0), (3, 1), (2, 2)):
        for target in ((0, 0), (1, 2), (3, 1)):
            there = [(b - a) % size for a, b, size in zip(source, target, (4, 3), strict=True)]
            assert len(torus.hops("NOC_0", source, target)) == sum(there)
            assert len(torus.hops("NOC_1", target, source)) == sum(there)
    assert len(names) == len(set(names)) == len(torus.capacities()) == 2 + 4 * 12 + 2 * 12


def test_devices_have_their_grid_and_kinds_of_nodes(tmp_path: Path) -> None:
    wormhole = load_device("wormhole")
    assert (wormhole.columns, wormhole.rows, wormhole.kind_of((5, 11)), wormhole.kind_of((1, 6))) == (
        10,
        12,
        "dram",
        "ethernet",
    )
    assert [wormhole.injection_cycles(n, (1, 1)) for n in (64, 128, 1536, 4096)] == [
        24,
        24,
        55,
        146,
    ]  # 28.7 B/cycle is above 28.1
    assert wormhole.injection_cycles(2048, (0, 0)) == 89  # 2048 / 23.2
    with pytest.raises(InputError, match=r"^blackhole: there is no such device; devices are: wormhole; a file of one ends in"):
        load_device("blackhole")
    path = tmp_path / "toy.json"
    for wrong, why in (
        ({"columns": 0}, "toy.json:1:[0-9]+: columns = 0, but it must be at least 1"),
        ({"ethernet": [[3, 0]]}, r"toy.json:1:1: \[3, 0\] is no tile of 3 rows and 4 columns"),
        ({"ethernet": [[1, 0]]}, r"toy.json:1:1: \[1, 0\] is there twice"),
        ({"nocs": {"A": ["east", "west"]}}, "toy.json:1:1: A has two directions of one axis"),
        ({"packet_rates": {}}, "toy.json:1:1: packet_rates must be sizes in rising order, at least one"),
    ):
        path.write_text(json.dumps(CHIP | wrong), encoding="utf-8")
        with pytest.raises(InputError, match=why):
            load_device(str(path))
