"""`@bench`: a function of `ctx`, its parameters and its reference, as something that a machine runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.runtime_api.context import Context
from kernbench.runtime_api.parameters import Param, Plain, checked, declared
from kernbench.runtime_api.running import Running
from kernbench.sim_engine.engine import Session

Run: TypeAlias = Callable[[Context], None]
Reference: TypeAlias = Callable[[dict[str, Array], Mapping[str, Any]], Mapping[str, Array]]
DEFAULT_MACHINE = "single_cube"


@dataclass(frozen=True, eq=False)
class Bench:
    """A bench, made by `@bench`. Calling it calls its `run`."""

    name: str
    description: str
    run: Run
    reference: Reference | None
    params: Mapping[str, Param] = field(default_factory=dict)
    machine: str = DEFAULT_MACHINE  #: the preset it runs on where no other is named

    def __call__(self, ctx: Context) -> None:
        self.run(ctx)

    @property
    def where(self) -> str:
        """How errors name it."""
        return f"bench {self.name}"

    @property
    def source(self) -> str:
        """The file that it stands in."""
        return inspect.getsourcefile(self.run) or self.run.__module__

    def begin(self, session: Session, params: Mapping[str, Any]) -> Running:
        """A run of it on the session's machine. InputError for parameters that it does not have, or does not allow."""
        return Running(self, session, checked(self.where, self.params, params))


def bench(
    *,
    name: str,
    description: str,
    params: Mapping[str, Param | Plain] | None = None,
    reference: Reference | None = None,
    machine: str = DEFAULT_MACHINE,
) -> Callable[[Run], Bench]:
    """Make a bench of the function below: `run(ctx)`.

    `params`: defaults by name, or `Param`s that say more; `--set name=value` changes them. `reference(inputs, params)` gets the
    arrays of `from_numpy` by name, and returns the expected outputs by name, reduced in the algorithm's own order.
    InputError for a name that is none, a `run` without exactly one argument, and parameters as `declared` refuses.
    """

    def make(run: Run) -> Bench:
        where = f"{getattr(run, '__module__', 'bench')}: @bench"
        if not name or not all(part.isidentifier() for part in name.split("-")):
            rule = "it must be words of letters, digits and _, joined by -"
            raise InputError(Problem(where, rule, "name", name))
        if not callable(run) or len(inspect.signature(run).parameters) != 1:
            raise InputError(Problem(where, "what it decorates must be a function of one argument, ctx", "name", name))
        return Bench(name, description, run, reference, declared(where, params or {}), machine)

    return make
