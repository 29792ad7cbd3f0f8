"""Which cases of a test file run, and at which sizes."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from typing import Any

import pytest


def smaller(items: list[pytest.Item]) -> list[pytest.Item]:
    """Cases with parameters of at most the asked sizes, each once; a number of every test, by chance."""
    settings = (json.loads(os.environ.get(f"KB_PEERS_{name}", "{}")) for name in ("SIZES", "TESTS", "WITHOUT"))
    all_sizes, tests, without = settings
    each = int(os.environ.get("KB_PEERS_EACH", "0"))
    found: dict[tuple[str, str], list[pytest.Item]] = {}
    seen: set[tuple[str, str, str]] = set()
    for one in items:
        test = one.path.name, getattr(one, "originalname", None) or one.name
        if not re.search(tests.get(test[0], ""), test[1]) or re.search(without.get(test[0], "^$"), one.name):
            continue
        params = one.callspec.params if hasattr(one, "callspec") else {}
        for name, most in all_sizes.get(test[0], {}).items():
            given = params.get(name)
            if name not in params:
                continue
            if not isinstance(most, int):
                params[name] = most
            elif isinstance(given, int) and not isinstance(given, bool):
                params[name] = min(given, most)
        if (*test, repr(params)) not in seen:
            seen.add((*test, repr(params)))
            found.setdefault(test, []).append(one)
    order = random.Random(int(os.environ.get("KB_PEERS_SEED", "0")))
    return [one for cases in found.values() for one in (order.sample(cases, each) if 0 < each < len(cases) else cases)]


def fewer_numbers(module: Any, numbers: int, each: int, after: Callable[[], None]) -> None:
    """Let the downcast tests of `test_conversions.py` convert so many numbers of each stretch of 2^24, and only each so many
    stretches of the 256. Their numbers are a permutation of all bits of 32, so those that are left are spread over all.
    `after` is called after each stretch."""
    whole, populate = module.downcast_test, module.launch_exhaustive_populate

    def some_stretches(*args: Any, device: Any) -> None:
        if args[-1] % each == 0:
            whole(*args, device=device)
            after()

    def some_numbers(dst_dtype: Any, offset: int, numel: int, *args: Any, **named: Any) -> Any:
        return populate(dst_dtype, offset, min(numel, numbers), *args, **named)

    module.downcast_test, module.launch_exhaustive_populate = some_stretches, some_numbers
