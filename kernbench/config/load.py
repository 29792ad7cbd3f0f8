"""Loads a machine: the name of a preset, a YAML or JSON file, or a dict, with overrides."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.common.package_files import package_folder
from kernbench.common.spelling import file_meant, meant, nearest
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.config.datasheet import is_datasheet, machine_document
from kernbench.config.document import FORMATS, MACHINE_BYTES, Document, data_document, path_text, read_document
from kernbench.config.dram_files import with_files, without_files
from kernbench.config.file_kinds import check_kind, expecting
from kernbench.config.machine import MachineConfig
from kernbench.config.origins import Origins
from kernbench.config.overrides import Override, apply_overrides, parse_overrides
from kernbench.config.places import KEY, PathLike, normal_path, value_at
from kernbench.config.remedies import as_written, key_meant, section_meant, value_meant
from kernbench.config.schema import NpuConfig
from kernbench.config.section import Section, ValidationError
from kernbench.config.system import SystemConfig

_NAME = re.compile(r"[A-Za-z0-9_-]+")  # pattern of the name of a preset or chip

Source = str | os.PathLike[str] | Mapping[str, Any]
Overrides = Mapping[str, Any] | Sequence[str]
Machine = TypeVar("Machine", bound=MachineConfig)
#: The kinds of machines by the `schema` of their files.
KINDS: dict[str, type[MachineConfig]] = {
    str(kind.model_fields["schema_name"].default): kind for kind in (NpuConfig, SystemConfig)
}
_KINDS: dict[type[MachineConfig], str] = {
    NpuConfig: "a single NPU",
    SystemConfig: "a system of several PEs",
}


@overload
def load_config(
    source: Source, overrides: Overrides = (), *, kind: type[Machine], allow_code: AllowCode = ..., max_bytes: int = ...
) -> Machine: ...


@overload
def load_config(
    source: Source, overrides: Overrides = (), *, allow_code: AllowCode = ..., max_bytes: int = ...
) -> Any: ...


def load_config(
    source: Source,
    overrides: Overrides = (),
    *,
    kind: type[MachineConfig] | None = None,
    allow_code: AllowCode = (),
    max_bytes: int = MACHINE_BYTES,
) -> MachineConfig:
    """Load and check a machine.

    `source`: the name of a preset or chip (`"npu_server"`), a `.yaml`, `.yml` or `.json` file, or a dict. Its `schema` decides
    between `NpuConfig`, the default, and `SystemConfig`; `kind` refuses the other one. `overrides`: `["dram.channels=4"]` or
    `{"dram.channels": 4}`; texts are read as YAML values. `allow_code`: directories and files of Python that `components` may
    name; this function imports none of them. `max_bytes`: refuse a larger file.

    InputError names location, field, value and rule of every problem.

    >>> import kernbench as kb
    >>> machine = kb.load_config("npu_server", {"te.engines": 2})
    >>> machine.dram.channels, machine.te.engines
    (8, 2)
    """
    allowed = AllowedCode.of(allow_code)
    document, path = _document(source, max_bytes)
    check_kind(document.source, document.data, "machine")
    if is_datasheet(document.data):
        document = machine_document(document, load_config, chip_names())
    applied = parse_overrides(overrides)
    model = _model(document, kind)
    base = without_files(document.data) if applied else document.data
    data, files = with_files(apply_overrides(base, applied, lambda at: _default_at(model, at)))
    try:
        config = model.model_validate(data)
    except ValidationError as error:
        problems = _problems(error, model, data, document, applied)
        raise InputError(_of_overrides(problems, model, document, applied)) from None
    config._source, config._path, config._allowed_code = document.source, path, allowed
    config._origins = Origins(data, document, applied, files)
    return config


def config_of(config: MachineConfig | Source) -> Any:
    """A machine unchanged, or the machine that `load_config` makes from a name, a file or a dict."""
    return config if isinstance(config, MachineConfig) else load_config(config)


def _model(document: Document, wanted: type[MachineConfig] | None) -> type[MachineConfig]:
    """The kind of machine that the `schema` of a file names. InputError for an unknown kind, and for a kind that is not
    `wanted`."""
    name = document.data.get("schema", next(iter(KINDS)))
    model = KINDS.get(name) if isinstance(name, str) else None
    allowed = [key for key, kind in KINDS.items() if wanted is None or issubclass(kind, wanted)]
    if model is None:
        raise InputError(document.problem(("schema",), f"it must be one of {', '.join(allowed)}", name, meant(name, allowed)))
    if name not in allowed:
        wanted = KINDS[allowed[0]]
        rule = f"this is {_KINDS[model]}, but {_KINDS[wanted]} is expected"
        stem = Path(document.source).stem
        chip = next((one for one in chip_names() if stem.startswith(f"{one}_") and wanted is NpuConfig), "")
        remedy = f"use one of these machines: {', '.join(preset_names(wanted))}"
        remedy = f"did you mean {chip}, one chip of the board?" if chip else remedy
        raise InputError(Problem(document.source, rule, remedy=remedy))
    return model


def preset_names(kind: type[MachineConfig] = MachineConfig) -> list[str]:
    """The names of the machines that come with kernbench: of all kinds, or of one `kind` (`NpuConfig` or `SystemConfig`).

    >>> from kernbench.config import preset_names
    >>> "npu_server" in preset_names()
    True
    """
    schemas = [re.escape(name) for name, model in KINDS.items() if issubclass(model, kind)]
    line = re.compile(rf"^schema: ({'|'.join(schemas)})\s*(#.*)?$", re.MULTILINE)
    found = (file for file in _presets() if line.search(file.read_text(encoding="utf-8")))
    return sorted(file.name.removesuffix(".yaml") for file in found)


def _presets() -> list[Path]:
    try:
        folder = package_folder("kernbench.configs")
    except ModuleNotFoundError:
        return []
    return [file for file in folder.iterdir() if file.name.endswith(".yaml")]


def chip_names() -> list[str]:
    """The names of real chips (docs/reference/chips.md), which `load_config` takes too.

    >>> from kernbench.config import chip_names
    >>> "wormhole_n150" in chip_names()
    True
    """
    return sorted(file.name.removesuffix(".yaml") for file in _chips())


def machine_names() -> list[str]:
    """The names of all machines that come with kernbench: presets, real chips and boards.

    >>> from kernbench.config import machine_names
    >>> {"npu_server", "a100", "a100_8x"} <= set(machine_names())
    True
    """
    return [*preset_names(), *chip_names(), *board_names()]


def board_names() -> list[str]:
    """The names of boards of several real chips (docs/reference/chips.md), which `load_config` takes as systems.

    >>> from kernbench.config import board_names
    >>> "a100_8x" in board_names()
    True
    """
    return sorted(file.name.removesuffix(".yaml") for file in _chips("chips/boards"))


#: The chip of each board whose name is not that of its chip, an underscore and the number of chips.
_CHIP_OF_BOARD = {"wormhole_n300": "wormhole_n150"}


def chip_of_board(config: MachineConfig) -> str:
    """The name of the chip of a board that comes with kernbench; empty for other machines.

    >>> from kernbench.config import load_config
    >>> from kernbench.config.load import chip_of_board
    >>> chip_of_board(load_config("h100_8x")), chip_of_board(load_config("sip_4x4"))
    ('h100', '')
    """
    name = config.source.removesuffix(".yaml")
    if config.path is not None or name not in board_names():
        return ""
    return _CHIP_OF_BOARD.get(name, name.rpartition("_")[0])


def _chips(under: str = "chips") -> list[Path]:
    folder = package_folder("kernbench.configs") / under
    return [file for file in folder.iterdir() if file.name.endswith(".yaml")] if folder.is_dir() else []


def _document(source: Source, max_bytes: int) -> tuple[Document, Path | None]:
    """The text to read, and its file, if it comes from a file."""
    if isinstance(source, str) and _NAME.fullmatch(source) and not os.path.isfile(source):
        for file in (*_presets(), *_chips(), *_chips("chips/boards")):
            if file.name == f"{source}.yaml":
                found = read_document(file, max_bytes)
                return Document(file.name, found.data, found.text, found.suffix), None
        near = file_meant(source, tuple(FORMATS)) or nearest(source, machine_names(), cutoff=0.7)
        presets = f"; the presets are {', '.join(preset_names()) or 'none'}"
        rule = "there is no machine with this name" + ("" if near else presets)
        remedy = f"did you mean {near}?" if near else (
            "to list all machines, use kbsim config list; the name of a machine file must end in .yaml or .json"
        )
        raise InputError(Problem(source, rule, remedy=remedy))
    if isinstance(source, (str, os.PathLike)):
        stem = Path(source).stem
        if os.fspath(source) in (f"{stem}.yaml", f"{stem}.yml") and stem in machine_names() and not os.path.exists(source):
            raise InputError(Problem(os.fspath(source), "the file does not exist", remedy=f"did you mean {stem}?"))
        with expecting(source, "machine"):
            found = read_document(source, max_bytes, empty="to create a machine file with all keys: kbsim config init")
        return found, Path(source)
    if not isinstance(source, Mapping):
        rule = f"it must be a name, a file, a mapping or a machine, and it is of type {type(source).__name__}"
        several = isinstance(source, (list, tuple)) and source and isinstance(source[0], str)
        raise InputError(Problem("machine", rule, remedy=f"give {source[0]!r} alone" if several else ""))
    return data_document(dict(source), "machine"), None


def _default_at(model: type[MachineConfig], path: PathLike) -> Any:
    """The default value at a path of the machine, or ABSENT: the base of an override of a part of the value."""
    return value_at(model().to_dict(), path)


_EXAMPLE = "write for example "


def _problems(
    error: ValidationError, model: type[MachineConfig], data: Any, document: Document, applied: Sequence[Override]
) -> list[Problem]:
    """Each validation error as a Problem, located in the file or at the override that set the value."""
    found: list[tuple[PathLike, str, Any, str]] = []
    for item in error.errors():
        path: PathLike = item["loc"]
        context = item.get("ctx", {})
        if item["type"] == "rules":
            for b in context["broken"]:
                remedy = f"{_EXAMPLE}{b.example}" if b.example else ""
                found.append((b.path, b.rule, ABSENT if b.value is None else b.value, remedy))
        elif item["type"] == "unknown_key":
            rule, remedy = _unknown_key(model, path, _asked(path, data, applied))
            found.append(((*path, KEY), rule, ABSENT, remedy))
        elif item["type"] == "key":
            found.append(((*path, KEY), item["msg"], ABSENT, ""))
        elif item["type"] == "missing":
            found.append((path, item["msg"], ABSENT, ""))
        else:
            value = as_written(item["input"]) if "integer" in item["msg"] else item["input"]
            found.append((path, item["msg"], value, _remedy(path, item, data)))
    of_overrides = [_of_override(entry, applied) for entry in found]
    placed = iter(document.problems(entry for entry, problem in zip(found, of_overrides, strict=True) if problem is None))
    return [next(placed) if problem is None else problem for problem in of_overrides]


def _of_override(item: tuple[PathLike, str, Any, str], applied: Sequence[Override]) -> Problem | None:
    path = normal_path(tuple(step for step in item[0] if step is not KEY))
    for override in applied:
        if override.covers(path) or (item[0][-1:] == (KEY,) and normal_path(override.path)[: len(path)] == path):
            return Problem(override.where, item[1], path_text(path), item[2], item[3])
    return None


def _remedy(path: PathLike, item: Any, data: Any) -> str:
    """The remedy for a value of a wrong type or range, as far as it is clear."""
    if item["type"] == "choice":
        return meant(item["input"], [one for one in item["ctx"]["choices"] if isinstance(one, str)])
    if item["type"] in ("mapping", "list"):
        return section_meant(item["input"])
    return value_meant(path_text(path), item["msg"], item["input"], data)


def _asked(path: PathLike, data: Any, applied: Sequence[Override]) -> PathLike:
    """The path of the override that made this unknown key; else the path of the key."""
    return next((one.path for one in applied if normal_path(one.path)[: len(path)] == normal_path(path)), path)


def _of_overrides(
    problems: list[Problem], model: type[MachineConfig], document: Document, applied: Sequence[Override]
) -> list[Problem]:
    """The problems, each with the override that caused it, if the document without overrides is valid."""
    if not applied or all(problem.where.startswith("override ") for problem in problems) or not _sound(model, document, ()):
        return problems
    alone = [one for one in applied if not _sound(model, document, (one,))]
    where = alone[0].where if alone else ", ".join(dict.fromkeys(one.where for one in applied))
    valid = f"{document.source} is valid without this override"
    return [one if one.where.startswith("override ") else _caused(one, where, valid) for one in problems]


def _caused(one: Problem, where: str, valid: str) -> Problem:
    """The problem of a value of the file, at the override that makes it invalid."""
    example = one.remedy.removeprefix(_EXAMPLE) if one.remedy.startswith(_EXAMPLE) else ""
    also = f", or also set {one.field}{f'={example}' if example else ''}" if one.field else ""
    rule = f"this value makes {one.field or 'the machine'} ({one.where}) invalid: {one.rule}"
    return Problem(where, rule, remedy=f"choose another value{also}; {valid}")


def _sound(model: type[MachineConfig], document: Document, applied: Sequence[Override]) -> bool:
    try:
        base = without_files(document.data) if applied else document.data
        model.model_validate(with_files(apply_overrides(base, applied, lambda at: _default_at(model, at)))[0])
    except (ValidationError, InputError):
        return False
    return True


def _unknown_key(model: type[MachineConfig], path: PathLike, asked: PathLike) -> tuple[str, str]:
    """The message about a key that the schema does not have: the key that was probably meant, or all keys of the section."""
    from kernbench.config.keys import keys_of  # imported here, because that module reads this table of kinds

    section: Any = model
    for step in path[:-1]:
        if isinstance(step, str) and isinstance(section, type) and issubclass(section, Section):
            names = {(spec.alias or name): spec.annotation for name, spec in section.model_fields.items()}
            section = _section_of(names.get(step))
    if not (isinstance(section, type) and issubclass(section, Section)):
        return "there is no such key", ""
    keys = [spec.alias or name for name, spec in section.model_fields.items()]
    remedy = key_meant(path, asked, keys, [key.path for key in keys_of(model)])
    return "there is no such key" if remedy else f"there is no such key; the keys at this level are {', '.join(keys)}", remedy


def _section_of(annotation: Any) -> Any:
    """The section inside an annotation like `Noc | None` or `tuple[KvLayout, ...]`."""
    for part in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(part, type) and issubclass(part, Section):
            return part
    return None
