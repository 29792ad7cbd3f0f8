"""The workloads that `kbsim run` knows by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the planner is imported when a workload is made: the names of workloads are needed much more often
    from kernbench.cmdq.program import Program
    from kernbench.config.schema import NpuConfig


def llama2_7b_decode(config: NpuConfig) -> Program:
    """One layer of Llama-2-7B, W4A8 KV4: one new token after 1024."""
    return _layer(config, "decode")


def llama2_7b_prefill(config: NpuConfig) -> Program:
    """One layer of Llama-2-7B, W4A8 KV4: 128 tokens into an empty KV cache."""
    return _layer(config, "prefill")


def _layer(config: NpuConfig, phase: Literal["decode", "prefill"]) -> Program:
    from kernbench.workloads.layer.decoder import decoder_layer
    from kernbench.workloads.models import LLAMA_2_7B

    return decoder_layer(LLAMA_2_7B, config, phase)


#: The function that makes the program for a machine, by the name in `kbsim run`. Its docstring is the one-line description.
WORKLOADS: Mapping[str, Callable[[NpuConfig], Program]] = MappingProxyType(
    {"llama2-7b-decode": llama2_7b_decode, "llama2-7b-prefill": llama2_7b_prefill}
)
