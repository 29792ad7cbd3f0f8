"""Decisions (`docs/adr`) are numbered without gaps, the index has a line for each, and those that are cited are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.source import ROOT, files, matches, needs_source

ADRS = ROOT / "docs" / "adr"
#: Whoever cites. "seed ADR-0020" is of the seed documents.
CITING = files()
pytestmark = [needs_source, pytest.mark.skipif(not ADRS.exists(), reason="the documentation is not in this source tree")]


def decisions() -> dict[int, Path]:
    return {int(path.name[:4]): path for path in ADRS.glob("[0-9]*.md")}


def test_decisions_are_numbered_without_gaps() -> None:
    found = decisions()
    assert sorted(found) == list(range(1, len(found) + 1))
    wrong = [path.name for i, path in found.items() if not path.read_text(encoding="utf-8").startswith(f"# {i}. ")]
    assert not wrong, wrong


def test_the_index_has_a_line_for_each_decision() -> None:
    text = (ADRS / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d+)\]\((\S+?)\) \| (.+?) \|$", text, re.MULTILINE)
    assert [(int(number), link) for number, link, _ in rows] == [(i, path.name) for i, path in sorted(decisions().items())]
    listed = re.findall(r"^(\d{4}-\S+)$", text, re.MULTILINE)
    assert [f"{stem}.md" for stem in listed] == [link for _, link, _ in rows]


def test_every_decision_that_is_cited_is_there() -> None:
    found = decisions()
    names = {path.stem for path in found.values()}
    numbers = list(matches(CITING, re.compile(r"(?<![Ss]eed )\bADR (\d+)(?![\d-])")))
    links = list(matches(CITING, re.compile(r"(?:\[(?:ADR )?(\d+)\]\()?(?:[\w.]+/)*\b((\d{4})-[a-z][a-z0-9-]+)\.md\b")))
    wrong = [f"{place}: {match[0]}" for place, match in numbers if int(match[1]) not in found]
    wrong += [f"{place}: {match[0]}" for place, match in links if match[2] not in names]
    wrong += [f"{place}: {match[0]}" for place, match in links if match[1] and int(match[1]) != int(match[3])]
    assert not wrong, "\n".join(wrong)
    assert len(numbers) > 30 and len(links) > 80
