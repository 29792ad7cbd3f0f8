"""`Core`: one run of one program on one machine, as Python sees it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_core.trace.events import Trace

_Cycles = npt.NDArray[np.int64]

def state_layout() -> str:
    """What snapshots of two builds must have in common to be exchanged: the fields, their widths and ranges."""

class Core:
    """One run of one program on one machine.

    `machine` and `program` are the plain tables of `kernbench.cmdq.lower`; they must be valid. Not thread-safe; the loop runs
    without the GIL, so cores in different threads run at the same time.
    """

    def __init__(
        self,
        machine: dict[str, Any],
        program: dict[str, Any],
        components: Iterable[Any] = (),
        *,
        arbiter: Any = None,
        plain: bool = False,
        threads: int = 1,
    ) -> None:
        """`components`: capsules or `Component` objects; `machine["replaced"]` says in the place of which engines they stand.

        `arbiter`: a capsule or an `Arbiter` object, of the scratchpads whose `arbiter` is -1; such a run is plain.
        `plain`: every cycle is run by the model alone, without fast paths. It is slower, and the result is the same.
        `threads`: so many threads run groups of scratchpads that share nothing (fast/threads.pyx); the result is the same.
        """

    def failure(self) -> tuple[int, int, str, BaseException | None] | None:
        """`(component, cycle, sentence, exception)` where a component ended the run; the exception is None of a C engine."""

    def arbiter_failure(self) -> tuple[int, str, BaseException | None] | None:
        """`(cycle, sentence, exception)` where the arbiter ended the run, else None; the exception is None of one in C."""

    def component_counters(self) -> list[dict[str, int]]:
        """Of each component a dict: `jobs` completed, `bytes` of closed flows, cycles that served requests for banks were `held`."""

    def name_of(self, number: int) -> str:
        """The name of an event that a component emitted."""

    @property
    def cycle(self) -> int:
        """The next cycle to run: so many have run."""

    @property
    def threads(self) -> int:
        """How many threads groups of scratchpads can run in; 1 where there is one group."""

    @property
    def status(self) -> int:
        """A `Status`."""

    @property
    def failed_entry(self) -> int:
        """Position of the entry whose overlap ended the run, -1 where none did."""

    def run(
        self,
        limit: int,
        *,
        skip: bool = True,
        start_of: int = -1,
        end_of: int = -1,
        stall: bool = False,
        conflict: bool = False,
        trace: Trace | None = None,
    ) -> bool:
        """Run up to and without cycle `limit` or the end; true where one of the conditions ended it.

        With a `trace` it also comes back when that has a batch of records to be written.

        `start_of`, `end_of`: positions of entries; the run ends after the cycle in which they start, or do their last work.
        `stall`: after a cycle in which a DMA job's stall began. `conflict`: after a cycle in which a bank denied a request.
        """

    def step(self, n: int = 1, *, skip: bool = False) -> int:
        """Run `n` cycles, fewer where the run ends; return how many."""

    def entries(self) -> tuple[_Cycles, _Cycles, _Cycles]:
        """`(issue, start, end)`: int64 arrays over the entries, -1 where that has not come."""

    def counters(self) -> dict[str, list[dict[str, Any]]]:
        """Every counter of docs/model/counters.md after the cycles that have run: `dma`, `compute`, `resources`, `spm`."""

    def totals(self) -> tuple[Any, Any, Any, list[Any], list[Any]]:
        """What a window of a trace is made of, as arrays (`state/counters.pyx`)."""

    def work(self) -> list[int]:
        """For each TE and VE: its MACs or operations, in jobs that have ended."""

    def router_queues(self) -> tuple[Any, ...]:
        """Of the inputs of routers: the flits in their buffers summed over clocks, and the flits by channel. Of the terminals:
        the packets that have not left. Empty without routers."""

    def outputs(self) -> list[tuple[int, int, int, int]]:
        """Of the outputs of routers, then of the links of terminals: the flits that left, and the clocks in which flits waited for
        a credit, waited for a channel, or lost the arbitration. Empty without routers."""

    def number_of(self, entry: int) -> int:
        """The number of an entry's job, in the order of issue."""

    def add_route(self, memory: int, links: list[int], latency: int, through: Any = None) -> int:
        """A route of transfers between a memory and an engine, over these links (resources): its number, which transfers name.

        Also while the run goes on, from inside a component. ValueError for what cannot be. Such a run is in no snapshot.
        """

    def open_peers(self, room: list[int]) -> None:
        """Let components' DMA jobs lead to other scratchpads: to each so many at a time, more than it takes by now.

        Also while the run goes on, from inside a component. ValueError for what cannot be. Such a run is in no snapshot.
        """

    def wake(self, component: int, at: int) -> None:
        """Let a component, given by its position, run in cycle `at`: from inside another one. ValueError for a cycle that has begun."""

    def submitted_there(self) -> list[int]: ...
    def describe(self, job: int, row: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """A component's job is a command, which stands at that row behind the entries; `(Opkind, engine, params, more)` of it.

        ValueError where there is no such job, or it is over.
        """

    def open_jobs(self) -> list[tuple[int, int, int, int, int, int]]:
        """`(row, Opkind, engine, channel, issue, start)` of each job of a component that is not over; -1: none."""

    def submitted_work(self) -> tuple[dict[int, int], int, int]:
        """`(MACs by bits of the weights, operations, bytes of streamed operands)` of jobs of components that ended."""

    def tracer(self, level: int) -> Trace:
        """A `Trace` for this run, for `run`."""

    def engines(self) -> dict[str, list[dict[str, Any]]]:
        """What every engine does now: `dma`, `compute`, `resources`."""

    def waiting(self) -> tuple[_Cycles, int]:
        """`(waits, gate)`: how many things each entry still waits for, and the position of the barrier that holds the rest."""

    def arrivals(self) -> _Cycles | None:
        """The cycle in which each entry arrives in the command queue; None where the machine has no host that writes entries."""

    def overlaps(self) -> list[tuple[int, int]]:
        """Pairs (entry, running entry) of positions for each start that `check_overlap` found fault with."""

    def shuffle_lists(self, seed: int) -> None:
        """For tests: handle equal events of a cycle in a random order; it must change nothing. 0 ends it."""

    def snapshot(self) -> bytes:
        """The model state as bytes; runs that stand alike give equal bytes, however they were walked."""

    def restore(self, image: bytes) -> None:
        """Put a snapshot of the same machine and program back; ValueError where it is none, which changes nothing."""

    def most_state_bytes(self) -> int:
        """[B] that a snapshot of this machine and program has at most, wherever it stands. Of a run without components."""

    def digest(self) -> str:
        """SHA-256, in hex, of the model state: the same in every process of one build, however the run was walked."""

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """What `snapshot` holds, by name: `{table: [{field: value}]}`. Of a run without components."""
