"""Distributions of machines and programs that are hard for fast paths, and what a draw of each must bring to be worth its name.

Each distribution changes machines of `tests.machine_strategies`. `DISTRIBUTIONS` has them by name, with those of other modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.addition_strategies import npus_with_every_addition, systems_with_every_addition
from tests.cache_strategies import cache_systems, cached_row_systems, cached_systems_of_pes
from tests.combined_strategies import combined_systems, combined_systems_of_pes
from tests.machine_strategies import Draw, machines
from tests.reached import Reached
from tests.row_strategies import (
    controller_systems,
    controller_systems_of_pes,
    pressed_controller_systems,
    pressed_row_systems,
    row_systems,
    row_systems_of_pes,
)
from tests.sampled import sampled_from
from tests.strategies import crowds, programs, systems
from tests.systems_of_pes import System, systems_of_pes
from tests.trace_systems import traced_systems

MachineDict = dict[str, Any]
Change = Callable[[Draw, MachineDict], None]
MAX_CYCLES = 20_000


@dataclass(frozen=True)
class Distribution:
    """Systems, what a draw of them reaches, and in how many of a hundred draws at least."""

    systems: st.SearchStrategy[System]
    reaches: Callable[[Reached], bool]
    percent: int
    ends: bool = False  #: every program comes to its end: one that is stopped at max_cycles hangs


def few_banks(draw: Draw, machine: MachineDict) -> None:
    """One bank or two with one port, so that nearly every request meets another one."""
    _banks(draw, machine, [1, 1, 2])
    for name in ("read_ports", "write_ports"):
        machine["spm"].pop(name, None)
    machine["spm"]["ports"] = draw(sampled_from([1, 1, 1, 2]))


def split_ports(draw: Draw, machine: MachineDict) -> None:
    """Read ports and write ports, and engines that read and write often: requests that read and write one bank."""
    _banks(draw, machine, [1, 1, 2, 2, 3, 4, 8])
    machine["spm"].pop("ports", None)
    machine["spm"] |= {"read_ports": draw(sampled_from([1, 1, 2, 3])), "write_ports": draw(sampled_from([1, 1, 2, 3]))}


def heavy_weights(draw: Draw, machine: MachineDict) -> None:
    """Weights above 5, and several transfers at a time on channels that are slower than all of them together."""
    weight = sampled_from([1, 6, 7, 9, 11, 13, 16, 31, 64, 97])
    concurrent = {"max_concurrent": 4, "priority": draw(st.integers(0, 1))}
    names = ("act_weight", "kv_load", "kv_store")
    weights = draw(st.lists(weight, min_size=3, max_size=3, unique=True))
    channels = {name: concurrent | {"weight": one} for name, one in zip(names, weights, strict=True)}
    few = {"max_concurrent_transfers": draw(sampled_from([2, 3, 6])), "queue_depth_per_master": 8, "channels": channels}
    machine["dma"] |= few
    machine["allocation"] = draw(sampled_from(["shared_bw_v1", "shared_bw_v1", "max_min_v1"]))
    burst = draw(sampled_from([2, 4, 7]))
    machine["dram"] |= {"bus_width_bytes": 64, "dram_burst_cycles": burst, "peak_bw_bytes_per_cycle": 64}
    machine["control"] = {"issue_width": 0}


def odd_widths(draw: Draw, machine: MachineDict) -> None:
    """Widths, alignments and interleaves that are no powers of two."""
    width = draw(sampled_from([3, 5, 6, 7, 11, 12, 20, 24, 33, 48, 60]))
    spm = machine["spm"]
    lines = max(1, spm["num_banks"] * spm["bank_size_bytes"] // (spm["num_banks"] * width))
    spm |= {"bank_width_bytes": width, "bank_size_bytes": lines * width}
    machine["dma"]["alignment_bytes"] = draw(sampled_from([1, 3, 5, 6, 7, 12, 20, 24, 40]))
    machine["dram"] |= {"interleave_bytes": draw(sampled_from([3, 7, 20, 33, 100, 300]))}


def overlap_error(draw: Draw, machine: MachineDict) -> None:
    """Starts on bytes in use end the run, where there are not many bytes and jobs may be issued at once."""
    machine["spm"]["check_overlap"] = "error"
    machine["control"] = {"issue_width": draw(sampled_from([0, 0, 1, 2]))}


def many_channels(draw: Draw, machine: MachineDict) -> None:
    """Five to twelve DRAM channels, so narrow that a transfer is on nearly all of them."""
    count = draw(st.integers(5, 12))
    machine["dram"] |= {
        "channels": count,
        "interleave_bytes": draw(sampled_from([1, 3, 8, 16, 20, 32])),
        "peak_bw_bytes_per_cycle": draw(sampled_from([1, 3, 4, 10.5, 24])),
    }
    if "noc" in machine:
        at = machine["noc"]["dram_at"]
        machine["noc"]["dram_at"] = (at * count)[:count]


def waiting_lines(draw: Draw, machine: MachineDict) -> None:
    """Up to sixteen transfers in flight, most of which wait in lines of one to three channels; one to four ports a bank."""
    channels = {name: {"max_concurrent": 16} for name in ("act_weight", "kv_load", "kv_store")}
    machine["allocation"] = "fifo_v1"
    machine["dma"] |= {"max_concurrent_transfers": 16, "queue_depth_per_master": 16, "channels": channels}
    machine["dram"] |= {"channels": draw(st.integers(1, 3)), "peak_bw_bytes_per_cycle": draw(sampled_from([1, 4, 10.5, 24]))}
    machine["control"] = {"issue_width": 0}
    spm = machine["spm"]
    for name in ("ports", "read_ports", "write_ports", "arbiter"):
        spm.pop(name, None)
    ports = sampled_from([1, 2, 3, 4])
    spm |= draw(sampled_from([{"ports": draw(ports)}, {"read_ports": draw(ports), "write_ports": draw(ports)}]))
    if "noc" in machine:
        at = machine["noc"]["dram_at"]
        machine["noc"]["dram_at"] = (at * 3)[: machine["dram"]["channels"]]


CHANGES: tuple[Change, ...] = (few_banks, split_ports, heavy_weights, odd_widths, overlap_error, many_channels, waiting_lines)


@st.composite
def changed(draw: Draw, change: Change | None) -> System:
    """A machine that one of CHANGES went over, or several where none is named, and a program that is valid on it."""
    machine = draw(machines())
    machine["spm"] = machine.get("spm") or _default_banks()
    machine["max_cycles"] = MAX_CYCLES
    changes = [change] if change else draw(st.lists(sampled_from(CHANGES), min_size=2, max_size=4, unique=True))
    for one in changes:
        one(draw, machine)
    for kind in ("te", "ve"):
        if kind in machine:
            machine[kind]["spm_traffic"] = True
    kind = draw(sampled_from(["crowd", "crowd", "crowd", "queue"]))
    return machine, draw(crowds(machine, work=True, least=5) if kind == "crowd" else programs(machine))


def _default_banks() -> dict[str, Any]:
    return {"num_banks": 4, "bank_width_bytes": 16, "bank_size_bytes": 2048, "map": "interleaved"}


def _banks(draw: Draw, machine: MachineDict, counts: list[int]) -> None:
    """So many banks, of as many bytes together, and short times of waiting."""
    spm = machine["spm"]
    width, nbytes = spm["bank_width_bytes"], spm["num_banks"] * spm["bank_size_bytes"]
    banks = draw(sampled_from(counts))
    spm |= {"num_banks": banks, "bank_size_bytes": -(-nbytes // (banks * width)) * width}
    spm |= {
        "conflict_penalty_cycles": draw(sampled_from([1, 1, 2, 3, 7])),
        "max_wait_cycles": draw(sampled_from([1, 2, 4, 8, 40])),
        "backpressure_cycles": draw(sampled_from([1, 2, 3, 8, 20])),
    }


def _all_at_work(seen: Reached) -> bool:
    """Transfers met a cache or routers, and each other in the banks."""
    return seen.denials > 0 and (seen.hits > 0 or seen.flits > 0)


DISTRIBUTIONS: dict[str, Distribution] = {
    "few_banks": Distribution(changed(few_banks), lambda seen: seen.banks <= 2 and seen.denials > 0, 50),
    "split_ports": Distribution(changed(split_ports), lambda seen: seen.both_ways > 0, 40),
    "heavy_weights": Distribution(changed(heavy_weights), lambda seen: seen.unequal_above > 5, 20),
    "odd_widths": Distribution(changed(odd_widths), lambda seen: seen.odd_width and seen.cut_lines > 0, 50),
    "overlap_error": Distribution(changed(overlap_error), lambda seen: seen.status == "failed", 40),
    "many_channels": Distribution(changed(many_channels), lambda seen: seen.channels_used >= 5, 50),
    "waiting_lines": Distribution(changed(waiting_lines), lambda seen: seen.waiting >= 3, 40),
    "several": Distribution(changed(None), lambda seen: seen.denials > 0, 25),
    "any": Distribution(systems(), lambda seen: seen.cycles > 0, 70),
    "traced": Distribution(traced_systems(), lambda seen: seen.denials > 0, 40),
    "rows": Distribution(row_systems(), lambda seen: seen.bursts > 0, 50),
    "controllers": Distribution(controller_systems(), lambda seen: seen.bursts > 0, 50, ends=True),
    "pressed_controllers": Distribution(pressed_controller_systems(), lambda seen: seen.pressed > 0, 20, ends=True),
    "pressed_rows": Distribution(pressed_row_systems(), lambda seen: seen.pressed > 0, 20, ends=True),
    "caches": Distribution(cache_systems(), lambda seen: seen.hits > 0 and seen.write_backs > 0, 20),
    "cached_rows": Distribution(cached_row_systems(), lambda seen: seen.hits > 0, 40),
    "cached_pes": Distribution(cached_systems_of_pes(), lambda seen: seen.hits > 0 and seen.scratchpads > 1, 20),
    "pes": Distribution(systems_of_pes(), lambda seen: seen.scratchpads > 1 and seen.denials > 0, 15),
    "rows_of_pes": Distribution(row_systems_of_pes(), lambda seen: seen.scratchpads > 1 and seen.bursts > 0, 30),
    "every_addition": Distribution(npus_with_every_addition(), _all_at_work, 25),
    "every_addition_of_pes": Distribution(
        systems_with_every_addition(), lambda seen: seen.scratchpads > 1 and _all_at_work(seen), 20
    ),
    "combined": Distribution(combined_systems(changed(None)), lambda seen: seen.cycles > 0, 70),
    "combined_pes": Distribution(combined_systems_of_pes(), lambda seen: seen.scratchpads > 1, 60),
    "controllers_of_pes": Distribution(controller_systems_of_pes(), lambda seen: seen.scratchpads > 1 and seen.bursts > 0, 30),
}
