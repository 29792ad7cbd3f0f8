"""The class that components derive from (seed ADR-0020 D2): a plug-in of the core with its node and the hooks of the op log.

Only this module and the module that runs the core may import the core (docs/adr/0018-kernels.md).
"""

from __future__ import annotations

from typing import Any, Protocol

from kernbench_core import BUSY, FLOW, JOB, MEMBERS, NEVER, Component, EngineType, Job
from kernbench_core.plugin.pycomponent import Plugged

# fmt: off
__all__ = [
    "BUSY", "COMPONENT", "CPU", "DMA", "FLOW", "JOB", "MEMBERS", "NEVER", "TE", "VE",
    "Clock", "ComponentBase", "HasCommands", "Job", "OpLog", "Typed",
]
# fmt: on

_TYPES = (EngineType.DMA, EngineType.TE, EngineType.VE, EngineType.COMPONENT, EngineType.CPU)
DMA, TE, VE, COMPONENT, CPU = map(int, _TYPES)


class OpLog(Protocol):
    """The interface of an op log that the hooks use."""

    def record_start(self, t: float, component_id: str, msg: Any) -> None: ...

    def record_end(self, t: float, component_id: str, msg: Any) -> None: ...


class Commands(Protocol):
    """The interface that takes descriptions of submitted jobs, for traces."""

    def add(self, job: int, opcode: str, *, unit: str = "", **meta: Any) -> int: ...


class HasCommands(Protocol):
    """A machine; `commands` is None if descriptions are not needed."""

    @property
    def commands(self) -> Commands | None: ...


class Clock:
    """[ns] The time for hooks: `now`."""

    def __init__(self, freq_ghz: Any = 1) -> None:
        self._num, self._den = freq_ghz.numerator, freq_ghz.denominator
        self.now = 0.0

    def at(self, cycle: int) -> Clock:
        """This clock, set to the beginning of a cycle."""
        self.now = cycle * self._den / self._num
        return self


class Typed(Plugged):
    """A second base class, before `ComponentBase`, for components whose methods are compiled; it holds their fields."""


class ComponentBase(Component):
    """A component at a node of the topology (`node_id`). Only the two hooks of this class write to the op log; without a log
    they do nothing.

    >>> from kernbench import ComponentBase, NEVER
    >>> class Idle(ComponentBase, kind="idle"):
    ...     def step(self, now):
    ...         return NEVER
    >>> Idle().node_id, Idle().step(0) == NEVER
    ('', True)
    """

    node_id: str = ""
    _op_logger: OpLog | None = None

    def message_of(self, job: Job) -> Any:
        """The message of a job that a kernel issued with `tl.issue`. KeyError for any other job.

        >>> from kernbench import ComponentBase
        >>> callable(ComponentBase.message_of)
        True
        """
        return self._messages[job.params[0]]

    @property
    def _messages(self) -> dict[int, Any]:
        """Messages of jobs that have not ended, by the first parameter of the job."""
        found: dict[int, Any] = self.__dict__.setdefault("_messages_of_jobs", {})
        return found

    def _on_process_start(self, env: Clock, msg: Any) -> None:
        """The component starts to serve a message at `env.now`, after the latency of links."""
        log = self._op_logger
        if log is not None and getattr(msg, "data_op", False):
            log.record_start(env.now, self.node_id, msg)

    def _on_process_end(self, env: Clock, msg: Any) -> None:
        """The component has completed the message."""
        log = self._op_logger
        if log is not None and getattr(msg, "data_op", False):
            log.record_end(env.now, self.node_id, msg)
