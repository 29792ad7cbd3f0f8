"""`python -m tests.sentences --seed 1`: draws sentences from docs, help and errors for a first-time reader to judge.

Readability has no test by machine: whoever reads these sentences for the first time marks those that need a second reading,
and at most two of forty may. `--locations` prints where each sentence is. Two thirds of the sentences are from the docs.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS, HELP, ERRORS = "docs", "help", "errors"
SHARES = {DOCS: 26, HELP: 7, ERRORS: 7}  #: of forty
FEWEST_WORDS = 6  # of a sentence
_SKIPPED = re.compile(r"^(```|~~~|#|\||:::|---|!\[|<|\[.*\]: |\{)")
_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`\[]|(?:kernbench|kbsim)\b)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_EMPHASIS = re.compile(r"(`[^`]*`)|\*+(?=\S)|(?<=\S)\*+")  # the first group is code, which keeps its asterisks


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence of a page of Markdown, with the number of its line. Code, tables, headings and directives are left out."""
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
        elif not in_code and not _SKIPPED.match(line.strip()):
            item = re.sub(r"^\s*([-*]|\d+\.)\s+", "", line).strip()
            for one in _END.split(_EMPHASIS.sub(r"\1", _LINK.sub(r"\1", item))):
                if len(one.split()) >= FEWEST_WORDS:
                    yield number, one


def of_docs() -> list[tuple[str, str]]:
    """(location, sentence) of README, CONTRIBUTING and the pages of the documentation; without generated pages."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [file for file in files if not {"_build", "_generated"}.intersection(file.parts)]
    return [(f"{file.relative_to(ROOT)}:{line}", one) for file in pages for line, one in sentences(file.read_text("utf-8"))]


def of_help() -> list[tuple[str, str]]:
    """(command, sentence) of the help of every command, option and argument."""
    from kernbench.cli.command_tree import command_tree

    found = []
    for node in command_tree().walk():
        parameters = (*node.options, *node.arguments)
        texts = [("", node.help), *((one.names[0] if one.names else one.value, one.help) for one in parameters)]
        found += [(f"kbsim {node.path} {name}".strip(), one) for name, text in texts for _, one in sentences(text)]
    return list({sentence: (location, sentence) for location, sentence in found}.values())


def of_errors() -> list[tuple[str, str]]:
    """(golden file and line, message) of the errors that tests pin."""
    found = {}
    for file in (ROOT / "tests/cli/mistakes.txt", ROOT / "tests/golden/sweep_refusals.txt"):
        for number, line in enumerate(file.read_text("utf-8").split("\n"), 1):
            if line.startswith("error: ") and len(line.split()) >= FEWEST_WORDS:
                found.setdefault(line, f"{file.relative_to(ROOT)}:{number}")
    return [(location, line) for line, location in found.items()]


def draw(seed: int, count: int) -> list[tuple[str, str]]:
    """`count` random sentences in the proportions of SHARES, in random order."""
    generator = random.Random(seed)
    found: list[tuple[str, str]] = []
    for name, all_of in ((HELP, of_help), (ERRORS, of_errors)):
        found += generator.sample(all_of(), round(count * SHARES[name] / sum(SHARES.values())))
    found += generator.sample(of_docs(), count - len(found))
    generator.shuffle(found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sentences", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--locations", action="store_true", help="print where each sentence is")
    args = parser.parse_args()
    for number, (location, sentence) in enumerate(draw(args.seed, args.count), 1):
        print(f"{number:2}. {sentence}" + (f"\n    {location}" if args.locations else ""))


if __name__ == "__main__":
    main()
