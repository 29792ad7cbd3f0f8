"""Routers, which choose the engine of a fleet for each request."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.workloads.serving.request import Request

if TYPE_CHECKING:
    from kernbench.workloads.serving.fleet import Instance


class Router(ABC):
    """Chooses. Make a subclass for a new policy."""

    @abstractmethod
    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        """Choose one of these instances for a request that arrives now."""


class RoundRobin(Router):
    """The instances in turn."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        key = instances[0].role  # instances that prefill and instances that decode take turns separately
        turn = self._turns.get(key, 0)
        self._turns[key] = turn + 1
        return instances[turn % len(instances)]


class LeastOutstanding(Router):
    """The instance with the fewest requests that have not ended; of several, the first."""

    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        return min(instances, key=lambda one: one.outstanding)


class Random(Router):
    """A random instance, drawn with a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        return instances[self._random.randrange(len(instances))]


class PrefixAware(Router):
    """The instance whose prefix cache holds most of the prompt, among the instances that are not overloaded.

    `balance`: an instance is overloaded if it has more requests than the least loaded instance plus this number. Of several
    instances, the least loaded is chosen, so a prompt that no cache holds goes to the least loaded instance.
    """

    def __init__(self, balance: int = 32) -> None:
        if balance < 0:
            raise InputError(Problem("router", "it must be at least 0", "balance", balance))
        self._balance = balance

    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        most = min(one.outstanding for one in instances) + self._balance
        fit = [one for one in instances if one.outstanding <= most]
        return min(fit, key=lambda one: (-one.scheduler.cached_tokens(request), one.outstanding))


ROUTERS: dict[str, type[Router]] = {
    "round_robin": RoundRobin,
    "least_outstanding": LeastOutstanding,
    "prefix_aware": PrefixAware,
    "random": Random,
}


def router(name: str, seed: int = 0) -> Router:
    """The router with this name; `seed` is used by `random`. InputError for an unknown name."""
    if name not in ROUTERS:
        raise InputError(Problem("fleet", f"it must be one of {', '.join(ROUTERS)}", "router", name, meant(name, ROUTERS)))
    return Random(seed) if name == "random" else ROUTERS[name]()
