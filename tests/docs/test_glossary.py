"""`docs/glossary.md`: its names are in the code, its order is alphabetical, headings use none of the words that it replaces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.code_names import is_there, words_of_the_code
from tests.meta.source import ROOT, files, needs_source

GLOSSARY = ROOT / "docs" / "glossary.md"
pytestmark = pytest.mark.skipif(not GLOSSARY.exists(), reason="the documentation is not in this source tree")


@dataclass(frozen=True)
class Row:
    term: str
    meaning: str
    names: tuple[str, ...]
    replaced: tuple[str, ...]  #: words, without older identifiers


def sections() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for part in re.split(r"^## ", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        found[title] = [row(line) for line in body.split("\n") if line.startswith("|")][2:]
    return found


def row(line: str) -> Row:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    assert len(cells) in (3, 4), line
    words = [word.strip() for word in re.split("[;,]", re.sub("`[^`]*`", "", "".join(cells[3:])))]
    return Row(cells[0], cells[1], tuple(re.findall("`([^`]+)`", cells[2])), tuple(word for word in words if word))


ROWS = [item for rows in sections().values() for item in rows] if GLOSSARY.exists() else []


@needs_source
def test_every_name_is_in_the_code() -> None:
    there = words_of_the_code()
    missing = [f"{item.term}: {name}" for item in ROWS for name in item.names if not is_there(name, there)]
    assert not missing, "\n".join(missing)


@needs_source
def test_a_field_is_in_the_struct_that_the_glossary_names() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in files("kernbench_core", suffixes=(".pxd",)))
    missing = []
    for name in (name for item in ROWS for name in item.names if "." in name):
        struct, field = name.split(".")
        body = re.search(rf"^cdef (?:struct|enum) {struct}:.*\n((?:[ ]+.*\n|\n(?=    ))+)", text, re.MULTILINE)
        if body is None or not re.search(rf"\b{field}\b", re.sub(r"#.*", "", body[1])):
            missing.append(name)
    assert not missing, missing


def test_every_term_has_a_sentence() -> None:
    assert len(ROWS) > 100
    wrong = [item.term for item in ROWS if not re.match(r"(\[.*?\] )?[`A-Z].*\.$", item.meaning)]
    assert not wrong, wrong


def test_terms_are_alphabetical_and_defined_once() -> None:
    for title, rows in sections().items():
        terms = [item.term.lower() for item in rows]
        assert terms == sorted(terms), title
    every = [item.term.lower() for item in ROWS]
    assert len(every) == len(set(every))


def headings(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_headings_use_no_replaced_word() -> None:
    replaced = "|".join(re.escape(word) for item in ROWS for word in item.replaced)
    pages = sorted((ROOT / "docs").glob("*.md"))
    found = [(page.name, heading) for page in pages for heading in headings(page)]
    wrong = [(name, text) for name, text in found if re.search(rf"\b(?:{replaced})s?\b", text, re.IGNORECASE)]
    assert len(found) > 20
    assert not wrong, wrong


def test_a_term_is_replaced_by_no_other() -> None:
    terms = {item.term.lower() for item in ROWS}
    both = [word for item in ROWS for word in item.replaced if word.lower() in terms]
    assert not both, both
