"""The command buses of a DRAM channel: the clock from which a command is allowed (C5).

A command is allowed if its bus is free, no timing parameter forbids it, and it may begin in this phase of the device's clock.
"""
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.controller.timing cimport (
    ACT2, CAS, PRE, PREA, PSEUDO, RD, REF, WR, Timing, bank_ready, clock_t, rank_ready)
from kernbench_core.types cimport NONE, int32_t

cdef enum:
    COLUMN_BUS = 0            # or the only bus
    ROW_BUS = 1
    ONE_BUS = 2               # the bus of all commands

cdef inline bint of_columns(int32_t command) noexcept nogil:
    return command == RD or command == WR or command == CAS

cdef inline int32_t bus_of(Timing* t, int32_t command) noexcept nogil:
    return ROW_BUS if t.buses == 2 and not of_columns(command) else COLUMN_BUS

cdef inline clock_t allowed_at(Controllers* d, Channel* c, int32_t bank, int32_t command, clock_t now) noexcept nogil:
    """The first clock from `now` on in which the command is allowed, if no other command is issued before."""
    cdef Timing* t = &d.timing
    cdef clock_t at = max(now, c.bus_free[bus_of(t, command)])
    if command != ACT2:
        at = max(at, rank_ready(&c.device, bank, command) if command == PREA or command == REF else bank_ready(&c.device, bank, command))
    if t.phases == 1:
        return at
    if command != PRE and command != PREA:
        return at + (at & 1)
    if (at & 1 and at == c.pair_at and c.device.bank[bank].node[<int>PSEUDO] == c.pair_pseudo
            and (command == PREA or c.pair_bank == NONE or c.pair_bank == bank)):
        return at + 1
    return at

cdef inline void hold_bus(Controllers* d, Channel* c, int32_t bank, int32_t command, clock_t now) noexcept nogil:
    """Let the command occupy its bus."""
    c.bus_free[bus_of(&d.timing, command)] = now + d.timing.clocks[command]
    if d.timing.phases == 2 and not now & 1 and not of_columns(command):
        c.pair_at = now + d.timing.clocks[command]
        c.pair_pseudo = c.device.bank[bank].node[<int>PSEUDO]
        c.pair_bank = NONE if command == PREA or command == REF else bank
