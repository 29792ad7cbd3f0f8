"""The queues of a controller: C3 of docs/model/dram_controller.md."""
from kernbench_core.model.controller.address cimport place_burst
from kernbench_core.model.controller.requests cimport Channel, Controllers, Request
from kernbench_core.model.controller.timing cimport clock_t
from kernbench_core.types cimport int32_t, int64_t, slot_t

cdef inline void enqueue(
        Controllers* d, Channel* c, slot_t flow, int64_t seq, int64_t number, bint write, bint whole, clock_t now) noexcept nogil:
    """Append a burst to a queue that has room. `whole`: for a write, whether its data have arrived. The burst arrives in clock
    `now`."""
    cdef Request* q = &c.queue[<int>write][c.n[<int>write]]
    q.flow = flow
    q.seq = seq
    q.number = number
    q.came = now
    q.write = write
    q.whole = not write or whole
    q.counted = False
    place_burst(d, q)
    c.n[<int>write] += 1
    c.whole += write and whole
