"""A DRAM controller of row_buffer_v2 by itself, under a load of bursts (`kbsim validate dram`)."""
from libc.stdlib cimport free, malloc

from kernbench_core.model.controller.commands cimport controller_clock
from kernbench_core.model.controller.queues cimport enqueue
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.controller.timing cimport clock_t
from kernbench_core.state.arena cimport Arena
from kernbench_core.state.arrays cimport int64_rows
from kernbench_core.state.controller_layout cimport lay_out_controllers
from kernbench_core.types cimport NEVER, NONE, int64_t


cdef class DramLoad:
    """One channel, with bursts that enter its queues in order: no burst is offered before the previous one was accepted.

    `spec`: the same as in `Core` (`kernbench.cmdq.controller_timing`). `bursts`: an int64 array of three columns: the number of the burst
    in the channel, 1 for a write, and the clock in which the burst is offered; the clocks never decrease.
    """
    cdef Arena arena
    cdef Controllers all
    cdef object bursts
    cdef const int64_t* burst
    cdef clock_t* departed
    cdef clock_t* taken
    cdef int64_t n

    def __init__(self, dict spec, bursts):
        self.arena = Arena()
        self.n = len(bursts)
        self.bursts = bursts
        self.burst = int64_rows(bursts, self.n, 3)
        lay_out_controllers(&self.all, self.arena, spec, 1, 0)
        self.departed = <clock_t*>malloc((self.n + 1) * sizeof(clock_t))
        self.taken = <clock_t*>malloc((self.n + 1) * sizeof(clock_t))
        if self.departed == NULL or self.taken == NULL:
            raise MemoryError("no memory for the times of bursts")
        self.all.departed = self.departed

    def __dealloc__(self):
        free(self.departed)
        free(self.taken)

    cdef int64_t offer(self, Channel* c, int64_t i, clock_t now) noexcept nogil:
        """Let the queues accept bursts, as far as they have room, in the clock before `now`; return the first burst that is not
        accepted."""
        cdef Controllers* d = &self.all
        cdef bint write
        while i < self.n and self.burst[3 * i + 2] <= now:
            write = self.burst[3 * i + 1]
            if c.n[<int>write] == d.depth[<int>write]:
                break
            self.taken[i] = now - 1
            self.departed[i] = NEVER
            enqueue(d, c, NONE, i, self.burst[3 * i], write, True, now - 1)
            i += 1
        return i

    cdef void counted(self, Channel* c, int64_t* out) noexcept nogil:
        out[0], out[1], out[2] = c.hits, c.misses, c.conflicts
        out[3], out[4] = c.activations, c.refs

    cdef int64_t walk(self, Channel* c, int64_t i, clock_t* now, clock_t end) noexcept nogil:
        """Run the clocks up to `end`."""
        cdef clock_t at, offered
        while now[0] < end:
            i = self.offer(c, i, now[0])
            at = controller_clock(&self.all, c, now[0])
            offered = self.burst[3 * i + 2] if i < self.n else NEVER
            if offered <= now[0]:       # a queue was full: it may have room in the next clock, if a command was issued
                offered = at
            now[0] = max(now[0] + 1, min(at, offered))
        return i

    def run(self, int64_t warm, int64_t clocks, int64_t first=0):
        """Run `warm` clocks, and then `clocks` clocks that are counted; return a dict of counts, and `latencies`, the clocks of each read.

        A read is counted when its last data arrive, and a write at its WR. `first`: the number of the first clock, from which
        refreshes are counted. ValueError if there are too few bursts.
        """
        cdef Channel* c = &self.all.channel[0]
        cdef clock_t now = first, begin = first + warm, end = first + warm + clocks
        cdef int64_t i, k, reads = 0, writes = 0
        cdef int64_t[5] before
        cdef int64_t[5] after
        with nogil:
            i = self.walk(c, 0, &now, begin)
            self.counted(c, before)
            i = self.walk(c, i, &now, end)
            self.counted(c, after)
        if i == self.n and self.burst[3 * (self.n - 1) + 2] < end:
            raise ValueError(f"{self.n} bursts are too few for {end} clocks")
        latencies = []
        for k in range(i):
            if not begin <= self.departed[k] < end:
                continue
            if self.burst[3 * k + 1]:
                writes += 1
            else:
                reads += 1
                latencies.append(self.departed[k] - self.taken[k])
        names = ("row_hits", "row_misses", "row_conflicts", "activations", "refreshes")
        counts = {name: after[k] - before[k] for k, name in enumerate(names)}
        return counts | {"reads": reads, "writes": writes, "latencies": latencies}
