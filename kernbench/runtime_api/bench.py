"""`@bench`: a function of `ctx`, its parameters and its reference, as something that a machine runs."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.places import Fault
from kernbench.config.yaml_text import parse
from kernbench.runtime_api.context import Context
from kernbench.runtime_api.running import Running
from kernbench.sim_engine.engine import Session

Plain: TypeAlias = bool | int | float | str
_TYPES = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
_DEPTH = 1  # of YAML values: no lists, no mappings


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: its type is that of its default."""

    default: Plain
    doc: str = ""
    choices: tuple[Plain, ...] = ()  #: what it may be; empty: anything of its type
    least: int | float | None = None  #: the smallest number that it may be

    @property
    def kind(self) -> str:
        """Its type, as people call it: `an integer`."""
        return _TYPES[type(self.default)]

    def broken(self, value: Any) -> str:
        """The rule that a value breaks; empty where it breaks none."""
        if type(value) is not type(self.default) and not (isinstance(self.default, float) and type(value) is int):
            return f"it must be {self.kind}"
        if self.choices and value not in self.choices:
            return f"it must be one of {', '.join(map(str, self.choices))}"
        if self.least is not None and float(value) < self.least:
            return f"it must be at least {self.least}"
        return ""


def declared(where: str, params: Mapping[str, Param | Plain]) -> dict[str, Param]:
    """The parameters that `@bench` was given. InputError for a name that a machine's key has, or a default of another type."""
    keys = {field.alias or name for kind in (NpuConfig, SystemConfig) for name, field in kind.model_fields.items()}
    found: dict[str, Param] = {}
    problems = []
    for name, given in params.items():
        param = given if isinstance(given, Param) else Param(given)
        found[name] = param
        if not name.isidentifier() or name in keys:
            rule = "a parameter's name must be an identifier, and no key of a machine"
            problems.append(Problem(where, rule, "params", name, "--set could not tell them apart: take another name"))
        elif type(param.default) not in _TYPES:
            rule = f"the default must be {', '.join(_TYPES.values())}, and it is a {type(param.default).__name__}"
            problems.append(Problem(where, rule, f"params.{name}"))
        elif param.broken(param.default):
            problems.append(Problem(where, param.broken(param.default), f"params.{name}", param.default, "change the default"))
    if problems:
        raise InputError(problems)
    return found


def checked(where: str, params: Mapping[str, Param], given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with the given values. InputError for a name that is none, and a value that is not allowed."""
    problems = []
    for name, value in given.items():
        if name not in params:
            near = difflib.get_close_matches(name, params, n=1)
            there = f"parameters are: {', '.join(params) or 'none'}"
            remedy = f"did you mean {near[0]}?" if near else there
            problems.append(Problem(where, "there is no such parameter", name, value, remedy))
        elif rule := params[name].broken(value):
            problems.append(Problem(where, rule, name, value))
    if problems:
        raise InputError(problems)
    values = {name: given.get(name, param.default) for name, param in params.items()}
    return {name: float(value) if isinstance(params[name].default, float) else value for name, value in values.items()}


def split_settings(where: str, params: Mapping[str, Param], settings: list[str]) -> tuple[dict[str, Any], list[str]]:
    """`--set` texts as values of parameters, and as what is left for the machine.

    A text whose path is a parameter's name is the parameter's; any other one of a single word must be a machine's key.
    """
    keys = {field.alias or name for kind in (NpuConfig, SystemConfig) for name, field in kind.model_fields.items()}
    values: dict[str, Any] = {}
    machine = []
    for text in settings:
        name, equals, value = text.partition("=")
        name = name.strip()
        if equals and name not in params and name.isidentifier() and name not in keys:
            checked(where, params, {name: _value(where, name, value)})
        if equals and name in params:
            values[name] = _value(where, name, value) if not isinstance(params[name].default, str) else value.strip()
        else:
            machine.append(text)
    return values, machine


def _value(where: str, name: str, text: str) -> Any:
    try:
        value = parse(text, _DEPTH) if text.strip() else ""
    except Fault as fault:
        raise InputError(Problem(where, fault.rule, name, text, fault.remedy)) from None
    return float(value) if isinstance(value, Fraction) else value


Run: TypeAlias = Callable[[Context], None]
Reference: TypeAlias = Callable[[dict[str, Array], Mapping[str, Any]], Mapping[str, Array]]
DEFAULT_MACHINE = "npu_server"


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
            raise InputError(Problem(where, "it must decorate a function of one argument, ctx", "name", name))
        return Bench(name, description, run, reference, declared(where, params or {}), machine)

    return make
