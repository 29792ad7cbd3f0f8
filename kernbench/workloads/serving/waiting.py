"""Waiting requests, in the order of a policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from kernbench.workloads.serving.options import Policy
from kernbench.workloads.serving.request import Request, State

_NO_TARGET = 1 << 62  #: [ns] deadline of a request without a target


class Waiting:
    """The queue of one engine.

    `fcfs`: in the order of arrival, a preempted request first. `priority`: by priority, then arrival. `slo`: preempted requests
    first, then requests that can still meet their target, by deadline, and then late requests, by arrival.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._first: deque[Request] = deque()
        self._heap: list[tuple[int, int, int, Request]] = []
        self._late: list[tuple[int, int, Request]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, request: Request) -> None:
        """A request arrives."""
        self._count += 1
        if self._policy == "fcfs":
            self._first.append(request)
        elif self._policy == "priority":
            heappush(self._heap, (request.priority, request.arrival_ns, request.id, request))
        else:
            target = request.ttft_target_ns
            deadline = _NO_TARGET if target is None else request.arrival_ns + target
            heappush(self._heap, (deadline, request.arrival_ns, request.id, request))

    def put_back(self, request: Request) -> None:
        """A request was preempted."""
        if self._policy == "priority":
            self.add(request)
        else:
            self._count += 1
            self._first.appendleft(request)

    def restore(self, requests: Sequence[Request]) -> None:
        """Put popped requests back, in this order."""
        for request in reversed(requests):
            if self._policy == "fcfs" or request.state == State.PREEMPTED:
                self.put_back(request)
            else:
                self.add(request)

    def drop(self, request: Request) -> None:
        """The request has ended while it waited; `peek` skips it because of its state."""
        self._count -= 1

    def peek(self, now_ns: int) -> Request | None:
        """The first request."""
        first = self._first
        while first and first[0].state >= State.FINISHED:
            first.popleft()
        if first:
            return first[0]
        heap, late = self._heap, self._late
        while heap and (heap[0][3].state >= State.FINISHED or (self._policy == "slo" and heap[0][0] < now_ns)):
            _, arrival, number, request = heappop(heap)
            if request.state < State.FINISHED:
                heappush(late, (arrival, number, request))
        if heap:
            return heap[0][3]
        while late and late[0][2].state >= State.FINISHED:
            heappop(late)
        return late[0][2] if late else None

    def pop(self, request: Request) -> None:
        """Remove the request that `peek` returned."""
        self._count -= 1
        if self._first:
            self._first.popleft()
        elif self._heap:
            heappop(self._heap)
        else:
            heappop(self._late)
