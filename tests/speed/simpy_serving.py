"""Continuous batching as a SimPy program: a process that sends requests, one that makes a step of all that run. The peer.

It is what one writes first: each running request is visited in each step. It has no preemption and no prefix cache, so its
latencies are those of `ContinuousBatching` only where the KV cache is large enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from kernbench.serving import Request, StepBatch
from kernbench.workloads.serving.step_time import StepTimer


@dataclass
class Limits:
    """Of a step."""

    sequences: int = 256
    tokens: int = 2048


def serve(requests: Sequence[Request], timer: StepTimer, limits: Limits) -> None:
    """Serve them; times are in the requests."""
    env = simpy.Environment()
    waiting: deque[Request] = deque()
    running: list[Request] = []
    arrived = env.event()

    def clients() -> Generator[Any, Any, None]:
        nonlocal arrived
        for request in requests:
            if request.arrival_ns > env.now:
                yield env.timeout(request.arrival_ns - int(env.now))
            waiting.append(request)
            if not arrived.triggered:
                arrived.succeed()

    def engine() -> Generator[Any, Any, None]:
        nonlocal arrived
        left = len(requests)
        while left:
            batch, budget = [], limits.tokens
            for request in running:
                tokens = min(request.tokens - request.computed, budget)
                if tokens:
                    batch.append((request, tokens))
                    budget -= tokens
            while waiting and budget and len(running) < limits.sequences:
                request = waiting.popleft()
                tokens = min(request.prompt, budget)
                running.append(request)
                batch.append((request, tokens))
                budget -= tokens
            if not batch:
                arrived = env.event()
                yield arrived
                yield env.timeout(0)  # everything that happens now comes before the next step
                continue
            yield env.timeout(timer.device_ns(StepBatch(batch)))
            now = int(env.now)
            for request, tokens in batch:
                request.computed += tokens
                if request.computed == request.tokens:
                    request.generated += 1
                    request.first_token_ns = request.first_token_ns or now
                    request.last_token_ns = now
                    if request.generated == request.output:
                        running.remove(request)
                        left -= 1
            yield env.timeout(0)

    env.process(clients())
    env.process(engine())
    env.run()
