"""Refresh: C7 of docs/model/dram_controller.md. The pending refresh, and its next command."""
from kernbench_core.model.controller.bus cimport allowed_at, hold_bus
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.controller.timing cimport PRE, PREA, RANK, REF, REFB, clock_t, command_to_bank, command_to_rank
from kernbench_core.types cimport NEVER, NONE, int32_t, int64_t

cdef inline bint requested(Channel* c, int32_t bank) noexcept nogil:
    """Whether a request is waiting for this bank; with NONE, for any bank."""
    cdef int32_t which, k
    if bank == NONE:
        return c.n_active or c.n[0] or c.n[1]
    if c.device.bank[bank].active:
        return True
    for which in range(2):
        for k in range(c.n[which]):
            if c.queue[which][k].bank == bank:
                return True
    return False

cdef inline clock_t refresh_look(Controllers* d, Channel* c, clock_t now) noexcept nogil:
    """At the beginning of a clock, find whether a refresh is pending, and for which bank. The clock in which the next refresh
    becomes due."""
    cdef clock_t refi = d.timing.refi
    cdef int64_t each = 1 if d.per_bank else d.timing.nodes[<int>RANK], due
    cdef int32_t bank
    c.waits = False
    c.refreshing = NONE
    if refi == 0:
        return NEVER
    due = now // refi * each - c.refs
    if due > 0:
        bank = <int32_t>(c.refs % d.timing.banks) if d.per_bank else NONE
        if due > d.postpone * each or not requested(c, bank):
            c.waits = True
            c.refreshing = bank
    return (now // refi + 1) * refi

cdef inline clock_t refresh_command(Controllers* d, Channel* c, clock_t now, bint* issued) noexcept nogil:
    """Issue the next command of the pending refresh, if it is allowed; else return the clock in which it may be allowed."""
    cdef int32_t first, k, command, n = 1
    cdef bint open_row = False
    cdef clock_t at
    if c.refreshing == NONE:
        n = d.timing.rank_banks
        first = <int32_t>(c.refs % d.timing.nodes[<int>RANK]) * n
    else:
        first = c.refreshing
    for k in range(first, first + n):
        if c.device.bank[k].active:
            return NEVER
        open_row |= c.device.bank[k].row != NONE
    if c.refreshing == NONE:
        command = PREA if open_row else REF
    else:
        command = PRE if open_row else REFB
    at = allowed_at(d, c, first, command, now)
    if at > now:
        return at
    issued[0] = True
    hold_bus(d, c, first, command, now)
    if c.refreshing == NONE:
        command_to_rank(&c.device, &d.timing, first, command, now)
    else:
        command_to_bank(&c.device, &d.timing, first, command, now)
    if not open_row:
        c.refs += 1
    return now
