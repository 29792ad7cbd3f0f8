"""A network of routers by itself, under packets that are known in advance (`kbsim noc load`)."""
import numpy as np

from kernbench_core.model.noc.network cimport network_clock, network_next, network_send
from kernbench_core.model.noc.routers cimport Network, Packet
from kernbench_core.state.arena cimport Arena
from kernbench_core.state.arrays cimport int64_rows, writable_int64s
from kernbench_core.state.network_layout cimport lay_out_network
from kernbench_core.types cimport NEVER, cycle_t, int64_t, slot_t


cdef class FlitLoad:
    """`spec`: the tables of a network (`kernbench.noc.network`)."""
    cdef Arena arena
    cdef Network net
    cdef int64_t n                     # packets
    cdef int64_t room                  # room for packets
    cdef int64_t sent                  # packets that are in queues or have left them
    cdef int64_t left                  # packets that have not ended
    cdef cycle_t now

    def __init__(self, dict spec):
        self.arena = Arena()
        self.room = 1024
        lay_out_network(&self.net, self.arena, spec, 1024)

    def offer(self, packets):
        """Add packets, in order of birth, as rows of clock of birth, source, target, first hop, flits."""
        cdef int64_t k, n = len(packets)
        cdef const int64_t* row = int64_rows(packets, n, 5)
        cdef Packet* p
        if self.n + n > self.room:
            self.room = 2 * (self.n + n)
            self.arena.grow(<void**>&self.net.packet, self.room, sizeof(Packet))
        for k in range(n):
            p = &self.net.packet[self.n + k]
            p.queued_at, p.source, p.target, p.hop, p.flits = row[5 * k], row[5 * k + 1], row[5 * k + 2], row[5 * k + 3], row[5 * k + 4]
            p.end = NEVER
        self.n += n
        self.left += n

    cdef void walk(self, cycle_t until, bint skip) noexcept nogil:
        cdef slot_t packet
        cdef cycle_t following
        while self.now < until and self.left:
            while self.sent < self.n and self.net.packet[self.sent].queued_at <= self.now:
                network_send(&self.net, self.sent)
                self.sent += 1
            network_clock(&self.net, self.now)
            packet = self.net.ended
            while packet >= 0:
                self.left -= 1
                packet = self.net.packet[packet].next
            following = network_next(&self.net, self.now) if skip else self.now + 1
            if self.sent < self.n:
                following = min(following, self.net.packet[self.sent].queued_at)
            self.now = max(self.now + 1, min(following, until))

    def run(self, int64_t until, bint skip=True):
        """Run the clocks before `until`; return the number of packets that have not ended."""
        with nogil:
            self.walk(until, skip)
        return self.left

    def ends(self):
        """The clock in which the tail of each packet was ejected; -1 before."""
        out = np.empty(self.n, dtype=np.int64)
        cdef int64_t* to = writable_int64s(out)
        cdef int64_t k
        for k in range(self.n):
            to[k] = self.net.packet[k].end if self.net.packet[k].end != NEVER else -1
        return out

    def outputs(self):
        """For each output: flits that left, clocks without a credit, clocks of heads without a channel, requests that lost the
        arbitration."""
        cdef int64_t k
        return np.array([
            (self.net.output[k].flits, self.net.output[k].no_credit, self.net.output[k].no_channel, self.net.output[k].lost)
            for k in range(self.net.outputs + self.net.terminals)
        ], dtype=np.int64)

    def inputs(self):
        """For each input: flits in its buffers summed over clocks, and the largest number at a time."""
        cdef int64_t k
        return np.array([
            (self.net.input[k].occupied + self.net.input[k].n * self.now, self.net.input[k].most)
            for k in range(self.net.inputs)
        ], dtype=np.int64)
