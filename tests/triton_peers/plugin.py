"""The pytest plugin of this harness: `import triton` is kernbench.triton, cases are sampled, and outcomes are written down.

pytest loads it by `-p tests.triton_peers.plugin`. KB_PEERS_CHECKOUT is the folder with Triton's sources, KB_PEERS_OUT the
file of outcomes (a JSON object a line), KB_PEERS_SAMPLE how many cases of a file are run (0: all), KB_PEERS_SEED the seed of
that choice, KB_PEERS_PART=I,N that only each N-th of these cases is run, from the I-th on, KB_PEERS_PORTABLE whether the rules
of Triton's compiler are enforced, KB_PEERS_MARKED whether only cases with the mark `interpreter` are run, KB_PEERS_NUMBERS=N,K
how many numbers the downcast tests of `test_conversions.py` convert (`cases.py`). For test files of libraries, KB_PEERS_SIZES
(JSON) has for each file the largest values of parameters by their names, or the values themselves, KB_PEERS_TESTS (JSON) a
pattern of the tests of a file, KB_PEERS_WITHOUT (JSON) of cases that are left out, KB_PEERS_EACH how many cases of each test
are run, and KB_PEERS_TUNE=0 takes the first configuration that fits instead of tuning.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kernbench
import kernbench.triton.patch
from tests.triton_peers.cases import fewer_numbers, smaller
from tests.triton_peers.outcomes import PASSED, SKIPPED, SLOW, of_error, shape_of

CHECKOUT = Path(os.environ["KB_PEERS_CHECKOUT"])
LIMIT = int(os.environ.get("KB_PEERS_LIMIT", "20"))  #: [s] of CPU that a case may take
#: Modules of Triton that hold no part of the language: they are read from the checkout.
THEIRS = ("_internal_testing", "tools.mxfp", "tools.ragged_tma")


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


def _properties_of_the_host() -> None:
    """What libraries ask of torch about a device, for the host: its memory, and the PEs of the machine as multiprocessors."""
    try:
        import torch
    except ImportError:
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def properties(device: Any = 0) -> SimpleNamespace:
        import triton  # type: ignore[import-not-found,unused-ignore]

        found = triton.runtime.driver.active.utils.get_device_properties(0)
        return SimpleNamespace(
            name="cpu", total_memory=memory, multi_processor_count=found["multiprocessor_count"], major=0, minor=0,
            gcnArchName="", shared_memory_per_block_optin=found["max_shared_mem"],
        )  # fmt: skip

    for module in (torch.cpu, torch.cuda):
        module.get_device_properties = properties  # type: ignore[attr-defined,assignment,unused-ignore]
    torch.cuda.current_device = lambda: 0  # type: ignore[assignment,unused-ignore]
    torch.cuda.get_device_capability = lambda *_: (0, 0)  # type: ignore[assignment,unused-ignore]
    torch.cuda.device = lambda *_: contextlib.nullcontext()  # type: ignore[assignment,misc,unused-ignore]
    for module in (torch.accelerator, torch.cuda):
        for name in ("set_device_index", "synchronize", "empty_cache", "set_device"):
            if hasattr(module, name):
                setattr(module, name, lambda *_, **__: None)


def pytest_configure(config: pytest.Config) -> None:
    _their_modules()
    _properties_of_the_host()
    for mark in ("interpreter", "disable_warmup", "enable_warmup"):
        config.addinivalue_line("markers", f"{mark}: a mark of Triton's")
    _OPEN.append(open(os.environ["KB_PEERS_OUT"], "a", encoding="utf-8"))  # noqa: SIM115


_OPEN: list[Any] = []  #: the file of outcomes


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
    chosen = smaller(items)
    if os.environ.get("KB_PEERS_MARKED") == "1":
        chosen = [one for one in chosen if one.get_closest_marker("interpreter") is not None]
    count = int(os.environ.get("KB_PEERS_SAMPLE", "0"))
    if count and len(chosen) > count:
        order = random.Random(int(os.environ.get("KB_PEERS_SEED", "0")))
        numbers = order.sample(range(len(chosen)), count)  # in this order, so that a run that is stopped is a sample too
        chosen = [chosen[number] for number in numbers]
    part, parts = (int(one) for one in os.environ.get("KB_PEERS_PART", "1,1").split(","))
    chosen = chosen[part - 1 :: parts]
    numbers, each = (int(one) for one in os.environ.get("KB_PEERS_NUMBERS", "0,0").split(","))
    for module in {id(one.module): one.module for one in chosen if numbers and isinstance(one, pytest.Function)}.values():
        if hasattr(module, "downcast_test"):
            fewer_numbers(module, numbers, each, _count_runs)
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
        portable, tune = os.environ.get("KB_PEERS_PORTABLE") == "1", os.environ.get("KB_PEERS_TUNE") != "0"
        with kernbench.machine(portable=portable, tune=tune) as runs:
            _OF_CASE.runs, _OF_CASE.launches, _OF_CASE.cycles = runs, 0, 0
            return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    report = yield
    began = item.stash.setdefault(_BEGAN, time.perf_counter())
    if report.when != "call" and report.outcome == "passed":
        return report
    _count_runs()
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
        "launches": _OF_CASE.launches, "cycles": _OF_CASE.cycles,
    }  # fmt: skip
    _OPEN[0].write(json.dumps(line) + "\n")
    _OPEN[0].flush()
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported is one failed case."""
    if report.failed and _OPEN:
        text = str(report.longrepr).strip().rpartition("\nE ")[2].strip()
        name = Path(report.nodeid).name
        line = {
            "case": report.nodeid, "file": name, "test": "import", "outcome": "failed", "error": text.partition(":")[0],
            "shape": shape_of(text), "text": text[:600], "seconds": 0.0, "launches": 0, "cycles": 0,
        }  # fmt: skip
        _OPEN[0].write(json.dumps(line) + "\n")
        _OPEN[0].flush()


_BEGAN: pytest.StashKey[float] = pytest.StashKey()
_OF_CASE = SimpleNamespace(runs=[], launches=0, cycles=0)  #: of the case that runs: its launches, counted and not counted


def _count_runs() -> None:
    """Count the launches of the case so far, and forget them: a test with thousands of launches would fill the memory."""
    _OF_CASE.launches += len(_OF_CASE.runs)
    _OF_CASE.cycles += sum(one.cycles for one in _OF_CASE.runs)
    _OF_CASE.runs.clear()
