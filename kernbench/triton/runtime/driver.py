"""`triton.runtime.driver`: the simulated machine, described as Triton describes a device."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernbench.triton.backends.compiler import GPUTarget
from kernbench.triton.jit import RUNTIME


class _Utilities:
    """The object `driver.active.utils`."""

    def get_device_properties(self, device: Any = 0) -> dict[str, int]:
        """Return the properties of the machine; the section *Host side* of docs/reference/triton.md lists them."""
        return dict(import_module(RUNTIME).device_properties())


class DriverBase:
    """The driver of the simulated machine. Tensors stay on the host, so the torch device is `cpu`."""

    def __init__(self) -> None:
        self.utils = _Utilities()

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        """Return backend `cpu` (the location of the tensors), the name of the machine, and a warp size of 1."""
        return GPUTarget("cpu", str(import_module(RUNTIME).machine_name()), 1)

    def get_active_torch_device(self) -> Any:
        import torch  # who asks has it

        return torch.device("cpu")

    def get_current_device(self) -> int:
        """Return 0, the number of the only device."""
        return 0

    def set_current_device(self, device: Any) -> None:
        """Do nothing, because there is only one device."""

    def get_current_stream(self, device: Any = None) -> int:
        """Return 0, the only stream: launches run one after another."""
        return 0

    def get_device_interface(self) -> Any:
        """Return the torch module for the host."""
        import torch

        return torch.cpu

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Return (0, 0): capabilities are versions of NVIDIA hardware, which the machine is not."""
        return 0, 0

    def get_benchmarker(self) -> Any:
        """Return `triton.testing.do_bench`."""
        return import_module("kernbench.triton.testing").do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        """Return nothing to clear, because each launch starts with a new machine."""

    def clear_cache(self, cache: Any) -> None:
        """Do nothing, because each launch starts with a new machine."""


class DriverConfig:
    """The object `driver`, which has the active driver."""

    def __init__(self) -> None:
        self.default = self.active = DriverBase()

    def set_active(self, driver: Any) -> None:
        self.active = driver

    def reset_active(self) -> None:
        self.active = self.default


driver = DriverConfig()
