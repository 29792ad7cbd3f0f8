"""Files, folders and targets that CONTRIBUTING.md and "I want to change X" name are there; each kind of part has its list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.source import GENERATED, ROOT

GUIDE, TREE = ROOT / "CONTRIBUTING.md", ROOT / "docs" / "start_here.md"
pytestmark = pytest.mark.skipif(not (ROOT / ".github").exists(), reason="this is not a checkout of the repository")
PAGES = (GUIDE, TREE)
PARTS = ("opcode", "function of `tl`", "component", "policy", "chip", "timing rule", "collective", "exporter", "command")
TOPS = ("kernbench", "kernbench_core", "configs", "benches", "tests", "docs", ".github")
ALONE = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "pyproject.toml", "Makefile", "setup.py")
NEW = re.compile(r"\bNAME\b|_NAME\b")  #: what somebody who follows a list makes


def named(text: str) -> list[str]:
    """What a page names in code font and is a file or a folder of the project, as it is written."""
    code = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    paths = [one for one in code if re.fullmatch(r"[\w./*-]+", one) and (one.split("/")[0] in TOPS or one in ALONE)]
    return [one for one in paths if not GENERATED & set(one.split("/"))]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_folders_are_there(page: Path) -> None:
    found = named(read(page))
    missing = [one for one in found if not NEW.search(one) and not any(ROOT.glob(one))]
    missing += [one for one in found if NEW.search(one) and not (ROOT / one).parent.is_dir()]
    assert len(found) > 20 and not missing, "\n".join(missing)


def constants_and_text(line: str) -> tuple[list[str], str]:
    """The constants that a line names in code font, such as `KINDS`, and the text of the files and folders that it names."""
    code = re.findall(r"`([^`\n]+)`", line)
    constants = [one for one in code if re.fullmatch(r"_?[A-Z][A-Z0-9_]{2,}", one) and not NEW.search(one)]
    paths = [path for one in named(line) for path in ROOT.glob(one)]
    files = [path for one in paths for path in ([one] if one.is_file() else one.rglob("*.py"))]
    return constants, "".join(read(path) for path in files if path.suffix in (".py", ".pyx", ".pxd", ".yaml", ".md"))


def test_constants_are_in_the_files_named_beside_them() -> None:
    found = 0
    for page in PAGES:
        for line in read(page).splitlines():
            constants, text = constants_and_text(line)
            if not text:
                continue
            missing = [one for one in constants if not re.search(rf"\b{one}\b", text)]
            assert not missing, f"{page.name}: no file of this line contains {', '.join(missing)}: {line}"
            for one, path in re.findall(r"`(_?[A-Z][A-Z0-9_]+)` in `([\w/]+\.\w+)`", line):
                assert re.search(rf"\b{one}\b", read(ROOT / path)), f"{page.name}: {path} does not contain {one}: {line}"
            found += len(constants)
    assert found > 10


def test_new_files_have_the_suffix_of_those_beside_them() -> None:
    for one in named(read(GUIDE)):
        if NEW.search(one):
            assert any((ROOT / one).parent.glob(f"*{Path(one).suffix}")), one


@pytest.mark.parametrize("part", PARTS)
def test_each_kind_of_part_has_its_list(part: str) -> None:
    """Code and tests both."""
    sections = {head.lower(): body for head, body in re.findall(r"^### (.*)\n((?:(?!^##).*\n)*)", read(GUIDE), re.MULTILINE)}
    (body,) = [body for head, body in sections.items() if part in head]
    files = named(body)
    assert any(one.startswith("kernbench") for one in files) and any(one.startswith("tests/") for one in files)


def test_every_folder_of_tests_is_explained() -> None:
    folders = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if any(path.glob("*.py"))}
    assert folders <= set(named(read(GUIDE)))


def test_targets_of_make_are_there_and_explained() -> None:
    makefile = read(ROOT / "Makefile")
    there = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    said = {name for page in PAGES for name in re.findall(r"`make ([a-z]+)`", read(page))} | {"install"}
    assert said <= there
    assert there - said <= {"demo", "fuzz", "wheel"}  # README.md and docs/fuzzing.md have these


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(page)):
            assert (page.parent / link).is_file(), f"{page.name}: {link}"


def test_the_tree_is_linked_where_a_newcomer_looks() -> None:
    assert "docs/start_here.md" in read(ROOT / "README.md") and "docs/start_here.md" in read(GUIDE)
    assert "CONTRIBUTING.md" in read(ROOT / "README.md")
    assert "../start_here" in read(ROOT / "docs" / "how-to" / "index.md").split()
