"""Components written in Python: what `Component` (component_base.py) is made of."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

NEVER: int
BUSY: int
FLOW: int
BANKS: int
JOB: int

class JobRegion(NamedTuple):
    """An operand: flat scratchpad address, bytes, whether it is written."""

    addr: int
    nbytes: int
    write: bool

class Job(NamedTuple):
    """A job as a component gets it; `entry` is its position in the command queue, -1 where a component submitted it."""

    id: int
    entry: int
    opcode: int
    params: tuple[int, ...]
    regions: tuple[JobRegion, ...]

class NoRoom(RuntimeError):
    """As many jobs, flows or asks are open as the component said it needs at a time."""

class Refused(RuntimeError):
    """The component asked the core for what cannot be; the run ends as failed, whoever catches this."""

class Plugged:
    """What a `Component` (component_base.py) has of the core: its operations, and what it may ask for."""

    spec: Any  #: its parameters

    @property
    def failure(self) -> BaseException | None: ...
    def submit(
        self, kind: int, engine: int, params: Sequence[int] = (), regions: Sequence[tuple[int, int, int]] = (), opcode: int = 0
    ) -> int:
        """Give an engine (`EngineType`, its id) a job, seen from P3 of this cycle on, in `notify` of the next; its id."""

    def submit_transfer(
        self,
        engine: int,
        channel: int,
        write: bool,
        addr: int,
        nbytes: int,
        memory: int,
        route: int,
        place: int,
        travel: int,
        peer: int = -1,
    ) -> int:
        """`submit` of bytes in one piece to a DMA engine, its numbers in no tuples: `nbytes` at `addr`, `travel` bytes from `place` on.

        `memory` and `route` are -1 on a machine whose engines have ways of their own. `peer`: the scratchpad where `addr` is, if not -1.
        """

    def submit_compute(
        self,
        kind: int,
        engine: int,
        params: tuple[int, ...],
        a: int,
        a_bytes: int,
        b: int,
        b_bytes: int,
        out: int,
        out_bytes: int,
    ) -> int:
        """`submit` of a TE's or VE's job: its operands (one if `b` is -1) and its result, of each flat address and bytes."""

    def started(self, job: int) -> int:
        """The cycle in which a job that it submitted started, NEVER before; up to and in the `notify` that tells its end."""

    def complete(self, job: int) -> None:
        """A job that was accepted ends with this cycle."""

    def open_flow(self, nbytes: int, path: Sequence[int], *, weight: int = 1) -> int:
        """Move bytes over resources, given by their numbers, as a member of them from this cycle on; its id."""

    def close_flow(self, flow: int) -> int:
        """Take it away early; the bytes that it has moved."""

    def ask_banks(self, scratchpad: int = 0, *, reads: Iterable[int] = (), writes: Iterable[int] = ()) -> int:
        """Ask for banks of a scratchpad to read and to write, from this cycle on; its id, told with BANKS."""

    def emit(self, job: int, name: str, value: int) -> None:
        """Write a MARKER `name=value` of the command of an accepted job into the trace."""

def operations_of(component: Any) -> int:
    """The address of the kb_engine_ops of a capsule or a `Component`. ValueError where this core cannot call it."""

def exception_of(component: Any) -> BaseException | None:
    """What ended the run in a Python component, else None."""

def reraise(components: Iterable[Any]) -> None:
    """Ctrl-C and SystemExit are no failures of a component: they go on."""

def refuse_snapshot(components: Iterable[Any]) -> None:
    """ValueError where one says why it cannot be saved."""
