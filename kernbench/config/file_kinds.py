"""The kind of a file and the command that takes it: for errors about a file of the wrong kind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded

HEAD_BYTES: Final = 1 << 20  #: [B] a larger file of an unknown kind is not inspected
_SQLITE: Final = b"SQLite format 3\0"


class FileKind(msgspec.Struct, frozen=True):
    """A kind of input file."""

    noun: str  #: as in `this is a sweep`
    usual: str  #: the usual command for it; `{file}` stands for the file
    keys: tuple[str, ...] = ()  #: a mapping with all of these keys is of this kind
    schemas: tuple[str, ...] = ()  #: a file whose `schema` begins with one of these is of this kind
    endings: tuple[str, ...] = ()  #: a file whose name has one of these endings is of this kind
    any_key: tuple[str, ...] = ()  #: a mapping with one of these keys is of this kind
    root: str = ""  #: an XML file whose first element has this name is of this kind


KINDS: Final[Mapping[str, FileKind]] = {
    "sweep": FileKind("a sweep", "to run the sweep: kbsim sweep run {file}", ("targets", "axes"), ("kernbench/sweep/",)),
    "machine": FileKind(
        "a machine",
        "to run a program on this machine: kbsim run TARGET --config {file}; to check the machine: kbsim config check {file}",
        (), ("kernbench/npu/", "kernbench/system/", "kernbench/chip/"),
    ),
    "program": FileKind(
        "a program", "to run the program: kbsim run {file}; to check the program: kbsim program check {file}",
        ("cmdq",), (), (".kbp",),
    ),
    "trace": FileKind("a trace", "to summarise the trace: kbsim trace summary {file}", ("event_type",), (),
                      (".jsonl", ".jsonl.gz", ".jsonl.zst")),
    "model": FileKind("a language model", "to run the model: kbsim llm --model {file}", ("model_type", "hidden_size")),
    "graph": FileKind("an ONNX model", "to run the model: kbsim onnx {file}", (), (), (".onnx",)),
    "result": FileKind(
        "the result of a run", "no command reads results; to repeat the run: kbsim run TARGET", ("status", "cycles", "counters")
    ),
    "store": FileKind("a store of sweep results", "to show the results: kbsim sweep report {file}", (), (), (".sqlite",)),
    "algorithms": FileKind(
        "a file of algorithms", "to use the algorithms: kbsim ccl run COLLECTIVE --ccl {file}", (), ("kernbench/ccl/",)
    ),
    "runtime": FileKind("a runtime profile", "to use the profile: kbsim op --runtime {file}", (), ("kernbench/runtime/",)),
    "nccl": FileKind(
        "a topology file of NCCL", "to make a machine from it: kbsim config init MACHINE.yaml --nccl-topology {file}",
        root="system",
    ),
    "msccl": FileKind(
        "an algorithm of MSCCL", "to run the algorithm on a machine: kbsim ccl run --msccl {file} -c MACHINE", root="algo"
    ),
    "mscclpp": FileKind(
        "an execution plan of MSCCL++", "to run the plan on a machine: kbsim ccl run --msccl {file} -c MACHINE",
        ("collective", "gpus"),
    ),
    "chakra": FileKind(
        "a Chakra trace", "to replay all ranks of the trace: kbsim ccl replay {prefix} -c MACHINE", endings=(".et",)
    ),
    "astra_network": FileKind(
        "a network file of ASTRA-sim", "to make a machine from it: kbsim config init MACHINE.yaml --astra-network {file}",
        ("topology", "npus_count"),
    ),
    "astra_system": FileKind(
        "a system file of ASTRA-sim", "to make a machine from it: kbsim config init MACHINE.yaml --astra-system {file}",
        any_key=("all-reduce-implementation", "endpoint-delay", "scheduling-policy", "local-mem-bw"),
    ),
    "bench": FileKind("a Python file", "to run the bench in the file: kbsim run {file}", (), (), (".py",)),
}  # fmt: skip
#: The suggested command if a file has one kind, and another kind is expected: (found, expected). For other pairs, the usual
#: command of the found kind is suggested.
_INSTEAD: Final[Mapping[tuple[str, str], str]] = {
    ("program", "trace"):
        "to record a trace of the program: kbsim run {file} --trace run.jsonl; "
        "to write an HTML page of the run instead: kbsim run {file} --report run.html",
    ("bench", "trace"):
        "to record a trace of the bench: kbsim run {file} --trace run.jsonl; "
        "to write an HTML page of the run instead: kbsim run {file} --report run.html",
    ("machine", "trace"):
        "to record a trace of a run on this machine: kbsim run TARGET --config {file} --trace run.jsonl",
    ("program", "sweep"):
        "to run the program once: kbsim run {file}; "
        "to run the program on many machines, write `targets: [{file}]` in a sweep file",
    ("machine", "sweep"): "to sweep over values of this machine, write `machine: {file}` in a sweep file",
    ("sweep", "store"): "to create the store {stem}.sqlite: kbsim sweep run {file}",
    ("machine", "program"):
        "to run a program on this machine: kbsim run TARGET --config {file}; to check the machine: kbsim config check {file}",
    ("machine", "runtime"): "to use the machine: --config {file}",
    ("program", "bench"): "to show the program: kbsim program show {file}; to run the program: kbsim run {file}",
}
#: Keys at the top of a machine's file that need not name its schema.
_OF_MACHINES: Final = {"freq_ghz", "dma", "dram", "noc", "spm", "te", "ve", "sip", "cube", "pe"}


def kind_of(data: Any) -> str:
    """The kind of a file with this top level; empty if it is not known."""
    if not isinstance(data, Mapping):
        return ""
    schema = data.get("schema")
    for name, kind in KINDS.items():
        if isinstance(schema, str) and schema.startswith(kind.schemas) and kind.schemas:
            return name
        if (kind.keys and all(key in data for key in kind.keys)) or any(key in data for key in kind.any_key):
            return name
    return "machine" if data and len(_OF_MACHINES & set(data)) * 2 >= len(data) else ""


def kind_named(name: str) -> str:
    """The kind of files with this ending; empty for endings that several kinds have."""
    lower = name.lower()
    return next((kind for kind, about in KINDS.items() if about.endings and lower.endswith(about.endings)), "")


def other_kind(source: str, found: str, wanted: str, remedy: str = "") -> Problem:
    """The refusal of a file of another kind than expected, with the command to use for it."""
    remedy = remedy or _INSTEAD.get((found, wanted), KINDS[found].usual)
    rule = f"this is {KINDS[found].noun}, but {KINDS[wanted].noun} is expected"
    stem = os.path.splitext(source)[0]
    named = {"{file}": source, "{stem}": stem, "{prefix}": os.path.splitext(stem)[0]}  # a Chakra trace is PREFIX.RANK.et
    for name, text in named.items():
        remedy = remedy.replace(name, text)
    return Problem(source, rule, remedy=remedy)


def check_kind(source: str, data: Any, wanted: str) -> None:
    """InputError if this top level belongs to a file of another kind."""
    found = kind_of(data)
    if found not in ("", wanted):
        raise InputError(other_kind(source, found, wanted))


#: A declaration or comment before the first element of an XML file. A repetition inside one expression would take exponential
#: time on a file of many comments, because a comment could be read in several ways.
_BEFORE_ELEMENT = re.compile(rb"\s*(?:<\?.*?\?>|<!--.*?-->|<!(?!--)[^>]*>)", re.DOTALL)
_ELEMENT = re.compile(rb"\s*<([A-Za-z]+)")


def _xml_kind(content: bytes) -> str:
    """The kind of an XML file by its first element, after comments and declarations; empty for other files."""
    position = 0
    while found := _BEFORE_ELEMENT.match(content, position):
        position = found.end()
    element = _ELEMENT.match(content, position)
    name = element[1].decode() if element else ""
    return next((kind for kind, about in KINDS.items() if about.root and about.root == name), "")


@contextmanager
def expecting(path: str | os.PathLike[str], wanted: str) -> Iterator[None]:
    """Read a file inside a `with` block. If the file is not valid and is of another kind, InputError says so."""
    try:
        yield
    except InputError:
        check_file(os.fspath(path), wanted)
        raise


def check_file(path: str, wanted: str) -> None:
    """InputError if a file that could not be read as the expected kind is of another kind."""
    from kernbench.config.document import FORMATS, decoded, text_document

    found = kind_named(path)
    try:
        content = read_bounded(path, HEAD_BYTES)
        if content.startswith(_SQLITE):
            found = "store"
        found = _xml_kind(content) or found
        suffix = os.path.splitext(path)[1].lower()
        if suffix in FORMATS:
            found = kind_of(text_document(decoded(path, content), path, suffix).data) or found
    except InputError:  # the code that expects the file reports the error
        pass
    if found not in ("", wanted):
        raise InputError(other_kind(path, found, wanted))
