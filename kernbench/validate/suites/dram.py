"""DRAM with rows: closed forms of a device, what `shared_bw_v1` says of the same patterns, and figures of Ramulator 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from kernbench.cmdq import Program
from kernbench.cmdq.controller_timing import controller_table
from kernbench.config import NpuConfig, load_config
from kernbench.validate.ramulator import read_figures
from kernbench.validate.run import Runner, slower_controllers
from kernbench.validate.suite import Row, SuiteData

# no requester waits for another requester at the scratchpad
SPM = {"num_banks": 64, "bank_size_bytes": "128 KiB", "bank_width_bytes": 32, "ports": 64}
EXACT = "sums of the rules between commands: nothing may differ"
ROW_STEP = 1 << 16  #: [byte] from a row of a bank to the next of the same, on one channel
Case = dict[str, Any]


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Latencies, throughput and patterns, and the rows of Ramulator if the folder of its figures is given."""
    for case in data.cases:
        yield _KINDS[case["kind"]](case, data, runner)
    if runner.options.ramulator is not None:
        yield from _ramulator(runner.options.ramulator, runner)


def left_out(data: SuiteData, runner: Runner) -> str:
    """Why there are no rows of Ramulator."""
    if runner.options.ramulator is not None:
        return ""
    return "no rows of Ramulator 2 against row_buffer_v2: name a folder of its figures by --ramulator or KERNBENCH_RAMULATOR"


QUICK = 12  #: for `--quick`, every 12th row of Ramulator is run
POINTS = 2  #: allowed difference of row hits in percentage points
MODEL_WHY = "device, address map, scheduler and load are equal; left are rounded figures, and with half clocks the refreshes"


def _ramulator(folder: Path, runner: Runner) -> Iterator[Row]:
    """Bandwidth, p50 of reads and row hits of each row of Ramulator's figures, on an equal controller of row_buffer_v2."""
    for measured in read_figures(folder)[:: QUICK if runner.options.quick else 1]:
        table = controller_table(measured.controller())
        if "dram" in runner.plant:
            table = slower_controllers(table, runner.plant["dram"])
        theirs, ours = measured.expected, measured.ours(table)
        limits = {"bandwidth": (theirs.gb_per_s, ours.gb_per_s, "GB/s", 0.05 if measured.refresh else 0.03)}
        limits["p50 of reads"] = (theirs.p50_ns, ours.p50_ns, "ns", 0.05)
        for what, (expected, found, unit, allowed) in limits.items():
            case = f"{measured.name}: {what}"
            yield Row(case=case, source="figures", expected=expected, ours=found, unit=unit, allowed=allowed, why=MODEL_WHY)
        ends = (theirs.row_hits - POINTS, theirs.row_hits + POINTS)
        case, why = f"{measured.name}: row hits", f"{MODEL_WHY}; the range is {POINTS} points either way"
        yield Row(case=case, source="figures", expected=ends, ours=ours.row_hits, unit="%", allowed=0, why=why)


def machine(data: SuiteData, *, channels: int = 0, refresh: bool = True, rows: bool = True) -> NpuConfig:
    """The stack of the data file, or `channels` of it; without `rows` under shared_bw_v1."""
    banks = {**data.fact("rows"), **({} if refresh else {"t_refi": 0})}
    dram = {name: data.fact(name) for name in ("bus_width_bytes", "dram_burst_cycles")}
    dram |= {"channels": channels or data.fact("channels"), "interleave_bytes": 256, "capacity_bytes": "2 GiB"}
    if rows:
        dram["row_buffer"] = banks
    dma: dict[str, Any] = {"alignment_bytes": 32, "max_concurrent_transfers": 64, "queue_depth_per_master": 64}
    dma |= {"channels": {"act_weight": {"max_concurrent": 64}}}
    allocation = "row_buffer_v1" if rows else "shared_bw_v1"
    return load_config({"allocation": allocation, "dram": dram, "dma": dma, "spm": SPM}, kind=NpuConfig)


def _move(program: Program, addr: int, size: int, *, store: bool = False, place: int = 0, after: int = -1, **shape: int) -> int:
    move = program.dma_store if store else program.dma_load
    size_of = shape or {"num_elements": size}
    before = [after] if after >= 0 else []
    return move(tensor_role="weight", qbits=8, dram_addr=addr, spm_bank=0, spm_offset=place, deps_before=before, **size_of)


def _latency(case: Case, data: SuiteData, runner: Runner) -> Row:
    """One burst, when its bank is closed, has its row open, or another."""
    t, state, program = data.fact("rows"), case["state"], Program("latency")
    size, burst = int(data.fact("bus_width_bytes")), int(data.fact("dram_burst_cycles"))
    first = -1 if state in ("closed", "write") else _move(program, 0, size)
    if first >= 0:  # the second burst is so much later that no time of the first burst delays it
        places = {"in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 0}
        first = program.ve_copy(length=64 * 100, batch=1, qbits_activation=8, **places, deps_before=[first])
    _move(program, ROW_STEP if state == "conflict" else 0, size, store=state == "write", after=first)
    entry = runner.run(program, machine(data, channels=1)).entries[-1]
    assert entry.end is not None and entry.start is not None
    expected = {
        "hit": t["t_cl"],
        "closed": t["t_rcd"] + t["t_cl"],
        "conflict": t["t_rp"] + t["t_rcd"] + t["t_cl"],
        "write": t["t_rcd_wr"] + t["t_cwl"],
    }[state]
    ours = entry.end - entry.start - burst
    return Row(case=case["name"], source=case["source"], expected=expected, ours=ours, unit="ns", allowed=0, why=EXACT)


def _windows(case: Case, data: SuiteData, runner: Runner) -> Row:
    """Five bursts to five banks: the fifth activation comes `t_faw` after the first, or `4 * t_rrd_s` if that is more."""
    t, program = data.fact("rows"), Program("windows")
    size = int(data.fact("bus_width_bytes"))
    banks = [*(size * k for k in range(4)), 4 * 1024]  # four banks of different groups, then another bank of the first group
    for k, addr in enumerate(banks):
        _move(program, addr, size, place=k * 32)
    expected = max(t["t_faw"], 4 * t["t_rrd_s"]) + t["t_rcd"] + t["t_cl"]
    ours = runner.cycles(program, machine(data, channels=1)) - int(data.fact("dram_burst_cycles"))
    return Row(case=case["name"], source="formula", expected=expected, ours=ours, unit="ns", allowed=0, why=EXACT)


def _peak(case: Case, data: SuiteData, runner: Runner) -> Row:
    """Bytes over the time between the first and the last byte of a stream without refresh."""
    t, size, program = data.fact("rows"), int(case["bytes"]), Program("peak")
    _move(program, 0, size)
    first = t["t_rcd"] + t["t_cl"] + 3 * (t["t_rrd_s"] - t["t_ccd_s"])  # then the four groups have their rows
    ours = Fraction(size, runner.cycles(program, machine(data, refresh=False)) - first)
    expected = data.fact("channels") * Fraction(data.fact("bus_width_bytes"), data.fact("dram_burst_cycles"))
    why = "eight channels of 128 bits at 2 Gb/s a pin; after the first rows are open nothing may be lost"
    return Row(case=f"peak, {size:,} B", source="ramulator2", expected=expected, ours=ours, unit="GB/s", allowed=0, why=why)


def _throughput(case: Case, data: SuiteData, runner: Runner) -> Row:
    t, size, program = data.fact("rows"), int(case["bytes"]), Program("throughput")
    _move(program, 0, size)
    peak = data.fact("channels") * Fraction(data.fact("bus_width_bytes"), data.fact("dram_burst_cycles"))
    lost = t["t_rtp"] + t["t_rp"] + t["t_rfc"] + t["t_rcd"]
    ours = Fraction(size, runner.cycles(program, machine(data)))
    why = (
        "the closed form counts the whole gap between two reads as lost, and neither the first latency nor the rows of all "
        "groups that are opened after a refresh"
    )
    expected, case_name = peak * (1 - Fraction(lost, t["t_refi"])), f"highest throughput, {size:,} B"
    return Row(case=case_name, source="ramulator2", expected=expected, ours=ours, unit="GB/s", allowed=0.01, why=why)


def _pattern(case: Case, data: SuiteData, runner: Runner) -> Row:
    """`shared_bw_v1` as ours, against the same with rows."""
    program = Program(case["name"])
    _SHAPES[case["shape"]](case, program)
    expected, ours = (runner.cycles(program, machine(data, rows=with_rows)) for with_rows in (True, False))
    if runner.plant:  # an error of the device must be seen, and the other rule has it too: compare with the device as it is
        ours = Runner(runner.options).cycles(program, machine(data, rows=False))
    allowed, why = case["allowed"], case["why"]
    return Row(case=case["name"], source="row_buffer_v1", expected=expected, ours=ours, unit="cycles", allowed=allowed, why=why)


def _streams(case: Case, program: Program) -> None:
    for k in range(int(case.get("count", 1))):
        _move(program, k << 24, int(case["bytes"]), place=k * 4096)


def _copy(case: Case, program: Program) -> None:
    _move(program, 0, int(case["bytes"]))
    _move(program, 1 << 24, int(case["bytes"]), store=True, place=65536)


def _stride(case: Case, program: Program) -> None:
    _move(program, 0, 0, rows=int(case["rows"]), row_elements=int(case["row"]), stride_bytes=int(case["stride"]))


def _random(case: Case, program: Program) -> None:
    place = 1
    for k in range(int(case["rows"])):
        place = place * 1103515245 + 12345 & 0x7FFFFFFF  # a fixed pseudo-random sequence, equal on all machines
        _move(program, place // 256 * 256 % (1 << 30), int(case["row"]), place=k % 64 * 32)


_SHAPES: dict[str, Callable[[Case, Program], None]] = {
    "stream": _streams,
    "streams": _streams,
    "copy": _copy,
    "stride": _stride,
    "random": _random,
}
_KINDS: dict[str, Callable[[Case, SuiteData, Runner], Row]] = {
    "latency": _latency,
    "windows": _windows,
    "peak": _peak,
    "throughput": _throughput,
    "pattern": _pattern,
}
