"""The area of the machine of a point, by the figures of a table of components (`configs/energy`)."""

from __future__ import annotations

import msgspec

from kernbench.common.errors import InputError
from kernbench.common.units import parse_rational, plain_number
from kernbench.config import MachineConfig
from kernbench.config.energy_table import EnergyTable, area_amounts
from kernbench.config.load import chip_of_board

METRIC = "area_mm2"
KEY = "area_table"  #: of a spec
LIMIT = 1_000_000  #: [mm2] limit of a figure, so that areas are numbers that a store can have


class Area(msgspec.Struct, frozen=True):
    """The two figures of a table that give an area, in the form of `plain_number`."""

    sram_mm2_per_mib: int | float | str
    mac_mm2: int | float | str

    @classmethod
    def of(cls, table: EnergyTable) -> Area:
        """The figures of a table. InputError if the table does not have them, or if they are too large."""
        figures = {name: table.figure("area", name)[0] for name in cls.__struct_fields__}
        for name, value in figures.items():
            if value > LIMIT:
                given = plain_number(value)
                raise InputError(table.document.problem(("area", name), f"it must be at most {LIMIT} mm2 here", given))
        return cls(*map(plain_number, figures.values()))

    def mm2(self, config: MachineConfig) -> float | None:
        """[mm2] The area of all scratchpads and tensor engines; None for real chips and boards, whose scratchpads and tensor
        engines model the sum of many parts."""
        if getattr(config, "chip", None) is not None or chip_of_board(config):
            return None
        nbytes, macs = area_amounts(config)  # type: ignore[arg-type]
        return float(parse_rational(self.sram_mm2_per_mib) * nbytes / 2**20 + parse_rational(self.mac_mm2) * macs)


def is_area(area: Area) -> bool:
    """Whether the figures are numbers from 0 to LIMIT; those of a damaged store may be anything."""
    try:
        return all(0 <= parse_rational(value) <= LIMIT for value in (area.sram_mm2_per_mib, area.mac_mm2))
    except ValueError:
        return False
