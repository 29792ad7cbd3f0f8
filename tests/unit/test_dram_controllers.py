"""DRAM controllers by hand: not done at t - 1, done at t. HBM2 at 2 Gb/s, one pseudo-channel, where no other is named.

A burst is queued in the clock in which its flow enters, and gets its first command in the next: ACT 1, RD 15, last data 31.
"""

from __future__ import annotations

from typing import Any

import pytest

from kernbench import Machine, load_config, load_program
from kernbench.cmdq.controller_timing import RULES
from kernbench.sim_engine.result import Result

TIMES: dict[str, Any] = {
    "bank_groups": 4,
    "banks_per_group": 4,
    "row_bytes": 1024,
    "burst_bytes": 32,
    "t_bl": 2,
    "t_rcd": 14,
    "t_rcd_wr": 12,
    "t_cl": 14,
    "t_cwl": 5,
    "t_rp": 14,
    "t_ras": 34,
    "t_rtp": 5,
    "t_wr": 16,
    "t_ccd_s": 2,
    "t_ccd_l": 4,
    "t_rrd_s": 4,
    "t_rrd_l": 4,
    "t_faw": 15,
    "t_wtr_s": 6,
    "t_wtr_l": 8,
    "t_refi": 300,
    "t_rfc": 160,
    "command_buses": 2,
    "refresh": "none",
}
GROUPS, BANK, ROW = 4, 4096, 16384  # groups of a stack, [byte] from a bank to the next, from a row to the next


def machine(dram: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    return {
        "allocation": "row_buffer_v2",
        "dma": {"alignment_bytes": 8, "max_concurrent_transfers": 8, "channels": {"act_weight": {"max_concurrent": 8}}},
        "dram": {"controller": TIMES | keys, **(dram or {})},
        "spm": {"ports": 16},
    }


def move(addr: int, size: int = 32, after: int | None = None, store: bool = False) -> dict[str, Any]:
    entry = {"opcode": "DMA_STORE_TILE" if store else "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": addr}
    deps = [] if after is None else [after]
    return {**entry, "num_elements": size, "spm_bank": 0, "spm_offset": 0, "deps_before": deps}


def program(entries: list[dict[str, Any]]) -> Any:
    return load_program({"metadata": {"version": "1.0", "name": "controllers"}, "cmdq": entries})


def run(config: dict[str, Any], *entries: dict[str, Any]) -> Result:
    made = Machine(load_config(config), program(list(entries)))
    made.run(skip=False)
    return made.result()


EARLIER, LATE = {"t_setup_cycles": 299}, {"t_setup_cycles": 300}
CASES: list[tuple[str, dict[str, Any], list[dict[str, Any]], list[int]]] = [
    ("closed: ACT 1, RD 15, data 29 to 31", machine(), [move(0)], [31]),
    ("a store ends in the write queue", machine(), [move(0, store=True)], [2]),
    ("hit: queued 31, RD 32", machine(), [move(0), move(GROUPS * 32, after=0)], [31, 48]),
    ("conflict: PRE 35 (tRAS), ACT 49, RD 63", machine(), [move(0), move(ROW, after=0)], [31, 79]),
    ("one group: RD 15, 19", machine(), [move(0), move(GROUPS * 32)], [31, 35]),
    ("two groups: ACT 1, 5", machine(), [move(0), move(32)], [31, 35]),
    ("one bus: ACT 1, 2, RD 15, 17", machine(command_buses=1, t_rrd_s=1), [move(0), move(32)], [31, 33]),
    ("tFAW: a fifth ACT at 41", machine(t_faw=40), [*(move(k * 32) for k in range(4)), move(BANK)], [31, 35, 39, 43, 71]),
    ("fr_fcfs: a hit passes", machine(scheduler="fr_fcfs"), [move(0), move(ROW), move(GROUPS * 32)], [31, 79, 35]),
    ("fcfs: none passes, PRE 83", machine(scheduler="fcfs"), [move(0), move(ROW), move(GROUPS * 32)], [31, 79, 127]),
    ("a DRAM clock of two cycles", machine(clock=2), [move(0)], [62]),
    ("two DRAM clocks a cycle", machine(clock="1/2"), [move(0)], [16]),
    ("refresh due at 300: ACT 460", machine(LATE, refresh="all_bank"), [move(0)], [490]),
    ("refresh due at 300, before a request of 299: ACT 460", machine(EARLIER, refresh="all_bank"), [move(0)], [490]),
    ("request of 299, before a postponed refresh: ACT 300", machine(EARLIER, refresh="all_bank", postpone=1), [move(0)], [330]),
    ("no refresh: ACT 301", machine(LATE), [move(0)], [331]),
    ("ACT2 in the clock behind ACT1", machine(t_aad=8), [move(0)], [31]),
    ("CAS 15, RD 16", machine(t_wckpst=4, command_buses=1), [move(0)], [32]),
    (  # the data clock stops at 56; the two later bursts are queued in 72
        "CAS of a queued hit 73 beside ACT of an older burst 73, RD 74, 87",
        machine({"t_setup_cycles": 20}, t_wckpst=4),
        [move(0), move(BANK, after=0), move(GROUPS * 32, after=0)],
        [52, 103, 90],
    ),
    (
        "CAS of a queued hit 73, RD 74, and only then PRE of its bank 79, ACT 93, CAS 107, RD 108",
        machine({"t_setup_cycles": 20}, t_wckpst=4, scheduler="oldest_ready"),
        [move(0), move(ROW, after=0), move(GROUPS * 32, after=0)],
        [52, 124, 90],
    ),
]


@pytest.mark.parametrize(("config", "entries", "ends"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_done_at_t_and_not_before(config: dict[str, Any], entries: list[dict[str, Any]], ends: list[int]) -> None:
    for skip in (False, True):
        made = Machine(load_config(config), program(entries))
        for end in sorted(ends):
            made.step(end - 1 - made.cycle, skip=skip)
            at = [entry.end for entry in made.result().entries]
            assert sorted(e for e in at if e is not None) == sorted(e for e in ends if e < end)
            if made.cycle < end:
                made.step(1, skip=skip)
        assert [entry.end for entry in made.result().entries] == ends
        assert made.status == "done"


def test_a_stream_opens_its_rows_ahead() -> None:
    """512 bursts, one every two clocks, behind the first rows of four groups; and the counters of the channel."""
    result = run(machine(), move(0, 16384))
    channel = result.to_dict()["counters"]["dram.ch0"]
    assert result.cycles == 31 + 2 * 511 + 10
    counts = ("bytes", "bursts", "activations", "refreshes", "row_hits", "row_misses", "row_conflicts")
    assert [channel[name] for name in counts] == [16384, 512, 16, 0, 496, 16, 0]


@pytest.mark.parametrize("postpone", [0, 1, 2])
def test_a_stream_postpones_as_many_refreshes_as_it_may(postpone: int) -> None:
    """The channel has requests in each clock to 1000, and refreshes are due in the clocks 300, 600 and 900."""
    made = Machine(load_config(machine(refresh="all_bank", postpone=postpone)), program([move(0, 32768)]))
    made.step(1000)
    assert made.result().to_dict()["counters"]["dram.ch0"]["refreshes"] == 3 - postpone


@pytest.mark.parametrize("name", ["row bank column group", "row bank column4 column group", "row bank column column8 group"])
def test_a_split_column_is_as_large_as_a_row(name: str) -> None:
    """A row has 32 bursts, however the column is split and whichever part is listed first: 4 groups, 16 rows, 512 bursts."""
    channel = run(machine(map=name), move(0, 16384)).to_dict()["counters"]["dram.ch0"]
    assert [channel[key] for key in ("bursts", "activations", "row_misses", "row_conflicts")] == [512, 16, 16, 0]


def test_parts_of_a_column_select_bursts_by_their_place_in_the_map() -> None:
    """With `column2` above the bank, burst 16 is in bank 1, and burst 64 is the first burst of the other half of row 0."""
    config = machine(map="row column2 bank column", bank_groups=1)
    for burst, opened in ((15, 1), (16, 2), (64, 1), (128, 2)):
        result = run(config, move(0), move(32 * burst, after=0)).to_dict()["counters"]["dram.ch0"]
        assert result["activations"] == opened, burst


def test_a_slow_link_delays_no_other_flow() -> None:
    """A link of 1 B/cycle drains one load. The other load, of another engine and bank, does not wait for it."""
    config = machine(read_buffer_bytes=128)
    config["dma"] |= {"engines": 2}
    config["noc"] = {
        "kind": "mesh", "rows": 2, "cols": 2, "link_bytes_per_cycle": 1, "hop_latency_cycles": 0,
        "dma_at": [[0, 1], [0, 0]], "dram_at": [[0, 0]],
    }  # fmt: skip
    fast = move(BANK, 2048) | {"dma_id": 1, "spm_offset": 2048}
    alone = run(config, fast).entries[0].end
    both = [entry.end for entry in run(config, move(0, 2048) | {"dma_id": 0}, fast).entries]
    assert alone is not None and both[0] is not None and both[1] is not None
    assert both[0] >= 2048
    assert both[1] < 2 * alone < both[0]


def test_a_store_that_is_too_long_for_the_queue_waits_for_its_bursts() -> None:
    """Four places, and one for each of the four banks that open: the next burst waits for a WR."""
    short, long = (run(machine(write_queue=4), move(0, 32 * n, store=True)).cycles for n in (4, 16))
    assert short < 14 <= long  # the first WR: ACT 1 at the earliest, then tRCD of writes


def test_a_snapshot_goes_on_alike() -> None:
    config, moves = load_config(machine(refresh="all_bank")), program([move(0, 8192)])
    whole = Machine(config, moves)
    whole.run()
    for cycle in (1, 16, 29, 31, 300, 340, 470):
        first, second = Machine(config, moves), Machine(config, moves)
        first.step(cycle)
        second.restore(first.snapshot())
        assert second.snapshot() == first.snapshot()
        second.run(skip=False)
        assert second.result().to_dict()["counters"] == whole.result().to_dict()["counters"]


def test_flows_that_drain_side_by_side_have_a_snapshot() -> None:
    """Each drains its buffer at the peak, so together they have more in a cycle than the data bus moves."""
    config, moves = load_config(machine(clock=2, pseudo_channels=2)), program([move(0, 64), move(4096, 64), move(8192, 64)])
    whole = Machine(config, moves)
    whole.run()
    for cycle in range(1, whole.cycle):
        first, second = Machine(config, moves), Machine(config, moves)
        first.step(cycle)
        second.restore(first.snapshot())
        second.run()
        assert [entry.end for entry in second.result().entries] == [entry.end for entry in whole.result().entries]


def test_a_controller_stands_in_a_machine_only_where_it_is_set() -> None:
    assert "controller" not in load_config({}).to_dict()["dram"]
    made = load_config(machine())
    assert load_config(made.to_dict()).to_dict() == made.to_dict()


def test_every_rule_has_a_source() -> None:
    assert all(rule.source and rule.times for rule in RULES)
    assert len({(rule.scope, rule.after, rule.before, rule.other) for rule in RULES}) == len(RULES)


def beside_v1(*entries: dict[str, Any], **more: Any) -> tuple[Result, Result]:
    """The same transfers under row_buffer_v1 and row_buffer_v2, with one device."""
    rows = {name: value for name, value in TIMES.items() if name not in ("burst_bytes", "t_bl", "command_buses", "refresh")}
    first = machine() | more | {"allocation": "row_buffer_v1"}
    first["dram"] = {"bus_width_bytes": 32, "dram_burst_cycles": 2, "row_buffer": rows | {"t_refi": 0}}
    return run(first, *entries), run(machine() | more, *entries)


def counts(result: Result) -> dict[str, int]:
    found: dict[str, int] = result.to_dict()["counters"]["dram.ch0"]
    return found


def test_v1_holds_a_flow_back_by_the_slow_link_of_another_and_v2_does_not() -> None:
    """64 KiB over a link of 4 B/cycle leave 12 of the bus's 16 to 32 KiB of another flow, which are 2,731 cycles."""
    mesh = {"kind": "mesh", "rows": 2, "cols": 2, "link_bytes_per_cycle": 4, "hop_latency_cycles": 0}
    noc = mesh | {"dma_at": [[0, 1], [0, 0]], "dram_at": [[0, 0]]}
    dma = machine()["dma"] | {"engines": 2}
    slow, fast = move(0, 65536) | {"dma_id": 0}, move((1 << 20) + BANK, 32768) | {"dma_id": 1}
    v1, v2 = (result.entries[1].end for result in beside_v1(slow, fast, noc=noc, dma=dma))
    assert v1 is not None and v2 is not None
    assert v1 > 10_000
    assert 2731 <= v2 < 2731 * 1.15


def test_v1_gathers_rows_in_order_and_v2_as_banks_are_free() -> None:
    """128 rows of one burst each, which come back to a bank before the one ahead of them has gone."""
    gather = move(0) | {"rows": 128, "row_elements": 32, "stride_bytes": 15424}
    del gather["num_elements"]
    v1, v2 = beside_v1(gather)
    assert (v1.cycles, v2.cycles) == (1525, 801)
    assert counts(v1)["activations"] == counts(v2)["activations"] == 128


def test_v1_closes_rows_that_bursts_in_the_queue_still_want_and_v2_does_not() -> None:
    """Two streams of eight rows each, in the same banks: 16 KiB cross the bus in 1,024 cycles."""
    v1, v2 = beside_v1(move(0, 8192), move(1 << 20, 8192))
    assert (counts(v1)["activations"], counts(v2)["activations"]) == (180, 48)
    assert (v1.cycles, v2.cycles) == (2354, 1302)


def test_four_streams_are_held_up_by_the_window_and_not_by_the_address_map() -> None:
    """They use the same banks at the same time; their rows differ in high bits, which no hash of the low ones sees."""
    streams = [move(k << 24, 16384) for k in range(4)]
    v1, v2 = beside_v1(*streams)
    hashed, deep = run(machine(hash=["group^row", "bank^row"]), *streams), run(machine(read_queue=128), *streams)
    assert (v1.cycles, v2.cycles, deep.cycles) == (11061, 6804, 4753)  # their bytes take 4,096 cycles of the bus
    assert hashed.cycles == v2.cycles
