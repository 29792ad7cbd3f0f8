"""What a bench may know of the machine it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.schema import Te, Ve
from kernbench.runtime_api.places import Places


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Numbers of the machine."""

    name: str  #: the preset or file
    sips: int
    cubes: int  #: of a SIP
    pes_per_cube: int
    pes: int  #: in all
    scratchpad_bytes: int  #: of one PE
    freq_ghz: Fraction
    slice_bytes_per_cycle: Fraction  #: [byte/cycle] of one PE's HBM slice, all its channels
    te: Te
    ve: Ve

    @classmethod
    def of(cls, places: Places) -> MachineFacts:
        """Of the machine with these places."""
        config, size = places.config, places.size
        assert isinstance(config, NpuConfig | SystemConfig)
        pe = config if isinstance(config, NpuConfig) else config.pe
        if isinstance(config, NpuConfig):
            bandwidth = config.dram.channels * config.dram.capacity
        else:
            bandwidth = Fraction(config.cube.hbm.channels, config.slices) * config.cube.hbm.capacity
        return cls(
            name=config.source,
            sips=size.sips,
            cubes=size.cubes,
            pes_per_cube=size.pes,
            pes=len(places.pes),
            scratchpad_bytes=pe.spm.size_bytes,
            freq_ghz=config.freq_ghz,
            slice_bytes_per_cycle=bandwidth,
            te=pe.te,
            ve=pe.ve,
        )
