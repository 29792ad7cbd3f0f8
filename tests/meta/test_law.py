"""The law is `docs/model`: what the code cites of it is there, and nothing outside of the repository is cited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kernbench.common.errors import InputError
from kernbench.config import load_config
from tests.meta.source import ROOT, files, matches, needs_source

LAW = ROOT / "docs" / "model"
pytestmark = [needs_source, pytest.mark.skipif(not LAW.exists(), reason="the documentation is not in this source tree")]

#: Texts that lie beside the project and are no part of it; the last are decisions of the seed documents.
OUTSIDE = re.compile(
    r"\b(?:MODEL|FORMATS|ARCHITECTURE|STYLE|LIBRARIES|LOOK|MODEL_NEXT)\.md\b"
    r"|\bMODEL(?:'s)? (?:sections? )?\d|\bMODEL section|(?<![Ss]eed )\bADR-\d{4}\b"
)
#: A page of the law, and labels of its rules: "docs/model/sharing.md, P4", "docs/model/dram_rows.md, R4 to R7".
CITED = re.compile(r"docs/model/(\w+)\.md((?:,? (?:and |to )?[PR]\d\b)*)")
#: Which page has the rules of a label.
LABEL = re.compile(r"\b([PR]\d)\b")
#: Whoever cites: all but the law itself, the records of the past and this test.
CITING = [path for path in files() if path != Path(__file__) and path.name != "CHANGELOG.md"]


def test_nothing_outside_of_the_repository_is_cited() -> None:
    past = {LAW / "index.md"}  # it says what "MODEL 5" was
    found = [f"{place}: {match[0]}" for place, match in matches([path for path in CITING if path not in past], OUTSIDE)]
    assert not found, "cite docs/model/PAGE.md, or seed ADR-0020:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text", ["MODEL.md", "FORMATS.md", "by MODEL 5", "MODEL section 3", "ADR-0020 D2", "MODEL's 3", "`STYLE.md`", "(ADR-0020)"]
)
def test_what_is_outside_is_seen(text: str) -> None:
    assert OUTSIDE.search(text)


@pytest.mark.parametrize("text", ["seed ADR-0020", "Seed ADR-0052 D3", "ADR 20", "MODEL_VERSION 1", "docs/model/dma.md"])
def test_what_is_inside_is_left_alone(text: str) -> None:
    assert not OUTSIDE.search(text)


def defined(page: str) -> set[str]:
    """Labels that stand in the headings of a page, and in the first cells of its tables."""
    text = (LAW / f"{page}.md").read_text(encoding="utf-8")
    return {label for line in re.findall(r"^(?:#+ .*|\| [PR]\d.*?\|)", text, re.MULTILINE) for label in LABEL.findall(line)}


def labels(text: str) -> list[str]:
    """The labels of a citation; "R4 to R7" are four."""
    found = LABEL.findall(text)
    if " to " in text:
        first, last = int(found[0][1:]), int(found[-1][1:])
        return [f"{found[0][0]}{i}" for i in range(first, last + 1)]
    return found


def test_every_page_and_label_that_is_cited_is_in_the_law() -> None:
    pages = {path.stem for path in LAW.glob("*.md")}
    cited = list(matches(CITING, CITED))
    wrong = [f"{place}: {match[0]}" for place, match in cited if match[1] not in pages]
    wrong += [
        f"{place}: {match[0]}: {label} is no rule of that page"
        for place, match in cited
        if match[1] in pages
        for label in labels(match[2])
        if label not in defined(match[1])
    ]
    assert not wrong, "\n".join(wrong)
    assert len(cited) > 100 and sum(bool(match[2]) for _, match in cited) > 20


def test_every_label_that_code_names_is_defined() -> None:
    """Phases and rules of the DRAM controller, in comments and texts of the product and of the oracles."""
    every = {label for path in LAW.glob("*.md") for label in defined(path.stem)}
    assert {f"P{i}" for i in range(1, 8)} | {f"R{i}" for i in range(1, 8)} <= every
    sources = files("kernbench_core", "kernbench", suffixes=(".pyx", ".pxd", ".py", ".pyi", ".h"))
    sources += [path for path in files("tests", suffixes=(".py",)) if "oracles" in path.parts]
    named = {match[1]: place for place, match in matches(sources, LABEL)}
    assert len(named) >= 10
    assert not {label: place for label, place in named.items() if label not in every}


def test_every_page_is_in_the_index() -> None:
    text = (LAW / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\w+$", text[text.index("```{toctree}") : text.index("```\n")], re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in LAW.glob("*.md") if path.stem != "index")


def test_every_file_that_decisions_and_the_law_name_is_there() -> None:
    """Paths in code font; those of the core and the package without the first folder."""
    pages = [*LAW.glob("*.md"), *(ROOT / "docs" / "adr").glob("*.md")]
    named = list(matches(pages, re.compile(r"`((?:\w+/)+\w+\.(?:pyx|pxd|py|h))`")))
    bases = (ROOT, ROOT / "kernbench_core", ROOT / "kernbench")
    assert len(named) > 20
    assert not [f"{place}: {match[1]}" for place, match in named if not any((base / match[1]).exists() for base in bases)]


def test_the_machine_of_the_formats_has_the_defaults() -> None:
    text = (LAW / "formats.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert load_config(yaml.safe_load(shown)).to_dict() == load_config({"noc": {}}).to_dict()
    with pytest.raises(InputError):
        load_config(yaml.safe_load(shown) | {"unknown": 1})
