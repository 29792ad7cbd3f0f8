"""Builds the compiled core; everything else about the package is in pyproject.toml.

KERNBENCH_BUILD: `release` (default), `checked` (bounds checks in Cython), `sanitize` (AddressSanitizer and UBSan).
"""
import os
import runpy
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = os.environ.get("KERNBENCH_BUILD", "release")
FLAGS = {
    "release": ["-O3"],
    "checked": ["-O1", "-g"],
    "sanitize": ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
}
if BUILD not in FLAGS:
    raise SystemExit(f"KERNBENCH_BUILD={BUILD}: allowed are {', '.join(FLAGS)}")

CHECKED = BUILD != "release"
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "wraparound": False,
    "cdivision": True,          # C division: the core divides no negative numbers
    "initializedcheck": CHECKED,
    "embedsignature": True,
    "freethreading_compatible": True,
}
runpy.run_path("kernbench_core/state/field_table.py")["write_table"](Path("kernbench_core"))
sources = sorted(Path("kernbench_core").rglob("*.pyx"))
extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        include_dirs=["kernbench_core"],
        extra_compile_args=FLAGS[BUILD],
        extra_link_args=[f for f in FLAGS[BUILD] if f.startswith("-fsanitize")],
    )
    for path in sources
]
# What runs kernels: Python sources, each with a .pxd beside it that gives its classes types (docs/adr/0019-kernels.md).
COMPILED = {"language_level": 3, "annotation_typing": False, "freethreading_compatible": True}
# Under ASan they stay Python: kernels are greenlets, which copy the stack over the marks that ASan puts around its variables.
typed = [] if BUILD == "sanitize" else sorted(path.with_suffix(".py") for path in Path("kernbench").rglob("*.pxd"))
kernels = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        include_dirs=["kernbench_core"],
        extra_compile_args=FLAGS[BUILD],
        extra_link_args=[f for f in FLAGS[BUILD] if f.startswith("-fsanitize")],
    )
    for path in typed
]
workers = os.cpu_count() or 1
build = {"build_dir": f"build/cython-{BUILD}", "force": CHECKED, "nthreads": workers}
setup(
    ext_modules=[
        *cythonize(extensions, compiler_directives=DIRECTIVES, **build),
        *cythonize(kernels, compiler_directives=COMPILED, **build),
    ],
    options={"build": {"build_base": f"build/{BUILD}"}, "build_ext": {"parallel": workers}},
)
