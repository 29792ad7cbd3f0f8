"""P5 and P6 of the only scratchpad of a machine, from request to request.

If there are several scratchpads, each runs behind the run's cycle in blocks, and a block must end before any event of the scratchpad. For
this, a bound is computed requester by requester. A single scratchpad needs no bound. It is run up to the next event of the other parts of
the machine, and stops after its own first event. Its requesters are on a timing wheel (fast/timing_wheel.pxd), so the cost of a cycle is
proportional to its requests. This is for many slow flows, which make requests far less often than once in a block.

The code is compiled a second time for runs that trace requests: a usual request writes only a note, and the record of a run that it ends.
"""
from libc.string cimport memset

from kernbench_core.model.arbiter.oldest_first cimport by_age
from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.trace.events cimport REC_RUN, TRACE_FULL, FlowTrace
from kernbench_core.model.requester cimport activity_phase
from kernbench_core.fast.block cimport open_walk, walk_due, walk_due_traced
from kernbench_core.trace.record_requests cimport record_served
from kernbench_core.trace.record_block cimport close_notes, open_notes
from kernbench_core.trace.record_request_notes cimport emit_moved, open_run, put_note, run_asked
from kernbench_core.fast.address_runs cimport apart_of, follows
from kernbench_core.model.arbiter.oldest_first cimport order_of
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.model.sim cimport Sim
from kernbench_core.model.bank_counters cimport tally_eight
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t
from kernbench_core.fast.paths cimport ROLLING_PATH, paths
from kernbench_core.fast.block_ports cimport PORTS, Walk, take
from kernbench_core.fast.timing_wheel cimport RIMS, SPOKES, Wheel, wheel_lay, wheel_put

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil

cdef enum:
    SLOW = 6                  # cycles between lines: in most blocks such a flow makes at most one request
    FLOWS = 12                # with fewer slow flows, blocks are faster
    WORDS = 64                # words of ports before they are counted

cdef struct Ports:            # ports of the cycles that are not counted yet, one cycle after another
    uint64_t[WORDS + 2 * PORTS + 8] word
    int32_t n


cdef bint may_roll(Sim* s, Spm* p) noexcept nogil:
    """Whether rolling is faster, and nothing needs a horizon."""
    cdef int32_t k, slow = 0
    if not (paths & ROLLING_PATH and (s.skip or s.trace != NULL and s.trace.rolls)):
        return False
    if not (by_age(p) and s.n_spm == 1 and s.own_routes and p.narrow and FLOWS <= p.n_order <= 64 * RIMS):
        return False
    if s.plugs != NULL or s.share.devices != NULL or p.n_asks or p.n_pairs:
        return False
    for k in range(p.n_order):
        if not s.requester[p.order[k]].compute:
            slow += s.share.flow[p.order[k]].every >= SLOW
            if slow >= FLOWS:
                return True
    return False


cdef inline bint ask_line(
        Sim* s, Spm* p, Walk* w, slot_t requester, Requester* a, nbytes_t apart, int32_t hop, bint traced) noexcept nogil:
    """The usual request of a flow that is due, of one whole line that is granted; false for any other, and nothing is done.

    `apart`, `hop`: as in `run_on`.
    """
    cdef Flow* f = &s.share.flow[requester]
    cdef FlowTrace* t = &s.flow_trace[requester]
    cdef nbytes_t line = w.line
    cdef int64_t carry = f.carry + (w.begin + 1 - f.seen) * f.num - f.cost
    cdef int32_t side = w.split and a.to_writes, bank = f.bank
    cdef int32_t ports = w.ports[side]
    cdef uint64_t mask = <uint64_t>1 << bank
    cdef uint64_t* taken = w.taken[side]
    cdef bint last = f.at.run_left < 2 * line
    if <uint64_t>carry >= <uint64_t>f.num or a.first_denied != NEVER or f.piece != w.piece or f.every == 0:
        return False
    if taken[ports - 1] & mask or last and (f.at.run_left != line or not follows(f, apart, line)):
        return False
    if traced:
        open_run(t, f, f.at.run_left, f.bank)
        run_asked(t, w.begin)
        put_note(w, requester, 0, 0 if side else mask, mask if side else 0)
        if w.trace.level > TRACE_FULL:          # every request is an event
            f.asked = line
            record_served(s, p, requester, NEVER, w.begin)
        elif last:
            emit_moved(s, f, t, REC_RUN, w.begin)
            t.asked = NEVER
    take(taken, ports, mask)
    f.left -= line
    f.carry = carry
    f.seen = w.begin + 1
    bank += 1
    if last:
        f.at.dram += f.at.run_seen + apart
        f.at.addr = f.at.dram + f.at.shift
        f.at.run_left = f.at.run_seen = min(s.memory.interleave, f.at.row_end - f.at.dram)
        bank += hop
    else:
        f.at.run_left -= line
    f.bank = bank if bank < w.banks else bank - w.banks
    a.next_at = w.begin + f.every + (carry < f.rest)
    return True


cdef void count(Spm* p, Ports* x) noexcept nogil:
    """Count the ports that were taken."""
    cdef int32_t k
    for k in range((x.n + 7) // 8):
        tally_eight(&p.grants, x.word + 8 * k)
    memset(x.word, 0, (x.n + 7) // 8 * 8 * sizeof(uint64_t))
    x.n = 0


cdef inline void walk_requester(Sim* s, Spm* p, Walk* w, slot_t requester, bint traced) noexcept nogil:
    """Handle any requester that is due."""
    p.look.due[0] = requester
    if traced:
        walk_due_traced(s, p, w, 1)
    else:
        walk_due(s, p, w, 1)


cdef inline void aged_cycle(Sim* s, Spm* p, Walk* w, slot_t* order, bint traced) noexcept nogil:
    """A cycle in which aged requests come first."""
    cdef int32_t k
    for k in range(p.n_order):
        if min(s.requester[order[k]].next_at, s.requester[order[k]].backpressure_at) <= w.begin:
            walk_requester(s, p, w, order[k], traced)
    p.look.laid = False


cdef inline void cycle(Sim* s, Spm* p, Walk* w, nbytes_t apart, int32_t hop, bint traced) noexcept nogil:
    """Handle the requesters that are due in cycle `w.begin`, in tie-break order."""
    cdef Wheel* x = s.wheel
    cdef int64_t spoke = w.begin - x.first
    cdef int32_t r, place
    cdef uint64_t rims = x.rim[spoke], due
    cdef slot_t requester
    cdef Requester* a
    while rims:
        r = trailing_zeros(rims)
        rims &= rims - 1
        due = x.due[r][spoke]
        while due:
            place = 64 * r + trailing_zeros(due)
            due &= due - 1
            requester = p.order[place]
            a = &s.requester[requester]
            if a.compute or not ask_line(s, p, w, requester, a, apart, hop, traced):
                walk_requester(s, p, w, requester, traced)
            wheel_put(x, a, place)


cdef inline bint event(Sim* s, int32_t ends, int64_t records) noexcept nogil:
    """`records`: the number of records that is sufficient."""
    return s.n_pressed or s.n_done_flow or s.n_done_compute or s.n_rejoin or s.ends.n != ends or records and s.trace.n >= records


cdef inline cycle_t run_on(Sim* s, Spm* p, cycle_t to, bint traced) noexcept nogil:
    cdef Wheel* x = s.wheel
    cdef Walk w
    cdef Ports ports
    cdef uint64_t todo
    cdef int32_t ends = s.ends.n
    cdef int64_t records = max(s.trace.full, s.trace.n + 1) if traced else 0
    cdef slot_t* order
    # From the end of a run to the next one of the flow: bytes of the other channels, and banks. 0 bytes: runs may end inside a line.
    cdef nbytes_t apart = apart_of(s.memory, p)
    cdef int32_t hop = <int32_t>((apart >> p.line_shift) % p.banks) if apart else 0
    open_walk(&w, p, 1)
    if traced:
        open_notes(s, &w)
    memset(ports.word, 0, sizeof(ports.word))
    ports.n = 0
    while p.done < to and not event(s, ends, records):
        if not p.look.laid or p.done >= x.first + SPOKES:
            wheel_lay(x, p, s.requester)
        if p.n_watch == 0:                      # else the activity of DMA engines is handled after this cycle
            todo = x.busy >> (p.done - x.first)
            p.done += trailing_zeros(todo) if todo else x.first + SPOKES - p.done
            if todo == 0 or p.done >= to:
                p.done = min(p.done, to)
                continue
        w.begin = p.done
        w.taken[0] = ports.word + ports.n
        w.taken[1] = w.taken[0] + w.ports[0]
        order = order_of(s, p, p.done)
        if order == p.order:
            cycle(s, p, &w, apart, hop, traced)
        else:
            aged_cycle(s, p, &w, order, traced)
        if traced:
            close_notes(s, p, &w)
        ports.n += w.ports[0] + (w.ports[1] if w.split else 0)
        if ports.n >= WORDS:
            count(p, &ports)
        if p.n_watch:
            activity_phase(s, p)
        p.done += 1
    count(p, &ports)
    return p.done - 1 if event(s, ends, records) else to


cdef cycle_t roll(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Run the cycles before `to`, up to and including the first that has an event, or enough records of a trace; return this cycle, or
    `to`."""
    return run_on(s, p, to, True) if s.trace != NULL and s.trace.level >= TRACE_FULL else run_on(s, p, to, False)
