"""What a clean build costs: CPU of C compiler and Cython, libraries, native code. `python -m tests.speed.build_rows`.

The sources are copied to a temporary folder and built there as `pip install .` builds them. Times are CPU times: neither
other work nor the number of jobs counts. compiler_time.py runs the C compiler; the rest of the build is Cython and setuptools.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.speed.goals import Goal, goal_lines

ROOT = Path(__file__).parents[2]
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "kernbench_libraries.py")
SOURCES = (*FILES, "kernbench", "kernbench_core", "configs", "benches")
BUILT = shutil.ignore_patterns("*.so", "*.c", "*.pxi", "__pycache__")
GOAL_COMPILER_S, GOAL_NATIVE_MB = 60.0, 20.0
LISTED = 12  #: modules in the table


@dataclass(frozen=True)
class BuildRow:
    """One clean build."""

    compiler_s: float  #: CPU of the C compiler and the linker
    cython_s: float  #: CPU of Cython and setuptools
    libraries: int  #: one a room
    native_mb: float  #: [10^6 bytes] of the libraries that are installed
    modules: dict[str, float]  #: CPU of the C compiler of each, the longest first


def build_row() -> BuildRow:
    """A build of the sources as they stand, without ccache."""
    with tempfile.TemporaryDirectory() as folder:
        work, log = Path(folder, "kernbench"), Path(folder, "compiler.jsonl")
        work.mkdir()
        for name in SOURCES:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, work / name, ignore=BUILT)
            else:
                shutil.copy(source, work / name)
        compiler = os.environ.get("CC") or sysconfig.get_config_var("CC")
        timed = [sys.executable, "-S", "-E", str(Path(__file__).with_name("compiler_time.py")), str(log)]
        told = {**os.environ, "CC": f"{shlex.join(timed)} {compiler}", "CCACHE_DISABLE": "1", "PYTHONPATH": build_tools(folder)}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(Path(folder, "messages"), "w+", encoding="utf-8") as messages:
            command = [sys.executable, "setup.py", "-q", "build"]
            made = subprocess.run(command, cwd=work, env=told, stdout=messages, stderr=messages, check=False)
            messages.seek(0)
            if made.returncode:
                raise SystemExit(f"the build failed:\n{messages.read()}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        runs = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        built = list(work.glob("build/*/lib*/**/*.so"))
        compiler_s = sum(run["seconds"] for run in runs)
        native = sum(path.stat().st_size for path in built)
        return BuildRow(compiler_s, spent - compiler_s, len(built), native / 1e6, _by_module(runs))


def build_tools(folder: str) -> str:
    """Install what pyproject.toml requires for a build, as `pip install .` does; return the directory."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    tools = str(Path(folder, "tools"))
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", "install", *quiet, "--target", tools, *required], check=True)
    return tools


def _by_module(runs: list[dict[str, str | float]]) -> dict[str, float]:
    objects = {str(run["made"]): float(run["seconds"]) for run in runs if str(run["made"]).endswith(".o")}
    names = {made: ".".join(Path(made[made.index("kernbench") :]).with_suffix("").parts) for made in objects}
    return {names[made]: objects[made] for made in sorted(objects, key=lambda made: -objects[made])}


def build_table(row: BuildRow) -> str:
    """The row for a person: the sums, then the modules that take longest."""
    lines = [
        f"  {'C compiler and linker':44} {row.compiler_s:7.1f} s",
        f"  {'Cython and setuptools':44} {row.cython_s:7.1f} s",
        f"  {'native code':44} {row.native_mb:7.1f} MB",
        f"  {'libraries; modules':44} {row.libraries:5}; {len(row.modules)}",
        f"  the {LISTED} modules that take the C compiler longest:",
    ]
    longest = list(row.modules.items())[:LISTED]
    return "\n".join([*lines, *(f"    {name:42} {seconds:7.2f} s" for name, seconds in longest)])


def build_goals(row: BuildRow) -> list[Goal]:
    """The C compiler's time, and the size of what it makes."""
    return [
        Goal("clean build: CPU time of the C compiler and the linker", row.compiler_s, GOAL_COMPILER_S, "s"),
        Goal("clean build: native code", row.native_mb, GOAL_NATIVE_MB, "MB"),
    ]


if __name__ == "__main__":
    found = build_row()
    told = f"{build_table(found)}\n{goal_lines(build_goals(found))}"
    print(json.dumps(found.__dict__, indent=1) if "--json" in sys.argv[1:] else told)
