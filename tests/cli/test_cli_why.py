"""`kbsim trace why` and `kbsim whatif`: what people see, at 80 and 120 columns, and what programs get.

The texts are in `tests/cli/golden/why`. They are made again by `KB_REGOLD=1 pytest tests/cli/test_cli_why.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench import load_config
from kernbench.trace.events import Record
from tests.cli.conftest import Kbsim
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned
from tests.oracles.ref_trace import reference_trace
from tests.trace_samples import UNITS, lawful, lines, meta, record, write_trace

PINNED = GOLDEN / "why"
HOSTILE = "\x1b[2J\x1b]0;title\x07 \u202egnp.exe \x00\r\n" + "<script>" * 100 + "[bold]漢字"
COMMANDS = {
    "why_hand": ("trace", "why", "hand.jsonl"),
    "why_tiles": ("trace", "why", "tiles.jsonl"),
    "why_tiles_top": ("trace", "why", "tiles.jsonl", "--top", "3"),
    "why_tiles_transfer": ("trace", "why", "tiles.jsonl", "--op", "17"),
    "why_tiles_queued": ("trace", "why", "tiles.jsonl", "--op", "10", "--top", "5"),
    "why_tiles_control": ("trace", "why", "tiles.jsonl", "--op", "12"),
    "why_stuck": ("trace", "why", "stuck.jsonl"),
    "why_stuck_never": ("trace", "why", "stuck.jsonl", "--op", "3"),
    "why_broken": ("trace", "why", "broken.jsonl"),
    "why_hostile": ("trace", "why", "hostile.jsonl"),
    "why_hostile_op": ("trace", "why", "hostile.jsonl", "--op", "0"),
    "why_low": ("trace", "why", "low.jsonl"),
    "why_unknown": ("trace", "why", "hand.jsonl", "--op", "77"),
    "whatif_tiles": ("whatif", "tiles.json", "--config", "small.yaml"),
    "whatif_slower": ("whatif", "llama2-7b-decode", "--config", "npu_server", "--free", "banks,dram,te"),
    "whatif_absent": ("whatif", "clash.json", "-c", "npu_mobile", "--free", "noc"),
    "whatif_stuck": ("whatif", "stuck.json", "--config", "small.yaml", "--free", "te,noc"),
    "whatif_unknown": ("whatif", "tiles.json", "--config", "small.yaml", "--free", "te,fan"),
}


@pytest.fixture(autouse=True, scope="module")
def traces() -> dict[str, bytes]:
    """The reference traces of sample programs, made once."""
    return {}


@pytest.fixture(autouse=True)
def _files(_place: None, traces: dict[str, bytes]) -> None:
    """Traces in the current directory."""
    if not traces:
        machine = load_config("small.yaml").to_dict()
        for name in ("tiles", "stuck"):
            program = json.loads(Path(f"{name}.json").read_text(encoding="utf-8"))
            traces[name] = b"".join(line + b"\n" for line in reference_trace(machine, program, level="full"))
    for name, data in traces.items():
        Path(f"{name}.jsonl").write_bytes(data)
    write_trace("hand.jsonl", lawful())
    write_trace("low.jsonl", [meta(level="summary"), *lawful()[1:]])
    write_trace("hostile.jsonl", hostile())
    Path("broken.jsonl").write_bytes(lines(lawful())[:6500])


def hostile() -> list[Record]:
    """The run by hand, with texts that are meant to do harm."""
    units = [{**unit, "unit": HOSTILE if unit["unit"] == "te0" else unit["unit"]} for unit in UNITS]
    job = {"job_id": 0, "cmd_id": 0, "unit": HOSTILE}
    return [
        meta(program=HOSTILE, units=units),
        record("CMD_ENQUEUE", 0, cmd_id=0, cmd_type=HOSTILE, unit=HOSTILE),
        record("JOB_ISSUE", 0, **job, job_type=HOSTILE),
        record("TE_START", 0, **job, m=1, n=1, k=1, tile_m=1, tile_n=1, tile_k=1, body_cycles=9, total_cycles=9),
        record("STALL_EVENT", 3, **job, reason=HOSTILE),
        record("STALL_EVENT", 4, **job, reason="bank_conflict", bank_id=1, by_job=0),
        record("RESUME_EVENT", 6, **job, reason="bank_conflict", duration_cycles=2),
        record("CMD_END", 20, cmd_id=0, unit=HOSTILE, status="OK"),
        record("JOB_DONE", 20, **job, job_type=HOSTILE, latency_cycles=20),
        record("TRACE_END", 20, status="done", cycles=20, events=8, counters={}),
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim) -> None:
    check_pinned(kbsim, PINNED / name, COMMANDS[name], width)


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(PINNED, COMMANDS)


def test_why_as_json(kbsim: Kbsim) -> None:
    said = kbsim("trace", "why", "tiles.jsonl", "--json")
    whole = json.loads(said.out)
    assert (said.code, said.err, whole["status"], whole["cycles"]) == (0, "", "done", 3410)
    assert whole["path"][0]["start"] == 0 and whole["path"][-1]["end"] == 3410
    assert all(a["end"] == b["start"] for a, b in zip(whole["path"], whole["path"][1:], strict=False))
    story = json.loads(kbsim("trace", "why", "tiles.jsonl", "--op", "17", "--json").out)
    assert (story["id"], story["after"], story["ready"]) == (17, 12, 1983)
    assert story["spans"][0]["start"] == story["ready"] and story["spans"][-1]["end"] == story["end"]


def test_why_of_a_file_that_breaks_off(kbsim: Kbsim) -> None:
    said = kbsim("trace", "why", "broken.jsonl", "--json")
    assert said.code == 2 and json.loads(said.out)["status"] == "cut off"
    assert said.err.startswith("error: broken.jsonl: line ")


def test_whatif_as_json(kbsim: Kbsim) -> None:
    said = kbsim("whatif", "tiles.json", "--config", "small.yaml", "--free", "te, dram", "--json")
    whole = json.loads(said.out)
    assert (said.code, said.err, whole["cycles"]) == (0, "", 3410)
    assert [one["resources"] for one in (*whole["freed"], whole["all"])] == [["te"], ["dram"], ["te", "dram"]]
    for one in (*whole["freed"], whole["all"]):
        assert one["saved"] == 3410 - one["cycles"] and one["share"] == one["saved"] / 3410
    assert whole["freed"][0]["changes"]["te.macs_per_cycle"] == 2**31 - 1


def test_whatif_ends_as_the_run_does(kbsim: Kbsim) -> None:
    assert kbsim("whatif", "stuck.json", "--config", "small.yaml", "--free", "te").code == 4
    said = kbsim("whatif", "tiles.json", "--config", "small.yaml", "--set", "max_cycles=500", "--free", "te", "--json")
    assert said.code == 3 and json.loads(said.out)["freed"][0]["saved"] is None
