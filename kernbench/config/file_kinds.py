"""What kind of file a file is, and which command takes it: for whoever was given one of another kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded

HEAD_BYTES: Final = 1 << 20  #: [B] a larger file of an unknown kind is not looked into
_SQLITE: Final = b"SQLite format 3\0"


class FileKind(msgspec.Struct, frozen=True):
    """A kind of input file."""

    noun: str  #: as in `it is a sweep`
    usual: str  #: what to type for it; `{file}` stands for the file
    keys: tuple[str, ...] = ()  #: a mapping that has all of these keys is one
    schemas: tuple[str, ...] = ()  #: or whose `schema` begins with one of these
    endings: tuple[str, ...] = ()  #: or whose name ends in one of these


KINDS: Final[Mapping[str, FileKind]] = {
    "sweep": FileKind("a sweep", "kbsim sweep run {file} runs it", ("targets", "axes"), ("kernbench/sweep/",)),
    "machine": FileKind(
        "a machine", "kbsim run TARGET --config {file} runs something on it, kbsim config check {file} checks it",
        (), ("kernbench/npu/", "kernbench/system/"),
    ),
    "program": FileKind(
        "a program", "kbsim run {file} runs it, kbsim program check {file} checks it", ("cmdq",), (), (".kbp",)
    ),
    "trace": FileKind("a trace", "kbsim trace summary {file} summarises it", ("event_type",), (),
                      (".jsonl", ".jsonl.gz", ".jsonl.zst")),
    "model": FileKind("a language model", "kbsim llm --model {file} runs it", ("model_type", "hidden_size")),
    "graph": FileKind("an ONNX model", "kbsim onnx {file} runs it", (), (), (".onnx",)),
    "result": FileKind("the result of a run", "kbsim run TARGET --out {file} wrote it", ("status", "cycles", "counters")),
    "store": FileKind("a store of sweep results", "kbsim sweep report {file} shows them", (), (), (".sqlite",)),
    "algorithms": FileKind("a file of algorithms", "kbsim ccl run COLLECTIVE --ccl {file} uses it", (), ("kernbench/ccl/",)),
    "runtime": FileKind("a runtime profile", "kbsim op --runtime {file} uses it", (), ("kernbench/runtime/",)),
    "bench": FileKind("a Python file", "kbsim run {file} runs the bench in it", (), (), (".py",)),
}  # fmt: skip
#: What to type where a file of one kind is given for one of another, if that is not the usual: (found, wanted).
_INSTEAD: Final[Mapping[tuple[str, str], str]] = {
    ("program", "trace"): "kbsim run {file} --trace run.jsonl writes a trace of it, and --report run.html a page",
    ("bench", "trace"): "kbsim run {file} --trace run.jsonl writes a trace of it, and --report run.html a page",
    ("machine", "trace"): "kbsim run TARGET --config {file} --trace run.jsonl writes a trace, and --report run.html a page",
    ("program", "sweep"): "kbsim run {file} runs it once, and targets: [{file}] in a sweep runs it on many machines",
    ("machine", "sweep"): "a sweep names it as machine: {file}",
    ("sweep", "store"): "kbsim sweep run {file} makes the store {stem}.sqlite, which this command takes",
    ("machine", "program"): "kbsim run TARGET --config {file} runs something on it, kbsim config check {file} checks it",
    ("program", "bench"): "kbsim program show {file} shows it, kbsim run {file} runs it",
}
#: Keys at the top of a machine's file that need not name its schema.
_OF_MACHINES: Final = {"freq_ghz", "dma", "dram", "noc", "spm", "te", "ve", "sip", "cube", "pe"}


def kind_of(data: Any) -> str:
    """The kind of file that has this at its top; empty if it is not known."""
    if not isinstance(data, Mapping):
        return ""
    schema = data.get("schema")
    for name, kind in KINDS.items():
        if isinstance(schema, str) and schema.startswith(kind.schemas) and kind.schemas:
            return name
        if kind.keys and all(key in data for key in kind.keys):
            return name
    return "machine" if data and len(_OF_MACHINES & set(data)) * 2 >= len(data) else ""


def kind_named(name: str) -> str:
    """The kind of file that has this ending; empty for endings that several kinds have."""
    lower = name.lower()
    return next((kind for kind, about in KINDS.items() if about.endings and lower.endswith(about.endings)), "")


def other_kind(source: str, found: str, wanted: str, remedy: str = "") -> Problem:
    """The refusal of a file of another kind than was wanted, with what to type for it."""
    remedy = remedy or _INSTEAD.get((found, wanted), KINDS[found].usual)
    rule = f"it is {KINDS[found].noun}, and {KINDS[wanted].noun} is wanted here"
    return Problem(source, rule, remedy=remedy.replace("{file}", source).replace("{stem}", os.path.splitext(source)[0]))


def check_kind(source: str, data: Any, wanted: str) -> None:
    """InputError where this is at the top of a file of another kind."""
    found = kind_of(data)
    if found not in ("", wanted):
        raise InputError(other_kind(source, found, wanted))


def check_file(path: str, wanted: str) -> None:
    """InputError where a file, which was not read as one of the kind wanted, is of another kind."""
    from kernbench.config.document import FORMATS, decoded, text_document

    found = kind_named(path)
    try:
        content = read_bounded(path, HEAD_BYTES)
        if content.startswith(_SQLITE):
            found = "store"
        suffix = os.path.splitext(path)[1].lower()
        if suffix in FORMATS:
            found = kind_of(text_document(decoded(path, content), path, suffix).data) or found
    except InputError:  # whoever wanted it says what is wrong with it
        pass
    if found not in ("", wanted):
        raise InputError(other_kind(path, found, wanted))
