"""Reads a CMDQ program from JSON, YAML or a dict, with every check that does not need a machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kernbench.cmdq.dependencies import Edges, edges_of, structure_problems
from kernbench.cmdq.entries import Entry
from kernbench.cmdq.program import VERSION, Program, Sound
from kernbench.cmdq.read_entries import read_entries
from kernbench.cmdq.read_entry import FieldProblem, read_entry, read_id
from kernbench.cmdq.read_text import read_text
from kernbench.common.errors import ABSENT, MAX_PROBLEMS_SHOWN, InputError, Problem
from kernbench.config.document import (
    KEY,
    PROGRAM_BYTES,
    Document,
    data_document,
    decoded,
    file_content,
    path_text,
    text_document,
)
from kernbench.config.file_kinds import check_kind, expecting

Source = str | os.PathLike[str] | Mapping[str, Any]
_METADATA = ("version", "name")
_MANY = 64  # number of entries from which it is faster to make all entries together


def load_program(source: Source, *, max_bytes: int = PROGRAM_BYTES) -> Program:
    """Read a program.

    `source`: a `.json`, `.yaml`, `.yml` or `.kbp` file, or a dict like `Program.to_dict()`. `max_bytes`: refuse a larger file.
    InputError names every problem of entries, ids and dependencies. `check_program` makes the checks that depend on a machine.

    >>> import kernbench as kb
    >>> program = kb.load_program({"metadata": {"version": "1.0"}, "cmdq": [{"id": 0, "opcode": "NOP"}]})
    >>> program.entries[0].opcode
    'NOP'
    """
    if isinstance(source, (str, os.PathLike)):
        if os.fspath(source).lower().endswith(".kbp"):
            from kernbench.cmdq.compiled import load_compiled  # reads entries in the same way

            return load_compiled(source, max_bytes=max_bytes)
        with expecting(source, "program"):
            content = file_content(os.fspath(source), max_bytes)
        return parsed(os.fspath(source), *content)
    return program_of(source if not isinstance(source, Mapping) else dict(source), "program")


def program_of(data: Any, source: str) -> Program:
    """`load_program` for a dict; `source`: the name of its origin in errors."""
    return _program(data_document(data, source))


def parsed(source: str, content: bytes, suffix: str) -> Program:
    """`load_program` for a file that has been read."""
    text = decoded(source, content)
    read = read_text(text) if suffix == ".json" else None
    if read is not None:
        name, entries = read
        edges = _sound_edges(entries)
        if edges is not None:
            return _sound_program(name, entries, edges, Document(source, None, text, suffix))
    return _program(text_document(text, source, suffix))


def _sound_edges(entries: list[Entry]) -> Edges | None:
    """The pairs of dependent entries; None if there is a problem with ids, dependencies or END."""
    edges = edges_of(entries)
    return None if edges is None or structure_problems(entries, edges) else edges


def _sound_program(name: str, entries: list[Entry], edges: Edges | None, document: Document) -> Program:
    program = Program(name, source=document.source)
    program.entries = entries  # they have their positions, unlike those of a caller
    program.sound = Sound(program.entries.copy(), edges) if edges is not None else None
    program.document = replace(document, data=None) if document.text is not None else None  # the entries contain everything
    return program


def _program(document: Document) -> Program:
    check_kind(document.source, document.data, "program")
    name, found = _metadata(document.data)
    queue = document.data.get("cmdq", ABSENT)
    if queue is ABSENT:
        found.append((("cmdq",), "this field is missing", ABSENT, ""))
        queue = []
    elif not isinstance(queue, (list, tuple)):
        found.append((("cmdq",), "it must be a list of entries", queue, ""))
        queue = []
    if found:
        raise InputError(document.problems(found))
    return _sound_program(name, *_entries(queue, document), document)


def _metadata(data: Mapping[Any, Any]) -> tuple[str, list[tuple[tuple[Any, ...], str, Any, str]]]:
    """(name, problems) of the top of a program."""
    found: list[tuple[tuple[Any, ...], str, Any, str]] = [
        ((key, KEY), "there is no such key; the keys at this level are metadata, cmdq", ABSENT, "")
        for key in data
        if key not in ("metadata", "cmdq")
    ]
    metadata = data.get("metadata", ABSENT)
    if not isinstance(metadata, Mapping):
        rule = "this field is missing" if metadata is ABSENT else "it must be a mapping"
        return "", [*found, (("metadata",), rule, metadata, 'write {"version": "1.0", "name": ...}')]
    for key in metadata:
        if key not in _METADATA:
            found.append((("metadata", key, KEY), "there is no such key; the keys at this level are version, name", ABSENT, ""))
    version, name = metadata.get("version", ABSENT), metadata.get("name", "")
    if version != VERSION:
        rule = "this field is missing" if version is ABSENT else f'it must be "{VERSION}", as text'
        found.append(
            (("metadata", "version"), rule, version, f'write "version": "{VERSION}"' if version is ABSENT else "")
        )
    if not isinstance(name, str):
        found.append((("metadata", "name"), "it must be text", name, ""))
        name = ""
    return name, found


def _entries(queue: Sequence[Any], document: Document) -> tuple[list[Entry], Edges | None]:
    """The entries, and on request the pairs of dependent entries."""
    if len(queue) >= _MANY and document.text is not None and "null" not in document.text:
        known = read_entries(queue)
        if known is not None:
            edges = _sound_edges(known)
            if edges is not None:
                return known, edges
    entries: list[Entry] = []
    problems: list[tuple[int, FieldProblem]] = []
    sound = True
    for index, raw in enumerate(queue):
        entry, found = read_entry(raw, index)
        if found:
            problems += [(index, problem) for problem in found]
        if entry is None:
            sound = False
            entry = Entry(index=index, id=read_id(raw, index), opcode="NOP")  # a placeholder: others may depend on its id
        entries.append(entry)
    problems += structure_problems(entries)
    if problems or not sound:
        raw_entries = list(queue)
        names = {i: _name_of(raw_entries[i], i) for i, _ in problems}
        raise InputError(entry_problems(problems, names, document))
    return entries, None


def _name_of(raw: Any, index: int) -> str:
    """The name of an entry in errors, `cmdq[3] (id 7, DMA_LOAD_TILE)`, as far as it is known."""
    opcode = raw.get("opcode") if isinstance(raw, Mapping) else None
    return f"cmdq[{index}] (id {read_id(raw, index)}{f', {opcode[:40]}' if isinstance(opcode, str) else ''})"


def entry_problems(
    found: Iterable[tuple[int, FieldProblem]],
    names: Mapping[int, str],
    document: Document | None,
    source: str = "program",
) -> list[Problem]:
    """(index, problem) pairs as Problems in file order: `prog.json:57:5: cmdq[12] (id 12, NOP): field = ...`."""
    items = sorted(found, key=lambda item: item[0])
    paths = [("cmdq", index, *problem.path) for index, problem in items]
    places = document.find(paths[:MAX_PROBLEMS_SHOWN]) if document is not None else {}
    problems = []
    for (index, problem), path in zip(items, paths, strict=True):
        where = document.where(places.get(path)) if document is not None else source
        problems.append(
            Problem(f"{where}: {names[index]}", problem.rule, path_text(problem.path), problem.value, problem.remedy)
        )
    return problems
