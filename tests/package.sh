#!/bin/sh
# Installs each package into an empty environment, without extras, and runs it from an empty directory; without a package, wheel and
# sdist are built first. `make wheel` names its own. Then README and tutorials are run in the environment of the last one, at 80 and
# at 160 columns, and the consumer of tests/consumer is checked against its types.
# usage: tests/package.sh PYTHON [PACKAGE...]
set -eu
python=$1
shift
here=$(pwd)
work=$here/build/package
rm -rf "$work"
mkdir -p "$work/empty"
if [ $# -eq 0 ]; then
    .venv/bin/python -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
    set -- "$work"/dist/*.whl "$work"/dist/*.tar.gz
fi
for package in "$@"; do
    rm -rf "$work/env"
    "$python" -m venv "$work/env"
    "$work/env/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
    (
        cd "$work/empty"
        "$work/env/bin/kbsim" --version
        "$work/env/bin/kbsim" run llama2-7b-decode --config npu_server --json >run.json
        "$work/env/bin/kbsim" run tp_mlp --verify --json >bench.json
        "$work/env/bin/python" - <<'CHECK'
import json
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.resources import files

import kernbench
import kernbench.triton_emu.kernel_runner
import kernbench_core
import kernbench_core.model.loop

assert json.load(open("run.json"))["status"] == "done"
for package, name in [
    ("kernbench", "py.typed"), ("kernbench_core", "py.typed"), ("kernbench_core", "core.pyi"),
    ("kernbench_core", "types.pxd"), ("kernbench.trace", "report/page.html"), ("kernbench.configs", "npu_mobile.yaml"), ("kernbench.benches", "__init__.py"),
]:
    assert files(package).joinpath(name).is_file(), (package, name)
for module in (kernbench_core.model.loop, kernbench.triton_emu.kernel_runner):
    assert module.__file__.endswith("_compiled" + EXTENSION_SUFFIXES[0]), module.__file__
print("package works:", kernbench.__version__, kernbench_core.STATE)
CHECK
    )
done
rm -rf "$work/pages"
mkdir -p "$work/pages/tests/docs"
cp -r README.md docs "$work/pages"
cp tests/docs/examples.py "$work/pages/tests/docs"
(cd "$work/empty" && "$work/env/bin/python" "$work/pages/tests/docs/examples.py" --plain)
# Outside the folder of the tests, whose parent mypy would search first: the types are those of the installed package.
rm -rf "$work/consumer"
cp -r tests/consumer "$work/consumer"
mypy="$here/.venv/bin/python -m mypy"
(cd "$work/consumer" && $mypy --strict --config-file= --python-executable "$work/env/bin/python" .)
