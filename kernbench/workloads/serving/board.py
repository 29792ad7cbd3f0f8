"""The chips of a board under a runtime profile: kernels of one chip, and collectives over the links of the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from kernbench.common.errors import InputError, Problem
from kernbench.config import load_config
from kernbench.config.load import chip_of_board
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a run's parameters are given where a user reads its refusals: as options, as settings, or in Python."""

    where: str  #: the command or the function
    form: str = "--{name} {value}"
    names: Mapping[str, str] = field(default_factory=dict)  #: parameters that have another name there

    def of(self, name: str, value: int) -> str:
        """The text that gives a parameter this value."""
        return self.form.format(name=self.names.get(name, name), value=value)


LLM, SERVE = Spelling("kbsim llm"), Spelling("kbsim serve")
COMPARE = Spelling("kbsim compare", "--set {name}={value}")
PYTHON = Spelling("kernbench.serving.generate", "{name}={value}", {"w": "weight_bits", "kv": "kv_bits"})


def chip_under_profile(machine: NpuConfig | SystemConfig, devices: int, *, spelling: Spelling) -> NpuConfig | None:
    """The chip whose kernels a runtime profile times on this machine; None if the machine is neither a chip nor a board that
    comes with kernbench.

    `devices`: the chips that the run uses. InputError if the board has fewer, or if values of the board were set: the kernels
    are those of the file of the chip.
    """
    if machine.chip is not None:
        return machine
    name = chip_of_board(machine)
    if not name:
        return None
    board = cast("SystemConfig", machine)
    if board != load_config(board.source.removesuffix(".yaml")):
        rule = "under a runtime profile, a board runs the kernels of its chip; values that are set on the board have no effect"
        raise InputError(Problem(spelling.where, rule, remedy=f"set values of the chip {name}, for example chip.cores"))
    chips = board.system.sips
    if devices > chips:
        rule = f"the run needs {devices} chips, but the board {board.source.removesuffix('.yaml')} has {chips}"
        remedy = f"take at most {chips} chips ({spelling.of('tp', chips)}), or the chip {name} itself"
        raise InputError(Problem(spelling.where, rule, remedy=remedy))
    return _linked(cast("NpuConfig", load_config(name)), board)


def _linked(machine: NpuConfig, board: SystemConfig) -> NpuConfig:
    """The chip with the links that it has on the board. A switch gives a chip all links of its own file."""
    system = board.system
    if system.kind == "all_to_all":
        return machine
    rows = 1 if system.kind == "ring" else system.rows
    sides = (rows, system.sips // rows)
    links = sum(min(2, side - 1) for side in sides)  # a ring of two chips has one link between them
    chip = machine.chip
    assert chip is not None
    update = {
        "links": links, "link_gb_s": Fraction(system.link.bytes_per_cycle) * board.freq_ghz,
        "link_latency_ns": Fraction(system.link.cycles) / board.freq_ghz,
    }  # fmt: skip
    return machine.model_copy(update={"chip": chip.model_copy(update=update)})
