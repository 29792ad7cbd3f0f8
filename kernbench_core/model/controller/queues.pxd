"""The queues of a controller: C3 of docs/model/dram_controller.md."""
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.controller.timing cimport clock_t
from kernbench_core.types cimport int32_t, int64_t, slot_t

cdef void enqueue(
    Controllers* d, Channel* c, slot_t flow, int64_t seq, int64_t number, bint write, bint whole, clock_t now) noexcept nogil
