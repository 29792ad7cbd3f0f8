"""Mistakes as people make them: the whole answer is pinned, and it names what to type or write next.

`mistakes.yaml` has the mistakes. `KB_REGOLD=1 pytest tests/cli/test_mistakes.py` writes `mistakes.txt`, which is read then.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import kernbench as kb
import kernbench.pytest
from kernbench.common.errors import InputError
from tests.cli.conftest import Kbsim
from tests.cli.samples import MACHINE

HERE = Path(__file__).parent
GOLDEN = HERE / "mistakes.txt"
MISTAKES = {one["mistake"]: one for one in yaml.safe_load((HERE / "mistakes.yaml").read_text(encoding="utf-8"))}
ALLOWED = {"mistake", "wants", "types", "python", "next", "files"}
GRID = """\
schema: kernbench/sweep/1
name: grid
targets: [{program: tiles.json}]
machine: small.yaml
axes: {dram.channels: [1, 2]}
"""


def pinned() -> dict[str, str]:
    """The answers by mistake."""
    text = GOLDEN.read_text(encoding="utf-8") if GOLDEN.exists() else ""
    return dict(re.findall(r"^## (\w+): [^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def pin(name: str, answer: str) -> None:
    """Write the answer of one mistake."""
    told = {**pinned(), name: answer}
    parts = [f"## {one}: {MISTAKES[one]['wants']}\n{told[one]}" for one in MISTAKES if one in told]
    GOLDEN.write_text("".join(parts), encoding="utf-8")


def prepare(files: dict[str, str], uses: str, kbsim: Kbsim) -> None:
    """The files that a mistake needs."""
    Path("my_npu.yaml").write_text(MACHINE, encoding="utf-8")
    Path("grid.yaml").write_text(GRID, encoding="utf-8")
    if "run.jsonl" in uses or "run.json" in uses:
        assert kbsim("run", "tiles.json", "-c", "small.yaml", "-q", "--trace", "run.jsonl").code == 0
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        if text == "RESULT":
            assert kbsim("run", "tiles.json", "-c", "small.yaml", "-q", "-o", name).code == 0
        else:
            Path(name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", MISTAKES)
def test_the_answer_says_what_to_do_next(name: str, kbsim: Kbsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    mistake: dict[str, Any] = MISTAKES[name]
    prepare(mistake.get("files", {}), mistake.get("types", ""), kbsim)
    if "types" in mistake:
        said = kbsim(*shlex.split(mistake["types"]))
        code, text = said.code, (said.out + said.err).replace(str(tmp_path), ".")
        text = re.sub(r"^ +[~^]+\n", "", text, flags=re.MULTILINE)  # that stand below a line of a traceback by some Pythons
        answer = f"$ kbsim {mistake['types']}   # exit code {code}\n{text}"
        assert code not in (0, 1, 70)
    else:
        with pytest.raises((InputError, AttributeError)) as caught:
            eval(mistake["python"], {"kb": kb, "kbp": kernbench.pytest})
        text = str(caught.value)
        answer = f">>> {mistake['python']}\n{caught.type.__name__}: {text}\n"
    assert mistake["next"] in text
    if os.environ.get("KB_REGOLD") == "1":
        pin(name, f"{answer}\n")
    assert f"{answer}\n" == pinned()[name]


def test_a_script_that_imports_triton_is_run_by_kbsim_triton(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("k.py").write_text("import triton\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "triton", None)  # as where it is not installed, and not replaced by kernbench
    said = kbsim("run", "k.py")
    assert said.code == 2 and "k.py:1: " in said.err
    assert said.err.endswith("; kbsim triton k.py runs a script that imports triton\n")


def test_every_mistake_is_complete_and_every_answer_has_one() -> None:
    assert list(pinned()) == list(MISTAKES) and len(MISTAKES) >= 60
    for one in MISTAKES.values():
        assert set(one) <= ALLOWED and one["wants"] and ("types" in one) != ("python" in one)


@pytest.mark.parametrize("name", MISTAKES)
def test_many_problems_of_one_kind_are_one(name: str) -> None:
    """No two lines of an answer differ in values and places alone."""
    lines = [re.sub(r"[0-9]+|\"[^\"]*\"", "N", line) for line in pinned()[name].split("\n") if line.startswith("error: ")]
    assert len(lines) == len(set(lines))
