"""The command buses of a DRAM channel: from which clock on a command is allowed (C5)."""
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.controller.timing cimport CAS, RD, WR, Timing, clock_t
from kernbench_core.types cimport int32_t

cdef enum:
    COLUMN_BUS = 0            # or the only one
    ROW_BUS = 1
    ONE_BUS = 2               # of all commands

cdef clock_t allowed_at(Controllers* d, Channel* c, int32_t bank, int32_t command, clock_t now) noexcept nogil
cdef void hold_bus(Controllers* d, Channel* c, int32_t bank, int32_t command, clock_t now) noexcept nogil

cdef inline bint of_columns(int32_t command) noexcept nogil:
    return command == RD or command == WR or command == CAS

cdef inline int32_t bus_of(Timing* t, int32_t command) noexcept nogil:
    return ROW_BUS if t.buses == 2 and not of_columns(command) else COLUMN_BUS
