"""The interface of benches: tensors in the memories of a machine, launches of kernels, and the registry of benches."""

from kernbench.policy.placement import DPPolicy
from kernbench.runtime_api.bench import Bench, bench
from kernbench.runtime_api.context import Context
from kernbench.runtime_api.tensors import DeviceTensor

__all__ = ["Bench", "Context", "DPPolicy", "DeviceTensor", "bench"]
