"""`spm.arbiter: round_robin`, tight: who is granted which bank in which cycle, and where the pointers stand behind it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from kernbench import BANKS, NEVER, Component, Machine, load_config, load_program
from kernbench.common.errors import InputError
from kernbench.config.effects import unused_settings, unused_values
from kernbench.sim_engine.recording import TraceOptions

LINE = 16


def config(*settings: str, ports: dict[str, int] | None = None) -> Any:
    """DRAM channels of one line a cycle each, and one bank."""
    spm = {"num_banks": 1, "bank_width_bytes": LINE, "arbiter": "round_robin", "backpressure_cycles": 50, **(ports or {})}
    dram = {"channels": 4, "bus_width_bytes": LINE, "dram_burst_cycles": 1, "interleave_bytes": 4096}
    dma = {"engines": 4, "alignment_bytes": LINE, "channels": {"act_weight": {"max_concurrent": 4}}}
    parts = {"te": {"engines": 1}, "ve": {"engines": 1}}
    return load_config({"max_cycles": 500, "spm": spm, "dram": dram, "dma": dma, **parts}, settings)


def tile(engine: int, channel: int, lines: int, **fields: Any) -> dict[str, Any]:
    """A transfer over a DRAM channel of its own, which has a line in every cycle."""
    what = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": LINE * lines}
    return {**what, "dma_id": engine, "dram_addr": 4096 * channel, "spm_bank": 0, "spm_offset": 4096 * channel, **fields}


def program(*entries: dict[str, Any]) -> Any:
    return load_program({"metadata": {"version": "1.0", "name": "round"}, "cmdq": list(entries)})


def pointers(machine: Machine) -> list[int]:
    return [row["client"] for row in machine._core.state()["pointer"]]


def served(settings: Any, *entries: dict[str, Any], walk: str = "fast") -> list[tuple[int, int]]:
    """`(cycle, entry)` of each request that is served."""
    sink = io.BytesIO()
    machine = Machine(settings, program(*entries), walk=walk)
    tracing = machine.trace(sink, TraceOptions(level="access"))
    machine.run()
    tracing.close()
    events = [json.loads(line) for line in sink.getvalue().splitlines()]
    return [(event["t_cycle"], event["cmd_id"]) for event in events if event["event_type"] == "SRAM_ACCESS"]


def in_turn(*entries: int) -> list[tuple[int, int]]:
    """One of these is served in each cycle from 0 on."""
    return list(enumerate(entries))


@pytest.mark.parametrize("walk", ["fast", "plain"])
def test_one_port_goes_round_the_clients(walk: str) -> None:
    tiles = [tile(k, k, 3) for k in range(3)]
    assert served(config(), *tiles, walk=walk) == in_turn(0, 1, 2, 0, 1, 2, 0, 1, 2)
    assert served(config("spm.arbiter=oldest_first"), *tiles, walk=walk) == in_turn(0, 0, 0, 1, 1, 1, 2, 2, 2)


def test_a_wait_of_any_length_changes_nothing() -> None:
    tiles = [tile(k, k, 4) for k in range(4)]
    assert served(config("spm.max_wait_cycles=0"), *tiles) == served(config("spm.max_wait_cycles=100"), *tiles)


def test_the_pointer_is_one_past_the_last_client_granted() -> None:
    entries = tile(1, 0, 1), tile(3, 1, 1), tile(0, 2, 1, deps_before=[0, 1])
    machine = Machine(config("dram.t_setup_cycles=5"), program(*entries))
    seen = pointers(machine)
    while machine.step():
        seen += pointers(machine)
    # Behind cycle 5 dma1 has been granted, behind cycle 6 dma3. Then nothing is, up to cycle 12, and the pointer stays.
    assert seen == [0, 0, 0, 0, 0, 0, 2, 4, 4, 4, 4, 4, 4, 1]


@pytest.mark.parametrize("walk", ["fast", "plain"])
def test_what_nobody_else_asks_for_moves_the_pointer_too(walk: str) -> None:
    """One transfer alone, which a fast path could go over at once."""
    machine = Machine(config("spm.num_banks=2"), program(tile(2, 0, 41)), walk=walk)
    machine.run()
    assert pointers(machine) == [3, 3]


def test_behind_the_last_client_comes_the_first() -> None:
    vector = {"opcode": "VE_COPY_TILE", "length": LINE, "qbits_activation": 8}
    places = {"in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 64}
    machine = Machine(config("te.engines=1", "ve.init_cycles=0"), program({**vector, **places}))
    machine.run()
    assert pointers(machine) == [0]  # the VE is the last client: number 5 of 6


def test_a_later_request_finds_the_pointer_where_the_last_grant_left_it() -> None:
    """dma0 is granted a line, and some cycles later dma0 and dma1 ask together: the pointer is at dma1."""
    tiles = [tile(0, 0, 1), tile(0, 1, 1, deps_before=[0]), tile(1, 2, 1, deps_before=[0])]
    assert served(config("dram.t_setup_cycles=5"), *tiles) == [(5, 0), (11, 2), (12, 1)]
    assert served(config("dram.t_setup_cycles=5", "spm.arbiter=oldest_first"), *tiles) == [(5, 0), (11, 1), (12, 2)]


def test_two_ports_are_granted_from_the_pointer_on() -> None:
    """Three clients of two ports: {0, 1}, then from 2 on {2, 0}, then from 1 on {1, 2}."""
    tiles = [tile(k, k, 2) for k in range(3)]
    found = served(config(ports={"ports": 2}), *tiles)
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 2)]
    machine = Machine(config(ports={"ports": 2}), program(*tiles))
    seen = [(machine.step(), pointers(machine)[0])[1] for _ in range(3)]
    assert seen == [2, 1, 3]  # in cycle 1 the last client granted is dma0: it comes behind dma2


def test_flows_of_one_engine_are_one_client() -> None:
    """Entries 0 and 1 are of dma0, entry 2 is of dma1: within dma0 the one submitted first goes first."""
    tiles = [tile(0, 0, 3), tile(0, 1, 2), tile(1, 2, 3)]
    assert served(config(), *tiles) == in_turn(0, 2, 0, 2, 0, 2, 1, 1)


def test_within_a_submission_the_lower_channel_goes_first() -> None:
    """One transfer over two channels, a line on each of them in turn, and one of another engine."""
    found = served(config("dram.interleave_bytes=16"), tile(0, 0, 2), tile(1, 0, 1, dram_addr=32))
    assert found == [(0, 0), (1, 1), (2, 0)]


def test_after_the_penalty_a_held_request_asks_again() -> None:
    """With a penalty of 3: who is denied in cycle 0 asks in cycles 3, 6 and so on, and so does dma0 from cycle 3 on."""
    tiles = [tile(0, 0, 5), tile(1, 1, 1), tile(2, 2, 1)]
    found = served(config("spm.conflict_penalty_cycles=3"), *tiles)
    assert found == [(0, 0), (1, 0), (2, 0), (3, 1), (6, 2), (9, 0), (10, 0)]


class Asker(Component):
    """Asks for banks in one cycle, and notes the cycle in which it was granted all of them."""

    def __init__(self, reads: list[int], writes: list[int], at: int = 0) -> None:
        super().__init__()
        self.reads, self.writes, self.at, self.granted = reads, writes, at, -1

    def step(self, now: int) -> int:
        if now == self.at:
            self.ask_banks(0, reads=self.reads, writes=self.writes)
        return self.at if now < self.at else NEVER

    def notify(self, notice: int, number: int, now: int) -> int:
        assert notice == BANKS
        self.granted = now
        return NEVER


SPLIT = {"read_ports": 1, "write_ports": 1}


def asked(ports: dict[str, int], *askers: Asker) -> list[int]:
    parts = {f"part{k}": asker for k, asker in enumerate(askers)}
    found = []
    for walk in ("fast", "plain"):
        fresh = {name: Asker(part.reads, part.writes, part.at) for name, part in parts.items()}
        machine = Machine(config(ports=ports), program(), fresh, walk=walk)
        machine.run()
        assert machine.status == "done"
        found.append([part.granted for part in fresh.values()])
    assert found[0] == found[1]
    return found[0]


def test_a_request_that_lacks_one_kind_of_port_takes_none() -> None:
    """The second reads and writes the bank: the write port is gone, and the read port goes to the third."""
    assert asked(SPLIT, Asker([], [0]), Asker([0], [0]), Asker([0], [])) == [0, 1, 0]


def test_requests_of_components_come_last_and_go_round_too() -> None:
    """The first is granted in cycle 0; asking again in cycle 1 it stands behind the others."""
    again = Asker([0], [], 1)
    assert asked({"ports": 1}, Asker([0], []), Asker([0], []), Asker([0], [])) == [0, 1, 2]
    assert asked({"ports": 1}, again, Asker([0], []), Asker([0], []), Asker([0], [])) == [3, 0, 1, 2]


def test_a_bank_alone_may_be_denied() -> None:
    """What is granted stays granted: the second lacks bank 0 alone in cycle 1."""
    two = config("spm.num_banks=2")
    parts = {"first": Asker([0], []), "second": Asker([0, 1], []), "third": Asker([1], [], 1)}
    Machine(two, program(), parts).run()
    assert [part.granted for part in parts.values()] == [0, 1, 1]


def test_the_checkpoint_holds_the_pointers() -> None:
    tiles = [tile(k, k, 6) for k in range(3)]
    whole = Machine(config(), program(*tiles))
    whole.step(4)
    state, there = whole.snapshot(), pointers(whole)
    assert there == [1]
    for walk in ("fast", "plain"):
        other = Machine(config(), program(*tiles), walk=walk)
        other.restore(state)
        assert pointers(other) == there and other.snapshot() == state
    by_age = Machine(config("spm.arbiter=oldest_first"), program(*tiles))
    by_age.step(4)
    assert "pointer" not in by_age._core.state()


def test_a_pointer_to_no_client_is_refused() -> None:
    machine = Machine(config(), program(tile(1, 0, 2)))
    machine.step()
    state = machine.snapshot()
    at = [k for k in range(len(state) - 3) if state[k : k + 4] == (2).to_bytes(4, "little")]
    refused = []
    for k in at:
        try:
            Machine(config(), program(tile(1, 0, 2))).restore(state[:k] + (6).to_bytes(4, "little") + state[k + 4 :])
        except ValueError as error:
            refused.append(str(error))
    assert any("pointer 0: client = 6: allowed are 0 to 5" in text for text in refused)


def test_the_key_and_what_it_puts_out_of_effect() -> None:
    assert load_config("npu_server").spm.arbiter == "oldest_first"
    assert ("spm.arbiter", "oldest_first", "default") in load_config({}).effective()
    assert load_config({}, ["spm.arbiter=oldest_first"]).digest() == load_config({}).digest()
    assert load_config({}, ["spm.arbiter=round_robin"]).digest() != load_config({}).digest()
    told = unused_settings(load_config({"spm": {"arbiter": "round_robin", "max_wait_cycles": 4}}))
    assert [str(one) for one in told] == [
        "machine: spm.max_wait_cycles = 4 has no effect: spm.arbiter is round_robin, which does not look at how long a "
        "request has waited; set spm.arbiter to oldest_first"
    ]
    for rule in ("oldest_first", "round_robin"):  # with so many ports nothing is ever denied, whatever the rule is
        unused = [one.path for one in unused_values(load_config({"spm": {"arbiter": rule, "ports": 1000}}))]
        assert (unused.count("spm.arbiter"), unused.count("spm.max_wait_cycles")) == (1, 1), rule
    with pytest.raises(InputError, match=r'spm.arbiter = "youngest", but it must be one of oldest_first, round_robin'):
        load_config({"spm": {"arbiter": "youngest"}})


def test_systems_have_it_too() -> None:
    one = load_config("single_cube", ["pe.spm.arbiter=round_robin"])
    assert one.to_dict()["pe"]["spm"]["arbiter"] == "round_robin"
    assert "pe.spm.max_wait_cycles" in {unused.path for unused in unused_values(one)}
