"""Workloads: models lowered to CMDQ programs for a machine."""

from kernbench.workloads.layer.decoder import decoder_layer
from kernbench.workloads.models import LLAMA_2_7B

__all__ = ["LLAMA_2_7B", "decoder_layer"]
