"""Ramulator 2's devices, address maps and loads as a controller of `row_buffer_v2` and its bursts.

Everything is taken from its presets by the name of a time or of a constraint, so any standard of them can be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from kernbench.config.dram_controller import complete

MAPS = {
    "RoBaRaCoCh": ("row bank group stack rank pseudo column", ()),
    "MOP4CLXOR": (
        "row column bank group stack rank pseudo column4",
        ("pseudo^column", "rank^column", "stack^column", "group^column", "bank^column", "row^column"),
    ),
}
AT_ONCE = 16  #: bursts a tick that a saturating source begins with; later no queue takes as many
SCHEDULERS = {"FRFCFS": "oldest_ready", "FRFCFSRowHit": "oldest_ready_hits"}
#: Keys of a controller by the names that its times have, of which a standard has one.
TIMES = {
    "t_bl": ("nBL", "nBL_min"),
    "t_cl": ("nCL",),
    "t_cwl": ("nCWL",),
    "t_rcd": ("nRCD", "nRCDRD"),
    "t_rcd_wr": ("nRCDWR",),
    "t_rp": ("nRP",),
    "t_rp_ab": ("nRPab",),
    "t_ras": ("nRAS",),
    "t_rc": ("nRC",),
    "t_rtp": ("nRTP", "nRTPL"),
    "t_wr": ("nWR",),
    "t_ccd_s": ("nCCDS",),
    "t_ccd_l": ("nCCDL",),
    "t_ccd_s_wr": ("nCCDS_WR",),
    "t_ccd_l_wr": ("nCCDL_WR",),
    "t_ccd_r": ("nCCDR",),
    "t_rrd_s": ("nRRDS",),
    "t_rrd_l": ("nRRDL",),
    "t_faw": ("nFAW",),
    "t_wtr_s": ("nWTRS",),
    "t_rtrs": ("nCS",),
    "t_ppd": ("nPPD",),
    "t_refi": ("nREFI",),
    "t_rfc": ("nRFC", "nRFCab"),
    "t_refi_pb": ("nREFIpb",),
    "t_rfc_pb": ("nRFCpb",),
    "t_rrefd": ("nRREFD",),
    "t_wckpst": ("nWCKPST",),
}


def controller_of(preset: Mapping[str, Any], mapping: str, scheduler: str, refresh: bool) -> dict[str, Any]:
    """The keys of a preset, an address map and a scheduler, as `controller_table` takes them."""
    ticks, levels, phases = preset["timing_ticks"], preset["levels"], preset["tick_multiplier"]
    values: dict[str, Any] = {
        "clock": Fraction(1),
        "pseudo_channels": levels.get("PseudoChannel", 1),
        "ranks": levels.get("Rank", 1),
        "stacks": levels.get("Sid", 1),
        "bank_groups": levels["BankGroup"],
        "banks_per_group": levels["Bank"],
        "rows": levels["Row"],
        "burst_bytes": preset["tx_bytes"],
        "row_bytes": preset["row_lines"] * preset["tx_bytes"],
        "phases": phases,
        "command_buses": 2 if preset["standard"].startswith("HBM") else 1,
    }
    for key, names in TIMES.items():
        found = [ticks[name] for name in names if name in ticks]
        values |= {key: found[0]} if found else {}
    written = values["t_cwl"] + values["t_bl"]
    values["t_rtw"] = _constraint(preset, "RD", "WR")
    values["t_wtr_l"] = _constraint(preset, "WR", "RD", "BankGroup") - written
    values |= _commands(preset, phases)
    if "ACT1" in preset["command_cycles"]:
        values["t_aad"] = ticks["nAAD"]
    else:
        values.pop("t_wckpst", None)
    values["map"], values["hash"] = MAPS[mapping]
    values |= {"scheduler": SCHEDULERS[scheduler], "refresh": "all_bank" if refresh else "none"}
    return complete(values)


def _constraint(preset: Mapping[str, Any], after: str, before: str, level: str = "") -> int:
    """[tick] of the one constraint between two commands, of a level or of those above bank groups."""
    return max(
        int(one["ticks_nominal"])
        for one in preset["constraints"]
        if after in one["preceding"] and before in one["following"] and not one["sibling"]
        if (one["level"] == level if level else one["level"] not in ("BankGroup", "Bank"))
    )


def _commands(preset: Mapping[str, Any], phases: int) -> dict[str, int]:
    """For how many ticks commands hold their bus."""
    cycles = preset["command_cycles"]
    scale = phases if cycles["RD"] < phases else 1  # in clocks, else in ticks
    act = cycles.get("ACT", cycles.get("ACT1"))
    held = {"act_clocks": act, "pre_clocks": cycles["PREpb"], "column_clocks": cycles["RD"], "refresh_clocks": cycles["REFab"]}
    return {key: int(Fraction(str(value)) * scale) for key, value in held.items()}


def bursts_of(preset: Mapping[str, Any], pattern: str, read_pct: int, load: str, ticks: int) -> Any:
    """The bursts that a load offers in so many ticks, as `DramLoad` takes them: number, write, tick.

    `load`: `sat`, as many as the queues take, or a share of the peak in percent, evenly spaced.
    """
    lines, size = int(preset["lines"]), int(preset["tx_bytes"])
    peak = Fraction(str(preset["peak_bytes_per_tick"]))
    if load == "sat":
        count = int(ticks * peak / size) + 8192
    else:
        each = Fraction(str(load)) * peak / 100 / size  # bursts a tick
        count = int(ticks * each) + 2
    i = np.arange(count, dtype=np.int64)
    bursts = np.zeros((count, 3), dtype=np.int64)
    bursts[:, 0] = _PATTERNS[pattern](i, lines, int(preset["row_lines"]), int(preset["bank_stride_lines"])) % lines
    bursts[:, 1] = (i % 2 if read_pct == 50 else 0) if read_pct in (50, 100) else _refuse(read_pct)
    bursts[:, 2] = i // AT_ONCE if load == "sat" else i * each.denominator // each.numerator
    return bursts


def _refuse(read_pct: int) -> int:
    raise ValueError(f"read_pct = {read_pct}: 50 and 100 are known")


def _splitmix(i: Any) -> Any:
    with np.errstate(over="ignore"):
        z = (i + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)


def _streams(n: int) -> Any:
    return lambda i, lines, row, stride: i % n * (lines // n) + i // n


#: Burst number by index, bursts of the channel, of a row, and from a row of a bank to its next.
_PATTERNS: dict[str, Any] = {
    "stream": lambda i, lines, row, stride: i,
    "rand": lambda i, lines, row, stride: (_splitmix(i) % np.uint64(lines)).astype(np.int64),
    "stride4": lambda i, lines, row, stride: 4 * i,
    "stride_row": lambda i, lines, row, stride: i * row,
    "stride_bank": lambda i, lines, row, stride: i * stride,
    "streams2": _streams(2),
    "streams4": _streams(4),
    "copy": _streams(2),
}
