"""A PE of a system as the one NPU that it is: for the rules and readers that know NPUs."""

from __future__ import annotations

from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.schema import NpuConfig, NpuDram
from kernbench.config.system import SystemConfig


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
