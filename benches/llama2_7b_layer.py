"""One decoder layer of Llama-2-7B (W4A8, KV4) as a command queue: `llama2-7b-decode` and `llama2-7b-prefill`."""

from __future__ import annotations

from kernbench.cmdq import Program
from kernbench.config import NpuConfig
from kernbench.workloads.catalogue import WORKLOADS


def decode(config: NpuConfig) -> Program:
    """One new token after 1024, for this machine."""
    return WORKLOADS["llama2-7b-decode"](config)


def prefill(config: NpuConfig) -> Program:
    """128 tokens into an empty KV cache, for this machine."""
    return WORKLOADS["llama2-7b-prefill"](config)
