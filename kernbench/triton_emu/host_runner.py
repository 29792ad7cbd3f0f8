"""The host's program as a greenlet: plain Python that launches kernels and waits for them. It takes no time of its own."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from greenlet import GreenletExit, greenlet

from kernbench.common.errors import InternalError
from kernbench.components.base import COMPONENT, CPU, DMA, NEVER, HasCommands
from kernbench.components.builtin.host import Host
from kernbench.sim_engine.perturbation import START, Perturbed
from kernbench.triton_emu.errors import KernelError, check_ran
from kernbench.triton_emu.launch import HostCopy, Launch, PeWork
from kernbench.triton_emu.system_routes import CommandRoutes
from kernbench.triton_emu.user_code import failure_of, strayed

Thing = Launch | HostCopy
_WHO = "the host's program"


class HostRunner:
    """The interface of the host program.

    On a system a launch goes to the M_CPU of each cube concerned, and from there to the processors of its PEs. One NPU has no
    such route. Launches on one PE run in the order of their arrival.
    """

    def __init__(self, body: Callable[[], object], processors: dict[str, str], launches: list[Launch]) -> None:
        """`processors`: by the names of PEs, those of their processors in the core. `launches`: all, by their numbers."""
        self.launches = launches
        self.copies: list[HostCopy] = []
        self.cycle = 0
        self.error: BaseException | None = None  #: what the program raised
        self.commands: CommandRoutes | None = None  #: of a system
        self.machine: HasCommands | None = None  #: machine whose trace gets descriptions of jobs
        self.perturbed: Perturbed | None = None  #: draws of when PEs start
        self.first_endpoint = 0  #: number in the core of the first DMA engine of a PCIe endpoint
        self._body = body
        self._processors = processors
        # By the core's number: the launches that an M_CPU passes to PEs. In a traced run, also the ids of commands.
        self._jobs: dict[int, tuple[Thing, Sequence[PeWork], tuple[int, ...]]] = {}
        self._after: tuple[int, ...] = ()  # in a traced run: the command after which the program continued
        self._left: dict[int, int] = {}  # by id of an open command: the number of its parts that have not ended
        self._open = 0  # the sum of these numbers
        self._oldest = 0  # the number of the first launch that may be open
        self._due: list[tuple[int, int, Launch, PeWork]] = []  # commands in flight from an M_CPU to a PE
        self._sent = 0
        self._latest: dict[str, int] = {}  # of a perturbed run: when each PE gets its last share
        self._wanted: tuple[Thing, ...] = ()
        self._waits = False
        self._greenlet: Any = None
        self._host: Host | None = None
        self._done = False
        self._dropped = False  # it will never be resumed

    # For the host's program.

    def launch(self, name: str, work: Sequence[PeWork]) -> Launch:
        """Run kernels on PEs. Returns at once, unless too many launches are open: then it waits for the oldest ones."""
        host = self._running()
        while self._open + len(work) > host.room and (oldest := self._oldest_launch()) is not None:
            self.wait(oldest)
        made = Launch(name, self.cycle, tuple(work), len(self.launches))
        self.launches.append(made)
        self._left[id(made)] = len(made.work)
        self._open += len(made.work)
        if self.commands is None:
            made.after = dict.fromkeys((one.pe for one in made.work), self._after)
            for one in made.work:
                self._begin(host, made, one)
            return made
        by_cube: dict[tuple[int, int], list[PeWork]] = {}
        for one in made.work:
            by_cube.setdefault(self.commands.m_cpu_of(one.pe), []).append(one)
        for (m_cpu, cycles), share in by_cube.items():
            number = host.submit(CPU, m_cpu, params=(cycles, 0, 0, 0))
            told = self._tell(number, "LAUNCH", name, after=self._after)
            self._jobs[number] = made, share, told
            made.after.update(dict.fromkeys((one.pe for one in share), told))
        return made

    def _oldest_launch(self) -> Launch | None:
        """Return the first launch that has not ended, or None."""
        while self._oldest < len(self.launches) and id(self.launches[self._oldest]) not in self._left:
            self._oldest += 1
        return self.launches[self._oldest] if self._oldest < len(self.launches) else None

    def copy(self, endpoint: str, pieces: Sequence[tuple[int, int]], *, write: bool) -> HostCopy:
        """Move pieces (physical address, bytes; each in one memory) through a PCIe endpoint, with `write` to the device.

        Returns at once. Raises ValueError for bytes that are in no memory.
        """
        host = self._running()
        if self.commands is None:
            raise InternalError("one NPU has no PCIe endpoint")
        made = HostCopy(endpoint, sum(nbytes for _, nbytes in pieces), write, self.cycle)
        self.copies.append(made)
        self._left[id(made)] = len(pieces)
        self._open += len(pieces)
        for address, nbytes in pieces:
            number, route = self.commands.host_route(endpoint, address, write, nbytes)
            params = (0, int(write), address, nbytes, nbytes, 1, *route)
            job = host.submit(DMA, self.first_endpoint + number, params=params, regions=((0, nbytes, 1 - write),))
            self._jobs[job] = made, (), self._tell(job, "HOST_COPY_TILE", "", after=self._after)
        return made

    def wait(self, *things: Thing) -> None:
        """Until these have ended; without any, all so far."""
        wanted = things or (*self.launches, *self.copies)
        while any(id(one) in self._left for one in wanted):
            self._wanted, self._waits = wanted, True
            try:
                self._greenlet.parent.switch()
            except GreenletExit:  # the machine is gone
                self._dropped = True
                raise
        self._wanted, self._waits = (), False

    # For the host component.

    def resume(self, host: Host, now: int) -> bool:
        self.cycle, self._host = now, host
        while self._due and self._due[0][0] <= now:
            _, _, launch, work = heapq.heappop(self._due)
            self._begin(host, launch, work)
        if not self._done and not (self._waits and any(id(one) in self._left for one in self._wanted)):
            if self._greenlet is None:
                self._greenlet = greenlet(self._run)
            self._switch()
            self._done = self._greenlet.dead
            if not self._done and not self._waits:
                error = self._strayed()
                self._switch(error)
                raise error
        return self.over()

    def _switch(self, thrown: KernelError | None = None) -> None:
        """Into the program, until it waits or is over. KernelError if it has thrown something out of its greenlet."""
        try:
            if thrown is None:
                self._greenlet.switch()
            else:
                self._greenlet.throw(thrown)
        except KeyboardInterrupt:
            raise
        except BaseException:
            if self.error is not None:
                raise
            raise self._strayed() from None

    def _strayed(self) -> KernelError:
        self.error = error = strayed(_WHO, self._greenlet.gr_frame)
        return error

    def over(self) -> bool:
        return self._done and not self._left

    def ended(self, host: Host, number: int, end: int) -> bool:
        thing, share, told = self._jobs.pop(number)
        if isinstance(thing, Launch) and share:
            assert self.commands is not None
            for work in share:
                self._sent += 1
                at = end + self.commands.to_processor(work.pe)
                if self.perturbed is not None:
                    at = self._later(at, thing, work.pe)
                heapq.heappush(self._due, (at, self._sent, thing, work))
            return self._due[0][0] <= end
        if isinstance(thing, HostCopy):
            start = host.started(number)
            thing.start = start if thing.start is None else min(thing.start, start)
        self._open -= 1
        self._left[id(thing)] -= 1
        if self._left[id(thing)]:
            return False
        del self._left[id(thing)]
        if isinstance(thing, HostCopy):
            thing.end = end
        if self._done or any(id(one) in self._left for one in self._wanted):
            return False
        self._after = thing.before if isinstance(thing, Launch) else told
        return True

    def _later(self, at: int, launch: Launch, pe: str) -> int:
        """When a PE of a perturbed run gets its share of a launch; launches on one PE keep their order."""
        assert self.perturbed is not None
        at += self.perturbed.draws.value(START, pe, launch.number, self.perturbed.ranges.start)
        at = self._latest[pe] = max(at, self._latest.get(pe, 0))
        return at

    def next_due(self) -> int:
        return self._due[0][0] if self._due else NEVER

    def _running(self) -> Host:
        if self._host is None or self._greenlet is None:
            raise InternalError("work is given by the host's program, while it runs")
        return self._host

    def _begin(self, host: Host, launch: Launch, work: PeWork) -> None:
        """A PE's processor gets its share of a launch."""
        position = host.position[self._processors[work.pe]]
        number = host.submit(COMPONENT, position, params=(launch.number,))
        told = self._tell(number, "KERNEL", launch.name, self._processors[work.pe], launch.after.get(work.pe, ()))
        self._jobs[number] = launch, (), told

    def _tell(self, number: int, opcode: str, marker: str, unit: str = "", after: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Describe a job for the trace; returns its id there, if there is a trace."""
        if self.machine is None or self.machine.commands is None:
            return ()
        return (self.machine.commands.add(number, opcode, unit=unit, deps=after, marker=marker),)

    def _run(self) -> None:
        try:
            check_ran(self._body(), _WHO)
        except BaseException as error:
            if self._dropped:
                raise
            self.error = found = failure_of(error, _WHO, f"in {_WHO}, cycle {self.cycle}", host=True)
            if found is error:
                raise
            raise found from None
