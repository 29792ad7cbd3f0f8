"""P5 and P6 of the only scratchpad of a machine, up to its next event.

If there are several scratchpads, each runs behind the run's cycle in blocks, and a block must end before any event of the scratchpad. For
this, a bound is computed requester by requester. A single scratchpad needs no bound. It is run up to the next event of the other parts of
the machine, and stops after its own first event. This is for many slow flows, which make requests far less often than once in a block.

The usual requests of flows, of one whole line each, are made by their lanes (fast/lanes.pyx). Cycles with only such requests are handled
together (fast/lane_windows.pyx), and the cycles between these windows one by one, with their requests in tie-break order.

Invariants, between two cycles:
- `Spm.done` is the next cycle. The lane of every requester has the cycle of its next request, or in which it leaves its resources,
  whichever is earlier; except for requesters in `LaneTable.moved`.
- A requester with an open lane has its next request in the lane, and not in its flow (`close_lane` brings the flow up to date).
- Of the ports of a cycle (`Walk.taken`), word `k` of a side has the banks of which more than `k` ports are taken.

Runs that trace requests have no lanes. For them, the code is compiled a second time: a usual request writes only a note, and the record of
a run that it ends.
"""
from kernbench_core.model.arbiter.oldest_first cimport by_age
from kernbench_core.model.bank cimport Requester, Spm
from kernbench_core.trace.events cimport REC_RUN, TRACE_FULL, FlowTrace
from kernbench_core.model.requester cimport activity_phase
from kernbench_core.fast.block cimport open_walk, walk_due, walk_due_traced
from kernbench_core.trace.record_requests cimport record_served
from kernbench_core.trace.record_block cimport close_notes, open_notes
from kernbench_core.trace.record_request_notes cimport emit_moved, open_run, put_note, run_requested
from kernbench_core.fast.address_runs cimport gap_of, follows
from kernbench_core.model.arbiter.oldest_first cimport order_of
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport NEVER, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t
from kernbench_core.fast.paths cimport ROLLING_PATH, paths
from kernbench_core.fast.block_ports cimport Walk, take
from kernbench_core.fast.lane_table cimport DUE_WORDS, EPOCH, LANES, TURN_WORDS, WINDOW, WORDS, Lanes, LaneTable, block_of, next_line
from kernbench_core.fast.lane_windows cimport find_due, first_other_request, first_request, run_window
from kernbench_core.fast.lanes cimport close_lane, close_lanes, count_ports, fill_lanes, open_lane, place_moved, place_requester

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil

cdef enum:
    SLOW = 6                  # cycles between lines: in most blocks such a flow makes at most one request
    FLOWS = 12                # with fewer slow flows, blocks are faster
    SHORT = 2                 # cycles: a shorter window takes longer than handling its cycle by itself

cdef bint may_roll(Sim* s, Spm* p) noexcept nogil:
    """Whether rolling is faster, and nothing needs a horizon."""
    cdef int32_t k, slow = 0
    if not (paths & ROLLING_PATH and (s.skip or s.trace != NULL and s.trace.rolls)):
        return False
    if not (by_age(p) and s.n_spm == 1 and s.own_routes and p.narrow and FLOWS <= p.n_order <= 64 * TURN_WORDS):
        return False
    if s.n_flows + s.n_compute >= 64 * DUE_WORDS:
        return False
    if s.plugs != NULL or s.share.devices != NULL or p.n_component_requests or p.n_pairs:
        return False
    for k in range(p.n_order):
        if not s.requester[p.order[k]].compute:
            slow += s.share.flow[p.order[k]].every >= SLOW
            if slow >= FLOWS:
                return True
    return False


cdef inline bint request_traced(Sim* s, Spm* p, Walk* w, slot_t requester, Requester* a, nbytes_t gap, int32_t hop) noexcept nogil:
    """The usual request of a traced flow that is due, of one whole line that is granted; false for any other, and nothing is done.

    `gap`, `hop`: as in `roll_to`.
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
    if taken[ports - 1] & mask or last and (f.at.run_left != line or not follows(f, gap, line)):
        return False
    open_run(t, f, f.at.run_left, f.bank)
    run_requested(t, w.begin)
    put_note(w, requester, 0, 0 if side else mask, mask if side else 0)
    if w.trace.level > TRACE_FULL:              # every request is an event
        f.requested = line
        record_served(s, p, requester, NEVER, w.begin)
    elif last:
        emit_moved(s, f, t, REC_RUN, w.begin)
        t.requested = NEVER
    take(taken, ports, mask)
    f.left -= line
    f.carry = carry
    f.seen = w.begin + 1
    bank += 1
    if last:
        f.at.dram += f.at.run_seen + gap
        f.at.addr = f.at.dram + f.at.shift
        f.at.run_left = f.at.run_seen = min(s.memory.interleave, f.at.row_end - f.at.dram)
        bank += hop
    else:
        f.at.run_left -= line
    f.bank = bank if bank < w.banks else bank - w.banks
    a.next_at = w.begin + f.every + (carry < f.rest)
    return True


cdef inline void walk_requester(Sim* s, Spm* p, Walk* w, slot_t requester, bint traced) noexcept nogil:
    """Handle any requester that is due."""
    p.lookahead.due[0] = requester
    if traced:
        walk_due_traced(s, p, w, 1)
    else:
        walk_due(s, p, w, 1)


cdef inline void aged_cycle(Sim* s, Spm* p, Walk* w, slot_t* order, bint traced) noexcept nogil:
    """A cycle in which aged requests come first."""
    cdef int32_t k
    close_lanes(s, p)
    for k in range(p.n_order):
        if min(s.requester[order[k]].next_at, s.requester[order[k]].backpressure_at) <= w.begin:
            walk_requester(s, p, w, order[k], traced)
    p.lookahead.has_lanes = False


cdef inline void take_free(uint64_t* taken, int32_t ports, uint64_t bank) noexcept nogil:
    """Grant a bank that has a port left."""
    cdef int32_t k
    for k in range(ports - 1, 0, -1):
        taken[k] |= bank & taken[k - 1]
    taken[0] |= bank


cdef inline bint other_request(Sim* s, Spm* p, Walk* w, slot_t requester, nbytes_t gap, int32_t hop, bint traced) noexcept nogil:
    """Handle a requester that is due without a lane; false if it was the usual request of a traced flow."""
    cdef int32_t k = s.lane_of[requester]
    cdef Requester* a = &s.requester[requester]
    cdef bint usual = False
    if traced and not a.compute:
        usual = request_traced(s, p, w, requester, a, gap, hop)
    if not usual:
        if s.lane[block_of(k)].opened[k & (LANES - 1)]:
            close_lane(s, requester, w.begin)
        walk_requester(s, p, w, requester, traced)
    place_requester(s, p, requester)
    return not usual


cdef inline void sort_due(Sim* s, LaneTable* x) noexcept nogil:
    """Bring the lanes that are due into tie-break order: from `LaneTable.due` to `LaneTable.turn`."""
    cdef int32_t r, k, position
    cdef uint64_t due
    for r in range((x.blocks + 7) // 8):
        due = x.due[r]
        while due:
            k = 64 * r + trailing_zeros(due)
            due &= due - 1
            position = s.lane[block_of(k)].position[k & (LANES - 1)]
            x.turn[position >> 6] |= <uint64_t>1 << (position & 63)


cdef inline bint requests_due(Sim* s, Spm* p, Walk* w, int32_t ports, nbytes_t gap, int32_t hop, bint traced) noexcept nogil:
    """Handle the requesters that are due in cycle `w.begin`, in tie-break order; true if one made an unusual request. `ports`: the ports of
    each kind, where they are equally many and few, else 0."""
    cdef LaneTable* x = s.lanes
    cdef int32_t each = ports, r, k, j
    cdef uint64_t due, bank
    cdef uint64_t* of_cycle
    cdef slot_t requester
    cdef Lanes* g
    cdef bint other = False
    find_due(s, w.begin)
    sort_due(s, x)
    for r in range((x.n + 63) // 64):
        due = x.turn[r]
        x.turn[r] = 0
        while due:
            requester = x.order[64 * r + trailing_zeros(due)]
            due &= due - 1
            k = s.lane_of[requester]
            j = k & (LANES - 1)
            g = &s.lane[block_of(k)]
            if g.lines[j] or not traced and requester < s.n_flows and open_lane(s, p, requester):
                if ports == 0:
                    each = w.ports[g.side[j]]
                of_cycle = w.taken[g.side[j]]
                bank = <uint64_t>1 << g.bank[j]
                if not of_cycle[each - 1] & bank:
                    take_free(of_cycle, each, bank)
                    next_line(x, g, j)
                    continue
            other = other_request(s, p, w, requester, gap, hop, traced) or other
    return other


cdef inline bint has_event(Sim* s, int32_t ends, int64_t records) noexcept nogil:
    """Whether another part of the machine must act after this cycle, or a trace has enough records (`records`; 0: no trace). `ends`: the
    number of timers before the run."""
    return s.n_pressed or s.n_done_flow or s.n_done_compute or s.n_rejoin or s.ends.n != ends or records and s.trace.n >= records


cdef inline cycle_t roll_to(Sim* s, Spm* p, cycle_t to, int32_t ports, bint traced) noexcept nogil:
    """`roll`, compiled for each number of ports, and with a trace of requests."""
    cdef LaneTable* x = s.lanes
    cdef Walk w
    cdef cycle_t other_at, requested_at
    cdef bint clear = True    # whether the next cycle may be in a window
    cdef int32_t ends = s.ends.n
    cdef int64_t records = max(s.trace.full, s.trace.n + 1) if traced else 0
    cdef slot_t* order
    cdef bint over = has_event(s, ends, records)
    # The distance from the end of a run to the next run of the flow, in bytes and in banks. 0 bytes: runs may end inside a line.
    cdef nbytes_t gap = gap_of(s.memory, p)
    cdef int32_t hop = <int32_t>((gap >> p.line_shift) % p.banks) if gap else 0
    open_walk(&w, p, 1)
    if traced:
        open_notes(s, &w)
    if p.lookahead.has_lanes and not p.lookahead.lacks_lanes and x.any_moved:
        place_moved(s, p)
    while p.done < to and not over:
        if not p.lookahead.has_lanes or p.lookahead.lacks_lanes or p.done - x.epoch >= EPOCH:
            fill_lanes(s, p)
        if clear:
            other_at = min(to, first_other_request(s))
            if p.done < other_at:
                requested_at = min(first_request(s), other_at)
                if p.done < requested_at:
                    if p.n_watch:
                        activity_phase(s, p)
                    p.done = requested_at
                if p.done == other_at:
                    continue
                if min(x.window, other_at - p.done) >= SHORT:
                    clear = run_window(s, p, other_at)
                    continue
                x.window = min(x.window + 1, WINDOW)
        clear = True
        w.begin = p.done
        w.taken[1] = x.word + x.words
        w.taken[0] = w.taken[1] + (w.ports[1] if w.split else 0)
        order = order_of(s, p, p.done)
        if order == p.order:
            over = requests_due(s, p, &w, ports, gap, hop, traced) or traced
        else:
            aged_cycle(s, p, &w, order, traced)
            over = True
        if traced:
            close_notes(s, p, &w)
        if w.split:
            x.words += w.ports[1]
        if w.taken[0][0]:                       # else its words are still zero
            x.words += w.ports[0]
        if x.words >= WORDS:
            count_ports(s, p)
        if p.n_watch:
            activity_phase(s, p)
        p.done += 1
        over = over and has_event(s, ends, records)
    return p.done - 1 if over else to


cdef cycle_t roll(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Run the cycles before `to`, up to and including the first that has an event, or enough records of a trace; return this cycle, or
    `to`."""
    if s.trace != NULL and s.trace.level >= TRACE_FULL:
        return roll_to(s, p, to, 0, True)
    if p.ports[0] == 2 and (p.ports[1] == 2 or not p.split):
        return roll_to(s, p, to, 2, False)
    return roll_to(s, p, to, 0, False)
