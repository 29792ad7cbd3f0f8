"""Settings of all tests: nightly searches run only when they are asked for."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# `make test` draws the same examples every time: the same code gets the same answer. `make nightly` searches for new ones.
# No test has a time limit of its own: on a slow build or a busy machine it says nothing.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("searching", deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the long random searches too")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["KERNBENCH_CACHE"] = "off"  # a test that looks at what is kept says where
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores Ctrl-C, and so would every process that a test starts and interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("searching" if config.getoption("--nightly") else "repeatable")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="a long random search: `make nightly` runs it")
    for item in items:
        if item.get_closest_marker("nightly") is not None:
            item.add_marker(skip)
