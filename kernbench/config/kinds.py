"""One NPU or a system: the refusal of an NPU with suitable machines, and a PE of a system as one NPU."""

from __future__ import annotations

import re

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import near_size
from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.load import load_config, machine_names, preset_names
from kernbench.config.machine import MachineConfig
from kernbench.config.schema import ARBITERS, Dram, NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.config.system.parts import BUILTIN

_DRAM = ("interleave_bytes", "bus_width_bytes", "dram_burst_cycles", "peak_bw_bytes_per_cycle", "t_setup_cycles", "period",
         "controller")  # fmt: skip


def systems_of(pes: int) -> list[SystemConfig]:
    """The presets of systems with at least this many PEs, the smallest first."""
    systems: list[SystemConfig] = [load_config(name, kind=SystemConfig) for name in preset_names(SystemConfig)]
    return sorted((one for one in systems if one.pes >= pes), key=lambda one: (one.pes, one.source))


def larger(pes: int) -> str:
    """Those presets in the form that the user types: `-c two_sips, sip_4x4 or pod_8sip`; empty if there is none."""
    names = [one.source.removesuffix(".yaml") for one in systems_of(pes)]
    return f"-c {', '.join(names[:-1])}{' or ' if len(names) > 1 else ''}{names[-1]}" if names else ""


def pes_of(config: MachineConfig) -> int:
    """The number of PEs of a machine."""
    return config.pes if isinstance(config, SystemConfig) else 1


def board_of(config: MachineConfig) -> str:
    """The smallest board of the package with chips of this kind, `h100_8x`; empty if there is none."""
    name = config.source.removesuffix(".yaml")
    return next((one for one in machine_names() if re.fullmatch(rf"{re.escape(name)}_\d.*", one)), "")


def a_system(who: str, config: MachineConfig, why: str = "a system of several PEs is needed", remedy: str = "") -> SystemConfig:
    """The machine as a system; InputError for one NPU, with machines that `who` can use. `remedy`: another remedy."""
    if isinstance(config, SystemConfig):
        return config
    board = board_of(config)
    fit = f"use one of these machines: {', '.join(preset_names(SystemConfig))}"
    fit = f"use a board of these chips: -c {board}" if board else fit
    rule = f"{why}, but {config.source} is a single NPU"
    raise InputError(Problem(who, rule, remedy=f"{remedy}; {fit}" if remedy else fit))


def names_python(config: NpuConfig | SystemConfig) -> bool:
    """Whether the machine's file names Python classes or functions, which then take part in each run."""
    return config.pe.spm.arbiter not in ARBITERS or any(part.impl != BUILTIN for part in config.components.values())


def pe_as_npu(config: SystemConfig) -> NpuConfig:
    """One PE as an NPU. Its DRAM has no limit: the memory of an address is checked separately."""
    pe = config.pe
    dram = Dram(capacity_bytes=WIDE_LIMIT - 1)
    npu = NpuConfig.model_validate(
        {"dma": pe.dma, "te": pe.te, "ve": pe.ve, "spm": pe.spm, "dram": dram}
        | {name: getattr(config, name) for name in ("freq_ghz", "kv_layouts", "energy")}
    )
    npu._source = config.source
    return npu


def as_npu(config: MachineConfig) -> NpuConfig:
    """The machine for which a program of one PE is planned: the NPU, or a PE of the system with its share of the HBM.

    An entry without a node runs on the first PE, whose share begins at address 0.
    """
    if not isinstance(config, SystemConfig):
        assert isinstance(config, NpuConfig)
        return config
    hbm = config.cube.hbm
    per_slice = -(-config.cube.pes // config.slices)
    dram = Dram(
        channels=config.slice_channels,
        capacity_bytes=config.slice_bytes // per_slice,
        **{name: getattr(hbm, name) for name in _DRAM},
    )
    view = pe_as_npu(config).model_copy(update={"dram": dram})
    view._source = config.source
    view._memory_of = f"{config.memory_path}capacity_bytes", hbm.capacity_bytes
    return view


def with_memory(config: NpuConfig | SystemConfig, capacity_bytes: int) -> NpuConfig | SystemConfig:
    """The machine with another capacity of its DRAM, or of each HBM stack; it is not checked again."""
    memory = config.memory.model_copy(update={"capacity_bytes": capacity_bytes})
    if isinstance(config, SystemConfig):
        return config.model_copy(update={"cube": config.cube.model_copy(update={"hbm": memory})})
    return config.model_copy(update={"dram": memory})


def beyond_dram(config: NpuConfig, rule: str, remedy: str) -> Problem:
    """The problem of data that exceed the DRAM; `rule` says how much they need. For `as_npu` of a system, the problem names the
    key of the system's file.
    """
    field, owner = ("dram.capacity_bytes", "the DRAM") if config._memory_of is None else (config._memory_of[0], "a PE")
    has = f"{rule}, but {owner} has {near_size(config.dram.capacity_bytes)}"
    return Problem(config.source, has, field, remedy=remedy)


def beyond_scratchpad(config: NpuConfig, rule: str) -> Problem:
    """The problem of data that exceed the scratchpad, as in `beyond_dram`."""
    at = "" if config._memory_of is None else SystemConfig.pe_path
    field = f"{at}spm.num_banks * {at}spm.bank_size_bytes"
    return Problem(config.source, rule, field, config.spm.size_bytes, "raise one of them")
