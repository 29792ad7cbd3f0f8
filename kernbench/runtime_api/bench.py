"""`@bench`: makes a bench of a host function with the argument `ctx`, its parameters and its reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant, type_meant
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.places import Fault
from kernbench.config.yaml_text import parse
from kernbench.runtime_api.context import Context
from kernbench.runtime_api.running import Running
from kernbench.sim_engine.engine import Session

Plain: TypeAlias = bool | int | float | str
_TYPES = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
_DEPTH = 1  # depth of the YAML values of parameters: no lists and no mappings


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a bench: its default and the allowed values. The type of the parameter is the type of the default.

    >>> from kernbench.runtime_api.bench import Param
    >>> Param(16, least=1).broken(0)
    'it must be at least 1'
    """

    default: Plain
    doc: str = ""
    choices: tuple[Plain, ...] = ()  #: allowed values; if empty, any value of the type
    least: int | float | None = None  #: the smallest allowed number

    @property
    def kind(self) -> str:
        """The type in words: `an integer`."""
        return _TYPES[type(self.default)]

    def broken(self, value: Any) -> str:
        """The rule that a value violates; empty if the value is allowed."""
        if type(value) is not type(self.default) and not (isinstance(self.default, float) and type(value) is int):
            return f"it must be {self.kind}"
        if self.choices and value not in self.choices:
            return f"it must be one of {', '.join(map(str, self.choices))}"
        if self.least is not None and float(value) < self.least:
            return f"it must be at least {self.least}"
        return ""


def declared(where: str, params: Mapping[str, Param | Plain]) -> dict[str, Param]:
    """The parameters that were given to `@bench`. InputError for a name that is also a key of machines, and for a default of an
    unsupported type."""
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


def _key_meant(name: str) -> str:
    """`did you mean freq_ghz?` for the start of a key of machines; empty if there is none."""
    from kernbench.config.schema import NpuConfig

    near = [key for key in NpuConfig.model_fields if len(name) >= 3 and key.startswith(name.lower())]
    return f"did you mean {near[0]}?" if len(near) == 1 else ""


def checked(where: str, params: Mapping[str, Param], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all parameters: the given values and otherwise the defaults. InputError for an unknown name, and for a
    value that is not allowed."""
    problems = []
    for name, value in given.items():
        if name not in params:
            there = f"the parameters are {', '.join(params) or 'none'}"
            remedy = meant(name, params) or _key_meant(name) or there
            problems.append(Problem(where, "the bench has no such parameter", name, value, remedy))
        elif rule := params[name].broken(value):
            near = ""
            if isinstance(value, str) and (rest := re.fullmatch(r"([^,=]+)((?:,\w+=[^,=]+)+)", value)):
                near = f"write --set {name}={rest[1]}{rest[2].replace(',', ' --set ')}"
            elif isinstance(value, str):
                choices = [one for one in params[name].choices if isinstance(one, str)]
                near = type_meant(value, choices) or meant(value, choices, cutoff=0.75)
            problems.append(Problem(where, rule, name, value, near))
    if problems:
        raise InputError(problems)
    values = {name: given.get(name, param.default) for name, param in params.items()}
    return {name: float(value) if isinstance(params[name].default, float) else value for name, value in values.items()}


def split_settings(where: str, params: Mapping[str, Param], settings: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Divide `--set` texts into parameters of the bench and overrides of the machine.

    A text whose path is the name of a parameter sets the parameter. Any other path of one word must be a key of the machine.
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
    """A bench: a host program, its parameters and its reference. `@bench` makes one; `kernbench.run` runs it.

    >>> import kernbench as kb
    >>> @kb.bench(name="empty", description="does nothing", params={"n": 4})
    ... def empty(ctx):
    ...     pass
    >>> empty.name, empty.params["n"].default
    ('empty', 4)
    """

    name: str
    description: str
    run: Run
    reference: Reference | None
    params: Mapping[str, Param] = field(default_factory=dict)
    machine: str = DEFAULT_MACHINE  #: default machine
    #: whether the bench or its kernels use elements of memories; if not, a run without an op log keeps no contents of memories
    reads_memory: bool = True

    def __call__(self, ctx: Context) -> None:
        self.run(ctx)

    @property
    def where(self) -> str:
        """How errors name this bench."""
        return f"bench {self.name}"

    @property
    def source(self) -> str:
        """The file that defines this bench."""
        return inspect.getsourcefile(self.run) or self.run.__module__

    def begin(self, session: Session, params: Mapping[str, Any]) -> Running:
        """Start this bench on the machine of a session. InputError for an unknown parameter, or a value that is not allowed."""
        return Running(self, session, checked(self.where, self.params, params))


def bench(
    *,
    name: str,
    description: str,
    params: Mapping[str, Param | Plain] | None = None,
    reference: Reference | None = None,
    machine: str = DEFAULT_MACHINE,
) -> Callable[[Run], Bench]:
    """Make a `Bench` from a function `run(ctx)`.

    - `name`: the name of the bench on the command line, words of small letters and digits joined by `-`.
    - `description`: one line for `kbsim bench list`.
    - `params`: defaults by name, or `Param` objects; `--set name=value` and keyword arguments of `kernbench.run` change them.
    - `reference`: a function `reference(inputs, params)` that receives the arrays of `from_numpy` by name, and returns the
      expected outputs by name. Without it, the outputs cannot be verified.
    - `machine`: the preset that the bench runs on by default.

    The function raises InputError for a name that is not words joined by `-`, for a function without exactly one argument, and
    for a parameter that is not valid.

    >>> import kernbench as kb
    >>> @kb.bench(name="twice", description="doubles numbers", reference=lambda inputs, params: {"out": 2 * inputs["x"]})
    ... def twice(ctx):
    ...     x = ctx.from_numpy(np.arange(4, dtype=np.float32), name="x")
    ...     out = ctx.empty((4,), "f32", name="out")
    ...     ctx.launch("twice", lambda x, out, tl: tl.store(out, tl.load(x, (4,), "f32") * 2), x, out, grid=1)
    ...     ctx.output("out", out)
    >>> kb.run(twice, verify=True).verified
    True
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
