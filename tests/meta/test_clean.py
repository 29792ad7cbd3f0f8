"""`make clean` takes away what `.gitignore` names, and nothing that is in the repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.meta.source import ROOT

pytestmark = [
    pytest.mark.skipif(not (ROOT / ".gitignore").exists(), reason="this is not a checkout of the repository"),
    pytest.mark.skipif(shutil.which("make") is None, reason="there is no make"),
]
KEPT = ("kernbench/version.py", "kernbench_core/abi.h", "tests/contract/engines.c", "tests/speed/yardstick.c", "docs/conf.py")


def ignored() -> list[str]:
    """A path for each pattern of `.gitignore`."""
    made = []
    for pattern in (ROOT / ".gitignore").read_text(encoding="utf-8").split():
        if pattern.startswith("!"):
            continue
        name = pattern.strip("/").replace("*", "kernbench")
        if not pattern.endswith("/"):
            name = name if "/" in name else f"kernbench_core/model/{name}"
        elif name == "__pycache__":
            name = "tests/unit/__pycache__/x.pyc"
        else:
            name += "/inside/x.txt"
        made.append(name)
    return made


def test_clean_leaves_the_sources_alone(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (*KEPT, *ignored()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run(["make", "--silent", "clean"], cwd=tmp_path, check=True)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"Makefile", *KEPT}
