"""The class of components written in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kernbench_core.plugin.pycomponent import NEVER, Job, Plugged


@dataclass(frozen=True)
class NoParameters:
    """The Spec of a component that has none."""


class Component(Plugged):
    """A part of a machine: subclass it, and give it a `step`. `docs/reference/components.md` is the contract.

    `class Mine(Component, kind="mine")`. Its parameters are the fields of `Spec`, a frozen dataclass, given by keywords.
    """

    __slots__ = ()  # Python reads slots of such a class much faster than what is in its objects' dicts

    kinds: ClassVar[dict[str, type[Component]]] = {}  #: by the `kind` that classes were given
    kind: ClassVar[str] = ""
    Spec: ClassVar[type[Any]] = NoParameters
    jobs: int = 16  #: place is kept for so many submitted and not ended,
    flows: int = 16  #: flows open,
    no_snapshot: ClassVar[str] = ""  #: why it can never be saved
    asks: int = 4  #: and bank requests not served, at a time

    def __init_subclass__(cls, kind: str = "", **rest: Any) -> None:
        """`kind`: of a class that is given none, that of the class which it is derived from."""
        super().__init_subclass__(**rest)
        if kind:
            cls.kind = kind
            Component.kinds[kind] = cls

    def __init__(self, spec: Any = None, **fields: Any) -> None:
        self.spec = type(self).Spec(**fields) if spec is None else spec

    def step(self, now: int) -> int:
        """P1 of cycle `now`: do what is due; return the next cycle to run in, above `now`, or NEVER."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def accept(self, job: Job, now: int) -> int:
        """P3: start the job, and return when to run next; or BUSY: it is offered again when this component has run."""
        raise NotImplementedError(f"{type(self).__name__} takes no jobs")

    def notify(self, notice: int, number: int, now: int) -> int:
        """P7: a FLOW has moved its last byte, BANKS were granted, a submitted JOB has ended; return when to run next."""
        return NEVER

    def snapshot(self) -> bytes:
        """All state as bytes."""
        raise NotImplementedError(f"{type(self).__name__} has no snapshot")

    def restore(self, image: bytes) -> None:
        """Put a snapshot back."""
        raise NotImplementedError(f"{type(self).__name__} has no restore")


ComponentBase = Component
