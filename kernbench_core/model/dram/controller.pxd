"""The choice of commands: rules R5 to R7 of docs/model/dram_rows.md.

A channel issues at most one column command (RD, WR) and one row command (ACT, PRE, REF) in a DRAM clock.
"""
from libc.string cimport memmove

from kernbench_core.model.dram.device cimport (
    ACT, PRE, RD, REF, WR, Bank, device_closable, device_close, device_issue, device_ready, device_refresh)
from kernbench_core.model.dram.devices cimport Burst, Controller, Devices, IssuedBurst
from kernbench_core.model.dram.page.page cimport PAGE_POLICIES
from kernbench_core.model.dram.scheduler.scheduler cimport SCHEDULERS
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t

cdef inline void scan_queue(Devices* d, Controller* c) noexcept nogil:
    """Find the possible commands of each queued burst, apart from timing parameters."""
    d.scans += 1
    SCHEDULERS[d.scheduler].mark(d, c)

cdef inline void issue_burst(Devices* d, Controller* c, int32_t k, cycle_t now) noexcept nogil:
    """Issue RD or WR for the k-th burst in the queue."""
    cdef Burst* q = &c.queue[k]
    cdef IssuedBurst* g = &c.issued[c.n_issued]
    device_issue(&c.device, &d.timing, q.bank, WR if q.write else RD, now)
    if q.write != c.writes:
        c.writes = q.write
        c.streak = 0
    c.streak += 1
    c.device.bank[q.bank].passed += c.device.bank[q.bank].oldest_row != q.row
    g.flow = q.flow
    g.nbytes = q.nbytes
    g.end = q.end
    g.at = now + (d.timing.to_write if q.write else d.timing.to_read)
    c.n_issued += 1
    c.bursts += 1
    c.queued -= 1
    memmove(q, q + 1, (c.queued - k) * sizeof(Burst))

cdef inline cycle_t issue_column(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """Issue a RD or WR and return `now`; else return the cycle from which one may be issued."""
    cdef cycle_t soonest
    cdef int32_t k
    if c.n_issued == d.room:
        return NEVER
    k = SCHEDULERS[d.scheduler].choose(d, c, now, &soonest)
    if k == NONE:
        return soonest
    issue_burst(d, c, k, now)
    return now

cdef inline cycle_t close_row(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """Close a row that the page policy does not keep and return `now`; else return the cycle from which one may be closed."""
    cdef cycle_t soonest
    cdef int32_t bank = PAGE_POLICIES[d.page].closes(d, c, now, &soonest)
    if bank == NONE:
        return soonest
    device_issue(&c.device, &d.timing, bank, PRE, now)
    return now

cdef inline cycle_t issue_row(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """Open a row for the oldest burst of a bank, or close the row that blocks it, and return `now`; else return the cycle from
    which this is possible."""
    cdef int32_t k, command
    cdef Burst* q
    cdef Bank* b
    cdef cycle_t at, soonest = NEVER
    for k in range(c.queued):
        q = &c.queue[k]
        b = &c.device.bank[q.bank]
        if not q.leads or b.row == q.row or b.candidates:
            continue
        command = ACT if b.row == NONE else PRE
        at = device_ready(&c.device, &d.timing, q.bank, command)
        if at <= now:
            device_issue(&c.device, &d.timing, q.bank, command, now)
            if command == ACT:
                b.row = q.row
                b.passed = 0
                c.activations += 1
            return now
        soonest = min(soonest, at)
    return min(soonest, close_row(d, c, now))

cdef inline cycle_t issue_refresh(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """A refresh is due: close all banks, then refresh; return `now`, or the cycle from which the next of these commands is
    possible."""
    cdef bint closed
    cdef cycle_t at = device_closable(&c.device, &d.timing, &closed)
    if closed:
        at = c.device.ready[REF]
    if at > now:
        return at
    if closed:
        device_refresh(&c.device, &d.timing, now)
        c.refresh += d.timing.refi
        c.refreshes += 1
    else:
        device_close(&c.device, &d.timing, now)
    return now

cdef inline void controller_step(Devices* d, Controller* c, cycle_t now) noexcept nogil:
    """Issue the possible commands of this cycle, and find the next cycle in which a command is possible."""
    cdef cycle_t column, row = NEVER, refi = d.timing.refi
    if now % d.timing.period:
        c.command_at = (now // d.timing.period + 1) * d.timing.period
        return
    if refi and c.refresh <= now:
        column = issue_refresh(d, c, now)
    else:
        scan_queue(d, c)
        column = issue_column(d, c, now)
        if column == now:
            scan_queue(d, c)
        row = issue_row(d, c, now)
        if refi:
            column = min(column, c.refresh) if column != now else now
    c.command_at = now + d.timing.period if column == now or row == now else min(column, row)
