"""CHANGELOG.md has the form of Keep a Changelog, and the version of the package."""

from __future__ import annotations

import re

import pytest

from kernbench.version import VERSION
from tests.meta.source import ROOT

CHANGELOG = ROOT / "CHANGELOG.md"
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
pytestmark = pytest.mark.skipif(not CHANGELOG.exists(), reason="CHANGELOG.md is not beside these tests")


def versions() -> dict[str, list[str]]:
    """The kinds of changes of each version, in order."""
    found: dict[str, list[str]] = {}
    for line in CHANGELOG.read_text(encoding="utf-8").splitlines():
        if head := re.fullmatch(r"## \[(.+?)\](?: - \d{4}-\d{2}-\d{2})?", line):
            assert head[1] not in found, line
            found[head[1]] = []
        elif line.startswith("#### "):
            assert found and found[list(found)[-1]], f"{line}: a subject is below a kind of changes"
        elif line.startswith("##"):
            assert line.startswith("### ") and found, line
            found[list(found)[-1]].append(line.removeprefix("### "))
        elif found and line:
            assert line.startswith("- ") and line.endswith(".") and found[list(found)[-1]], line
    return found


def test_each_change_is_of_a_kind_and_a_version() -> None:
    for version, kinds in versions().items():
        assert kinds and kinds == sorted(set(kinds), key=KINDS.index), version


def test_each_subject_stands_once_below_a_kind_of_changes() -> None:
    for part in re.split(r"(?m)^##?#? ", CHANGELOG.read_text(encoding="utf-8")):
        subjects = re.findall(r"(?m)^#### (.+)", part)
        assert len(subjects) == len(set(subjects)), part.splitlines()[0]


def test_the_newest_version_is_that_of_the_package() -> None:
    first, *released = versions()
    assert first == "Unreleased" and released[0] == VERSION
    assert released == sorted(released, key=lambda version: [int(part) for part in version.split(".")], reverse=True)
