"""Loads a machine: a preset's name, a YAML or JSON file, or a dict, with overrides on top."""

from __future__ import annotations

import difflib
import importlib.resources
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.config.document import KEY, MACHINE_BYTES, Document, PathLike, data_document, path_text, read_document
from kernbench.config.overrides import Override, apply_overrides, parse_overrides
from kernbench.config.schema import NpuConfig, Section

_PRESET = re.compile(r"[A-Za-z0-9_]+")
_CONTAINER_RULES = {
    "model_type": "it must be a mapping",
    "dict_type": "it must be a mapping",
    "tuple_type": "it must be a list",
}

Source = str | os.PathLike[str] | Mapping[str, Any]
Overrides = Mapping[str, Any] | Sequence[str]


def load_config(source: Source, overrides: Overrides = (), *, max_bytes: int = MACHINE_BYTES) -> NpuConfig:
    """The machine of a preset (`"npu_server"`), a `.yaml`, `.yml` or `.json` file, or a dict.

    `overrides`: `["dram.channels=4"]` or `{"dram.channels": "4"}`; texts are read as YAML values, and the result is
    checked as if the file said so. `max_bytes`: a larger file is refused. Raises InputError naming every problem's
    file, line, field, value and rule.
    """
    document = _document(source, max_bytes)
    applied = parse_overrides(overrides)
    data = apply_overrides(document.data, applied, _default_at)
    try:
        config = NpuConfig.model_validate(data)
    except ValidationError as error:
        raise InputError(_problems(error, data, document, applied)) from None
    config._source = document.source
    config._origins = _origins(data, document, applied)
    return config


def preset_names() -> list[str]:
    """The names that `load_config` takes for machines of the package."""
    return sorted(file.name.removesuffix(".yaml") for file in _presets() if _is_machine(file))


def _presets() -> list[Path]:
    try:
        folder = importlib.resources.files("kernbench.configs")
    except ModuleNotFoundError:
        return []
    return [Path(str(file)) for file in folder.iterdir() if file.name.endswith(".yaml")]


def _is_machine(file: Path) -> bool:
    """Whether a packaged file is a machine of this schema: configs/ also holds other things."""
    return re.search(r"^schema: kernbench/npu/1\s*(#.*)?$", file.read_text(encoding="utf-8"), re.MULTILINE) is not None


def _document(source: Source, max_bytes: int) -> Document:
    if isinstance(source, str) and _PRESET.fullmatch(source):
        for file in _presets():
            if file.name == f"{source}.yaml":
                found = read_document(file, max_bytes)
                return Document(file.name, found.data, found.text, found.suffix)
        names = preset_names()
        near = difflib.get_close_matches(source, names, n=1, cutoff=0.7)
        rule = f"there is no such preset; presets are: {', '.join(names) or 'none'}"
        remedy = f"did you mean {near[0]}?" if near else "a file's name ends in .yaml or .json"
        raise InputError(Problem(source, rule, remedy=remedy))
    if isinstance(source, (str, os.PathLike)):
        return read_document(source, max_bytes)
    return data_document(dict(source) if isinstance(source, Mapping) else source, "machine")


def _default_at(path: PathLike) -> Any:
    """The default value at a path of the machine, or ABSENT: what an override of a part of it starts from."""
    value: Any = NpuConfig().to_dict()
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return value


def _problems(error: ValidationError, data: Any, document: Document, applied: Sequence[Override]) -> list[Problem]:
    """Each validation error as a Problem, placed in the file or at the override that set the value."""
    found: list[tuple[PathLike, str, Any, str]] = []
    for item in error.errors(include_url=False):
        path: PathLike = item["loc"]
        context = item.get("ctx", {})
        if item["type"] == "rules":
            found += [(b.path, b.rule, ABSENT if b.value is None else b.value, "") for b in context["broken"]]
        elif item["type"] == "extra_forbidden":
            rule, remedy = _unknown_key(path)
            found.append(((*path, KEY), rule, ABSENT, remedy))
        elif item["type"] == "invalid_key":
            found.append(((*path, KEY), "a key must be text here", ABSENT, ""))
        else:
            found.append((path, _rule(item["type"], item["msg"], context), item["input"], ""))
    return [_placed(entry, document, applied) for entry in found]


def _placed(item: tuple[PathLike, str, Any, str], document: Document, applied: Sequence[Override]) -> Problem:
    path = item[0]
    for override in applied:
        if override.covers(path):
            return Problem(override.where, item[1], path_text(path), item[2], item[3])
    return document.problem(*item)


def _rule(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """A pydantic error in the words of kernbench."""
    if kind == "rule":
        return message
    if kind == "literal_error":
        expected = str(context["expected"])
        return "it must be one of " + expected.replace("'", "").replace(" or ", ", ")
    return _CONTAINER_RULES.get(kind, message)


def _unknown_key(path: PathLike) -> tuple[str, str]:
    """What is said of a key that the schema does not have: the keys it has, and the nearest of them."""
    section: Any = NpuConfig
    for step in path[:-1]:
        if isinstance(step, str) and isinstance(section, type) and issubclass(section, Section):
            names = {(spec.alias or name): spec.annotation for name, spec in section.model_fields.items()}
            section = _section_of(names.get(step))
    if not (isinstance(section, type) and issubclass(section, Section)):
        return "there is no such key", ""
    keys = [spec.alias or name for name, spec in section.model_fields.items()]
    near = difflib.get_close_matches(path[-1][:40], keys, n=1) if isinstance(path[-1], str) else []
    return f"there is no such key; the keys here are {', '.join(keys)}", f"did you mean {near[0]}?" if near else ""


def _section_of(annotation: Any) -> Any:
    """The section inside an annotation like `Noc | None` or `tuple[KvLayout, ...]`."""
    for part in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(part, type) and issubclass(part, Section):
            return part
    return None


def _origins(data: Any, document: Document, applied: Sequence[Override]) -> dict[str, str]:
    """Where each given value came from, by the path that `NpuConfig.effective` gives it."""
    origins = {}
    paths = list(_leaf_paths((), data))
    in_document = set(_leaf_paths((), document.data))
    places = document.find(in_document)
    for path in paths:
        text = path_text(tuple(str(step) if _in_table(path) else step for step in path))
        if any(override.covers(path) for override in applied):
            origins[text] = "override"
        elif path in in_document:
            place = places.get(path)
            origins[text] = "given" if place is None else document.where(place)
    return origins


def _in_table(path: PathLike) -> bool:
    return len(path) >= 2 and path[-2] in ("f_w", "f_a", "mac_pj")


def _leaf_paths(path: PathLike, value: Any) -> Iterator[PathLike]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaf_paths((*path, key), item)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        for i, item in enumerate(value):
            yield from _leaf_paths((*path, i), item)
    else:
        yield path
