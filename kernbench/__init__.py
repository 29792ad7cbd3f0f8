"""kernbench simulates kernels, collectives and command queues on machines described in YAML.

The results are the cycles that a program takes, and the reasons. `dir(kernbench)` lists the public names. Methods of
components return or receive these constants:

- `NEVER`: there is no next cycle. `BUSY`: `accept` refuses the job.
- `FLOW`, `BANKS`, `JOB`: the event that `notify` reports: the end of a flow, a grant of banks, or the end of a submitted job.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernbench.moved import find_moved
from kernbench.version import VERSION as __version__
from kernbench_libraries import find_compiled

if TYPE_CHECKING:
    from kernbench.api.compare import Comparison, compare
    from kernbench.api.fuzz import FuzzResult, fuzz
    from kernbench.api.llm import LlmRun, llm, step_timer
    from kernbench.api.probe import ProbeResult, probe
    from kernbench.api.run import Run, run
    from kernbench.api.sweep import SweepResult, read_sweep, sweep
    from kernbench.api.validate import Validation, validate
    from kernbench.api.whatif import WhatIfs, whatif
    from kernbench.api.why import Explanation, why
    from kernbench.cmdq import Program, check_program, load_program
    from kernbench.common.errors import InputError, InternalError, KernbenchError
    from kernbench.components.base import ComponentBase
    from kernbench.components.passive import MemoryPart, Passage, PassivePart
    from kernbench.components.traffic import TrafficPart, Transfer
    from kernbench.config import NpuConfig, SystemConfig, load_config
    from kernbench.runtime_api import Bench, Context, DPPolicy
    from kernbench.runtime_api.bench import bench
    from kernbench.runtime_api.triton.run import machine
    from kernbench.sim_engine.data_executor import DataExecutor
    from kernbench.sim_engine.engine import GraphEngine
    from kernbench.sim_engine.machine import BANKS, BUSY, FLOW, JOB, NEVER, Arbiter, Component, Machine, simulate
    from kernbench.sim_engine.result import Result
    from kernbench.workloads.blocks.batch import Sequences

find_compiled(__file__)
find_moved()

_HOMES = {
    **dict.fromkeys(("Comparison", "compare"), "kernbench.api.compare"),
    **dict.fromkeys(("Explanation", "why"), "kernbench.api.why"),
    **dict.fromkeys(("FuzzResult", "fuzz"), "kernbench.api.fuzz"),
    **dict.fromkeys(("LlmRun", "llm", "step_timer"), "kernbench.api.llm"),
    "Sequences": "kernbench.workloads.blocks.batch",
    **dict.fromkeys(("ProbeResult", "probe"), "kernbench.api.probe"),
    **dict.fromkeys(("Run", "run"), "kernbench.api.run"),
    **dict.fromkeys(("SweepResult", "read_sweep"), "kernbench.api.sweep"),
    "Validation": "kernbench.api.validate",
    **dict.fromkeys(("WhatIfs", "whatif"), "kernbench.api.whatif"),
    **dict.fromkeys(("BANKS", "BUSY", "FLOW", "JOB", "NEVER", "Arbiter", "Component"), "kernbench.sim_engine.machine"),
    "ComponentBase": "kernbench.components.base",
    **dict.fromkeys(("MemoryPart", "Passage", "PassivePart"), "kernbench.components.passive"),
    **dict.fromkeys(("TrafficPart", "Transfer"), "kernbench.components.traffic"),
    **dict.fromkeys(("Bench", "Context", "DPPolicy", "bench"), "kernbench.runtime_api"),
    "DataExecutor": "kernbench.sim_engine.data_executor",
    "GraphEngine": "kernbench.sim_engine.engine",
    "InputError": "kernbench.common.errors",
    "InternalError": "kernbench.common.errors",
    "KernbenchError": "kernbench.common.errors",
    "Machine": "kernbench.sim_engine.machine",
    "NpuConfig": "kernbench.config",
    "Program": "kernbench.cmdq",
    "Result": "kernbench.sim_engine.result",
    "SystemConfig": "kernbench.config",
    "check_program": "kernbench.cmdq",
    "load_config": "kernbench.config",
    "load_program": "kernbench.cmdq",
    "machine": "kernbench.runtime_api.triton.run",
    "simulate": "kernbench.sim_engine.machine",
}
#: Commands without a function, with an example.
_COMMANDS = {"calibrate": "calibrate DATA.csv -c h100", "op": "op matmul -c h100", "onnx": "onnx MODEL.onnx",
             "serve": "serve run", "step": "step TARGET"}  # fmt: skip
#: Packages that can also be called (`kernbench/common/callable_package.py`).
_CALLED = ("sweep", "validate")

__all__ = [
    "BANKS",
    "BUSY",
    "FLOW",
    "JOB",
    "NEVER",
    "Arbiter",
    "Bench",
    "Comparison",
    "Component",
    "ComponentBase",
    "Context",
    "DPPolicy",
    "DataExecutor",
    "Explanation",
    "FuzzResult",
    "GraphEngine",
    "InputError",
    "InternalError",
    "KernbenchError",
    "LlmRun",
    "Machine",
    "MemoryPart",
    "NpuConfig",
    "Passage",
    "PassivePart",
    "ProbeResult",
    "Program",
    "Result",
    "Run",
    "Sequences",
    "SweepResult",
    "SystemConfig",
    "TrafficPart",
    "Transfer",
    "Validation",
    "WhatIfs",
    "__version__",
    "bench",
    "check_program",
    "compare",
    "fuzz",
    "llm",
    "load_config",
    "load_program",
    "machine",
    "probe",
    "read_sweep",
    "run",
    "simulate",
    "step_timer",
    "sweep",
    "validate",
    "whatif",
    "why",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `import kernbench` alone stays fast."""
    if name in _CALLED:
        return import_module(f"kernbench.{name}")
    if name not in _HOMES:
        from kernbench.common.spelling import nearest

        known = sorted([*__all__, *_CALLED], key=lambda one: one[0].isupper() != name[0].isupper())  # run before Run for runn
        near = "" if name.startswith("_") else nearest(name, known)
        remedy = f"; did you mean {near}?" if near else ""
        remedy = f"; it is only a command: kbsim {_COMMANDS[name]}" if name in _COMMANDS else remedy
        raise AttributeError(f"module 'kernbench' has no attribute {name!r}{remedy}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return sorted(__all__)
