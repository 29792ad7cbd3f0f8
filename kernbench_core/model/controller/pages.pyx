"""Closes rows that no request needs, by the page policy. A new policy is a function and a line in the table."""
from kernbench_core.model.controller.bus cimport allowed_at, hold_bus
from kernbench_core.model.controller.timing cimport PRE, command_to_bank
from kernbench_core.types cimport NEVER, NONE, int32_t


cdef bint wanted(Channel* c, int32_t bank) noexcept nogil:
    """Whether a request needs the open row of a bank."""
    cdef int32_t which, k
    if c.device.bank[bank].active:
        return True
    for which in range(2):
        for k in range(c.n[which]):
            if c.queue[which][k].bank == bank and c.queue[which][k].row == c.device.bank[bank].row:
                return True
    return False


cdef clock_t close_page(Controllers* d, Channel* c, clock_t now, bint* issued) noexcept nogil:
    """Issue PRE to the first bank whose row the policy closes in this clock. If there is none, return the first clock in which there
    may be one."""
    cdef int32_t k
    cdef clock_t at, soonest = NEVER
    cdef BankState* b
    for k in range(d.timing.banks):
        b = &c.device.bank[k]
        if b.row == NONE or wanted(c, k):
            continue
        at = CONTROLLER_PAGES[d.page].closes_at(d, b, now)
        if at == NEVER:
            continue
        at = allowed_at(d, c, k, PRE, at)
        if at <= now:
            command_to_bank(&c.device, &d.timing, k, PRE, now)
            hold_bus(d, c, k, PRE, now)
            issued[0] = True
            return now
        soonest = min(soonest, at)
    return soonest


cdef clock_t at_once(Controllers* d, BankState* b, clock_t now) noexcept nogil:
    """`closed`: as soon as no request needs the row."""
    return now


cdef clock_t after_idle(Controllers* d, BankState* b, clock_t now) noexcept nogil:
    """`adaptive`: no earlier than `idle_clocks` after the last column command to the bank."""
    return max(now, b.used + d.idle)


CONTROLLER_PAGES[<int>OPEN_PAGES] = PagePolicy(NULL)
CONTROLLER_PAGES[<int>CLOSED_PAGES] = PagePolicy(at_once)
CONTROLLER_PAGES[<int>ADAPTIVE_PAGES] = PagePolicy(after_idle)
