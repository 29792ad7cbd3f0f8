"""Calls the DRAM model of the run's allocation rule."""
from kernbench_core.model.controller.buffers cimport controllers_phase, controllers_still, port_close, port_open
from kernbench_core.model.dram.queue cimport queue_forget
from kernbench_core.model.dram.row_buffer cimport device_phase, devices_still, fetch_open
from kernbench_core.types cimport CONTROLLER_MODEL


cdef void dram_open(Share* s, slot_t flow, Extent* x, int32_t memory, bint write) noexcept nogil:
    """A transfer starts."""
    if s.rule == CONTROLLER_MODEL:
        port_open(s, flow, x, memory, write)
    else:
        fetch_open(s, flow, x, memory, write)


cdef void dram_close(Share* s, slot_t flow) noexcept nogil:
    """A flow's last byte has moved."""
    if s.rule == CONTROLLER_MODEL:
        port_close(s, flow)
    else:
        queue_forget(s, flow)


cdef void dram_phase(Share* s, cycle_t now) noexcept nogil:
    """P4."""
    if s.rule == CONTROLLER_MODEL:
        controllers_phase(s, now)
    else:
        device_phase(s, now)


cdef bint dram_still(Share* s) noexcept nogil:
    """After P4 of a cycle: no work is possible for a transfer until a flow enters."""
    return controllers_still(s) if s.rule == CONTROLLER_MODEL else devices_still(s)
