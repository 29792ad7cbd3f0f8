"""Which kind of machine something needs: the refusal of the other kind, with the machines that fit."""

from __future__ import annotations

from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.config.load import preset_names
from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig


def one_npu(who: str, config: MachineConfig) -> NpuConfig:
    """The machine as one NPU; InputError for a system, with the machines that `who` can use."""
    if isinstance(config, NpuConfig):
        return config
    pes = counted(config.pes, "PE") if isinstance(config, SystemConfig) else "several PEs"
    rule = f"it runs on one NPU, and {config.source} is a system of {pes}"
    raise InputError(Problem(who, rule, remedy=f"machines that fit: {', '.join(preset_names(NpuConfig))}"))


def a_system(who: str, config: MachineConfig) -> SystemConfig:
    """The machine as a system; InputError for one NPU, with the machines that `who` can use."""
    if isinstance(config, SystemConfig):
        return config
    rule = f"it needs more than one PE, and {config.source} is one NPU"
    raise InputError(Problem(who, rule, remedy=f"machines that fit: {', '.join(preset_names(SystemConfig))}"))
