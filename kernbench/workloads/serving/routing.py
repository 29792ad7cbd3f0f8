"""Which engine of a fleet gets a request."""

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
    """Chooses. Subclass it to bring your own policy."""

    @abstractmethod
    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        """One of these instances, for a request that arrives now."""


class RoundRobin(Router):
    """Each in turn."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        key = instances[0].role  # instances that prefill and those that decode take turns each
        turn = self._turns.get(key, 0)
        self._turns[key] = turn + 1
        return instances[turn % len(instances)]


class LeastOutstanding(Router):
    """The one with the fewest requests that have not ended; of equal ones the first."""

    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        return min(instances, key=lambda one: one.outstanding)


class Random(Router):
    """Any, by a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def choose(self, request: Request, instances: Sequence[Instance]) -> Instance:
        return instances[self._random.randrange(len(instances))]


class PrefixAware(Router):
    """The one whose prefix cache holds the most of the prompt, among those that are not overloaded.

    `balance`: an instance with more requests than the least loaded one and so many is passed over. Of equal ones the least
    loaded is chosen, so a prompt that nobody holds goes there.
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
    """A router by its name; `seed` is that of `random`. InputError for an unknown name."""
    if name not in ROUTERS:
        raise InputError(Problem("fleet", f"it must be one of {', '.join(ROUTERS)}", "router", name, meant(name, ROUTERS)))
    return Random(seed) if name == "random" else ROUTERS[name]()
