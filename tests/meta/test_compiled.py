"""Modules with a `.pxd` beside them are compiled; Python takes what was built of them before the source."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES

from tests.meta.source import files, name, needs_source

pytestmark = needs_source
TYPED = files("kernbench", suffixes=(".pxd",))


def test_types_are_of_a_source_beside_them() -> None:
    assert TYPED and not [name(path) for path in TYPED if not path.with_suffix(".py").exists()]


def test_no_source_is_younger_than_what_was_built_of_it() -> None:
    old = []
    for path in TYPED:
        built = path.with_name(path.stem + EXTENSION_SUFFIXES[0])
        sources = (path, path.with_suffix(".py"))
        if built.exists() and built.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            old.append(name(path.with_suffix(".py")))
    assert not old, "build again: python setup.py build_ext --inplace\n" + "\n".join(old)
