"""The workloads that `kbsim run` knows by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernbench.cmdq.program import Program
from kernbench.config.schema import NpuConfig
from kernbench.workloads.layer.decoder import decoder_layer
from kernbench.workloads.models import LLAMA_2_7B


def llama2_7b_decode(config: NpuConfig) -> Program:
    """One layer of Llama-2-7B, W4A8 KV4: one new token after 1024."""
    return decoder_layer(LLAMA_2_7B, config, "decode")


def llama2_7b_prefill(config: NpuConfig) -> Program:
    """One layer of Llama-2-7B, W4A8 KV4: 128 tokens into an empty KV cache."""
    return decoder_layer(LLAMA_2_7B, config, "prefill")


#: What makes the program for a machine, by the name that `kbsim run` takes; its docstring is the one-line description.
WORKLOADS: Mapping[str, Callable[[NpuConfig], Program]] = MappingProxyType(
    {"llama2-7b-decode": llama2_7b_decode, "llama2-7b-prefill": llama2_7b_prefill}
)
