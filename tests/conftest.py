"""Settings of all tests: nightly searches run only when they are asked for."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.draws import ignore_constants_of_modules
from tests.forked import Forked

# `make test` draws the same examples every time: the same code gets the same answer. `make nightly` searches for new ones.
# No test has a time limit of its own: on a slow build or a busy machine it says nothing.
# Properties that do not say how many examples they draw have half of Hypothesis's own number, and nightly five times as many.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=50)
settings.register_profile("searching", deadline=None, max_examples=500)

STATM = Path("/proc/self/statm")
MANY_PAGES = 8192  # 32 MiB
kept_pages = [0]  # after the last collection of garbage


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    """Commands in forked children of one process, which has taken seconds to import everything, for all files of tests."""
    with Forked() as process:
        yield process


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the long random searches too")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["KERNBENCH_CACHE"] = "off"  # a test that looks at what is kept says where
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores Ctrl-C, and so would every process that a test starts and interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--nightly"):
        settings.load_profile("searching")
    else:
        settings.load_profile("repeatable")
        ignore_constants_of_modules()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Of what is imported and collected nothing is garbage, so no time is spent on a search for it."""
    gc.disable()
    try:
        import_own_part_first(session)
        return (yield)
    finally:
        gc.enable()


def import_own_part_first(session: pytest.Session) -> None:
    """Every worker imports all tests. In a new clone each test file must be compiled, which takes one worker 20 s: each begins
    with another part, and finds what the others have compiled when it comes to their parts."""
    number, count = (os.environ.get(name, "") for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"))
    if not number:
        return
    given = [session.config.invocation_params.dir / name for name in session.config.args]
    files = sorted(file for folder in given for file in folder.rglob("test_*.py"))
    for file in files[len(files) * int(number.removeprefix("gw")) // int(count) :] if number != "gw0" else ():
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports what cannot be imported
            pytest.Module.from_parent(session, path=file).obj  # noqa: B018


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # what was imported and collected stays: the collections of garbage below need not look at it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Memory that tests used is given back. Python itself would wait for a million new objects, and a machine has few, with
    large arrays; meanwhile every process that a test forks would copy the tables of these pages."""
    ended = yield
    if _pages() > kept_pages[0] + MANY_PAGES:
        gc.collect()
        kept_pages[0] = _pages()
    return ended


def _pages() -> int:
    """Pages of memory that the process has; 0 where the system does not say."""
    try:
        return int(STATM.read_text(encoding="ascii").split()[1])
    except OSError:
        return 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="a long random search: `make nightly` runs it")
    for item in items:
        if item.get_closest_marker("nightly") is not None:
            item.add_marker(skip)
