"""Docstrings of the collectives and messages of `dist`: they name every parameter, and their examples run on every rank."""

from __future__ import annotations

import doctest
import inspect
import re
from typing import Any

import numpy as np
import pytest

from kernbench.ccl import dist
from kernbench.ccl.dist import collectives, point_to_point

RANKS = 8
FUNCTIONS = {
    name: one
    for module in (collectives, point_to_point)
    for name, one in vars(module).items()
    if not name.startswith("_") and inspect.isfunction(one) and inspect.unwrap(one).__module__ == module.__name__
}


def test_all_collectives_and_messages_are_found() -> None:
    assert {"all_reduce", "broadcast", "all_to_all_single", "barrier", "send", "irecv", "batch_isend_irecv"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_names_every_parameter_and_the_errors(name: str) -> None:
    text, parameters = inspect.getdoc(FUNCTIONS[name]) or "", inspect.signature(FUNCTIONS[name]).parameters
    _, _, listed = text.partition("Parameters\n----------\n")
    described = set(re.findall(r"\w+", " ".join(re.findall(r"^[a-z][\w, ]*$", listed, re.MULTILINE))))
    assert not set(parameters) - described
    assert "\nRaises\n------\nInputError\n" in text


def run_example(name: str, names: dict[str, Any]) -> int:
    """Run the example in a docstring; return the number of results that it states."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(FUNCTIONS[name]) or "")
    for one in examples:
        if not one.want:
            exec(one.source, names)
            continue
        found = eval(one.source, names)
        assert f"{found!r}\n" == one.want, f"{name}, rank {names['rank']}: {one.source}"
    return len(examples)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_example_runs_on_every_rank(name: str) -> None:
    ran: list[int] = []

    def worker(rank: int) -> None:
        dist.init_process_group(backend="kernbench")
        ran.append(run_example(name, {"dist": dist, "np": np, "rank": rank}))

    dist.spawn(worker, nprocs=RANKS)
    assert len(ran) == RANKS and min(ran) > 0
