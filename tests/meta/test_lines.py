"""The draw of lines that a first-time reader judges: by seed, from all rooms, each with its place and the names around it."""

from __future__ import annotations

from pathlib import Path

from tests.lines import ROOT, code_lines, drawn, imports_of, room_of, sizes, sources
from tests.meta.source import needs_source

pytestmark = needs_source


def test_lines_are_drawn_by_seed_from_all_rooms() -> None:
    rooms = {room_of(path) for path in sources()}
    found = drawn(1, len(rooms))
    places = [place.split(":") for place, _, _ in found]
    assert len({room_of(ROOT / path) for path, _ in places}) > 25
    for (path, number), (_, _, text) in zip(places, found, strict=True):
        assert (ROOT / path).read_text(encoding="utf-8").split("\n")[int(number) - 1].strip() == text
    assert drawn(1, 3) == drawn(1, 3) != drawn(2, 3)


def test_a_line_has_the_names_around_it(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    head = "class Mesh:\n    rows: int\n\n    def route(\n        self, first: int\n    ) -> int:\n"
    file.write_text(
        f'"""A text\nof two lines = three."""\nimport ast\n{head}'
        "        # of nothing\n        return first + self.rows\n\n\nLIMIT = other + 1\n"
    )
    assert [(number, names) for number, names, _ in code_lines(file)] == [(11, ["Mesh", "route"]), (14, [])]
    assert imports_of(file) == 1


def test_sizes_count_the_package_and_the_core(tmp_path: Path) -> None:
    tree = {"kernbench/a.py": "import ast\n", "kernbench/b/c.py": "x = 1\ny = 2\n\n", "kernbench_core/d.pyx": ""}
    for place, text in tree.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    assert sizes(tmp_path) == [("kernbench", 2, 4, 2, 1), ("kernbench_core", 1, 0, 0, 0)]
