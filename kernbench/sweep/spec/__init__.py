"""The spec of a sweep, `kernbench/sweep/1`: what it runs, on which machine, what varies, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kernbench.config.allowed_code import AllowedCode
from kernbench.config.document import Document
from kernbench.sweep.axes import Axis
from kernbench.sweep.conditions import Condition
from kernbench.sweep.machines import Machines
from kernbench.sweep.targets.target import Target

SCHEMA = "kernbench/sweep/1"
PARAM = "param."  #: an axis of this beginning varies a parameter of the targets
MACHINE = "machine"  #: the axis of base machines
DEFAULT_GOALS = (("ns", "min"),)

Goal = tuple[str, str]  #: a number of a result or an expression of such numbers, and `min` or `max`


@dataclass(frozen=True, slots=True)
class Sample:
    """Points that are drawn, instead of the whole grid."""

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

    points: int | None = None  #: that are run, at most
    seconds: float | None = None  #: after which no further one begins


@dataclass(frozen=True, slots=True)
class Sampled:
    """A search whose points a sampler chooses by the results of earlier ones."""

    trials: int  #: points to look at
    sampler: Literal["tpe", "nsga2"]
    seed: int = 0
    batch: int = 8  #: points that are chosen at once
    prune: bool = True  #: points whose lower bound is worse than the best result are not run


@dataclass(frozen=True, slots=True)
class Largest:
    """A search for the largest value of an axis that meets a condition."""

    axis: str
    meets: str  #: a condition on results; it holds up to some value of the axis


@dataclass(frozen=True)
class Spec:
    """A spec that was read and whose names exist. `load_spec` makes it."""

    name: str
    targets: tuple[Target, ...]
    machines: tuple[Machines, ...]  #: the bases; with `set` applied
    axes: tuple[Axis, ...]
    conditions: tuple[Condition, ...] = ()
    sample: Sample | None = None
    limits: Limits = Limits()
    budget: Budget = Budget()
    goals: tuple[Goal, ...] = DEFAULT_GOALS  #: what is better
    constraints: tuple[str, ...] = ()  #: conditions on results; a point that breaks one is not among the best
    search: Sampled | Largest | None = None  #: instead of running all points
    skip_invalid: bool = False  #: points that break a rule of the machine are left out, and not an error
    document: Document | None = None
    machine_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  #: by target: positions in `machines`
    allowed_code: AllowedCode = field(default_factory=AllowedCode)  #: what benches and machines may name

    @property
    def names(self) -> tuple[str, ...]:
        """What varies, in order."""
        return tuple(name for axis in self.axes for name in axis.names)
