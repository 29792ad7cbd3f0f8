"""`kbsim validate dram` with figures of Ramulator: rows of a folder, an error planted, and what is said without a folder."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.cmdq.controller_timing import controller_table
from kernbench.validate.ramulator import COLUMNS, PRESETS, TABLE, Measured
from tests.cli.conftest import Kbsim

TICKS = {
    "nBL": 4, "nCL": 22, "nRCD": 22, "nRP": 22, "nRAS": 52, "nRC": 74, "nWR": 24, "nRTP": 12, "nCWL": 16, "nCCDS": 4,
    "nCCDL": 8, "nRRDS": 4, "nRRDL": 8, "nWTRS": 4, "nWTRL": 12, "nFAW": 34, "nRFC": 576, "nREFI": 12480, "nCS": 2,
}  # fmt: skip
TURNS = [("RD", "WR", "Rank", 12), ("WR", "RD", "Rank", 24), ("WR", "RD", "BankGroup", 32)]  # [tick], of a level
PRESET: dict[str, Any] = {
    "standard": "DDR4",
    "levels": {"Channel": 1, "Rank": 1, "BankGroup": 4, "Bank": 4, "Row": 65536, "Column": 1024},
    "tx_bytes": 64,
    "row_lines": 128,
    "bank_stride_lines": 2048,
    "lines": 1 << 27,
    "peak_bytes_per_tick": 16.0,
    "tick_ps": 625,
    "tick_multiplier": 1,
    "timing_ticks": TICKS,
    "command_cycles": {"ACT": 1, "PREpb": 1, "RD": 1, "WR": 1, "REFab": 1},
    "constraints": [
        {"preceding": [after], "following": [before], "sibling": False, "level": level, "ticks_nominal": ticks}
        for after, before, level, ticks in TURNS
    ],
}
ROW = {"config": "mine", "mapping": "RoBaRaCoCh", "scheduler": "FRFCFS", "refresh": "AllBank", "read_pct": "100"}


def folder(more_gb_per_s: float = 0.0) -> Path:
    """A folder of two rows with our own figures, the second one's bandwidth so much larger."""
    place = Path("figures")
    place.mkdir()
    rows = []
    for pattern, more in (("stream", 0.0), ("stride_row", more_gb_per_s)):
        load = {"pattern": pattern, "load_pct": "sat", "warmup_ticks": "2000", "ticks": "30000"}
        one = Measured(PRESET, ROW | load)
        ours = one.ours(controller_table(one.controller()))
        hits = {"row_hits": str(round(1000 * ours.row_hits)), "row_misses": str(round(100000 - 1000 * ours.row_hits))}
        figures = {"achieved_GBps": str(ours.gb_per_s + more), "rd_lat_p50_ns": str(ours.p50_ns), "row_conflicts": "0"}
        rows.append(ROW | load | hits | figures)
    with (place / TABLE).open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    (place / PRESETS).write_text(json.dumps({"mine": PRESET}))
    return place


def figures(out: str) -> list[dict[str, Any]]:
    return [row for row in json.loads(out)["suites"][0]["rows"] if row["source"] == "figures"]


def test_each_row_has_three_figures_with_their_errors(kbsim: Kbsim) -> None:
    said = kbsim("validate", "dram", "--ramulator", str(folder()), "--json")
    assert said.code == 0, said.err
    rows = figures(said.out)
    assert [row["case"].rpartition(": ")[2] for row in rows] == ["bandwidth", "p50 of reads", "row hits"] * 2
    assert rows[0]["case"] == "mine RoBaRaCoCh FRFCFS refresh, stream, 100 % reads, saturated: bandwidth"
    assert all(row["verdict"] == "pass" and abs(row["error"]) < 1e-9 for row in rows)
    assert "left_out" not in json.loads(said.out)["suites"][0]


def test_a_row_that_is_off_is_outside(kbsim: Kbsim) -> None:
    said = kbsim("validate", "dram", "--ramulator", str(folder(more_gb_per_s=2.0)), "--json")
    assert said.code == 1
    assert [row["case"].rpartition(", ")[0] for row in figures(said.out) if row["verdict"] == "fail"] == [
        "mine RoBaRaCoCh FRFCFS refresh, stride_row, 100 % reads"
    ]


def test_an_error_planted_into_dram_is_noticed(kbsim: Kbsim) -> None:
    said = kbsim("validate", "dram", "--ramulator", str(folder()), "--plant", "dram=1.2", "--json")
    assert {row["verdict"] for row in figures(said.out) if "bandwidth" in row["case"]} == {"fail"}


def test_without_a_folder_the_reason_is_told(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNBENCH_RAMULATOR", raising=False)
    reason = "no rows of Ramulator 2 against row_buffer_v2: name a folder of its figures by --ramulator or KERNBENCH_RAMULATOR"
    assert f"skipped: {reason}" in " ".join(kbsim("validate", "dram").out.split())
    assert json.loads(kbsim("validate", "dram", "--json").out)["suites"][0]["left_out"] == reason


def test_the_variable_names_a_folder(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNBENCH_RAMULATOR", str(folder()))
    assert len(figures(kbsim("validate", "dram", "--json").out)) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda place: (place / TABLE).unlink(), "the file does not exist"),
        (lambda place: (place / PRESETS).unlink(), "the file does not exist"),
        (lambda place: (place / TABLE).write_text("config,mapping\nmine,x\n"), "it has no column scheduler"),
        (lambda place: (place / PRESETS).write_text('{"other": {}}'), 'config = "mine", but it must be one of other'),
        (
            lambda place: (place / PRESETS).write_text(json.dumps({"mine": PRESET | {"timing_ticks": {"nBL": 4}}})),
            "mine: a controller of row_buffer_v2 cannot be made of it: t_cwl is missing",
        ),
    ],
)
def test_a_folder_of_another_kind_is_refused(kbsim: Kbsim, change: Any, message: str) -> None:
    place = folder()
    change(place)
    said = kbsim("validate", "dram", "--ramulator", str(place))
    assert said.code == 2 and message in said.err


def test_a_folder_that_is_not_there_is_refused(kbsim: Kbsim) -> None:
    said = kbsim("validate", "dram", "--ramulator", "nowhere")
    assert said.code == 2 and "--ramulator" in said.err and "there is no such folder" in said.err
