"""PyTorch models on simulated machines: `export`, `time`, and the backend of `torch.compile(model, backend="kernbench")`."""

from kernbench.api.torch import Timed, backend, export, time, timings

__all__ = ["Timed", "backend", "export", "time", "timings"]
