"""Issues the commands of a clock, and finds the next clock in which a command is possible."""
from libc.string cimport memmove

from kernbench_core.model.controller.bus cimport COLUMN_BUS, ONE_BUS, ROW_BUS, allowed_at, bus_of, hold_bus, of_columns
from kernbench_core.model.controller.pages cimport CONTROLLER_PAGES, close_page
from kernbench_core.model.controller.refresh cimport refresh_command, refresh_look
from kernbench_core.model.controller.requests cimport BurstSlot, cycle_of
from kernbench_core.model.controller.schedulers cimport CONTROLLER_SCHEDULERS, SchedulerPolicy, mark_queue
from kernbench_core.model.controller.timing cimport ACT, ACT2, CAS, PRE, RD, WR, BankState, Timing, command_to_bank
from kernbench_core.types cimport NEVER, NONE, int32_t

cdef enum:
    ACTIVE_LIST = 2           # Channel.cas_list


cdef void choose_direction(Controllers* d, Channel* c) noexcept nogil:
    """Choose whether reads or writes are served."""
    if c.writes:
        c.writes = c.whole > d.low or c.n[0] == 0
    else:
        c.writes = c.whole >= d.high or c.n[0] == 0


cdef inline int32_t next_command(Channel* c, Request* q) noexcept nogil:
    cdef BankState* b = &c.device.bank[q.bank]
    if b.row == NONE:
        return ACT
    if b.row != q.row:
        return PRE
    return WR if q.write else RD


cdef inline void take_out(Request* queue, int32_t* n, int32_t k) noexcept nogil:
    n[0] -= 1
    memmove(queue + k, queue + k + 1, (n[0] - k) * sizeof(Request))


cdef void issue_column(Controllers* d, Channel* c, int32_t which, int32_t k, clock_t now) noexcept nogil:
    """Issue RD or WR for the k-th request of a list."""
    cdef Request* list_ = c.active if which == ACTIVE_LIST else c.queue[which]
    cdef Request* q = &list_[k]
    cdef BankState* b = &c.device.bank[q.bank]
    cdef Timing* t = &d.timing
    cdef int32_t command = WR if q.write else RD
    cdef clock_t first = now + (t.to_write if q.write else t.to_read)
    cdef BurstSlot* slot
    command_to_bank(&c.device, t, q.bank, command, now)
    hold_bus(d, c, q.bank, command, now)
    if t.running:
        c.data_clock = max(c.data_clock, first + t.burst + t.running)
    b.used = now
    c.bursts += 1
    if not q.counted:
        c.hits += 1
    if q.write == 0 and q.flow != NONE:
        slot = &d.port[q.flow].ring[q.seq % d.slots]
        slot.at = cycle_of(d, first + t.to_drain)
    if d.departed != NULL:
        d.departed[q.seq] = now if q.write else first + t.burst
    if which == ACTIVE_LIST:
        b.active -= 1
        take_out(c.active, &c.n_active, k)
        return
    if CONTROLLER_SCHEDULERS[d.scheduler].marks and b.oldest_row != q.row:
        b.passed += 1
    if which == 1:
        c.whole -= 1
    take_out(c.queue[which], &c.n[which], k)


cdef void issue_act(Controllers* d, Channel* c, int32_t which, int32_t k, clock_t now) noexcept nogil:
    """Issue ACT, or ACT1, for the k-th burst of a queue, and remove the burst from the queue."""
    cdef Request* q = &c.queue[which][k]
    cdef BankState* b = &c.device.bank[q.bank]
    command_to_bank(&c.device, &d.timing, q.bank, ACT, now)
    hold_bus(d, c, q.bank, ACT, now)
    if d.timing.two_part:
        b.opening = True
        b.act2_by = now + d.timing.two_part
        c.opening += 1
    else:
        b.row = q.row
    b.passed = 0
    b.active += 1
    c.activations += 1
    if not q.counted:
        c.misses += 1
        q.counted = True
    c.active[c.n_active] = q[0]
    c.n_active += 1
    if which == 1:
        c.whole -= 1
    take_out(c.queue[which], &c.n[which], k)
    if c.cas and c.cas_list == which and c.cas_index > k:  # a CAS of this clock, on the other bus
        c.cas_index -= 1


cdef bint issue_act2(Controllers* d, Channel* c, clock_t by, clock_t now) noexcept nogil:
    """Issue the second part of the activation with the earliest deadline, if the deadline is at most clock `by`; return whether
    it was issued."""
    cdef int32_t k, best = NONE
    cdef BankState* b
    if c.bus_free[bus_of(&d.timing, ACT2)] > now:
        return False
    for k in range(c.n_active):
        b = &c.device.bank[c.active[k].bank]
        if b.opening and b.act2_by <= by and (best == NONE or b.act2_by < c.device.bank[c.active[best].bank].act2_by):
            best = k
    if best == NONE:
        return False
    b = &c.device.bank[c.active[best].bank]
    b.opening = False
    b.row = c.active[best].row
    c.opening -= 1
    hold_bus(d, c, c.active[best].bank, ACT2, now)
    return True


cdef void column_or_cas(Controllers* d, Channel* c, int32_t which, int32_t k, clock_t now) noexcept nogil:
    """Issue RD or WR, or the command that must come before it."""
    if d.timing.running == 0 or now < c.data_clock:
        issue_column(d, c, which, k, now)
    elif not (c.opening and issue_act2(d, c, now + 1, now)):
        hold_bus(d, c, 0, CAS, now)
        c.cas = True
        c.cas_list = which
        c.cas_index = k


cdef clock_t serve_active(Controllers* d, Channel* c, clock_t now, bint* issued) noexcept nogil:
    """Step 1 of C5."""
    cdef int32_t k, best = NONE
    cdef clock_t at, soonest = NEVER
    for k in range(c.n_active):
        if c.device.bank[c.active[k].bank].opening:
            continue
        at = allowed_at(d, c, c.active[k].bank, WR if c.active[k].write else RD, now)
        if at > now:
            soonest = min(soonest, at)
        elif best == NONE or c.active[k].came < c.active[best].came:
            best = k
    if best != NONE:
        column_or_cas(d, c, ACTIVE_LIST, best, now)
        issued[0] = True
    return soonest


cdef inline bint after_cas(Channel* c, int32_t bank) noexcept nogil:
    """Whether a CAS was issued in this clock for a queued burst of a bank: its column command follows in the next clock."""
    return c.cas and c.cas_list != ACTIVE_LIST and c.queue[c.cas_list][c.cas_index].bank == bank


cdef inline bint forbidden(Channel* c, Request* q, int32_t command) noexcept nogil:
    """Whether the state of the bank, or of another activation, forbids a command at any time before it changes."""
    cdef BankState* b = &c.device.bank[q.bank]
    return b.opening or q.bank == c.refreshing or (command == PRE and (b.active or after_cas(c, q.bank))) or (command == ACT and c.opening)


cdef int32_t choose_queued(
        Controllers* d, Channel* c, int32_t which, int32_t bus, clock_t now, int32_t* chosen, clock_t* soonest) noexcept nogil:
    """The burst of a queue whose next command the bus issues now, with this command in `chosen`; or NONE. `soonest`: the first
    clock in which timing allows a command that it does not allow now."""
    cdef SchedulerPolicy* policy = &CONTROLLER_SCHEDULERS[d.scheduler]
    cdef Request* queue = c.queue[which]
    cdef int32_t k, command, best = NONE
    cdef clock_t at
    cdef bint first = True, may
    cdef Request* q
    soonest[0] = NEVER
    for k in range(c.n[which]):
        q = &queue[k]
        if not q.whole:
            continue
        command = next_command(c, q)
        may = not forbidden(c, q, command) and policy.may(d, c, q, command, first)
        first = False
        if not may or (bus != ONE_BUS and of_columns(command) != (bus == COLUMN_BUS)):
            continue
        at = allowed_at(d, c, q.bank, command, now)
        if at > now:
            soonest[0] = min(soonest[0], at)
            continue
        if best == NONE or (policy.hits_first and of_columns(command) and not of_columns(chosen[0])):
            best = k
            chosen[0] = command
            if not policy.hits_first or of_columns(command):
                break
    return best


cdef void issue_queued(Controllers* d, Channel* c, int32_t which, int32_t k, int32_t command, clock_t now) noexcept nogil:
    """Issue the next command of a queued burst."""
    cdef Request* q = &c.queue[which][k]
    if command == ACT:
        issue_act(d, c, which, k, now)
    elif command == PRE:
        if not q.counted:
            q.counted = True
            c.conflicts += 1
        command_to_bank(&c.device, &d.timing, q.bank, PRE, now)
        hold_bus(d, c, q.bank, PRE, now)
    else:
        column_or_cas(d, c, which, k, now)


cdef clock_t serve_queue(Controllers* d, Channel* c, int32_t bus, clock_t now, bint* issued) noexcept nogil:
    """Step 3 of C5."""
    cdef int32_t k, which, command = NONE
    cdef clock_t soonest
    choose_direction(d, c)
    which = c.writes
    if CONTROLLER_SCHEDULERS[d.scheduler].marks:
        mark_queue(c, c.queue[which], c.n[which])
    k = choose_queued(d, c, which, bus, now, &command, &soonest)
    if k != NONE:
        issued[0] = True
        issue_queued(d, c, which, k, command, now)
    return soonest


cdef clock_t serve(Controllers* d, Channel* c, int32_t bus, clock_t now, bint* issued) noexcept nogil:
    """One bus in one clock."""
    cdef clock_t soonest = NEVER
    if bus != ROW_BUS and c.n_active:
        soonest = serve_active(d, c, now, issued)
        if issued[0]:
            return soonest
    if c.waits and bus != COLUMN_BUS:
        soonest = min(soonest, refresh_command(d, c, now, issued))
        if issued[0]:
            return soonest
    if c.waits and c.refreshing == NONE:
        return soonest
    return min(soonest, serve_queue(d, c, bus, now, issued))


cdef clock_t controller_clock(Controllers* d, Channel* c, clock_t now) noexcept nogil:
    """Issue the possible commands of this clock; return the next clock in which a command may be possible, while nothing
    changes."""
    cdef bint column = False, row = False
    cdef clock_t soonest
    if c.cas:
        c.cas = False
        issue_column(d, c, c.cas_list, c.cas_index, now)
        return now + 1
    soonest = refresh_look(d, c, now)
    if c.opening and issue_act2(d, c, now, now):
        return now + 1
    if d.timing.buses == 2:
        soonest = min(soonest, serve(d, c, COLUMN_BUS, now, &column))
        soonest = min(soonest, serve(d, c, ROW_BUS, now, &row))
    else:
        soonest = min(soonest, serve(d, c, ONE_BUS, now, &row))
    if CONTROLLER_PAGES[d.page].closes_at != NULL and not row and not c.waits:
        soonest = min(soonest, close_page(d, c, now, &row))
    if c.opening and not row:
        row = issue_act2(d, c, NEVER, now)
        soonest = min(soonest, c.bus_free[bus_of(&d.timing, ACT2)])
    return now + 1 if column or row else soonest
