"""DRAM rows by hand: not done at t - 1, done at t. HBM2 at 2 Gb/s, one pseudo channel, where a test does not say another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench import Machine, load_config, load_program
from kernbench.cli.main import exit_code
from kernbench.cmdq.dram_timing import RULES, device_table
from kernbench.sim_engine.result import Result

TIMES: dict[str, Any] = {
    "bank_groups": 4, "banks_per_group": 4, "row_bytes": 1024, "t_rcd": 14, "t_rcd_wr": 12, "t_cl": 14, "t_cwl": 5, "t_rp": 14,
    "t_ras": 34, "t_rtp": 5, "t_wr": 16, "t_ccd_s": 2, "t_ccd_l": 4, "t_rrd_s": 4, "t_rrd_l": 4, "t_faw": 15, "t_wtr_s": 6,
    "t_wtr_l": 8, "t_refi": 0, "t_rfc": 160,
}  # fmt: skip
BANKS_FIRST = "row_column_bank_group"
BURST, GROUPS, BANK, ROW = 32, 4, 4096, 16384  # [byte] from a burst to the next, group to group, bank to bank, row to row


def machine(dram: dict[str, Any] | None = None, **times: int | str) -> dict[str, Any]:
    return {
        "allocation": "row_buffer_v1",
        "dma": {"alignment_bytes": 8, "max_concurrent_transfers": 8, "channels": {"act_weight": {"max_concurrent": 8}}},
        "dram": {"bus_width_bytes": BURST, "dram_burst_cycles": 2, "row_buffer": TIMES | times, **(dram or {})},
        "spm": {"ports": 16},
    }


def move(
    addr: int, size: int = BURST, after: int | None = None, store: bool = False, place: int = 0, **shape: int
) -> dict[str, Any]:
    entry = {"opcode": "DMA_STORE_TILE" if store else "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": addr}
    shape = shape or {"num_elements": size}
    return {**entry, **shape, "spm_bank": 0, "spm_offset": place, "deps_before": [] if after is None else [after]}


def run(config: dict[str, Any], *entries: dict[str, Any]) -> Result:
    made = Machine(load_config(config), load_program({"metadata": {"version": "1.0", "name": "rows"}, "cmdq": list(entries)}))
    made.run(skip=False)
    return made.result()


CASES: list[tuple[str, dict[str, Any], list[dict[str, Any]], list[int]]] = [
    ("closed: ACT 0, RD 14, data 28", machine(), [move(0)], [30]),
    ("a part of a burst takes as long", machine(), [move(8, 8)], [30]),
    ("two parts in two bursts", machine(), [move(24, 16)], [34]),
    ("write: ACT 0, WR 12, data 17", machine(), [move(0, store=True)], [19]),
    ("hit: RD 30", machine(), [move(0), move(GROUPS * BURST, after=0)], [30, 46]),
    ("conflict: PRE 34 (tRAS), ACT 48, RD 62", machine(), [move(0), move(ROW, after=0)], [30, 78]),
    ("conflict: PRE 30 (tRAS 20 is over), ACT 44", machine(t_ras=20), [move(0), move(ROW, after=0)], [30, 74]),
    ("conflict: PRE 32 (tRTP 18 behind RD 14)", machine(t_ras=20, t_rtp=18), [move(0), move(ROW, after=0)], [30, 76]),
    ("behind a write: PRE 12 + 5 + 2 + 16 = 35", machine(), [move(0, store=True), move(ROW, after=0)], [19, 79]),
    ("one group: RD 14, 18", machine(), [move(0), move(GROUPS * BURST)], [30, 34]),
    ("two groups: ACT 0, 4", machine(), [move(0), move(BURST)], [30, 34]),
    ("two groups, tRRD 1, tCCD_S: RD 14, 16", machine(t_rrd_s=1), [move(0), move(BURST)], [30, 32]),
    ("banks of one group: tRRD_L", machine(t_rrd_s=1, t_rrd_l=9), [move(0), move(BANK)], [30, 39]),
    ("four rows at once", machine(t_faw=40), [move(k * BURST) for k in range(4)], [30, 34, 38, 42]),
    ("tFAW: a fifth ACT at 40", machine(t_faw=40), [*(move(k * BURST) for k in range(4)), move(BANK)], [30, 34, 38, 42, 70]),
    ("reads go on, then the bus turns: RD 14, WR 27", machine(), [move(0), move(GROUPS * BURST, store=True)], [30, 34]),
    ("write to read, one group: RD 12 + 5 + 2 + 8", machine(), [move(0, store=True), move(GROUPS * BURST, after=0)], [19, 43]),
    ("a DRAM clock of two cycles", machine({"period": 2}), [move(0)], [60]),
    ("it begins in a DRAM clock: ACT 4", machine({"period": 4, "t_setup_cycles": 1}), [move(0)], [124]),
    ("refresh: RD 299 goes before it", machine({"t_setup_cycles": 285}, t_refi=300), [move(0)], [315]),
    ("refresh due at RD: PRE 320, REF 334, ACT 494", machine({"t_setup_cycles": 286}, t_refi=300), [move(0)], [524]),
    ("refresh due at ACT: REF 300, ACT 460", machine({"t_setup_cycles": 300}, t_refi=300), [move(0)], [490]),
    ("behind a refresh: ACT 460", machine({"t_setup_cycles": 459}, t_refi=300), [move(0)], [490]),
    ("when it is over", machine({"t_setup_cycles": 461}, t_refi=300), [move(0)], [491]),
    ("bursts in flight: RD 14, 30", machine(buffer_bursts=1), [move(0, BURST), move(GROUPS * BURST)], [30, 46]),
    ("two channels side by side", machine({"channels": 2, "interleave_bytes": 32}), [move(0, 64)], [30]),
    ("fr_fcfs: a hit passes", machine(scheduler="fr_fcfs"), [move(0), move(ROW), move(GROUPS * BURST)], [30, 78, 34]),
    ("fcfs: none passes, PRE 82", machine(scheduler="fcfs"), [move(0), move(ROW), move(GROUPS * BURST)], [30, 78, 126]),
    ("fcfs: as they came", machine(scheduler="fcfs"), [move(128 * k, store=k % 2 == 1) for k in range(4)], [30, 34, 58, 62]),
    ("closed: PRE 20, ACT 34", machine(t_ras=20, page="closed"), [move(0), move(GROUPS * BURST, after=0)], [30, 64]),
    ("closed: another row, ACT 34", machine(t_ras=20, page="closed"), [move(0), move(ROW, after=0)], [30, 64]),
    ("closed: wanted again before PRE 34", machine(page="closed"), [move(0), move(GROUPS * BURST, after=0)], [30, 46]),
    ("closed: PRE 21", machine(t_ras=20, t_rrd_s=1, page="closed"), [move(0), move(32), move(32, after=1)], [30, 32, 65]),
    ("map: next column, one row", machine(t_rrd_s=1, t_rrd_l=9), [move(0), move(GROUPS * BURST)], [30, 34]),
    ("map: next bank, tRRD_L", machine(t_rrd_s=1, t_rrd_l=9, map=BANKS_FIRST), [move(0), move(GROUPS * BURST)], [30, 39]),
    ("map: the bank's next column", machine(map=BANKS_FIRST), [move(0), move(4 * GROUPS * BURST)], [30, 34]),
    ("map: its next row", machine(map=BANKS_FIRST), [move(0), move(ROW)], [30, 78]),
]


@pytest.mark.parametrize(("config", "entries", "ends"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_done_at_t_and_not_before(config: dict[str, Any], entries: list[dict[str, Any]], ends: list[int]) -> None:
    program = load_program({"metadata": {"version": "1.0", "name": "rows"}, "cmdq": entries})
    for skip in (False, True):
        made = Machine(load_config(config), program)
        for end in sorted(ends):
            made.step(end - 1 - made.cycle, skip=skip)
            at = [entry.end for entry in made.result().entries]
            assert [e for e in at if e is not None] == sorted(e for e in ends if e < end)
            if made.cycle < end:
                made.step(1, skip=skip)
        assert [entry.end for entry in made.result().entries] == ends
        assert made.status == "done"


def test_a_stream_opens_its_rows_ahead() -> None:
    result = run(machine(), move(0, 16384))
    assert result.cycles == 28 + 3 * 2 + 1024  # after the four groups have their rows, a burst every two cycles
    channel = result.to_dict()["counters"]["dram.ch0"]
    assert (channel["bytes"], channel["bursts"], channel["activations"], channel["refreshes"]) == (16384, 512, 16, 0)


def test_an_older_burst_is_passed_by_so_many() -> None:
    """A stream of one row, and one burst of another row of its bank, queued second."""
    stream = move(0, rows=24, row_elements=BURST, stride_bytes=GROUPS * BURST)
    ends = {}
    for batch in (1, 8):
        entries = run(machine(batch_bursts=batch), stream, move(ROW)).entries
        ends[batch] = [entry.end for entry in entries]
    assert ends == {1: [210, 78], 8: [199, 95]}  # PRE 34 after one more burst at 18, or 51 after eight more, the last at 46
    entries = run(machine(batch_bursts=1, scheduler="fr_fcfs"), stream, move(ROW)).entries
    assert [entry.end for entry in entries] == [122, 155]  # the last of the stream at 106, PRE 111


def test_rules_of_a_controller_stand_in_a_machine_only_where_they_are_set() -> None:
    """So digests of machines and traces are what they were."""
    plain = load_config(machine()).to_dict()["dram"]["row_buffer"]
    assert not {"scheduler", "page", "map"} & set(plain)
    assert load_config(machine(page="closed")).to_dict()["dram"]["row_buffer"] == plain | {"page": "closed"}


def test_every_rule_has_a_source_and_is_lowered() -> None:
    dram = load_config(machine()).dram
    table = device_table(dram)
    assert table is not None and len(table["rules"]) == len(RULES) and (table["rules"][:, 3] > 0).all()
    assert all(rule.source and rule.times for rule in RULES)
    assert len({(rule.scope, rule.after, rule.before) for rule in RULES}) == len(RULES)


def test_traces_keep_their_laws_and_skipping_their_bytes(tmp_path: Path) -> None:
    config = machine({"channels": 2, "interleave_bytes": 64}, t_refi=300)
    tile = move(64 * 1024, rows=8, row_elements=40, stride_bytes=4096, place=512)
    cmdq = [move(0, 2048), move(ROW, 1024, store=True, place=256), tile]
    (tmp_path / "m.json").write_text(json.dumps(config))
    (tmp_path / "p.json").write_text(json.dumps({"metadata": {"version": "1.0", "name": "rows"}, "cmdq": cmdq}))
    told = []
    for level in ("summary", "full"):
        for skip in ([], ["--no-skip"]):
            trace = tmp_path / f"{level}{len(skip)}.jsonl"
            arguments = [str(tmp_path / "p.json"), "--config", str(tmp_path / "m.json"), "--trace", str(trace)]
            assert exit_code(["run", *arguments, "--trace-level", level, *skip, "--quiet"]) == 0
            assert exit_code(["trace", "validate", str(trace)]) == 0
            told.append(trace.read_bytes())
    assert told[0] == told[1] and told[2] == told[3]


def test_a_snapshot_between_bursts_goes_on_alike() -> None:
    config = load_config(machine(t_refi=300))
    program = load_program({"metadata": {"version": "1.0", "name": "rows"}, "cmdq": [move(0, 8192)]})
    whole = Machine(config, program)
    whole.run()
    for cycle in (1, 27, 29, 300, 340):
        first, second = Machine(config, program), Machine(config, program)
        first.step(cycle)
        second.restore(first.snapshot())
        assert second.snapshot() == first.snapshot()
        second.run(skip=False)
        assert second.result().to_dict()["counters"] == whole.result().to_dict()["counters"]


NO_TIME = {name: 1 for name in TIMES if name.startswith("t_")}


def out_on_the_bus(refi: int) -> dict[str, Any]:
    """Two transfers that meet in a scratchpad of two banks, and a buffer of one burst."""
    shape = {"bank_groups": 1, "banks_per_group": 4, "row_bytes": 32, "buffer_bursts": 1}
    return {
        "allocation": "row_buffer_v1",
        "max_cycles": 100_000,
        "dma": {"engines": 2, "alignment_bytes": 24},
        "dram": {
            "channels": 3, "interleave_bytes": 32, "bus_width_bytes": 16, "dram_burst_cycles": 2,
            "peak_bw_bytes_per_cycle": 4096,
            "row_buffer": NO_TIME | shape | {"t_cl": 12, "t_ccd_s": 2, "t_ccd_l": 2, "t_refi": refi},
        },
        "spm": {
            "num_banks": 2, "bank_width_bytes": 4, "bank_size_bytes": 65536, "conflict_penalty_cycles": 7,
            "backpressure_cycles": 1, "read_ports": 1, "write_ports": 1,
        },
    }  # fmt: skip


@pytest.mark.parametrize("refi", [0, 500])
@pytest.mark.parametrize("trace", [[], ["--trace-level", "summary"], ["--trace-level", "full"]])
@pytest.mark.parametrize("skip", [[], ["--no-skip"]])
def test_a_burst_that_is_over_leaves_the_buffer_though_its_flow_is_out(
    tmp_path: Path, refi: int, trace: list[str], skip: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Entry 1 never ended, or with the refresh at 500 at 518: its burst kept the only place while it was out."""
    cmdq = [move(197536, 1, place=111) | {"dma_id": 1}, move(197680, 81, place=165) | {"dma_id": 0}]
    (tmp_path / "m.json").write_text(json.dumps(out_on_the_bus(refi)))
    (tmp_path / "p.json").write_text(json.dumps({"metadata": {"version": "1.0", "name": "rows"}, "cmdq": cmdq}))
    to = ["--trace", str(tmp_path / "t.jsonl"), *trace] if trace else []
    arguments = ["run", str(tmp_path / "p.json"), "--config", str(tmp_path / "m.json"), *to, *skip, "--json"]
    assert exit_code(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], [entry["end"] for entry in result["entries"]]) == ("done", [71, 79])


@pytest.mark.parametrize("skip", [False, True])
def test_a_flow_that_ends_while_it_is_out_leaves_its_place(skip: bool) -> None:
    """The link lets entry 1 earn its last two bytes with its first burst. Their own is given while it is out, dropped at 22.

    Nothing else tells the controller that there is room for the burst of entry 2.
    """
    config = out_on_the_bus(0)
    config["dma"] = {"engines": 3, "alignment_bytes": 1}
    config["dram"] |= {"channels": 2, "interleave_bytes": 128}
    config["dram"]["row_buffer"] |= {"banks_per_group": 2, "row_bytes": 128, "t_cl": 1}
    config["noc"] = {
        "kind": "mesh", "rows": 1, "cols": 2, "link_bytes_per_cycle": 7.5, "hop_latency_cycles": 0,
        "dma_at": [[0, 0]] * 3, "dram_at": [[0, 1]] * 2,
    }  # fmt: skip
    config["spm"] = {
        "num_banks": 1, "bank_width_bytes": 8, "bank_size_bytes": 65536, "conflict_penalty_cycles": 15,
        "backpressure_cycles": 1,
    }  # fmt: skip
    cmdq = [move(128, 47) | {"dma_id": 0}, move(0, 18, place=1) | {"dma_id": 1}, move(24, 11) | {"dma_id": 2}]
    made = Machine(load_config(config), load_program({"metadata": {"version": "1.0", "name": "rows"}, "cmdq": cmdq}))
    made.run(skip=skip)
    assert [entry.end for entry in made.result().entries] == [15, 22, 24]


@pytest.mark.parametrize("size", [64, 512])
@pytest.mark.parametrize("banks", [1, 4])
def test_a_flow_that_becomes_a_member_can_be_denied(size: int, banks: int) -> None:
    """Two channels, one port a bank: the second flow becomes a member while the first is one; no requester comes or goes."""
    described = machine({"channels": 2, "interleave_bytes": 512})
    described["spm"] = {"num_banks": banks, "bank_width_bytes": BURST, "bank_size_bytes": 65536 // banks, "ports": 1}
    entries = [move(0, size), move(512, size)]
    program = load_program({"metadata": {"version": "1.0", "name": "rows"}, "cmdq": entries})
    plain, fast = (Machine(load_config(described), program, walk=walk) for walk in ("plain", "fast"))
    plain.run(skip=False)
    fast.run()
    assert sum(plain.result().to_dict()["counters"]["spm"]["denials"]) > 0
    assert fast.result().to_dict() == plain.result().to_dict()
