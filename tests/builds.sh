#!/bin/sh
# Runs the suite, or a command of Python, on another build of the core: `checked` (Cython bounds checks) or `sanitize`
# (AddressSanitizer and UBSan).
# usage: tests/builds.sh BUILD PYTHON [-m MODULE ARGUMENT...]
set -eu
build=$1
python=$2
shift 2
test $# -gt 0 || set -- -m pytest -p no:cacheprovider -n 2 --ignore=tests/speed --ignore=tests/browser tests
home=build/env-$build
test -x "$home/bin/python" || "$python" -m venv "$home"
# A folder is built and installed anew each time, whatever version is there.
KERNBENCH_BUILD=$build "$home/bin/python" -m pip install --quiet --disable-pip-version-check '.[test]'
work=$home/suite
rm -rf "$work"
mkdir -p "$work"
cp -r tests docs configs benches README.md pyproject.toml "$work"
# The tests look for ../shared beside the repository: keep that place for the copy.
test -e "$home/shared" || test ! -e ../shared || ln -s "$(cd ../shared && pwd)" "$home/shared"
cd "$work"
if [ "$build" = sanitize ]; then
    runtime="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)"
    # Small objects of Python come from libc too, where they are watched; long stacks of every malloc are not needed. CPython leaks
    # by design at exit.
    export LD_PRELOAD="$runtime" PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0:malloc_context_size=4:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
fi
exec "../../../$home/bin/python" "$@"
