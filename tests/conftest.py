"""Settings of all tests: nightly searches run only when they are asked for."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the long random searches too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="a long random search: `make nightly` runs it")
    for item in items:
        if "nightly" in item.keywords:
            item.add_marker(skip)
