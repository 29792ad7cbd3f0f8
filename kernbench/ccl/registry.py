"""The algorithms that `configs/ccl.yaml` and files of users list, and the modules of the algorithms."""

from __future__ import annotations

import importlib.resources
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.contract import Algorithm, KernelArgs
from kernbench.ccl.group import Group
from kernbench.ccl.rings import RING, TOPO_NAME_TO_KIND, combining_of_kind, sizes_of_kind
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.common.units import parse_size
from kernbench.config import SystemConfig
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.config.document import MACHINE_BYTES, Document, read_document
from kernbench.config.file_kinds import check_kind, expecting
from kernbench.config.places import KEY, PathLike
from kernbench.config.system.links import WITH_SWITCHES

SCHEMA = "kernbench/ccl/1"
AUTO = "auto"  #: the name by which the tuner chooses for each size
TIERS = ("tcm", "sram", "hbm")
_SIZES = ("slots", "slot_bytes")
_FUNCTIONS = {  # attributes of a module, besides its kernel
    "kernel_args": KernelArgs._fields,
    "neighbours": ("kind", "shape"),
    "reference": ("inputs", "kind", "shape", "slot_bytes"),
}
#: Complete modules, each with the name of its algorithm. Each module is checked once.
_whole: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()


@dataclass(frozen=True)
class Entry:
    """One algorithm of a file."""

    collective: str
    name: str
    module: str  #: dotted name, or the path of a .py file
    topologies: tuple[str, ...]
    where: str  #: location of the entry, for errors
    slots: int | None = None  #: parameters of its queues; None for the default
    slot_bytes: int | None = None
    allowed_code: AllowedCode = field(default_factory=AllowedCode, repr=False, compare=False)
    through_switches: bool = False  #: it needs switches that combine and copy messages
    registry: Registry | None = field(default=None, repr=False, compare=False)  #: of `auto`: where it chooses from

    @property
    def full_name(self) -> str:
        """The name of the function of the algorithm, for example `all_reduce_ring`."""
        return f"{self.collective}_{self.name}"

    @property
    def only_in_place(self) -> bool:
        """Whether the elements and results of the algorithm must share memory."""
        return False

    @property
    def also_in_place(self) -> bool:
        """Whether the elements and results of the algorithm may share memory."""
        return True

    @property
    def redop(self) -> str | None:
        """The only reduction of the algorithm; None if it can have any reduction."""
        return None

    @property
    def ranks(self) -> int:
        """The number of ranks for which the algorithm is written; 0 means any number."""
        return 0

    def unfit(self, config: SystemConfig, group: Group) -> str:
        """Return why a group of a machine cannot run the algorithm, or an empty text if it can."""
        if group.kind_name not in self.topologies:
            return f"{self.full_name} is for {', '.join(self.topologies)}, and the group is a {group.kind_name}"
        switched = config.system.kind in WITH_SWITCHES and config.system.switch.reduce
        if self.through_switches and not switched and combining_of_kind(group.kind) is None:
            return f"{self.full_name} needs switches that combine messages (system.switch.reduce)"
        if self.through_switches and group.shape.sips < 2:
            return f"{self.full_name} needs ranks on several SIPs, as many on each"
        return ""

    def seen(self, group: Group) -> Group:
        """Return a group as the algorithm knows it. Algorithms of users do not know dimensions of SIPs: they see a ring."""
        own = self.registry is not None or self.module.startswith("kernbench.")
        return group if own or not sizes_of_kind(group.kind) else replace(group, kind=RING)

    def fitted(self, config: SystemConfig) -> Entry:
        """Return the entry with queues that fit the machine, if the entry has no queues of its own."""
        return self

    def multiple(self) -> int:
        """The number of which each count must be a multiple."""
        return 1

    def load(self) -> Algorithm:
        """Import the module of the algorithm.

        Raises InputError if the module is not allowed, cannot be imported, or lacks a part of the contract.
        """

        def refused(rule: str, remedy: str) -> InputError:
            return InputError(Problem(self.where, rule, "module", self.module, remedy))

        if self.module.endswith(".py"):
            path = Path(self.module)
            module = self.allowed_code.file(path, f"kernbench_ccl_{path.stem}", refused)
        else:
            module = self.allowed_code.module(self.module, refused)
        if _whole.get(module) == self.full_name:
            return cast(Algorithm, module)
        problems = list(_lacks(module, self))
        if problems:
            raise InputError([Problem(self.where, rule, "module", self.module) for rule in problems])
        _whole[module] = self.full_name
        return cast(Algorithm, module)


@dataclass(frozen=True)
class Registry:
    """All algorithms, and the parameters of their queues."""

    entries: tuple[Entry, ...]
    slots: int
    slot_bytes: int
    tier: str

    def find(self, collective: str, name: str | None = None) -> Entry:
        """Return the algorithm of a collective, or None for `auto`. Raises InputError if there is no such algorithm."""
        if collective not in COLLECTIVES:
            raise InputError(_unknown("collective", collective, list(COLLECTIVES)))
        there = {one.name: one for one in self.entries if one.collective == collective}
        name = name or AUTO
        if name == AUTO and AUTO not in there:
            where = f"the tuner of {collective}"
            return Entry(collective, AUTO, "", tuple(TOPO_NAME_TO_KIND), where, registry=self)
        if name not in there:
            raise InputError(_unknown(f"algorithm of {collective}", name, list(there)))
        return there[name]


def read_registry(*files: Path, allow_code: AllowCode = ()) -> Registry:
    """Read the algorithms of the package and of these files.

    A later algorithm replaces an earlier algorithm of the same name, and later defaults replace earlier defaults.

    Parameters
    ----------
    files
        Files in the format of `configs/ccl.yaml`.
    allow_code
        The directories and Python files that the key `module` may name. This function imports none of them.

    Raises
    ------
    InputError
        If a file is not valid. The message names the file, the line and the rule.
    """
    allowed = AllowedCode.of(allow_code)
    package = Path(str(importlib.resources.files("kernbench.configs").joinpath("ccl.yaml")))
    found = Registry((), 1, 1, "tcm")
    for path in (package, *files):
        with expecting(path, "algorithms"):
            document = read_document(path, MACHINE_BYTES)
        _check_keys(document)
        entries = {one.full_name: one for one in found.entries}
        entries |= {one.full_name: one for one in _entries(document, path.parent, allowed)}
        found = replace(found, entries=tuple(entries.values()), **_defaults(document))
    return found


def _unknown(what: str, name: str, there: list[str]) -> Problem:
    remedy = meant(name, there) or "to list all of them: kbsim ccl list"
    return Problem(name or '""', f"there is no {what} with this name; the names are {', '.join(there)}", remedy=remedy)


def _check_keys(document: Document) -> None:
    data = document.data
    check_kind(document.source, data, "algorithms")
    if data.get("schema") != SCHEMA:
        raise InputError(document.problem(("schema",), f"it must be {SCHEMA}", data.get("schema")))
    extra = [key for key in data if key not in ("schema", "defaults", "algorithms")]
    if extra:
        rule = "there is no such key; the keys at this level are schema, defaults, algorithms"
        raise InputError(document.problem((extra[0], KEY), rule))
    for key in ("defaults", "algorithms"):
        if not isinstance(data.get(key, {}), dict):
            raise InputError(document.problem((key,), "it must be a mapping", str(data[key])))


def _defaults(document: Document) -> dict[str, Any]:
    """Return the defaults of a file."""
    found: dict[str, Any] = {}
    for key, value in document.data.get("defaults", {}).items():
        path: PathLike = ("defaults", key)
        if key == "tier":
            if value not in TIERS:
                raise InputError(document.problem(path, f"it must be one of {', '.join(TIERS)}", value))
            found[key] = value
        elif key in ("slots", "slot_bytes"):
            found[key] = _positive(document, path, value)
        else:
            rule = "there is no such key; the keys at this level are slots, slot_bytes, tier"
            raise InputError(document.problem((*path, KEY), rule))
    return found


def _positive(document: Document, path: PathLike, value: Any) -> int:
    if path[-1] == "slots" and (type(value) is not int or value < 1):
        raise InputError(document.problem(path, "it must be an integer of at least 1", value))
    try:
        number = parse_size(value)
    except ValueError as error:
        raise InputError(document.problem(path, str(error), value)) from None
    if number < 1:
        raise InputError(document.problem(path, "it must be at least 1", value))
    return number


def _entries(document: Document, folder: Path, allowed: AllowedCode) -> Iterator[Entry]:
    found: list[tuple[PathLike, Any]] = []
    for collective, algorithms in document.data.get("algorithms", {}).items():
        at: PathLike = ("algorithms", collective)
        if collective not in COLLECTIVES:
            rule = f"there is no collective with this name; the names are {', '.join(COLLECTIVES)}"
            raise InputError(document.problem((*at, KEY), rule))
        if not isinstance(algorithms, dict):
            raise InputError(document.problem(at, "it must be a mapping from names to algorithms", str(algorithms)))
        for name, entry in algorithms.items():
            if not isinstance(name, str) or not name or not f"{collective}_{name}".isidentifier():
                rule = f"an algorithm's name must be letters, digits and _: its function is {collective}_NAME"
                raise InputError(document.problem((*at, name, KEY), rule, name))
            found.append(((*at, name), entry))
    # Their places are looked up together: each look-up reads the whole text.
    places = document.find(path for path, _ in found)
    for path, entry in found:
        yield _entry(document, path, entry, document.where(places.get(path)), folder, allowed)


def _entry(document: Document, path: PathLike, entry: Any, where: str, folder: Path, allowed: AllowedCode) -> Entry:
    _, collective, name = map(str, path)
    keys = set(entry) if isinstance(entry, dict) else set()
    known = {"module", "topologies", "through_switches", *_SIZES}
    switched = entry.get("through_switches", False) if keys else False
    if not {"module", "topologies"} <= keys <= known or not isinstance(entry["module"], str) or type(switched) is not bool:
        rule = "it must have the keys module and topologies, and may have slots, slot_bytes and through_switches (a bool)"
        raise InputError(document.problem(path, rule, str(entry)))
    kinds = entry["topologies"]
    if not isinstance(kinds, list) or not kinds or any(one not in tuple(TOPO_NAME_TO_KIND) for one in kinds):
        rule = f"it must be a list of {', '.join(TOPO_NAME_TO_KIND)}"
        raise InputError(document.problem((*path, "topologies"), rule, str(kinds)))
    module = entry["module"]
    file = str(folder / module) if module.endswith(".py") else module
    sizes = {key: _positive(document, (*path, key), entry[key]) for key in _SIZES if key in entry}
    slots, slot_bytes = sizes.get("slots"), sizes.get("slot_bytes")
    return Entry(collective, name, file, tuple(kinds), where, slots, slot_bytes, allowed, switched)


def _takes(function: Any, count: int) -> bool:
    """Return whether a call with this number of arguments is valid. Objects without a signature, such as `dict`, count as
    valid.
    """
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError) as error:
        return isinstance(error, ValueError)
    return True


def _lacks(module: ModuleType, entry: Entry) -> Iterator[str]:
    """Return the parts of the contract that a module lacks."""
    own: Any = getattr(module, entry.full_name, None)
    kernel: Any = getattr(module, "kernel", None)
    if not callable(kernel) or own is not kernel:
        yield f"it must have a function {entry.full_name}, and kernel must be the same function"
    else:
        try:
            names = list(inspect.signature(kernel).parameters)
        except ValueError:
            names = ["not known to Python"]
        wanted = [*KernelArgs._fields, "tl"]
        if names != wanted:
            yield f"the arguments of its kernel must be {', '.join(wanted)}, and are {', '.join(names)}"
    for name, arguments in _FUNCTIONS.items():
        function: Any = getattr(module, name, None)
        if not callable(function):
            yield f"it must have a function {name}"
        elif not _takes(function, len(arguments)):
            yield f"its {name} must take {', '.join(arguments)}"
    if getattr(module, "TOPO_NAME_TO_KIND", None) != TOPO_NAME_TO_KIND:
        yield f"it must have TOPO_NAME_TO_KIND = {TOPO_NAME_TO_KIND}"
