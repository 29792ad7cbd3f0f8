"""The base class of components that are written in Python."""

from __future__ import annotations

from typing import Any, ClassVar

from kernbench_core.plugin.pycomponent import NEVER, Job, Plugged


class NoParameters:
    """The Spec of a component without parameters."""

    __slots__ = ()

    def __init__(self) -> None:
        """A keyword argument is a TypeError that names the argument."""


class Component(Plugged):
    """The base class of components written in Python: components of the machine with their own timing.

    A class `class Mine(Component, kind="mine")` has the method `step`, and `accept` if it executes jobs. Its parameters are the
    fields of `Spec`, a frozen dataclass, given as keyword arguments. `jobs`, `flows` and `asks` limit how many submitted jobs,
    flows and bank requests are open at a time. The phases in which methods run are in docs/reference/components.md. An
    exception in a method ends the run as failed.

    >>> from kernbench import BUSY, NEVER, Component, Machine, Program
    >>> class FixedLatency(Component, kind="fixed_latency"):
    ...     def accept(self, job, now):
    ...         self.job = job.id
    ...         return now + 9
    ...     def step(self, now):
    ...         if now:
    ...             self.complete(self.job)
    ...         return NEVER
    >>> program = Program()
    >>> job = program.te_gemm(m=16, n=16, k=16, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1,
    ...                       wgt_offset=0, ofm_bank=2, ofm_offset=0)
    >>> machine = Machine("npu_mobile", program, {"te0": FixedLatency()})
    >>> machine.run()
    False
    >>> machine.result().cycles
    10
    """

    __slots__ = ()  # Python reads slots of such a class much faster than entries of its objects' dicts

    kinds: ClassVar[dict[str, type[Component]]] = {}  #: classes by their `kind`
    kind: ClassVar[str] = ""
    Spec: ClassVar[type[Any]] = NoParameters
    jobs: int = 16  #: limit of jobs that are submitted and not ended
    flows: int = 16  #: limit of open flows
    no_snapshot: ClassVar[str] = ""  #: why the component can never be saved
    asks: int = 4  #: limit of bank requests that are not served

    def __init_subclass__(cls, kind: str = "", **rest: Any) -> None:
        """`kind`: the name of the class in machine files; a class without one has that of its base class."""
        super().__init_subclass__(**rest)
        if kind:
            cls.kind = kind
            Component.kinds[kind] = cls

    def __init__(self, spec: Any = None, **fields: Any) -> None:
        self.spec = type(self).Spec(**fields) if spec is None else spec

    def step(self, now: int) -> int:
        """P1 of cycle `now`: do the work that is due, and return the next cycle in which to run, greater than `now`, or
        NEVER."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def accept(self, job: Job, now: int) -> int:
        """P3: start the job and return the next cycle in which to run, or BUSY; a refused job is offered again after this
        component has run.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no jobs")

    def notify(self, notice: int, number: int, now: int) -> int:
        """P7: a FLOW has moved its last byte, BANKS were granted, or a submitted JOB has ended. Return the next cycle in which
        to run.

        P4: the members of a watched resource have changed (MEMBERS). `number` is the job, flow, request or resource.
        """
        return NEVER

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        raise NotImplementedError(f"{type(self).__name__} has no snapshot")

    def restore(self, image: bytes) -> None:
        """Set the state to that of a snapshot."""
        raise NotImplementedError(f"{type(self).__name__} has no restore")


ComponentBase = Component
