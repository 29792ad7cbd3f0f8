"""Components written in Python: what `Component` (component_base.py) is made of."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

NEVER: int
BUSY: int
FLOW: int
BANKS: int
JOB: int
MEMBERS: int

class JobRegion(NamedTuple):
    """An operand region: flat scratchpad address, bytes, and whether the job writes it."""

    addr: int
    nbytes: int
    write: bool

class Job(NamedTuple):
    """A job as a component gets it. `entry`: its position in the command queue, or -1 if a component submitted it."""

    id: int
    entry: int
    opcode: int
    params: tuple[int, ...]
    regions: tuple[JobRegion, ...]

class Member(NamedTuple):
    """A flow that shares a resource. `id`: of its job (the position of a queued entry), or of a flow that a component opened.

    `engine`: the DMA engine of the job, -1 for a flow of a component. `nbytes`: of the flow, moved and not. `num`/`den`:
    [B/cycle] the rate by the last P4; 0/1 if it has none yet.

    >>> from kernbench_core import Member
    >>> Member(id=0, engine=0, weight=1, nbytes=640, num=16, den=1).nbytes
    640
    """

    id: int
    engine: int
    weight: int
    nbytes: int
    num: int
    den: int

class NoRoom(RuntimeError):
    """The component has as many open jobs, flows or bank requests as its limits allow."""

class Refused(RuntimeError):
    """The core refuses a request of a component. The run ends as failed, even if the component catches this."""

class Plugged:
    """What a `Component` (component_base.py) has of the core: its operations, and what it may ask for."""

    spec: Any  #: its parameters

    @property
    def failure(self) -> BaseException | None: ...
    def submit(
        self, kind: int, engine: int, params: Sequence[int] = (), regions: Sequence[tuple[int, int, int]] = (), opcode: int = 0
    ) -> int:
        """Submit a job to an engine (`EngineType`, id); return the id of the job. It is seen in P3 of this cycle, from `notify` in the next."""

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
        """`submit` of contiguous bytes to a DMA engine, without tuples: `nbytes` at `addr`, `travel` bytes at `place`.

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
        """`submit` of a TE or VE job, without tuples: flat address and bytes of each operand (only one if `b` is -1) and of the result."""

    def started(self, job: int) -> int:
        """The cycle in which a submitted job started, or NEVER. It is valid until the end of the `notify` that reports the end of the job."""

    def complete(self, job: int) -> None:
        """End an accepted job: this cycle is its last."""

    def open_flow(self, nbytes: int, path: Sequence[int], *, weight: int = 1) -> int:
        """Open a flow of bytes over resources, given by number, from this cycle on; return its id."""

    def close_flow(self, flow: int) -> int:
        """Close a flow early; return the bytes that it has moved."""

    def watch(self, resource: int) -> None:
        """Be told MEMBERS with this resource in P4 of each cycle in which flows enter or leave it or its capacity was set."""

    def set_capacity(self, resource: int, num: int, den: int = 1) -> None:
        """Set the capacity of a resource to `num`/`den` [B/cycle], from the next P4 on: in `step` and for MEMBERS, of this cycle.

        It is above 0 and at most the machine's; `den` divides the denominator of the machine's. It lasts up to the next call.
        """

    def members(self, resource: int) -> tuple[Member, ...]:
        """The flows that share a resource, in the order of start, engine and submission."""

    def ask_banks(self, scratchpad: int = 0, *, reads: Iterable[int] = (), writes: Iterable[int] = ()) -> int:
        """Request banks of a scratchpad to read and to write, from this cycle on; return the id that BANKS will report."""

    def emit(self, job: int, name: str, value: int) -> None:
        """Write a MARKER `name=value` into the trace, for the command of an accepted job."""

def operations_of(component: Any) -> int:
    """The address of the kb_engine_ops of a capsule or a `Component`. ValueError if this core cannot call it."""

def exception_of(component: Any) -> BaseException | None:
    """The exception that ended the run in a Python component, or None."""

def reraise(components: Iterable[Any]) -> None:
    """Raise Ctrl-C and SystemExit again: they are no failures of a component."""

def refuse_snapshot(components: Iterable[Any]) -> None:
    """ValueError if a component cannot be saved."""
