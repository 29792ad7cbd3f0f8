"""What components cost: a call of a Python step, of one in C, and a cycle in which a component sleeps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from kernbench import NEVER, Component, load_config, load_program
from kernbench.sim_engine.machine import Machine
from tests.speed.goals import Goal

GOALS_NS = {"a Python step": 200.0, "a sleeping component": 3.0}  # of a cycle, at most


class Every(Component):
    """Runs every cycle and does nothing."""

    def step(self, now: int) -> int:
        return now + 1


class Sleeps(Component):
    """Never runs again."""

    def step(self, now: int) -> int:
        return NEVER


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """CPU time of `cycles` stepped cycles with a component, less that of the same run without."""

    what: str
    cycles: int
    ns_per_cycle: float


def machine_without_end(components: dict[str, Any]) -> Machine:
    """One long job without traffic: the loop has nothing else to do."""
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    job = {"opcode": "TE_GEMM_TILE", "m": 64, "n": 64, "k": 8192, "qbits_weight": 8, "qbits_activation": 8, **places}
    spm = {"num_banks": 64, "bank_size_bytes": "64 KiB"}
    config = load_config({"te": {"macs_per_cycle": 1, "spm_traffic": False}, "spm": spm, "max_cycles": 1 << 40})
    return Machine(config, load_program({"metadata": {"version": "1.0", "name": "long"}, "cmdq": [job]}), components)


def component_rows(cycles: int, repeats: int = 5) -> list[ComponentRow]:
    """The C rows are missing where there is no compiler."""
    from tests.contract.compiled import engines

    in_c = engines()
    makers: list[tuple[str, Any]] = [("a Python step", Every), ("a sleeping component", Sleeps)]
    if in_c is not None:
        makers += [("a C step", lambda: in_c.sleeper(1)), ("a sleeping C component", lambda: in_c.sleeper(0))]
    plain = min(_seconds({}, cycles) for _ in range(repeats))
    rows = [ComponentRow("no component", cycles, plain / cycles * 1e9)]
    for what, make in makers:
        spent = min(_seconds({"part": make()}, cycles) for _ in range(repeats))
        rows.append(ComponentRow(what, cycles, (spent - plain) / cycles * 1e9))
    return rows


def _seconds(components: dict[str, Any], cycles: int) -> float:
    machine = machine_without_end(components)
    machine.step(10)
    begin = time.process_time()
    machine.step(cycles)
    return time.process_time() - begin


def component_table(rows: list[ComponentRow]) -> str:
    """One line a row."""
    return "\n".join(f"  {row.what:24} {row.ns_per_cycle:8.2f} ns a cycle" for row in rows)


def component_goals(rows: list[ComponentRow]) -> list[Goal]:
    """Of components in Python."""
    return [Goal(f"{row.what}, a cycle", row.ns_per_cycle, GOALS_NS[row.what], "ns") for row in rows if row.what in GOALS_NS]
