"""One NPU or a system: the refusal of the other kind with the machines that fit, and a PE of a system as one NPU."""

from __future__ import annotations

from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.load import preset_names
from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig, NpuDram
from kernbench.config.system import SystemConfig


def one_npu(who: str, config: MachineConfig) -> NpuConfig:
    """The machine as one NPU; InputError for a system, with the machines that `who` can use."""
    if isinstance(config, NpuConfig):
        return config
    pes: int = config.pes  # type: ignore[attr-defined]  # both kinds have it
    rule = f"it runs on one NPU, and {config.source} is a system of {counted(pes, 'PE')}"
    raise InputError(Problem(who, rule, remedy=f"machines that fit: {', '.join(preset_names(NpuConfig))}"))


def a_system(who: str, config: MachineConfig, why: str = "it needs more than one PE", remedy: str = "") -> SystemConfig:
    """The machine as a system; InputError for one NPU, with the machines that `who` can use. `remedy`: what helps as well."""
    if isinstance(config, SystemConfig):
        return config
    fit = f"machines that fit: {', '.join(preset_names(SystemConfig))}"
    rule = f"{why}, and {config.source} is one NPU"
    raise InputError(Problem(who, rule, remedy=f"{remedy}; {fit}" if remedy else fit))


def pe_as_npu(config: SystemConfig) -> NpuConfig:
    """One PE. Its DRAM has no end: what memory an address is in is checked apart."""
    pe = config.pe
    dram = NpuDram(capacity_bytes=WIDE_LIMIT - 1)
    npu = NpuConfig.model_validate(
        {"dma": pe.dma, "te": pe.te, "ve": pe.ve, "spm": pe.spm, "dram": dram}
        | {name: getattr(config, name) for name in ("freq_ghz", "kv_layouts", "energy")}
    )
    npu._source = config.source
    return npu
