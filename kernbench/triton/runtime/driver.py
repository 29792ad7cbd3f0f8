"""`triton.runtime.driver`: the machine that launches run on, as Triton describes a device."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernbench.triton.backends.compiler import GPUTarget
from kernbench.triton.jit import RUNTIME


class _Utilities:
    """`driver.active.utils`."""

    def get_device_properties(self, device: Any = 0) -> dict[str, int]:
        """Of the machine: see docs/reference/triton.md, Host side."""
        return dict(import_module(RUNTIME).device_properties())


class DriverBase:
    """The simulated machine. Tensors stay on the host, so the device of torch is `cpu`."""

    def __init__(self) -> None:
        self.utils = _Utilities()

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        """Backend `cpu` (where tensors are), and the name of the machine; a program is one thread of control."""
        return GPUTarget("cpu", str(import_module(RUNTIME).machine_name()), 1)

    def get_active_torch_device(self) -> Any:
        import torch  # who asks has it

        return torch.device("cpu")

    def get_current_device(self) -> int:
        """There is one: 0."""
        return 0

    def set_current_device(self, device: Any) -> None:
        """There is one."""

    def get_current_stream(self, device: Any = None) -> int:
        """Launches run one after the other."""
        return 0

    def get_device_interface(self) -> Any:
        """The module of torch for the host."""
        import torch

        return torch.cpu

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Versions of NVIDIA's hardware; this is none."""
        return 0, 0

    def get_benchmarker(self) -> Any:
        """`triton.testing.do_bench`."""
        return import_module("kernbench.triton.testing").do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        """Each launch has a machine of its own: there is nothing to empty."""

    def clear_cache(self, cache: Any) -> None:
        """As `get_empty_cache_for_benchmark`."""


class DriverConfig:
    """`driver`, with the active driver."""

    def __init__(self) -> None:
        self.default = self.active = DriverBase()

    def set_active(self, driver: Any) -> None:
        self.active = driver

    def reset_active(self) -> None:
        self.active = self.default


driver = DriverConfig()
