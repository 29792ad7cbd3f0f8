"""DMA engines, DRAM channels and mesh links by themselves: exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil
from typing import Any

from kernbench.cmdq import Program
from kernbench.config import load_config
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

WHY = "bytes over a constant capacity, rounded up to the cycle of the last one: nothing may differ"
CAPACITY = 16  #: [byte/cycle] of the channel where a case does not say another
SPM = {"num_banks": 16, "bank_size_bytes": "64 KiB", "bank_width_bytes": 16, "ports": 16}  # no requester waits for another
Case = dict[str, Any]
Ends = list[int]  #: [cycle] of each transfer


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """The end of every transfer of every case."""
    for case in data.cases:
        name, expected, machine, program = _KINDS[case["kind"]](case, data)
        ours = runner.run(program, load_config(machine)).entries
        for i, (end, entry) in enumerate(zip(expected, ours, strict=True)):
            assert entry.end is not None
            label = name if len(expected) == 1 else f"{name}: end of {i + 1}"
            yield Row(case=label, source="formula", expected=end, ours=entry.end, unit="cycles", allowed=0, why=WHY)


def _machine(data: SuiteData, **more: Any) -> dict[str, Any]:
    dram = {"t_setup_cycles": data.fact("setup"), "capacity_bytes": "16 MiB", **more.pop("dram", {})}
    dma = {"alignment_bytes": data.fact("align"), **more.pop("dma", {})}
    return {"dma": dma, "dram": dram, "spm": SPM, **more}


def _load(program: Program, addr: int, size: int, place: int = 0, *, store: bool = False) -> None:
    move = program.dma_store if store else program.dma_load
    move(tensor_role="weight", qbits=8, dram_addr=addr, num_elements=size, spm_bank=0, spm_offset=place)


def _alone(case: Case, data: SuiteData) -> tuple[str, Ends, dict[str, Any], Program]:
    addr, elements, bits, count = (int(case.get(name, 1)) for name in ("addr", "elements", "bits", "rows"))
    stride, align = int(case.get("stride", 0)), int(data.fact("align"))
    one = ceil(Fraction(elements * bits, 8))
    moved = sum(ceil(Fraction(addr + r * stride + one, align)) - (addr + r * stride) // align for r in range(count)) * align
    program, place = Program("alone"), {"spm_bank": 0, "spm_offset": 0, "tensor_role": "weight"}
    if stride:
        size = {"rows": count, "row_elements": elements, "stride_bytes": stride}
    else:
        size = {"num_elements": elements}
    program.dma_load(qbits=bits, dram_addr=addr, **size, **place)
    shape = f"{count} rows of {one:,} B, every {stride:,} B" if stride else f"{one:,} B"
    return f"{shape} from {addr:,}", [int(data.fact("setup")) + ceil(Fraction(moved, CAPACITY))], _machine(data), program


def _shared(case: Case, data: SuiteData) -> tuple[str, Ends, dict[str, Any], Program]:
    """Sizes do not fall: while the k-th is in flight, it and the longer ones share."""
    sizes, program = [int(size) for size in case["sizes"]], Program("shared")
    ends, now, moved = [], Fraction(int(data.fact("setup"))), 0
    for k, size in enumerate(sizes):
        now += Fraction((size - moved) * (len(sizes) - k), CAPACITY)
        moved = size
        ends.append(ceil(now))
        _load(program, k << 16, size, k << 12)
    return f"{' + '.join(f'{size:,}' for size in sizes)} B together", ends, _machine(data), program


def _queued(case: Case, data: SuiteData) -> tuple[str, Ends, dict[str, Any], Program]:
    size, count, at_a_time = (int(case[name]) for name in ("size", "count", "at_a_time"))
    program = Program("queued")
    for k in range(count):
        _load(program, k << 16, size, k << 12)
    group = int(data.fact("setup")) + ceil(Fraction(size * at_a_time, CAPACITY))
    machine = _machine(data, dma={"max_concurrent_transfers": at_a_time})
    ends = [group * (k // at_a_time + 1) for k in range(count)]
    return f"{count} of {size:,} B, {at_a_time} at a time", ends, machine, program


def _dram(case: Case, data: SuiteData) -> tuple[str, Ends, dict[str, Any], Program]:
    size, channels = int(case["size"]), int(case["channels"])
    capacity = min(Fraction(case["peak"]), Fraction(case["bus"], case["burst"])) / case["period"]
    dram = {"channels": channels, "bus_width_bytes": case["bus"], "dram_burst_cycles": case["burst"]}
    dram |= {"peak_bw_bytes_per_cycle": case["peak"], "period": case["period"]}
    program = Program("dram")
    _load(program, 0, size)
    name = f"{size:,} B from {channels} x {float(capacity):.4g} B/cycle"
    ends = [int(data.fact("setup")) + ceil(Fraction(size, channels) / capacity)]
    return name, ends, _machine(data, dram=dram), program


def _mesh(case: Case, data: SuiteData) -> tuple[str, Ends, dict[str, Any], Program]:
    size, link, latency = (int(case[name]) for name in ("size", "link", "latency"))
    (row, col), (to_row, to_col) = case["from"], case["to"]
    hops = abs(row - to_row) + abs(col - to_col)
    noc: dict[str, Any] = {"rows": 4, "cols": 4, "link_bytes_per_cycle": link, "hop_latency_cycles": latency}
    noc |= {"dram_at": [[row, col]], "dma_at": [[to_row, to_col]]}
    program, store = Program("mesh"), bool(case.get("store", False))
    _load(program, 0, size, store=store)
    ends = [int(data.fact("setup")) + hops * latency + ceil(Fraction(size, min(link, CAPACITY)))]
    name = f"{size:,} B {'back ' if store else ''}over {hops} link{'s' * (hops != 1)} of {link} B/cycle"
    return name, ends, _machine(data, noc=noc), program


_KINDS: dict[str, Callable[[Case, SuiteData], tuple[str, Ends, dict[str, Any], Program]]] = {
    "alone": _alone,
    "shared": _shared,
    "queued": _queued,
    "dram": _dram,
    "mesh": _mesh,
}
