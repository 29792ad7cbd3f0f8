"""Last-level caches of chips: simulated and measured bandwidth and latency by the size of a data set."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from kernbench.cmdq import Program
from kernbench.config import NpuConfig, load_config
from kernbench.validate.chips import FOLDER
from kernbench.validate.run import Runner
from kernbench.validate.suite import Figure, Row, Series, Skipped, SuiteData

FAR_WHY = "the set is there as a whole, or gone before it is read again: bandwidth and latency are those of one part"
NEAR_WHY = "for information: near the capacity the set is there in part, and real caches are no true LRU"
TILE = 1 << 20  #: [byte] of a transfer
AT_A_TIME = 8  #: transfers
LEAST = 64 << 20  #: [byte] that are read at least, to measure bandwidth
KB = 1024


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Every measured size of every chip. The suite is skipped if there are no tables."""
    folder = Path(runner.options.chip_tables or FOLDER, "microbench")
    if not os.path.isdir(folder):
        raise Skipped("there is no folder of chip tables; name one with --data or KERNBENCH_CHIP_TABLES")
    for chip in data.fact("chips"):
        for size, measured in _sizes(folder / "shared_cache_bandwidth.csv", chip, data, runner):
            machine = _machine(chip, data, _latencies(folder, chip, data))
            ours = _bandwidth(size, machine, runner)
            yield _row(f"{chip}: {size:,} KB, bandwidth", size, machine, measured, ours, "GB/s", data, "bandwidth")
        for size, measured in _sizes(folder / "load_latency.csv", chip, data, runner):
            machine = _machine(chip, data, _latencies(folder, chip, data))
            # the data set fits into a cache below the last level, which the machine does not have
            if size * KB < _first_level(folder, chip):
                continue
            ours = _latency(size, machine, runner)
            yield _row(f"{chip}: {size:,} KB, latency", size, machine, measured, ours, "cycles", data, "latency")


def _row(
    case: str, size: int, machine: NpuConfig, measured: float, ours: Fraction, unit: str, data: SuiteData, what: str
) -> Row:
    assert machine.llc is not None
    share = size * KB / machine.llc.capacity_bytes
    near = data.fact("hits_up_to") < share < data.fact("misses_from")
    allowed = None if near else data.fact(f"{what}_allowed")
    return Row(
        case=case, source="tables", expected=measured, ours=ours, unit=unit, allowed=allowed, why=NEAR_WHY if near else FAR_WHY
    )


def _table(path: Path, chip: str) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["chip"] == chip]


def _sizes(path: Path, chip: str, data: SuiteData, runner: Runner) -> list[tuple[int, float]]:
    """(size of the set [KB], measured figure) of the rows of a chip; every third row for `--quick`."""
    found = [(round(float(row["data_set_kb"])), float(row["measured"])) for row in _table(path, chip)]
    found = [one for one in found if one[0] * KB >= 2 * TILE and one[0] <= data.fact("most_kb")]
    return found[::3] if runner.options.quick else found


def _latencies(folder: Path, chip: str, data: SuiteData) -> tuple[int, int]:
    """[cycle] Latencies of a load that hits and of a load that misses: medians over the sizes that clearly hit or miss."""
    facts = _chip(chip).chip
    assert facts is not None and facts.cache_bytes is not None
    capacity = facts.cache_bytes
    table = _table(folder / "load_latency.csv", chip)
    loads = [(float(row["data_set_kb"]) * KB / capacity, float(row["measured"])) for row in table]
    least = _first_level(folder, chip) / capacity
    hits = sorted(cycles for share, cycles in loads if least < share < data.fact("hits_up_to") / 2)
    misses = sorted(cycles for share, cycles in loads if share > data.fact("misses_from"))
    return round(hits[len(hits) // 2]), round(misses[len(misses) // 2])


def _first_level(folder: Path, chip: str) -> float:
    """[byte] The size above which a set does not fit into a core's own cache: the latency rises by half for the first time."""
    loads = [(float(row["data_set_kb"]), float(row["measured"])) for row in _table(folder / "load_latency.csv", chip)]
    return KB * next(size for size, cycles in loads if cycles > 1.5 * loads[0][1]) * 1.2


def _machine(chip: str, data: SuiteData, latencies: tuple[int, int]) -> NpuConfig:
    """The chip with its cache; transfers are limited only by bandwidth and latency."""
    config = _chip(chip)
    assert config.chip is not None
    hit, miss = latencies
    machine: dict[str, Any] = config.to_dict()
    machine["dram"]["t_setup_cycles"] = miss
    machine["dma"] = {
        "max_concurrent_transfers": AT_A_TIME, "alignment_bytes": data.fact("line_bytes"),
        "channels": {"act_weight": {"max_concurrent": AT_A_TIME}},
    }  # fmt: skip
    machine["spm"] = {"num_banks": 256, "bank_size_bytes": "64 KiB", "bank_width_bytes": 4096, "ports": 64}
    machine["llc"] = {
        "capacity_bytes": config.chip.cache_bytes, "line_bytes": data.fact("line_bytes"), "ways": data.fact("ways"),
        "bw_bytes_per_cycle": str(config.chip.cache_bytes_per_cycle), "latency_cycles": hit,
    }  # fmt: skip
    machine.pop("chip")
    return load_config(machine, kind=NpuConfig)


def _chip(name: str) -> NpuConfig:
    return load_config(name, kind=NpuConfig)


def _bandwidth(size: int, machine: NpuConfig, runner: Runner) -> Fraction:
    """[GB/s] The bandwidth of a set that is read repeatedly, without the first time."""
    program = Program("again")
    _read(program, size)
    times = max(1, LEAST // (size * KB))
    _read(program, size, times)
    entries = runner.run(program, machine).entries
    first = next(entry for entry in entries if entry.opcode == "BARRIER")
    assert first.end is not None
    return Fraction(times * size * KB, max(entry.end or 0 for entry in entries) - first.end) * machine.freq_ghz


def _latency(size: int, machine: NpuConfig, runner: Runner) -> Fraction:
    """[cycle] The latency of loading one line after the whole set was read once, over the lines that were read first."""
    program = Program("chase")
    _read(program, size)
    line = machine.llc.line_bytes if machine.llc is not None else 1
    loads = 16
    for k in range(loads):
        program.barrier(wait_for=[_load(program, 16 * k * line, line, 0)])
    entries = runner.run(program, machine).entries
    last = [entry for entry in entries if entry.opcode == "DMA_LOAD_TILE"][-loads:]
    return Fraction(sum((entry.end or 0) - (entry.start or 0) for entry in last), loads)


def _read(program: Program, size: int, times: int = 1) -> None:
    """Read the whole set of this size [KB]; later reads wait for the end. The first tiles are shorter, so that transfers end at
    different times and other transfers hide the head latencies."""
    ids: list[int] = []
    for _ in range(times):
        start = 0
        while start < size * KB:
            tile = min(TILE * min(len(ids) + 1, AT_A_TIME) // AT_A_TIME, size * KB - start)
            ids.append(_load(program, start, tile, len(ids) % 16 * TILE))
            start += tile
    program.barrier(wait_for=ids)


def _load(program: Program, address: int, size: int, place: int) -> int:
    where = {"spm_bank": 0, "spm_offset": place // 256}
    return program.dma_load(tensor_role="weight", qbits=8, dram_addr=address, num_elements=size, **where)


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """Measured and simulated figures, by the size of the set."""
    made = []
    for chip in data.fact("chips"):
        for what, unit in (("bandwidth", "GB/s"), ("latency", "cycles")):
            some = [row for row in rows if row.case.startswith(f"{chip}: ") and row.case.endswith(what)]
            points = [(float(row.case.split()[1].replace(",", "")) / KB, row) for row in some]
            measured = [(x, float(row.expected)) for x, row in points if not isinstance(row.expected, tuple)]
            ours = [(x, float(row.ours)) for x, row in points]
            if points:
                series = [Series("measured", measured), Series("simulated", ours, "line")]
                made.append(Figure(f"{chip}: {what}", "data set [MB]", unit, series, log_x=True, log_y=True))
    return made
