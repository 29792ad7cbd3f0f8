"""Workflows and pre-commit hooks call what there is: targets of the Makefile, scripts, the tools of `make lint`, pinned."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.meta.source import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="this is not a checkout of the repository")
#: What is run where: by each push, at night, by hand or a tag.
CALLED = {
    "tests": {"test"},
    "lint": {"lint", "types"},
    "docs": {"docs"},
    "nightly": {"nightly", "checked", "sanitize", "package"},
    "wheels": set(),
}


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    found["on"] = found.pop(True)  # YAML 1.1 takes `on` for a truth value
    return dict(found)


def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", makefile(), re.MULTILINE))


def commands(job: dict[str, Any]) -> Iterator[str]:
    """What the steps of a job run, for each entry of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step), step
        line = step.get("run", "")
        found = re.search(r"\$\{\{ matrix\.(\w+) \}\}", line)
        for value in matrix[found[1]] if found else [""]:
            yield line.replace(found[0], str(value)) if found else line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_what_is_there(path: Path) -> None:
    whole = read(path)
    assert whole["name"] == path.stem and whole["on"] and whole["permissions"] == {"contents": "read"}
    called = set()
    for job in whole["jobs"].values():
        assert job["timeout-minutes"] and job["runs-on"]
        for line in commands(job):
            called |= set(re.findall(r"\bmake ([\w-]+)", line))
            for script in re.findall(r"\bsh (\S+\.sh)", line):
                assert (ROOT / script).is_file(), script
    assert called <= targets()
    assert called == CALLED[path.stem]


def test_every_workflow_is_there() -> None:
    assert {path.stem for path in WORKFLOWS} == set(CALLED)
    assert {name for name in ("tests", "lint", "docs") if "push" in read(ROOT / f".github/workflows/{name}.yml")["on"]} == {
        "tests", "lint", "docs",
    }  # fmt: skip
    assert "schedule" in read(ROOT / ".github/workflows/nightly.yml")["on"]


def test_tests_run_on_every_python_that_has_wheels() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheels = [name.removeprefix("cp3").removesuffix("-*") for name in project["tool"]["cibuildwheel"]["build"]]
    tested = read(ROOT / ".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == [f"3.{minor}" for minor in wheels]
    assert project["project"]["requires-python"] == f">={tested[0]}"


def hooks() -> dict[str, dict[str, Any]]:
    whole = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    return {hook["id"]: hook for repo in whole["repos"] for hook in repo["hooks"]}


def test_hooks_are_the_tools_of_make_lint() -> None:
    """Each line of `make lint` is a hook that is pinned, known to pyproject.toml, and looks at the same folders."""
    lint = makefile().partition("\nlint:")[2].partition("\n\n")[0].splitlines()[1:]
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]["check"]
    known = {re.split("[>=]", one)[0] for one in checked}
    found = {}
    for line in lint:
        words = [word for word in shlex.split(line) if "PATH=" not in word]
        tool = Path(words[0].removeprefix("$(BIN)/")).name
        found[tool] = [word for word in words[1:] if word != "check"]
    assert set(hooks()) == set(found) <= known
    for name, hook in hooks().items():
        (pin,) = hook["additional_dependencies"]
        assert re.fullmatch(rf"{name}==[0-9.]+", pin)
        suffix = "pyx" if name == "cython-lint" else "py"
        for place in found[name]:
            file = place if place.endswith(".py") else f"{place}/inside/x.{suffix}"
            assert re.search(hook["files"], file), file
        assert not re.search(hook["files"], f"elsewhere/x.{suffix}")
