"""Reads a YAML or JSON file into plain data, and can find the location of each value in the file.

One reader handles both formats; the extension decides. Integers are ints, decimals are exact `Fraction`s, and all other values
are those of JSON. Texts that the format allows but that would be misread silently (duplicate keys, NaN, YAML's `012`, `on`,
`12:30`,
...) are refused, with their location. Locations are computed only for errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from kernbench.common.errors import ABSENT, MAX_PROBLEMS_SHOWN, InputError, Problem
from kernbench.common.files import read_bounded
from kernbench.common.parse_cache import kept
from kernbench.common.spelling import file_meant
from kernbench.config import json_text, yaml_text
from kernbench.config.places import KEY, Fault, PathLike, TextPosition, normal_path, step_text

MAX_DEPTH: Final = 64  # levels of nesting; a program or machine needs seven
MACHINE_BYTES: Final = 64 * 2**20
PROGRAM_BYTES: Final = 2**30
FORMATS: Final = {".json": json_text, ".yaml": yaml_text, ".yml": yaml_text}

__all__ = [
    "KEY",
    "MACHINE_BYTES",
    "MAX_DEPTH",
    "PROGRAM_BYTES",
    "Document",
    "PathLike",
    "data_document",
    "read_document",
]


class Document(msgspec.Struct, frozen=True):
    """Data and its source."""

    source: str  #: file name as given, or a description
    data: Any
    text: str | None = None  #: text of the file; None for data that did not come from text
    suffix: str = ""  #: the format of the text
    #: The origin of each value, for data that were made from the text. None for other data.
    origins: Mapping[PathLike, str] | None = None

    def find(self, paths: Iterable[PathLike]) -> dict[PathLike, TextPosition]:
        """The line and the column of each path, or of its longest existing prefix; nothing if there is no text.

        A path that ends in `KEY` means the key and not its value.
        """
        if self.text is None or self.origins is not None:
            return {}
        asked = list(paths)
        wanted = {normal_path(path)[:n] for path in asked for n in range(len(path) + 1)}
        found = dict(FORMATS[self.suffix].places(self.text, wanted)) if asked else {}
        return {path: _innermost(found, normal_path(path)) for path in asked}

    def where(self, place: TextPosition | None) -> str:
        """`file:line:col`, or only the source if the location is not known."""
        return self.source if place is None else f"{self.source}:{place[0]}:{place[1]}"

    def problem(self, path: PathLike, rule: str, value: Any = ABSENT, remedy: str = "") -> Problem:
        """A problem with the value at `path` (or its key, if the path ends in KEY)."""
        return self.problems([(path, rule, value, remedy)])[0]

    def problems(self, found: Iterable[tuple[PathLike, str, Any, str]]) -> list[Problem]:
        """Problems from (path, rule, value, remedy); their locations are looked up together."""
        items = list(found)
        places = self.find(path for path, *_ in items[:MAX_PROBLEMS_SHOWN])
        return [
            Problem(self.where(places.get(path)), rule, path_text(path), value, remedy)
            for path, rule, value, remedy in items
        ]


def path_text(path: PathLike) -> str:
    """A path in the usual notation: `dma.channels.kv_load.weight`, `kv_layouts[0].t_max`."""
    text = ""
    for step in path:
        if step is not KEY:
            part = step_text(step)
            text += f"[{part}]" if isinstance(step, int) else f".{part}" if text else part
    return text


def _innermost(found: dict[tuple[str, ...], TextPosition], path: tuple[str, ...]) -> TextPosition:
    for n in range(len(path), -1, -1):
        if path[:n] in found:
            return found[path[:n]]
    return (1, 1)


def read_document(path: str | os.PathLike[str], max_bytes: int, *, empty: str = "") -> Document:
    """Read a `.json`, `.yaml` or `.yml` file of at most `max_bytes`; InputError says where and why the file is not valid.

    `empty`: the remedy for an empty file.
    """
    source = os.fspath(path)
    content, suffix = file_content(source, max_bytes)
    return text_document(decoded(source, content), source, suffix, empty)


def file_content(source: str, max_bytes: int) -> tuple[bytes, str]:
    """(content, suffix) of a file for `read_document`; InputError says why the file cannot be read."""
    suffix = Path(source).suffix.lower()
    if suffix not in FORMATS:
        near = file_meant(source, tuple(FORMATS))
        remedy = f"did you mean {near}?" if near else ""
        if suffix in ("", ".txt") and os.path.isfile(source):
            remedy = f"rename the file to {Path(source).stem}.yaml"
        raise InputError(Problem(source, "the file name must end in .json, .yaml or .yml", remedy=remedy))
    return read_bounded(source, max_bytes, remedy="raise max_bytes to read it"), suffix


def text_document(text: str, source: str, suffix: str, empty: str = "") -> Document:
    """The document in a text with the format of `suffix`; its top level must be a mapping."""
    if not text.strip():
        raise InputError(Problem(source, "the file is empty", remedy=empty))
    try:
        data = _data(text, suffix)
    except Fault as fault:
        where = f"{source}:{fault.place[0]}:{fault.place[1]}"
        remedy = fault.remedy or _other_format(text, source, suffix)
        raise InputError(Problem(where, fault.rule, path_text(fault.path), fault.value, remedy)) from None
    if not isinstance(data, dict):
        entries = isinstance(data, list) and any(isinstance(item, dict) and "opcode" in item for item in data)
        remedy = 'write {"metadata": {"version": "1.0"}, "cmdq": [...]} around the entries' if entries else ""
        raise InputError(Problem(f"{source}:1:1", "the file must contain a mapping of keys to values", remedy=remedy))
    return Document(source, data, text, suffix)


def _data(text: str, suffix: str) -> Any:
    """The data that the reader of the format makes from a text. Only YAML is slow enough to be cached."""
    reader = FORMATS[suffix]
    if reader is not yaml_text:
        return reader.parse(text, MAX_DEPTH)
    return kept(yaml_text.__file__, text, lambda: yaml_text.parse(text, MAX_DEPTH))


def _other_format(text: str, source: str, suffix: str) -> str:
    """The remedy for a file whose text is valid in the other format, but not in the format of its name."""
    other = ".yaml" if suffix == ".json" else ".json"
    if text.lstrip().startswith(("{", "[")) != (other == ".json"):
        return ""
    try:
        sound = isinstance(FORMATS[other].parse(text, MAX_DEPTH), dict)
    except Fault:
        return ""
    return f"the content is valid {other[1:].upper()}, so rename the file to {Path(source).stem}{other}" if sound else ""


def data_document(data: Any, source: str) -> Document:
    """A document from data in memory; its top level must be a mapping."""
    if not isinstance(data, dict):
        raise InputError(
            Problem(source, f"the document must be a mapping of keys to values, but it is of type {type(data).__name__}")
        )
    return Document(source, data)


def decoded(source: str, content: bytes) -> str:
    """The text of a file. InputError names the byte that is not valid UTF-8."""
    if content.startswith(b"\xef\xbb\xbf"):
        raise InputError(
            Problem(f"{source}:1:1", "it begins with a byte order mark", remedy="save it as UTF-8 without one")
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        rule = f"byte 0x{content[error.start]:02x} is not valid UTF-8"
        raise InputError(Problem(f"{source}:{line}:{column}", rule)) from None
