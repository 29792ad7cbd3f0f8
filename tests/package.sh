#!/bin/sh
# Builds sdist and wheel, installs each into an empty environment, and runs the command line from an empty directory.
# usage: tests/package.sh PYTHON
set -eu
python=$1
here=$(pwd)
work=$here/build/package
rm -rf "$work"
mkdir -p "$work/empty"
.venv/bin/python -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
for package in "$work"/dist/*.whl "$work"/dist/*.tar.gz; do
    rm -rf "$work/env"
    "$python" -m venv "$work/env"
    "$work/env/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
    (
        cd "$work/empty"
        "$work/env/bin/kbsim" --version
        "$work/env/bin/kbsim" run llama2-7b-decode --config npu_server --json >run.json
        "$work/env/bin/python" - <<'CHECK'
import json
from importlib.resources import files

import kernbench
import kernbench_core

assert json.load(open("run.json"))["status"] == "done"
for package, name in [
    ("kernbench", "py.typed"), ("kernbench_core", "py.typed"), ("kernbench_core", "core.pyi"),
    ("kernbench_core", "types.pxd"), ("kernbench.trace", "report/page.html"), ("kernbench.configs", "npu_mobile.yaml"), ("kernbench.benches", "__init__.py"),
]:
    assert files(package).joinpath(name).is_file(), (package, name)
print("package works:", kernbench.__version__, kernbench_core.STATE)
CHECK
    )
done
