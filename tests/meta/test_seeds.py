"""Every decision and section of the seed documents has a test that is named after it, and a row in the documentation."""

from __future__ import annotations

import ast
import re

import pytest

from tests.meta.source import ROOT, needs_source

PAGE = ROOT / "docs" / "reference" / "seeds.md"
pytestmark = [needs_source, pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not in this source tree")]

#: The sections of each seed document that fix something; parts that only tell of other texts have none.
SECTIONS = {
    "0020": [*(f"d{i}" for i in range(1, 12)), "non_goals", "open_questions", "consequences"],
    "0050": ["module", "signature", "entry", "topology_kinds"],
    "0051": ["address_resolver", "path_router", "memory_and_m_cpu_paths", "graphs"],
    "0052": [
        "first_action", "context", "consequences", "d1", "d2", *(f"d3_{i}" for i in range(1, 8)), "d4", "d5", "d6",
        *(f"d6_{i}" for i in range(1, 6)), "d7", "alternatives",
    ],
    "0053": ["stages", "source_hash", "layout", "names", "edges_and_views"],
    "003": [
        "s1", "s2", "s3_1", "s3_2", "s4_1_1", "s4_1_2", "s4_2_1", "s4_2_2", "s4_3_1", "s4_3_2", "s4_4_1", "s4_4_2", "s4_5_1",
        "s4_5_2", "s4_6_1", "s4_6_2", "s4_7_1", "s4_7_2", "s4_8_1", "s4_8_2", "s5", "s6_1", "s6_2", "s7", "s8_1", "s8_2", "s9",
        "s10_1", "s10_2", "s10_3", "s10_4",
    ],
    "004": [
        "s1", "s2", "s3_1", "s3_2", "s3_3", "s3_4", "s3_5", "s4_1", "s4_2", "s4_3", "s4_4", "s4_5", "s5", "s6", "s7",
    ],
}  # fmt: skip


def seed_tests() -> list[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tests" / "seeds").glob("test_*.py"))]
    return [node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:5] == "test_"]


def test_every_section_has_a_test_named_after_it() -> None:
    there = set(seed_tests())
    assert sorted({f"test_seed_{document}_{one}" for document, all_of in SECTIONS.items() for one in all_of} - there) == []


def test_every_test_is_named_after_a_section() -> None:
    sections = {f"test_seed_{document}_{one}" for document, all_of in SECTIONS.items() for one in all_of}
    assert [name for name in seed_tests() if not any(name == one or name.startswith(f"{one}_") for one in sections)] == []


def test_the_page_maps_every_section_to_its_tests() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \| `(test_\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for _, name in rows] and sorted(name for _, name in rows) == sorted(seed_tests())
    for section, name in rows:
        label = re.fullmatch(r"D?(\d+(?:\.\d+)*)", section)
        if label:
            assert f"{label[1].replace('.', '_')}" in name, (section, name)
