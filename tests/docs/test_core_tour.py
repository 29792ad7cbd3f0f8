"""`docs/core.md` names every file of the core and only what is there, and its pictures have the states that the code has."""

from __future__ import annotations

import re
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.docs.code_names import is_there, words_of_the_code
from tests.docs.test_build import DOCS, part
from tests.meta.source import ROOT, files, needs_source

PAGE = ROOT / "docs" / "core.md"
CORE = ROOT / "kernbench_core"
pytestmark = needs_source


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))  # it takes boxes and texts from the pictures of other pages
    return part("core_pictures")


def code_spans() -> list[str]:
    text = re.sub(r"^```.*?^```", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall("`([^`\n]+)`", text)


def named_files() -> set[str]:
    inner, outer = r"(?:model|fast|state|trace|plugin|standalone)/[\w/]+\.(?:pyx|pxd|pxi|py|h)", r"\w+\.(?:pyx|pxd|py|h)"
    return {span for span in code_spans() if re.fullmatch(f"{inner}|{outer}", span)}


def test_every_file_of_the_core_is_on_the_page() -> None:
    there = files("kernbench_core", suffixes=(".pyx", ".pxd", ".pxi", ".py", ".h"))
    stems = {path.relative_to(CORE).with_suffix("").as_posix() for path in there if path.stem != "__init__"}
    named = {name.rpartition(".")[0] for name in named_files()}
    assert len(stems) > 80
    assert not stems - named, "not on the page: " + ", ".join(sorted(stems - named))
    assert not named - stems, "not in the core: " + ", ".join(sorted(named - stems))


def test_every_file_on_the_page_is_there() -> None:
    assert not [name for name in named_files() if not (CORE / name).exists()]


def test_every_name_on_the_page_is_in_the_code() -> None:
    there = words_of_the_code("kernbench_core", "kernbench", "tests")
    names = {span for span in code_spans() if re.fullmatch(r"[A-Za-z]\w*(?:\.[a-z]\w*)?", span)} - named_files()
    assert len(names) > 100
    missing = sorted(name for name in names if not is_there(name, there))
    assert not missing, missing


def fields_of_structs() -> dict[str, set[str]]:
    """The words of the declarations of each struct and class of the core, without comments."""
    found: dict[str, set[str]] = {}
    for path in files("kernbench_core", suffixes=(".pxd", ".pyx")):
        name = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if opened := re.match(r"cdef (?:struct|class) (\w+)", line):
                name = opened[1]
            elif line and not line.startswith(" "):
                name = ""
            elif name:
                found.setdefault(name, set()).update(re.findall(r"\w+", line.partition("#")[0]))
    return found


def test_fields_that_pages_and_comments_name_are_in_their_structs() -> None:
    fields = fields_of_structs()
    places = [PAGE, *(PAGE.parent / "how-to").glob("add_a_*.md"), *files("kernbench_core", suffixes=(".pxd", ".pyx"))]
    named = [
        (path.name, struct, field)
        for path in places
        for struct, field in re.findall(r"\b([A-Z][a-z]\w+)\.([a-z]\w*)", path.read_text(encoding="utf-8"))
        if struct in fields
    ]
    assert len(named) > 80
    assert not [one for one in named if one[2] not in fields[one[1]]]


def test_pictures_are_sound(pictures: ModuleType) -> None:
    for name, text in pictures.core_pictures().items():
        ElementTree.fromstring(text)
        assert f":file: _generated/{name}" in PAGE.read_text(encoding="utf-8")


def enum_of(file: str, name: str) -> list[str]:
    body = re.search(rf"^cp?def enum {name}:.*\n((?:    .*\n)+)", (CORE / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert body is not None
    return re.findall(r"^    (\w+) =", body[1], re.MULTILINE)


def test_the_states_of_a_dma_job_are_those_of_the_code(pictures: ModuleType) -> None:
    drawn = pictures.DMA_JOB
    states = [name.removeprefix("DMA_") for name in enum_of("types.pxd", "DmaState")]
    state = {key: item.name.partition(",")[0] for key, item in drawn.states.items()}
    assert set(state.values()) == set(states)
    legal = re.search(r"LEGAL = \[(.*)\]", (CORE / "model" / "dma.pyx").read_text(encoding="utf-8"))
    assert legal is not None
    after = [name.strip().removeprefix("DMA_") for name in legal[1].split(",")]
    edges = {(state[edge.start], state[edge.end]) for edge in drawn.edges}
    assert {(a, b) for a, b in edges if a != b} == {(a, b) for a, b in zip(states, after, strict=True) if b in states}
    notes = " ".join(note for item in drawn.states.values() if item.waits for note in item.note)
    reasons = enum_of("types.pxd", "StallReason")
    assert set(re.findall(r"\w+_\w+|backpressure", notes)) == {name.lower() for name in reasons} - {"not_stalled"}


def test_the_commands_of_a_dram_bank_are_those_of_the_code(pictures: ModuleType) -> None:
    drawn = pictures.DRAM_BANK
    text = (CORE / "model" / "dram" / "device.pxd").read_text(encoding="utf-8")
    body = re.search(r"^cdef enum:.*\n((?:    .*\n)+)", text, re.MULTILINE)
    assert body is not None
    commands = set(re.findall(r"^    ([A-Z]+) =", body[1], re.MULTILINE)) - {"COMMANDS", "WINDOW"}
    assert {word for edge in drawn.edges for line in edge.label for word in re.findall(r"^[A-Z]+\b", line)} == commands
