"""The workflow of docs/ci: its steps are run as GitHub would, with what is of GitHub alone stood in for."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.cli.samples import write_samples
from tests.forked import Forked
from tests.meta.source import ROOT
from tests.sweep_samples import SPEC

WORKFLOW = ROOT / "docs" / "ci" / "sweep.yml"
pytestmark = pytest.mark.skipif(not WORKFLOW.exists(), reason="the documentation is not in this source tree")
#: Actions that the test does itself: the checkout, Python, and files that pass from job to job.
ACTIONS = {
    "actions/checkout@v4", "actions/setup-python@v5", "actions/upload-artifact@v4", "actions/download-artifact@v4",
    "actions/cache/restore@v4", "actions/cache/save@v4",
}  # fmt: skip


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return found


def steps(job: str, values: dict[str, str], event: str) -> list[tuple[str, str]]:
    """(name, command) of the steps that an event runs, expressions filled in."""
    found = []
    for step in jobs()[job]["steps"]:
        if "uses" in step:
            assert step["uses"] in ACTIONS
            continue
        condition = str(step.get("if", ""))
        if "github.event_name ==" in condition and f"'{event}'" not in condition:
            continue
        command = re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda match: values[match[1]], step["run"])
        found.append((step["name"], command))
    return found


#: Hands the arguments to the test through a pipe; what the forked child printed is then in two files.
KBSIM = """\
here=$(dirname "$0")
printf '%s\\0' "$PWD" "$@" > "$here/asked"
read -r code < "$here/code"
cat "$here/out"
cat "$here/err" >&2
exit "$code"
"""


@contextmanager
def commands(folder: Path) -> Iterator[None]:
    """Commands of the steps, in `bin`. `gh` and `pip` do nothing. `kbsim` runs in forked children, which start at once."""
    bin_ = folder / "bin"
    bin_.mkdir()
    for name, text in (("pip", "exit 0\n"), ("gh", 'cat "${@: -1}" > posted.md\n'), ("kbsim", KBSIM)):
        (bin_ / name).write_text(f"#!/bin/bash\n{text}", encoding="utf-8")
        (bin_ / name).chmod(0o755)
    for name in ("asked", "code"):
        os.mkfifo(bin_ / name)

    def serve() -> None:
        with Forked() as forked:
            while asked := (bin_ / "asked").read_text(encoding="utf-8"):
                place, *arguments = asked.removesuffix("\0").split("\0")
                ended = forked.kbsim(*arguments, folder=Path(place), seconds=300, teardown=False)
                (bin_ / "out").write_text(ended.out, encoding="utf-8")
                (bin_ / "err").write_text(ended.err, encoding="utf-8")
                (bin_ / "code").write_text(f"{ended.code}\n", encoding="utf-8")

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    try:
        yield
    finally:
        os.close(os.open(bin_ / "asked", os.O_RDWR))  # it reads nothing and ends; this waits for no reader
        server.join(60)


def do(command: str, folder: Path) -> int:
    """Run a step's command by bash, as GitHub does."""
    bin_ = folder / "bin"
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=folder, env=environment, timeout=300).returncode


def run_workflow(folder: Path, event: str) -> dict[str, int]:
    """All steps of an event, in order, in one folder; how each ended."""
    ended = {}
    for shard in jobs()["shard"]["strategy"]["matrix"]["shard"]:
        for name, command in steps("shard", {"matrix.shard": str(shard)}, event):
            ended[f"{name} {shard}"] = do(command, folder)
    values = {"github.event.number": "7", "github.repository": "example/example"}
    for name, command in steps("compare", values, event):
        ended[name] = do(command, folder)
    return ended


def test_the_workflow_runs(tmp_path: Path) -> None:
    """A push makes the base; a change that is slower fails, with a comment that says what."""
    write_samples(tmp_path)
    (tmp_path / "sweeps").mkdir()
    for name in ("tiles.json", "small.yaml"):
        (tmp_path / name).rename(tmp_path / "sweeps" / name)
    spec = tmp_path / "sweeps" / "ci.yaml"
    spec.write_text(SPEC, encoding="utf-8")
    with commands(tmp_path):
        push_and_ask(tmp_path, spec)


def push_and_ask(tmp_path: Path, spec: Path) -> None:
    pushed = run_workflow(tmp_path, "push")
    assert set(pushed.values()) == {0} and {"run 1", "run 4", "merge", "report", "base"} <= set(pushed)
    assert (tmp_path / "sweep.html").exists() and (tmp_path / "base.sqlite").exists()
    spec.write_text(SPEC + "set: {ve.lanes: 16}\n", encoding="utf-8")
    for file in tmp_path.glob("shard-*.sqlite"):
        file.unlink()
    (tmp_path / "new.sqlite").unlink()
    asked = run_workflow(tmp_path, "pull_request")
    assert {name for name, code in asked.items() if code} == {"compare"} and asked["compare"] == 1
    posted = (tmp_path / "posted.md").read_text(encoding="utf-8")
    assert posted.startswith("### Sweep ci: 6 points compared") and "above the limit of 2%" in posted
    assert "<testsuites" in (tmp_path / "sweep.xml").read_text(encoding="utf-8")


class OneJob:
    """In the place of `SLURMCluster`: dask-jobqueue is not needed here, and there is no SLURM."""

    scheduler_address = "tcp://login:7"
    made: list[dict[str, Any]] = []

    def __init__(self, **given: Any) -> None:
        self.made.append(given)

    def __enter__(self) -> OneJob:
        return self

    def __exit__(self, *error: object) -> None:
        self.made[-1]["ended"] = True

    def scale(self, n: int) -> None:
        self.made[-1]["workers"] = n


def test_the_script_for_slurm_starts_a_cluster_and_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=OneJob))
    monkeypatch.setattr(signal, "pause", lambda: None)
    monkeypatch.setattr(sys, "argv", ["slurm.py", "--workers", "64", "--queue", "short", "--port", "7"])
    runpy.run_path(str(ROOT / "docs" / "ci" / "slurm.py"), run_name="__main__")
    (made,) = OneJob.made
    assert (made["workers"], made["queue"], made["scheduler_options"], made["ended"]) == (64, "short", {"port": 7}, True)
    assert "export PYTHONSAFEPATH=1" in made["job_script_prologue"] and capsys.readouterr().out == "tcp://login:7\n"
