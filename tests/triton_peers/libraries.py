"""`python -m tests.triton_peers.libraries FOLDER [LIBRARY ...]`: test files of libraries of Triton kernels, at small sizes.

FOLDER has the checkouts, each under the name of its library in `libraries.toml`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from tests.triton_peers.outcomes import ORDER, PASSED, SKIPPED
from tests.triton_peers.run import NothingRan, outcomes_of, print_table

CHECKS = Path(__file__).with_name("checks")
RECIPES = Path(__file__).with_name("libraries.toml")


def recipes() -> dict[str, dict[str, Any]]:
    """What is run of each library."""
    return tomllib.loads(RECIPES.read_text(encoding="utf-8"))


def change_words(checkout: Path, words: list[list[str]]) -> None:
    """Replace the names of devices in files of a checkout, once: tensors stay on the host here."""
    for pattern, was, now in words:
        for path in sorted(checkout.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            if was in text.replace(now, ""):
                path.write_text(text.replace(was, now), encoding="utf-8")
                print(f"{path}: {was!r} became {now!r}", file=sys.stderr)


def _path(below: Path, name: str) -> Path:
    return CHECKS / name if name.startswith("check_") else below / name


def _run(
    asked: argparse.Namespace, library: str, recipe: dict[str, Any], files: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """The outcomes of files of a library, which run in one process."""
    checkout = asked.folder / library
    change_words(checkout, recipe.get("words", []))
    sizes = recipe.get("sizes", {})
    settings = {
        "sizes": json.dumps({Path(name).name: {**sizes, **more.get("sizes", {})} for name, more in files.items()}),
        "tests": json.dumps({Path(name).name: more["tests"] for name, more in files.items() if "tests" in more}),
        "without": json.dumps({Path(name).name: more["without"] for name, more in files.items() if "without" in more}),
        "each": recipe.get("each", 0) if asked.each is None else asked.each,
        "tune": 0, "seed": asked.seed, "limit": asked.limit,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as installed:
        for distribution, version in recipe.get("distributions", {}).items():
            folder = Path(installed) / f"{distribution}-{version}.dist-info"
            folder.mkdir()
            text = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
            (folder / "METADATA").write_text(text, encoding="utf-8")
        return outcomes_of(
            checkout, [_path(checkout / recipe["below"], name) for name in files], settings, chosen=asked.chosen,
            seconds=asked.seconds, paths=[Path(installed), *(checkout.resolve() / one for one in recipe["paths"])],
            environment=recipe.get("environment", {}),
        )  # fmt: skip


def main() -> int:
    """Exit code 1 if a case has a wrong number."""
    parser = argparse.ArgumentParser(prog="python -m tests.triton_peers.libraries", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the checkouts")
    parser.add_argument("libraries", nargs="*", help=f"which (default: {', '.join(recipes())})")
    parser.add_argument("--file", action="append", default=[], help="only this test file; can be given more than once")
    parser.add_argument("-k", dest="chosen", default="", help="cases by name, as in pytest")
    parser.add_argument("--each", type=int, help="how many cases of each test (default: as the recipe says; 0: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of cases")
    parser.add_argument("--limit", type=int, default=60, help="[s] of CPU that a case may take")
    parser.add_argument("--seconds", type=int, help="stop a library after so many seconds, and count the cases before that")
    parser.add_argument("--cases", action="store_true", help="print each case that does not pass, with its message")
    asked = parser.parse_intermixed_args()
    rows: list[tuple[Any, ...]] = []
    lines: list[dict[str, Any]] = []
    for library, recipe in recipes().items():
        files = {name: more for name, more in recipe["files"].items() if not asked.file or name in asked.file}
        if not files or (asked.libraries and library not in asked.libraries):
            continue
        try:
            found = _run(asked, library, recipe, files)
        except NothingRan as nothing:
            print(nothing, file=sys.stderr)
            continue
        for name in files:
            ours = [one for one in found if one["file"] == Path(name).name]
            counts = Counter(one["outcome"] for one in ours)
            launches, cycles = (sum(one[what] for one in ours) for what in ("launches", "cycles"))
            rows.append((f"{library} {name}", len(ours), *(counts[one] for one in ORDER), launches, cycles))
        lines += [one for one in found if one["outcome"] not in (PASSED, SKIPPED)]
    print_table(("file", "cases", *ORDER, "launches", "cycles"), rows)
    reasons = Counter((one["file"], one["outcome"], one["error"], one["shape"]) for one in lines)
    for (file, outcome, error, shape), count in reasons.most_common():
        print(f"{count:6}  {file}: {outcome}: {error}: {shape}")
    if asked.cases:
        for one in lines:
            print(f"{one['case']}\n    {one['outcome']} ({one['seconds']} s) {one['error']}: {one['text']}")
    return int(any(one["outcome"] == "wrong number" for one in lines))


if __name__ == "__main__":
    sys.exit(main())
