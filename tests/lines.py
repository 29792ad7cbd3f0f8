"""`python -m tests.lines --seed 1`: draws lines of code from all rooms, for somebody who has not seen the code.

Whoever reads them for the first time says the subject of each from its path and names alone: at least twenty-one of twenty-four
should be guessable. Names that are not get a better one. `--sizes` prints the files, lines and imports of each room instead.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FEWEST_NAMES = 2  # of a line: a bracket or `return None` says nothing about any code
_NAMES = re.compile(r"[A-Za-z_]\w{2,}")
_KEYWORDS = frozenset({
    "None", "True", "False", "and", "cdef", "class", "cpdef", "def", "else", "except", "for", "from", "gil", "import", "inline",
    "int", "int64_t", "noexcept", "nogil", "not", "pass", "raise", "return", "self", "while", "with", "yield",
})  # fmt: skip
_HEAD = re.compile(r"^(\s*)(?:async\s+)?(?:def|class|cdef|cpdef|struct)\b[^=]*?(\w+)\s*[(:]")


def room_of(path: Path) -> str:
    """The folder below `kernbench` or `kernbench_core` that a file is in; the package itself for its own files."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def sources(root: Path = ROOT) -> list[Path]:
    """Python and Cython of the package and the core."""
    found = [path for top in ("kernbench", "kernbench_core") for path in (root / top).rglob("*")]
    return sorted(path for path in found if path.suffix in (".py", ".pyx") and path.is_file())


def code_lines(path: Path) -> Iterator[tuple[int, list[str], str]]:
    """(number, names of the functions and classes around it, text) of the lines that say something."""
    around: list[tuple[int, str]] = []
    quoted = False
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        line, marks = text.strip(), text.count('"""')
        if quoted or marks:
            quoted ^= marks % 2 == 1
            continue
        if not line or line.startswith(("#", "@", "import ", "from ", "cimport ")):
            continue
        depth = len(text) - len(text.lstrip())
        while around and around[-1][0] >= depth and not line.startswith((")", "]", "}")):  # which end a long head
            around.pop()
        head = _HEAD.match(text)
        names = set(_NAMES.findall(re.sub(r'"[^"]*"|#.*', "", line))) - _KEYWORDS
        if head is None and len(names) >= FEWEST_NAMES:
            yield number, [name for _, name in around], line
        if head is not None:
            around.append((depth, head[2]))


def drawn(seed: int, count: int) -> list[tuple[str, list[str], str]]:
    """So many lines, rooms in turn: a large room has no more of them than a small one."""
    chance = random.Random(seed)
    rooms: dict[str, list[Path]] = defaultdict(list)
    for path in sources():
        rooms[room_of(path)].append(path)
    found: list[tuple[str, list[str], str]] = []
    order: list[str] = []
    while len(found) < count:
        order = order or chance.sample(sorted(rooms), len(rooms))
        paths = rooms[order.pop()]
        (path,) = chance.choices(paths, [one.stat().st_size for one in paths])
        lines = list(code_lines(path))
        if lines:
            number, around, text = chance.choice(lines)
            found.append((f"{path.relative_to(ROOT)}:{number}", around, text))
    return found


def imports_of(path: Path) -> int:
    """Imports and cimports of a file, one for each module that is named."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".pyx":
        return len(re.findall(r"^\s*(?:from\s+[\w.]+\s+c?import|c?import)\s", text, re.MULTILINE))
    nodes = list(ast.walk(ast.parse(text)))
    return sum(len(node.names) if isinstance(node, ast.Import) else isinstance(node, ast.ImportFrom) for node in nodes)


def sizes(root: Path = ROOT) -> list[tuple[str, int, int, int, int]]:
    """(package, files, lines, median of lines, imports) of the package and the core."""
    rows = []
    for top in ("kernbench", "kernbench_core"):
        paths = [path for path in sources(root) if path.relative_to(root).parts[0] == top]
        lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in paths]
        rows.append((top, len(paths), sum(lines), round(statistics.median(lines)), sum(map(imports_of, paths))))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lines", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--sizes", metavar="FOLDER", nargs="?", const=ROOT, type=Path, help="count in a checkout")
    asked = parser.parse_args()
    if asked.sizes is not None:
        for top, files, lines, median, imports in sizes(asked.sizes.resolve()):
            print(f"{top}: {files:,} files, {lines:,} lines (median {median}), {imports:,} imports")
        return
    for number, (place, around, text) in enumerate(drawn(asked.seed, asked.count), 1):
        print(f"{number:2}. {place}  {'.'.join(around)}\n    {text}")


if __name__ == "__main__":
    main()
