"""The pytest plugin of this harness: `import triton` is kernbench.triton, cases are sampled, and outcomes are written down.

pytest loads it by `-p tests.triton_peers.plugin`. KB_PEERS_CHECKOUT is the folder with Triton's sources, KB_PEERS_OUT the file
of outcomes (a JSON object a line), KB_PEERS_SAMPLE how many cases of a file are run (0: all), KB_PEERS_SEED the seed of that
choice, KB_PEERS_PORTABLE whether the rules of Triton's compiler are enforced, KB_PEERS_MARKED whether only cases with the mark
`interpreter` are run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernbench
import kernbench.triton.patch
from tests.triton_peers.outcomes import PASSED, SKIPPED, SLOW, of_error, shape_of

CHECKOUT = Path(os.environ["KB_PEERS_CHECKOUT"])
LIMIT = int(os.environ.get("KB_PEERS_LIMIT", "20"))  #: [s] of CPU that a case may take
#: Modules of Triton that hold no part of the language: they are read from the checkout.
THEIRS = ("_internal_testing", "tools.mxfp")


class TooSlow(Exception):
    """A case takes longer than it may."""


def _their_modules() -> None:
    for name in THEIRS:
        path = CHECKOUT / "python" / "triton" / f"{name.replace('.', '/')}.py"
        if not path.exists() or f"triton.{name}" in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(f"triton.{name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[f"triton.{name}"] = module
        spec.loader.exec_module(module)


def pytest_configure(config: pytest.Config) -> None:
    _their_modules()
    for mark in ("interpreter", "disable_warmup", "enable_warmup"):
        config.addinivalue_line("markers", f"{mark}: a mark of Triton's")
    config.stash[_OUT] = open(os.environ["KB_PEERS_OUT"], "a", encoding="utf-8")  # noqa: SIM115


_OUT: pytest.StashKey[Any] = pytest.StashKey()


@pytest.fixture
def device() -> str:
    return "cpu"


@pytest.fixture
def with_allocator() -> None:
    """Nothing: descriptors need no memory of an allocator."""


@pytest.fixture
def fresh_knobs() -> Any:
    import triton  # type: ignore[import-not-found,unused-ignore]

    return triton.knobs


@pytest.fixture
def fresh_triton_cache(tmp_path: Path) -> Path:
    return tmp_path


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = list(items)
    if os.environ.get("KB_PEERS_MARKED") == "1":
        chosen = [one for one in chosen if one.get_closest_marker("interpreter") is not None]
    count = int(os.environ.get("KB_PEERS_SAMPLE", "0"))
    if count and len(chosen) > count:
        order = random.Random(int(os.environ.get("KB_PEERS_SEED", "0")))
        numbers = order.sample(range(len(chosen)), count)  # in this order, so that a run that is stopped is a sample too
        chosen = [chosen[number] for number in numbers]
    kept = set(map(id, chosen))
    config.hook.pytest_deselected(items=[one for one in items if id(one) not in kept])
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: Any) -> Iterator[Any]:
    """Stop a case that takes too long."""

    def late(*_: Any) -> None:
        raise TooSlow(f"more than {LIMIT} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        with kernbench.machine(portable=os.environ.get("KB_PEERS_PORTABLE") == "1"):
            return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[Any]:
    report = yield
    began = item.stash.setdefault(_BEGAN, time.perf_counter())
    if report.when != "call" and report.outcome == "passed":
        return report
    text, kind = "", ""
    if report.outcome == "passed":
        found = PASSED
    elif report.outcome == "skipped":
        found, text = SKIPPED, str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if hasattr(report, "wasxfail"):
            text = "expected failure: " + str(report.wasxfail)
    else:
        error = call.excinfo.value if call.excinfo is not None else None
        kind, text = type(error).__name__, str(error)
        found = SLOW if f"more than {LIMIT} s" in text else of_error(kind, text)
    line = {
        "case": item.nodeid, "file": item.path.name, "test": getattr(item, "originalname", item.name), "outcome": found,
        "error": kind, "shape": shape_of(text), "text": text[:600], "seconds": round(time.perf_counter() - began, 2),
    }  # fmt: skip
    item.config.stash[_OUT].write(json.dumps(line) + "\n")
    item.config.stash[_OUT].flush()
    return report


_BEGAN: pytest.StashKey[float] = pytest.StashKey()
