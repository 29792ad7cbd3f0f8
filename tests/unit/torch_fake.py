"""A stand-in for tensors of torch on the host, for tests that run without torch."""

from __future__ import annotations

from typing import Any

import numpy as np


class FakeTensor:
    """As much of a tensor of torch as `dist` uses."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)
        self.dtype = f"torch.{self.values.dtype}"

    def detach(self) -> FakeTensor:
        return self

    def numpy(self) -> Any:
        return self.values

    def copy_(self, other: FakeTensor) -> None:
        self.values[...] = other.values
