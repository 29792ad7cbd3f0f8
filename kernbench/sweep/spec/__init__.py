"""The spec of a sweep, `kernbench/sweep/1`: the targets, the machines, the axes, and the limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kernbench.config.allowed_code import AllowedCode
from kernbench.config.document import Document
from kernbench.sweep.area import Area
from kernbench.sweep.axes import Axis
from kernbench.sweep.conditions import Condition
from kernbench.sweep.machines import Machines
from kernbench.sweep.targets.target import Target

SCHEMA = "kernbench/sweep/1"
PARAM = "param."  #: prefix of axes that vary a parameter of the targets
MACHINE = "machine"  #: name of the axis of base machines
DEFAULT_GOALS = (("ns", "min"),)

Goal = tuple[str, str]  #: a number of a result or an expression of such numbers, and `min` or `max`


@dataclass(frozen=True, slots=True)
class Sample:
    """Points that are sampled instead of the complete grid."""

    kind: Literal["random", "sobol"]
    count: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run; None for no limit."""

    seconds: float | None = None
    memory: int | None = None  #: [B] above the size of an idle process


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a whole sweep; None for no limit."""

    points: int | None = None  #: most points that are run
    seconds: float | None = None  #: [s] no further point begins after this time


@dataclass(frozen=True, slots=True)
class Sampled:
    """A search in which a sampler chooses points by the results of earlier points."""

    trials: int  #: number of proposed points
    sampler: Literal["tpe", "nsga2"]
    seed: int = 0
    batch: int = 8  #: number of points that are chosen together
    prune: bool = True  #: points whose lower bound is worse than the best result are not run


@dataclass(frozen=True, slots=True)
class Largest:
    """A search for the largest value of an axis that meets a condition."""

    axis: str
    meets: str  #: a condition on results; it holds up to some value of the axis


@dataclass(frozen=True)
class Spec:
    """A spec that was read, and whose names were checked. `load_spec` makes a Spec."""

    name: str
    targets: tuple[Target, ...]
    machines: tuple[Machines, ...]  #: the bases; with `set` applied
    axes: tuple[Axis, ...]
    conditions: tuple[Condition, ...] = ()
    sample: Sample | None = None
    limits: Limits = Limits()
    budget: Budget = Budget()
    goals: tuple[Goal, ...] = DEFAULT_GOALS  #: goals by which points are compared
    constraints: tuple[str, ...] = ()  #: conditions on results; a point that breaks one is not among the best
    area: Area | None = None  #: figures by which results have the area of their machine
    search: Sampled | Largest | None = None  #: if it is None, all points are run
    skip_invalid: bool = False  #: whether points that break a rule of the machine are skipped instead of refused
    document: Document | None = None
    machine_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  #: by target: positions in `machines`
    allowed_code: AllowedCode = field(default_factory=AllowedCode)  #: Python code that benches and machines may name

    @property
    def names(self) -> tuple[str, ...]:
        """The names that vary, in order."""
        return tuple(name for axis in self.axes for name in axis.names)
