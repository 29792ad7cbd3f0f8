"""Specs that are refused, and what is said of them: `sweep_refusals.txt`.

    python -m tests.golden.test_sweep_refusals   writes it again

A case is the lines of a spec, each behind `> `, below HEAD; then what is said.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.sweep.points import points_of
from kernbench.sweep.spec.load import load_spec
from tests.sweep_samples import write_spec

HEAD = "schema: kernbench/sweep/1\ntargets: [tiles.json]\nmachine: small.yaml\n"
FILE = Path(__file__).with_name("sweep_refusals.txt")


def cases() -> list[tuple[str, str]]:
    """(spec, what is said), in order."""
    found = []
    for block in FILE.read_text(encoding="utf-8").rstrip("\n").split("\n\n"):
        lines = block.split("\n")
        spec = [line[2:] for line in lines if line.startswith("> ")]
        found.append(("\n".join(spec), "\n".join(lines[len(spec) :])))
    return found


def said_of(folder: Path, text: str) -> str:
    """What is said of a spec, without the folder."""
    path = write_spec(folder, f"{HEAD}{text}\n")
    with pytest.raises(InputError) as refused:
        points_of(load_spec(path))
    return str(refused.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(("text", "said"), cases(), ids=[text for text, _ in cases()])
def test_a_wrong_spec_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    assert said_of(tmp_path, text) == said


if __name__ == "__main__":
    made = []
    for text, _ in cases():
        with tempfile.TemporaryDirectory() as folder:
            spec = "\n".join(f"> {line}" for line in text.split("\n"))
            made.append(f"{spec}\n{said_of(Path(folder), text)}\n")
    FILE.write_text("\n".join(made), encoding="utf-8")
