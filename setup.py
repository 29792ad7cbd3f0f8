"""Builds the compiled core and what runs kernels; everything else about the package is in pyproject.toml.

KERNBENCH_BUILD: `release` (default), `profile` (the same with symbols and lines, for perf and callgrind), `checked` (bounds
checks in Cython), `sanitize` (AddressSanitizer and UBSan). docs/adr/0038-what-is-compiled.md says what is compiled, and how.
"""
import gc
import os
import runpy
import subprocess
import sys
import sysconfig
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from Cython.Build import cythonize
from Cython.Build.Dependencies import create_dependency_tree
from Cython.Compiler import Main, Nodes
from Cython.Compiler.Scanning import FileSourceDescriptor
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

BUILD = os.environ.get("KERNBENCH_BUILD", "release")
#: The compiler's flags, behind those of Python's own build, which ask for -O3, debug info and warnings. Functions begin on a
#: line of the cache, so that a tick costs the same wherever the linker puts them (docs/adr/0038-what-is-compiled.md). Warnings
#: take a tenth of the compiler's time: a checked build has them.
FLAGS = {
    "release": ["-g0", "-falign-functions=64", "-Wno-all", "-Wno-sign-compare"],
    "profile": ["-g1", "-falign-functions=64", "-Wno-all", "-Wno-sign-compare"],
    "checked": ["-O1", "-g"],
    "sanitize": ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
}
if BUILD not in FLAGS:
    raise SystemExit(f"KERNBENCH_BUILD={BUILD}: allowed are {', '.join(FLAGS)}")

#: What all C from Cython includes, some of it only for some versions of Python.
HEADERS = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <compile.h>
#include <frameobject.h>
#include <math.h>
#include <pythread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <traceback.h>
"""
#: Code that Cython runs once, when a module is imported, is not optimised. Strings are not compressed: each module would
#: contain the code that decompresses its strings.
ONCE = [("CYTHON_SMALL_CODE", '__attribute__((cold, optimize("O0")))'), ("CYTHON_COMPRESS_STRINGS", "0")]
CHECKED = BUILD in ("checked", "sanitize")
LINKED = [flag for flag in FLAGS[BUILD] if flag.startswith("-fsanitize")]
if BUILD == "release" and sys.platform == "linux":
    LINKED.append("-Wl,--strip-all")

#: Modules of the core, or packages, that run in every cycle, of every request or of every traced event.
HOT = (
    "model",
    "plugin.component", "plugin.component_api", "plugin.component_jobs", "plugin.component_flows", "plugin.pycomponent",
    "trace.record_order", "trace.record", "trace.record_block", "trace.record_requests",
    "standalone.flit_load",
)
#: Those of them whose loops the compiler unrolls or turns into SIMD code.
UNROLLED = ("fast", "trace.format")
#: Those whose time is that of the Python that they call, or of the text that they write.
COLD = (
    "_cython", "core", "fast.threads", "model.routes", "plugin.plugged_arbiter", "plugin.pyarbiter",
    "plugin.traced_commands", "trace.samples",
)
#: Those that lay tables out, write snapshots or check them, once a run, and engines and channels by themselves, for tests: not
#: optimised, which takes the compiler a third less.
ONCE_A_RUN = ("fast.group_layout", "plugin.plug_layout", "standalone", "state", "types")
#: Phase 2, memories and math, whose time is numpy's, or that of calls of Python: compiled, they cost less beside it,
#: but how well they are compiled cannot be measured.
COLD_KERNELS = (
    "common", "components.builtin.pe_math",
    "sim_engine.memory.keys", "sim_engine.memory.ranges", "sim_engine.memory.space", "sim_engine.ops.ranges",
    "sim_engine.replay.order", "sim_engine.replay.stages",
    "triton_emu.tl.math",
)
#: What is read byte by byte, and what each load, product and message of a kernel runs through: small functions are inlined.
HOT_KERNELS = (
    "trace.laws.scan",
    "ccl.pipeline", "common.handles", "common.pe_ops", "common.queue_ops", "components",
    "sim_engine.memory_store", "sim_engine.op_log", "sim_engine.ops.info", "sim_engine.ops.params",
    "triton_emu",
)
LEVEL = {
    **{f"kernbench_core.{name}": "-O3" for name in UNROLLED},
    **{f"kernbench_core.{name}": "-O2" for name in HOT},
    **{f"kernbench_core.{name}": "-Og" for name in COLD},
    **{f"kernbench_core.{name}": "-O0" for name in ONCE_A_RUN},
    **{f"kernbench.{name}": "-Og" for name in COLD_KERNELS},
    **{f"kernbench.{name}": "-O2" for name in HOT_KERNELS},
}
ALL = {"language_level": 3, "freethreading_compatible": True, "auto_pickle": False, "emit_code_comments": CHECKED}
CORE = ALL | {
    "boundscheck": CHECKED,
    "wraparound": False,
    "cdivision": True,          # C division: the core divides no negative numbers
    "initializedcheck": CHECKED,
    "embedsignature": True,
}
KERNELS = ALL | {"annotation_typing": False}


def level(module: str) -> str:
    """How much is optimised: what is said of the module or of a package that it is in, else -O1."""
    found = [name for name in LEVEL if f"{module}.".startswith(f"{name}.")]
    return LEVEL[max(found, key=len)] if found else "-O1"


def library(module: str) -> str:
    """That of its package; a room of the core, with the packages inside, has one."""
    parts = module.split(".")[:-1]
    return ".".join((*(parts[:2] if parts[0] == "kernbench_core" else parts), "_compiled"))


class Libraries(build_ext):
    """Translates with Cython; compiles modules one by one, each with its own flags where it is older than its C; links rooms.

    pip runs this file twice before it builds, to ask what the build needs and what the package is: that translates nothing.
    """

    def build_extensions(self) -> None:
        made = translated(core, "kernbench_core._cython", CORE, without=["MemoryView"])     # arrays.pxd gives pointers
        if kernels:
            made += translated(kernels, "kernbench.common._cython", KERNELS, without=["MemoryView"])
        DIRECTIVES.write_text(f"{CORE}\n{KERNELS}\n", encoding="ascii")
        if CHECKED:
            sources = {module.name: module.sources for module in made}
            for module in self.extensions:
                module.sources = sources[module.name]
        else:
            options = self.precompiled({module.extra_compile_args[-1] for module in made})
            with ThreadPoolExecutor(WORKERS) as pool:
                objects = list(pool.map(partial(self.compiled, options), made))
            for room in self.extensions:
                mine = zip(made, objects, strict=True)
                room.extra_objects = [object_file for module, object_file in mine if library(module.name) == room.name]
                room.depends = room.extra_objects
        super().build_extensions()

    def precompiled(self, levels: set[str]) -> dict[str, list[str]]:
        """Options of GCC for each level, by which it reads the headers of all C from Cython as it has parsed them once.

        That saves a third of the time that a small module takes. Other compilers read the headers themselves. A level has a
        folder of its own: GCC would take what was parsed at another one, and with it the other level.
        """
        command = self.compiler.compiler_so
        defined = subprocess.run([*command, "-dM", "-E", "-xc", os.devnull], capture_output=True, text=True, check=False).stdout
        if "__GNUC__" not in defined or "__clang__" in defined:
            return {level: [] for level in levels}
        options = {}
        for level in sorted(levels):
            header = Path(self.build_temp, f"headers{level}", "headers.h")
            parsed = header.with_suffix(".h.gch")
            if self.force or newer_group(["setup.py", os.path.join(sysconfig.get_path("include"), "pyconfig.h")], str(parsed)):
                header.parent.mkdir(parents=True, exist_ok=True)
                header.write_text(HEADERS, encoding="ascii")
                told = [*(f"-I{folder}" for folder in self.include_dirs), *FLAGS[BUILD], level, "-xc-header", str(header)]
                subprocess.run([*command, *told, "-o", str(parsed)], check=True)
            options[level] = ["-include", str(header)]
        return options

    def compiled(self, options: dict[str, list[str]], module: Extension) -> str:
        """The object file of one module; `options`: more of them for the compiler, for each level."""
        (made,) = self.compiler.object_filenames(module.sources, output_dir=self.build_temp)
        flags = [*options[module.extra_compile_args[-1]], *module.extra_compile_args]
        record, text = Path(f"{made}.flags"), f"{flags}\n"
        if self.force or newer_group([*module.sources, *module.depends], made, "newer") or differs(record, text):
            self.compiler.compile(
                module.sources,
                output_dir=self.build_temp,
                macros=module.define_macros,
                include_dirs=module.include_dirs,
                extra_postargs=flags,
                depends=module.depends,
            )
        record.write_text(text, encoding="ascii")
        return made


def differs(record: Path, text: str) -> bool:
    """Something was made with something else than `text`, by its record."""
    return record.exists() and record.read_text(encoding="ascii") != text


class ByName(dict):
    """Goes over its items in the order of their names."""

    def items(self):
        return sorted(super().items())


class ParsedOnce:
    """Cython's `compile_single`, which parses a .pxd and all that it cimports once a process instead of once a module.

    Translating a module changes what was parsed for it, so Cython parses all .pxd files again for the next one. Here each
    module that cimports all of them is translated by a process that is forked for it, and its changes end with that process.
    """

    def __init__(self, pxd: str) -> None:
        self.pxd, self.module = pxd, ".".join(Path(pxd).with_suffix("").parts)
        self.translate = Main.compile_single
        self.warm = False       # Cython has read its own templates, for the first module
        self.parsed = None      # Cython's context

    def __call__(self, source, options, full_module_name, cache=None, context=None, fingerprint=None):
        needs = create_dependency_tree().all_dependencies
        if not (self.warm and hasattr(os, "fork") and needs(self.pxd) <= needs(source)):
            self.warm = True
            return self.translate(source, options, full_module_name, context=self.empty(options))
        if self.parsed is None:
            self.parsed = self.empty(options)
            self.parsed.setup_errors(options, None)
            self.parsed.find_module(self.module, pos=(FileSourceDescriptor(self.pxd), 1, 0))
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            return SimpleNamespace(num_errors=abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        status = 1
        try:
            status = int(self.translate(source, options, full_module_name, context=self.parsed).num_errors > 0)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    @staticmethod
    def empty(options):
        """A context. The order of inline functions in C does not depend on the order in which .pxd files were parsed."""
        context = Main.Context.from_options(options)
        context.pxds = ByName()
        return context


def with_directives_of_pxd(declare):
    """Cython's declaration of a class, but a class keeps the directives that the .pxd beside its .py file gives it.

    Cython takes only those of the .py file, which would have to import `cython` for them.
    """

    def declared(node, env) -> None:
        known = env.lookup_here(node.class_name)
        before = known.type.scope.directives if known and known.is_type and known.type.scope else {}
        declare(node, env)
        scope = node.entry.type.scope
        scope.directives = scope.directives | {name: before[name] for name in ("no_gc", "freelist") if before.get(name)}

    return declared


def rooms(names: list[str]) -> list[Extension]:
    """A library for each room, still without the objects of its modules; the lists of them are written."""
    found = [(library(name), name.rpartition(".")[2]) for name in names]
    twice = sorted({f"{room}: {name}" for room, name in found if found.count((room, name)) > 1})
    if twice:
        raise SystemExit(f"setup.py: two modules of one name in a library, rename one: {', '.join(twice)}")
    for package in ("kernbench", "kernbench_core"):
        listed = [f"{name} {library(name)}\n" for name in names if name.startswith(f"{package}.")]
        Path(package, "compiled.txt").write_text("".join(listed), encoding="ascii")
    return [Extension(name, [], extra_link_args=LINKED) for name in sorted({room for room, _ in found})]


def extensions(sources: list[Path], shared: str) -> list[Extension]:
    """One for each source, and `shared`: what all of them need of Cython, compiled once instead of in each."""
    names = {".".join(path.with_suffix("").parts): path for path in sources}
    names[shared] = Path(*shared.split(".")).with_suffix(".c")
    return [
        Extension(
            name,
            [str(path)],
            define_macros=[] if CHECKED else ONCE,
            include_dirs=["kernbench_core"],
            depends=["setup.py"] if CHECKED else [],
            extra_compile_args=FLAGS[BUILD] + ([] if CHECKED else [level(name)]),
            extra_link_args=LINKED,
        )
        for name, path in names.items()
    ]


def translated(modules: list[Extension], shared: str, directives: dict[str, object], without: list[str]) -> list[Extension]:
    """With C as their sources. `without`: features of Cython that no source needs, left out of `shared`."""
    return cythonize(
        modules,
        compiler_directives=directives,
        build_dir=str(MADE),
        force=CHECKED or OUTDATED,
        nthreads=WORKERS,
        shared_utility_qualified_name=shared,
        shared_utility_features_disabled=without,
    )


gc.disable()    # Cython keeps what it makes while it translates a module: looking for garbage takes a sixth of its time
Main.compile_single = ParsedOnce("kernbench_core/model/sim.pxd")
Nodes.CClassDefNode.analyse_declarations = with_directives_of_pxd(Nodes.CClassDefNode.analyse_declarations)
WORKERS = os.cpu_count() or 1
MADE = Path(f"build/cython-{BUILD}")
#: The directives that the C was made with: Cython compares sources alone.
DIRECTIVES = MADE / "directives.txt"
OUTDATED = differs(DIRECTIVES, f"{CORE}\n{KERNELS}\n")
runpy.run_path("kernbench_core/state/field_table.py")["write_table"](Path("kernbench_core"))
core = extensions(sorted(Path("kernbench_core").rglob("*.pyx")), "kernbench_core._cython")
# What runs kernels: Python sources, each with a .pxd beside it that gives its classes types. Under ASan they stay Python:
# kernels are greenlets, which copy the stack over the marks that ASan puts around its variables.
typed = [] if BUILD == "sanitize" else sorted(path.with_suffix(".py") for path in Path("kernbench").rglob("*.pxd"))
kernels = extensions(typed, "kernbench.common._cython") if typed else []
modules = [*core, *kernels]
if typed:
    lost = [name for name in LEVEL if not any(f"{module.name}.".startswith(f"{name}.") for module in modules)]
    if lost:
        raise SystemExit(f"setup.py: HOT or COLD names what is not there: {', '.join(lost)}")
if not CHECKED:
    modules = rooms([module.name for module in modules])
if typed:
    names = {module.name for module in modules}
    # Python takes a library before a source, also one of a source that is compiled no more or is somewhere else; and what an
    # earlier build left in its folder would go into wheels.
    for top in (Path(), *Path(f"build/{BUILD}").glob("lib*")):
        for path in [*(top / "kernbench").rglob("*.so"), *(top / "kernbench_core").rglob("*.so")]:
            if ".".join((*path.relative_to(top).parent.parts, path.name.partition(".")[0])) not in names:
                path.unlink()
setup(
    ext_modules=modules,
    cmdclass={"build_ext": Libraries},
    options={"build": {"build_base": f"build/{BUILD}"}, "build_ext": {"parallel": WORKERS}},
)
