"""Loads a spec, which is a YAML or JSON file of `kernbench/sweep/1`. Its targets, machines and axes, and every name and value
in them, are checked.

Every problem is recorded with its location, and reading continues.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from kernbench.cmdq import load_program
from kernbench.common.errors import ABSENT, InputError, shown
from kernbench.common.spelling import meant
from kernbench.common.units import parse_size, plain_number
from kernbench.config import NpuConfig, SystemConfig, load_config
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.config.document import FORMATS, MACHINE_BYTES, Document, data_document, read_document
from kernbench.config.energy_table import is_table_file, read_table, table_names
from kernbench.config.file_kinds import check_file, check_kind
from kernbench.config.overrides import parse_overrides
from kernbench.config.places import KEY, PathLike, normal_path, value_at
from kernbench.sweep.area import KEY as AREA_TABLE
from kernbench.sweep.area import METRIC, Area
from kernbench.sweep.axes import MAX_DIMENSIONS, MAX_LEVELS, Axis, Span
from kernbench.sweep.conditions import Condition, Formula
from kernbench.sweep.goals import DERIVED, GOALS, SYNONYMS, check_goal
from kernbench.sweep.machines import Machines
from kernbench.sweep.sources import check_code
from kernbench.sweep.spec import DEFAULT_GOALS, MACHINE, PARAM, SCHEMA, Budget, Goal, Largest, Limits, Sample, Sampled, Spec
from kernbench.sweep.targets.target import ProgramTarget, Target, WorkloadTarget
from kernbench.workloads.catalogue import WORKLOADS

#: Names of keys in specs of other tools, and the keys here.
_SYNONYMS = {
    **dict.fromkeys(("objective", "objectives", "optimize", "pareto", "minimize", "metrics"), "goals"),
    **dict.fromkeys(("parameters", "params", "space", "search_space", "variables", "grid", "sweep", "vary"), "axes"),
    **dict.fromkeys(("config", "configs", "machines", "chip"), "machine"),
    **dict.fromkeys(("target", "program", "programs", "bench", "workload", "workloads", "model"), "targets"),
    **dict.fromkeys(("constraint", "subject_to"), "constraints"),
    **dict.fromkeys(("overrides", "fixed"), "set"),
    **dict.fromkeys(("n_trials", "num_trials", "samples"), "trials"),
}


class Reader:
    """A document, and the problems that were found in it. Getters return None or an empty value if a value is absent or
    refused."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[tuple[PathLike, str, Any, str]] = []

    def refuse(self, path: PathLike, rule: str, value: Any = ABSENT, remedy: str = "") -> None:
        """Record a problem."""
        self.found.append((path, rule, value, remedy))

    def check(self) -> None:
        """InputError if a problem was recorded."""
        if self.found:
            raise InputError(self.document.problems(self.found))

    def get(self, path: PathLike) -> Any:
        """The value at a path, or ABSENT."""
        return value_at(self.document.data, path)

    def keys(self, path: PathLike, allowed: Sequence[str]) -> Mapping[Any, Any]:
        """The mapping at a path; keys that are not allowed are problems."""
        given = self.mapping(path)
        for key in given:
            if key not in allowed:
                other = _SYNONYMS.get(key.lower(), "") if isinstance(key, str) else ""
                near = f"did you mean {other}?" if other in allowed else meant(key, allowed)
                rule = "there is no such key" + ("" if near else f"; the keys at this level are {', '.join(allowed)}")
                self.refuse((*path, key, KEY), rule, remedy=near)
        return given

    def mapping(self, path: PathLike) -> Mapping[Any, Any]:
        """The mapping at a path, or an empty one."""
        value = self.get(path)
        if isinstance(value, Mapping):
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be a mapping", value)
        return {}

    def items(self, path: PathLike) -> Sequence[Any]:
        """The list at a path, or an empty one."""
        value = self.get(path)
        if isinstance(value, (list, tuple)):
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be a list", value)
        return []

    def text(self, path: PathLike, default: str | None = None) -> str | None:
        """The text at a path, which must not be empty."""
        value = self.get(path)
        if isinstance(value, str) and value:
            return value
        if value is not ABSENT:
            self.refuse(path, "it must be text", value)
        return default

    def choice(self, path: PathLike, allowed: Sequence[str], default: str) -> str:
        """One of the allowed texts."""
        value = self.get(path)
        if value is ABSENT:
            return default
        if value not in allowed:
            self.refuse(path, f"it must be one of {', '.join(allowed)}", value)
            return default
        return str(value)

    def flag(self, path: PathLike) -> bool:
        """A boolean; false if it is absent."""
        value = self.get(path)
        if value is not ABSENT and not isinstance(value, bool):
            self.refuse(path, "it must be true or false", value)
        return value is True

    def integer(self, path: PathLike, low: int, high: int | None = None) -> int | None:
        """An integer within bounds."""
        value = self.get(path)
        if value is ABSENT:
            return None
        if type(value) is not int or value < low or (high is not None and value > high):
            self.refuse(path, f"it must be an integer of at least {low}" + ("" if high is None else f", at most {high}"), value)
            return None
        return value

    def seconds(self, path: PathLike) -> float | None:
        """A time above 0."""
        value = self.get(path)
        if value is ABSENT:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, Fraction, float)) or value <= 0:
            self.refuse(path, "it must be a number of seconds above 0", value)
            return None
        return float(value)

    def size(self, path: PathLike) -> int | None:
        """A size in bytes, at least 1."""
        value = self.get(path)
        if value is ABSENT:
            return None
        try:
            nbytes = parse_size(value)
            if nbytes < 1:
                raise ValueError("it must be at least 1 byte")
        except ValueError as error:
            self.refuse(path, str(error), value)
            return None
        return nbytes


RANGE_KEYS = ("from", "to", "step", "count", "scale", "multiple_of")


def read_axes(read: Reader, sampled: bool) -> tuple[Axis, ...]:
    """The axes of `axes`, then the groups of `zip`. `sampled`: a range need not list its values."""
    found = [
        axis
        for name, given in read.mapping(("axes",)).items()
        if (axis := _axis(read, str(name), given, ("axes", name), sampled)) is not None
    ]
    for i in range(len(read.items(("zip",)))):
        group = _group(read, ("zip", i))
        if group is not None:
            found.append(group)
    seen: dict[str, PathLike] = {}  # by name: the paths that earlier axes set
    for axis in found:
        for name in axis.names:
            if name in seen:
                read.refuse(axis.place(name), "two axes have this name")
            seen[name] = _check_earlier(read, axis, name, seen)
    return tuple(found)


def _check_earlier(read: Reader, axis: Axis, name: str, seen: Mapping[str, PathLike]) -> PathLike:
    """The path that an axis sets. An axis is refused if it would overwrite what an earlier axis sets."""
    try:
        path = normal_path(parse_overrides({name: None})[0].path)
    except InputError:  # the name is not a path; the points report the error
        return ()
    for other, there in seen.items():
        if other != name and there[: len(path)] == path:
            if there == path:
                read.refuse(axis.place(name), f"it sets the same value as the axis {other}")
            else:
                rule = f"it sets the whole section {name}, so the value of the axis {other} would be lost"
                read.refuse(axis.place(name), rule, remedy="write this axis first")
    return path


def plain(value: Any) -> Any:
    """A value as JSON; exact rationals are numbers or `p/q`."""
    if isinstance(value, Fraction):
        return plain_number(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _axis(read: Reader, name: str, given: Any, path: PathLike, sampled: bool) -> Axis | None:
    if isinstance(given, Mapping):
        span = _span(read, path, sampled)
        if span is None:
            return None
        if sampled and not (span.step or span.count):
            return Axis((name,), span=span, path=path)
        try:
            return Axis((name,), tuple((value,) for value in span.levels()), path=path)
        except ValueError as error:
            read.refuse(path, str(error))
            return None
    values = _values(read, given, path)
    return None if values is None else Axis((name,), tuple((value,) for value in values), path=path)


def _group(read: Reader, path: PathLike) -> Axis | None:
    columns: dict[str, list[Any]] = {}
    for name, given in read.mapping(path).items():
        values = _values(read, given, (*path, name))
        if values is None:
            return None
        columns[str(name)] = values
    if not columns:
        read.refuse(path, "it must be a mapping of axes whose values change together")
        return None
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        read.refuse(path, f"all its lists must have the same length: {each}")
        return None
    return Axis(tuple(columns), tuple(zip(*columns.values(), strict=True)), path=path)


def _values(read: Reader, given: Any, path: PathLike) -> list[Any] | None:
    if not isinstance(given, (list, tuple)):
        one = f"write [{shown(given)}] for one value" if isinstance(given, (int, str, Fraction)) else ""
        read.refuse(path, "it must be a list of values, or a range {from: ..., to: ...}", given, one)
        return None
    if not given:
        read.refuse(path, "it must have at least one value")
        return None
    if len(given) > MAX_LEVELS:
        read.refuse(path, f"it has {len(given)} values, and an axis has at most {MAX_LEVELS}")
        return None
    values = [plain(value) for value in given]
    for i, value in enumerate(values):
        if value in values[:i] and type(value) in [type(other) for other in values[:i] if other == value]:
            read.refuse((*path, i), "this value is twice in the list", value)
            return None
    return values


def _span(read: Reader, path: PathLike, sampled: bool) -> Span | None:
    given = read.keys(path, RANGE_KEYS)
    numbers: dict[str, Any] = {}
    for key in ("from", "to", "step"):
        value = given.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, Fraction))):
            read.refuse((*path, key), "it must be a number", value)
            return None
        numbers[key] = value
    low, high, step = numbers["from"], numbers["to"], numbers["step"]
    if low is None or high is None:
        read.refuse(path, "a range must have from and to")
        return None
    if high < low:
        read.refuse((*path, "to"), f"it must be at least from = {plain(low)}", plain(high))
        return None
    scale = read.choice((*path, "scale"), ("linear", "log"), "linear")
    if scale == "log" and low <= 0:
        read.refuse((*path, "from"), "a log range must begin above 0", plain(low))
        return None
    if step is not None and (step <= 0 or scale == "log"):
        read.refuse(
            (*path, "step"), "it must be greater than 0; a range with scale log needs a count instead of a step", plain(step)
        )
        return None
    count = read.integer((*path, "count"), 1, MAX_LEVELS)
    multiple = read.integer((*path, "multiple_of"), 1)
    if count is not None and step is not None:
        read.refuse((*path, "count"), "a range must have either a step or a count, not both", count)
        return None
    span = Span(low, high, scale, step, count, multiple)  # type: ignore[arg-type]
    if not sampled and not span.is_grid:
        rule = "a range with numbers that are not integers must have a step or a count"
        read.refuse((*path, KEY), rule, remedy="add step or count, or sample the axes")
        return None
    return span


KINDS = {
    "program": ("program", "label"),
    "workload": ("workload",),
    "bench": ("bench", "label", "params", "verify"),
    "llm": ("llm", "label", "params"),
    "op": ("op", "label", "params"),
    "ccl": ("ccl", "label", "params", "verify"),
    "serve": ("serve", "label", "params"),
}
SUFFIXES = (".json", ".yaml", ".yml")


def read_targets(read: Reader, folder: Path, allowed: AllowedCode) -> tuple[Target, ...]:
    """The targets; every target must have a different label. Relative files are in the spec's folder."""
    if not read.items(("targets",)):
        read.refuse(("targets",), "a sweep must have at least one target")
    found: list[Target] = []
    for i, given in enumerate(read.items(("targets",))):
        path: PathLike = ("targets", i)
        try:
            target = _target(read, given, path, folder, allowed)
        except InputError as error:
            for problem in error.problems:
                read.refuse(path, str(problem))
            continue
        if target is not None and target.label in [other.label for other in found]:
            read.refuse(path, "two targets have this label", target.label, "give one of the two another label")
        elif target is not None:
            found.append(target)
    return tuple(found)


def _target(read: Reader, given: Any, path: PathLike, folder: Path, allowed: AllowedCode) -> Target | None:
    if isinstance(given, str):
        kind, name, label = _kind_of(given), given, Path(given).stem if given.endswith(SUFFIXES) else given
    else:
        kinds = [kind for kind in KINDS if isinstance(given, Mapping) and kind in given]
        if len(kinds) != 1:
            read.refuse(path, f"it must be a name or a file, or a mapping with one of {', '.join(KINDS)}", given)
            return None
        kind = kinds[0]
        read.keys(path, KINDS[kind])
        name = read.text((*path, kind)) or ""
        label = read.text((*path, "label")) or (Path(name).stem if kind == "program" else name)
    params = {str(key): plain(value) for key, value in read.mapping((*path, "params")).items()} if given is not name else {}
    if kind == "program":
        return ProgramTarget(label, load_program(str(folder / name)))
    if kind == "workload":
        if name not in WORKLOADS:
            place = path if given is name else (*path, kind)
            read.refuse(place, f"it must be a bench, a file, or one of {', '.join(sorted(WORKLOADS))}", name)
            return None
        return WorkloadTarget(name)
    # Modules of targets are imported only if a target needs them: importing all modules takes longer than a short sweep.
    if kind == "llm":
        from kernbench.sweep.targets.llm import LlmTarget

        made = LlmTarget(label, str(folder / name) if name.lower().endswith(SUFFIXES) else name, params)
        made.checked({})
        return made
    if kind == "serve":
        from kernbench.sweep.targets.serve import ServeTarget

        service = ServeTarget(label, str(folder / name) if name.lower().endswith(SUFFIXES) else name, params)
        service.checked({})
        return service
    if kind == "op":
        from kernbench.sweep.targets.chip import OpTarget

        operation = OpTarget(label, name, params)
        operation.checked({})
        return operation
    verify = read.flag((*path, "verify")) if given is not name else False
    if kind == "ccl":
        from kernbench.sweep.targets.ccl import CclTarget

        call = CclTarget(label, name, params, verify)
        call.checked({})
        return call
    from kernbench.sweep.targets.bench import BenchTarget

    where = str(folder / name) if ".py" in name else name
    bench = BenchTarget(label, where, params, verify, allowed)
    bench.checked({})
    return bench


def _kind_of(name: str) -> str:
    """The target for a plain name, as on the command line."""
    if name.lower().endswith(SUFFIXES):
        return "program"
    if name in WORKLOADS:
        return "workload"
    from kernbench.runtime_api.discovery import is_bench_target  # imported here because few sweeps have a bench

    return "bench" if ".py" in name or is_bench_target(name) else "workload"


def read_machines(
    read: Reader, targets: tuple[Target, ...], folder: Path, allowed: AllowedCode
) -> tuple[list[Machines], dict[int, tuple[int, ...]]]:
    """The base machines with `set` applied, and for each target the machines on which it runs."""
    settings = {str(path): plain(value) for path, value in read.mapping(("set",)).items()}
    named = _named(read)
    wanted: list[tuple[str, PathLike]] = [(target.default_machine, ("targets", i)) for i, target in enumerate(targets)]
    per_target: dict[int, tuple[int, ...]] = {i: (i,) for i in range(len(targets))}
    if named:
        wanted = named
        per_target = dict.fromkeys(per_target, tuple(range(len(named))))
    machines: list[Machines] = []
    position: dict[str, int] = {}
    for name, path in wanted:
        if name not in position:
            position[name] = len(machines)
            made = _machine(read, name, path, settings, folder, allowed)
            if made is None:
                return [], {}
            machines.append(made)
    return machines, {i: tuple(position[wanted[k][0]] for k in those) for i, those in per_target.items()}


def _named(read: Reader) -> list[tuple[str, PathLike]]:
    """The machines that the spec names with `machine`: one name or a list."""
    given = read.get(("machine",))
    if isinstance(given, (list, tuple)):
        names = [read.text(("machine", i)) for i in range(len(given))]
        for i, name in enumerate(names):
            if name and name in names[:i]:
                read.refuse(("machine", i), "this machine is twice in the list", name)
        return [(name, ("machine", i)) for i, name in enumerate(names) if name]
    name = read.text(("machine",))
    return [(name, ("machine",))] if name else []


def _machine(
    read: Reader, name: str, path: PathLike, settings: dict[str, Any], folder: Path, allowed: AllowedCode
) -> Machines | None:
    source = str(folder / name) if name.lower().endswith(SUFFIXES) else name
    try:
        config = load_config(source, settings, allow_code=allowed)
        check_code(config)
        return Machines(name, config.to_dict(), allowed)
    except InputError as error:
        for problem in error.problems:
            place = next((key for key in settings if problem.where.startswith(f"override {key}=")), None)
            if place is None:
                read.refuse(path, str(problem))
            else:
                read.refuse(("set", place), problem.rule, problem.value, problem.remedy)
    return None


KEYS = (
    "schema", "name", "targets", "machine", "set", "axes", "zip", "where", "sample", "limits", "budget", "goals", "constraints",
    AREA_TABLE, "search", "invalid",
)  # fmt: skip
MAX_POINTS = 10_000_000  #: most points of one sweep

Source = str | os.PathLike[str] | Mapping[str, Any]


def load_spec(source: Source, *, allow_code: AllowCode = ()) -> Spec:
    """The spec in a file or in a dict of the same form; relative paths in the spec start at its folder.

    InputError with every problem: keys, files, machines, targets, axes without effect, conditions that cannot be parsed.
    `points_of` checks whether each point is a valid machine. `allow_code`: as in `load_config`; applies also to benches.
    """
    allowed = AllowedCode.of(allow_code)
    if isinstance(source, Mapping):
        document, folder, name = data_document(dict(source), "sweep"), Path(), "sweep"
    else:
        if not os.fspath(source).lower().endswith(tuple(FORMATS)):
            check_file(os.fspath(source), "sweep")
        document, folder = read_document(source, MACHINE_BYTES), Path(source).parent
        name = Path(source).name.partition(".")[0]
    check_kind(document.source, document.data, "sweep")
    _check_numbers(document)
    read = Reader(document)
    _head(read)
    sample = _sample(read)
    sampled = sample is not None or read.get(("search", "trials")) is not ABSENT
    axes = read_axes(read, sampled)
    read.check()
    targets = read_targets(read, folder, allowed)
    read.check()
    machines, machine_of = read_machines(read, targets, folder, allowed)
    read.check()
    _check_names(read, axes, targets, machines)
    _check_sample(read, sample, axes)
    goals = _goals(read)
    area = _area(read, folder)
    spec = Spec(
        name=read.text(("name",)) or name,
        targets=targets,
        machines=tuple(machines),
        axes=axes,
        conditions=_conditions(read, axes, machines),
        sample=sample,
        limits=_limits(read),
        budget=_budget(read),
        goals=goals,
        constraints=_constraints(read, axes),
        area=area,
        search=_search(read, axes, goals, len(targets)),
        skip_invalid=read.choice(("invalid",), ("refuse", "skip"), "refuse") == "skip",
        document=document,
        machine_of=machine_of,
        allowed_code=allowed,
    )
    read.check()
    return spec


def _check_numbers(document: Document) -> None:
    """InputError for integers that do not fit into a store or into a message to a process."""
    found: list[tuple[PathLike, str, Any, str]] = []
    stack: list[tuple[tuple[Any, ...], Any]] = [((), document.data)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, i), item) for i, item in enumerate(value))
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            found.append((path, f"it must be an integer from {-(2**63)} to {2**63 - 1}", value, ""))
    if found:
        raise InputError(document.problems(found[::-1]))


def _head(read: Reader) -> None:
    read.keys((), KEYS)
    if read.text(("schema",)) != SCHEMA:
        given = read.get(("schema",))
        if given is ABSENT:
            read.refuse(("schema",), "this key is missing", remedy=f"write schema: {SCHEMA}")
        else:
            read.refuse(("schema",), f"it must be {SCHEMA}", given)


def _sample(read: Reader) -> Sample | None:
    given = read.keys(("sample",), ("random", "sobol", "seed"))
    if not given:
        return None
    kinds = [kind for kind in ("random", "sobol") if kind in given]
    if len(kinds) != 1:
        read.refuse(("sample",), "it must give the number of points; write random: N or sobol: N")
        return None
    count = read.integer(("sample", kinds[0]), 1, MAX_POINTS)
    seed = read.integer(("sample", "seed"), 0) or 0
    return None if count is None else Sample("random" if kinds[0] == "random" else "sobol", count, seed)


def _check_sample(read: Reader, sample: Sample | None, axes: tuple[Axis, ...]) -> None:
    if sample is not None and sample.kind == "sobol" and len(axes) > MAX_DIMENSIONS:
        read.refuse(("sample",), f"Sobol points have at most {MAX_DIMENSIONS} axes", len(axes), "take random ones")


def _limits(read: Reader) -> Limits:
    read.keys(("limits",), ("seconds", "memory"))
    return Limits(read.seconds(("limits", "seconds")), read.size(("limits", "memory")))


def _budget(read: Reader) -> Budget:
    read.keys(("budget",), ("points", "seconds"))
    return Budget(read.integer(("budget", "points"), 1), read.seconds(("budget", "seconds")))


def _goals(read: Reader) -> tuple[Goal, ...]:
    given = read.mapping(("goals",))
    goals = []
    for name in given:
        try:
            check_goal(str(name))
        except ValueError as error:
            plain_name = str(name).isidentifier()
            rule = f"there is no metric with this name; the metrics are {', '.join(GOALS)}" if plain_name else str(error)
            remedy = meant(SYNONYMS.get(str(name), name), (*GOALS, *DERIVED)) if plain_name else ""
            read.refuse(("goals", name), rule, remedy=remedy)
        else:
            _refuse_area(read, ("goals", name), Formula(str(name)).names)
            goals.append((str(name), read.choice(("goals", name), ("min", "max"), "min")))
    return tuple(goals) or DEFAULT_GOALS


def _area(read: Reader, folder: Path) -> Area | None:
    """The figures of the table that `area_table` names."""
    name = read.text((AREA_TABLE,))
    if name is None:
        return None
    if not is_table_file(name) and name not in table_names():
        rule = f"there is no such table; tables are {', '.join(table_names())}, or a .yaml file"
        read.refuse((AREA_TABLE,), rule, name, meant(name, table_names()))
        return None
    try:
        return Area.of(read_table(str(folder / name) if is_table_file(name) else name))
    except InputError as error:
        for problem in error.problems:
            read.refuse((AREA_TABLE,), str(problem))
    return None


def _refuse_area(read: Reader, path: PathLike, names: Sequence[str]) -> bool:
    """Whether an expression names the area, and the spec no table that gives it. The expression is then refused."""
    missing = METRIC in names and read.get((AREA_TABLE,)) is ABSENT
    if missing:
        remedy = f"add the key {AREA_TABLE} with one of {', '.join(table_names())}, or a .yaml file"
        read.refuse(path, f"results have {METRIC} only in a sweep with the key {AREA_TABLE}", remedy=remedy)
    return missing


def _constraints(read: Reader, axes: tuple[Axis, ...]) -> tuple[str, ...]:
    """The conditions that results must meet."""
    found = []
    for i, text in enumerate(read.items(("constraints",))):
        if constraint := read_constraint(read, ("constraints", i), text, axes):
            found.append(constraint)
    return tuple(found)


SEARCH_KEYS = ("trials", "sampler", "seed", "batch", "prune", "largest", "meets")
SAMPLERS = ("tpe", "nsga2")
MAX_BATCH = 1000  #: most points of a batch


def _search(read: Reader, axes: tuple[Axis, ...], goals: tuple[Goal, ...], targets: int) -> Sampled | Largest | None:
    if read.get(("search",)) is ABSENT:
        return None
    given = read.keys(("search",), SEARCH_KEYS)
    if read.get(("sample",)) is not ABSENT:
        read.refuse(("search",), "a sweep has a sample or a search, not both")
    if targets > 1:
        read.refuse(
            ("search",),
            "a search must have exactly one target, because results of different targets cannot be compared",
            targets,
        )
    if not axes:
        read.refuse(("search",), "a search must have at least one axis")
    if "largest" in given or "meets" in given:
        return _largest(read, axes, given)
    trials = read.integer(("search", "trials"), 1, MAX_POINTS)
    if "trials" not in given:
        read.refuse(
            ("search",),
            "it must have the key trials (the number of points), or the keys largest (an axis) and meets (a condition)",
        )
    sampler = read.choice(("search", "sampler"), SAMPLERS, "tpe" if len(goals) == 1 else "nsga2")
    batch = read.integer(("search", "batch"), 1, MAX_BATCH)
    default = 8 if sampler == "tpe" else 32
    prune = read.flag(("search", "prune")) if "prune" in given else True
    seed = read.integer(("search", "seed"), 0, 2**32 - 1) or 0
    return Sampled(trials or 1, "tpe" if sampler == "tpe" else "nsga2", seed, batch or default, prune)


def _largest(read: Reader, axes: tuple[Axis, ...], given: Mapping[Any, Any]) -> Largest | None:
    for name in given:
        if name not in ("largest", "meets"):
            read.refuse(("search", name), "this key is not valid together with largest or meets; leave it out")
    for name in ("largest", "meets"):
        if name not in given:
            read.refuse(("search",), f"{name} is missing: largest names an axis, and meets is a condition on results")
            return None
    name, text = read.text(("search", "largest")), read.text(("search", "meets"))
    if name is None or text is None:
        return None
    axis = next((axis for axis in axes if axis.names == (name,)), None)
    if axis is None:
        remedy = meant(name, [other for axis in axes for other in axis.names])
        read.refuse(("search", "largest"), "it must be an axis of its own", name, remedy)
        return None
    values = [level[0] for level in axis.levels]
    if not all(type(value) in (int, float) for value in values) or values != sorted(values):
        read.refuse(("search", "largest"), "the values of its axis must be numbers in increasing order", name)
    return Largest(name, constraint) if (constraint := read_constraint(read, ("search", "meets"), text, axes)) else None


def read_constraint(read: Reader, path: PathLike, text: Any, axes: tuple[Axis, ...]) -> str:
    """A condition on results; empty if the condition is refused."""
    try:
        condition = Condition(str(text))
    except ValueError as error:
        read.refuse(path, str(error), text)
        return ""
    known = {name for axis in axes for name in axis.names} | {*GOALS, *DERIVED}
    for name in condition.names:
        if name not in known:
            remedy = meant(SYNONYMS.get(name, name), sorted(known)) or f"numbers are {', '.join((*GOALS, *DERIVED))}"
            read.refuse(path, f"{name} is neither a number of a result nor an axis", text, remedy)
            return ""
    return "" if _refuse_area(read, path, condition.names) else condition.text


def _check_names(read: Reader, axes: tuple[Axis, ...], targets: tuple[Target, ...], machines: list[Machines]) -> None:
    """Refuse axes without effect: a machine or a target must have a value for the first level of each axis."""
    for axis in axes:
        for name in axis.names:
            path = axis.place(name)
            if name == MACHINE:
                read.refuse(path, "the axis machine is not allowed; write a list of machines under the key machine")
            elif "." not in name and name not in _top_keys() and all(name in parameters_of(target) for target in targets):
                rule = f"no machine has a key {name}, but {targets[0].label} has a parameter {name}"
                read.refuse(path, rule, remedy=f"write {PARAM}{name}")
            elif name.startswith(PARAM):
                for target in targets:
                    if name.removeprefix(PARAM) not in (there := parameters_of(target)):
                        rule = f"{target.label} has no such parameter; its parameters are: {', '.join(there) or 'none'}"
                        read.refuse(path, rule)


def _top_keys() -> set[str]:
    return {field.alias or name for kind in (NpuConfig, SystemConfig) for name, field in kind.model_fields.items()}


def parameters_of(target: Target) -> list[str]:
    """The names of a target's parameters."""
    return list(target.checked({}))


def _conditions(read: Reader, axes: tuple[Axis, ...], machines: list[Machines]) -> tuple[Condition, ...]:
    found = []
    names = {name for axis in axes for name in axis.names} | {"target", MACHINE}
    for i, text in enumerate(read.items(("where",))):
        path = ("where", i)
        try:
            condition = Condition(str(text))
        except ValueError as error:
            read.refuse(path, str(error), text)
            continue
        for name in condition.names:
            if name not in names and not all(_has(machine, name) for machine in machines):
                read.refuse(path, f"{name} is neither an axis nor a value of the machine", text)
        found.append(condition)
    return tuple(found)


def _has(machine: Machines, name: str) -> bool:
    try:
        machine.value(name)
    except KeyError:
        return False
    return True
