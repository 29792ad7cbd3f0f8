"""The allocators of a router: rules F2 to F4 of docs/model/flits.md. Both are separable, output-first, with one iteration.

Sets of ports and channels are masks of 64 bits, so that a loop over a set visits only its members. In most clocks, few flits of a
router compete. Each allocator therefore has a short way for flits that do not compete.
"""
from kernbench_core.model.noc.routers cimport (
    MOST_PORTS, WAIT_LOST, WAIT_NO_CHANNEL, WAIT_NO_CREDIT, Input, InputVc, Network, Output, OutputVc, Request, Router, bit,
    from_pointer, idle, low_bit, range_of, wait)
from kernbench_core.types cimport NONE, cycle_t, int32_t, uint64_t

cdef enum:
    FAR = 0x7fffffff          # Request.turn of a head without an offer
    COMPETE = -1              # the result of a short way that cannot be taken


cdef inline int32_t turn(int32_t place, int32_t pointer, int32_t n) noexcept nogil:
    """The cyclic distance of a position from the pointer."""
    return place - pointer if place >= pointer else place - pointer + n


cdef inline int32_t leave_alone(Network* w, Router* r, cycle_t now) noexcept nogil:
    """F4 if each input has at most one flit for the switch, all of them for different outputs, and nothing delays a flit."""
    cdef Input* input = &w.input[r.input]
    cdef Output* output = &w.output[r.output]
    cdef Output* o
    cdef InputVc* v
    cdef uint64_t todo = r.ready, asked = 0, set
    cdef int32_t i, vc, granted = 0
    while todo:
        i = low_bit(todo)
        todo &= todo - 1
        set = input[i].held & input[i].active
        vc = ((r.input + i) << w.shift) + low_bit(set)
        v = &w.in_vc[vc]
        o = &output[v.output]
        if set & (set - 1) or asked >> v.output & 1 or o.empty >> v.channel & 1 or not idle(o, now):
            return COMPETE
        asked |= bit(v.output)
        w.granted[granted] = vc
        granted += 1
    return granted


cdef int32_t match_switch(Network* w, Router* r, cycle_t now) noexcept nogil:
    """F4: list the channels from which a flit leaves in this clock in `granted`, and return their number. `depart` moves the
    pointers."""
    cdef int32_t granted = leave_alone(w, r, now)
    return granted if granted != COMPETE else match_flits(w, r, now)


cdef int32_t match_flits(Network* w, Router* r, cycle_t now) noexcept nogil:
    """F4 for flits that may compete."""
    cdef unsigned char[MOST_PORTS * MOST_PORTS] chosen     # by output and input: the requesting channel
    cdef uint64_t[MOST_PORTS] asks                         # by output: the requesting inputs
    cdef uint64_t[MOST_PORTS] offers                       # by input: the outputs that offer
    cdef uint64_t asked = 0, offered = 0                   # outputs that are requested, inputs that have an offer
    cdef uint64_t todo = r.ready, set
    cdef int32_t i, o, channel, vc, granted = 0
    cdef Input* input = &w.input[r.input]
    cdef Output* output = &w.output[r.output]
    while todo:
        i = low_bit(todo)
        todo &= todo - 1
        set = input[i].held & input[i].active
        while set:
            channel = from_pointer(set, input[i].channel)
            set &= ~bit(channel)
            vc = ((r.input + i) << w.shift) + channel
            o = w.in_vc[vc].output
            if output[o].empty >> w.in_vc[vc].channel & 1:
                output[o].no_credit += 1
                wait(w, vc, WAIT_NO_CREDIT)
                continue
            if not asked >> o & 1:
                asks[o] = 0
            if not idle(&output[o], now) or asks[o] >> i & 1:
                output[o].lost += 1
                wait(w, vc, WAIT_LOST)
                continue
            asked |= bit(o)
            asks[o] |= bit(i)
            chosen[o * MOST_PORTS + i] = <unsigned char>channel
    todo = asked
    while todo:
        o = low_bit(todo)
        todo &= todo - 1
        i = from_pointer(asks[o], output[o].grant)
        if not offered >> i & 1:
            offers[i] = 0
        offered |= bit(i)
        offers[i] |= bit(o)
    while offered:
        i = low_bit(offered)
        offered &= offered - 1
        o = from_pointer(offers[i], input[i].accept)
        w.granted[granted] = ((r.input + i) << w.shift) + chosen[o * MOST_PORTS + i]
        granted += 1
        asks[o] &= ~bit(i)
    while asked:
        o = low_bit(asked)
        asked &= asked - 1
        while asks[o]:
            i = low_bit(asks[o])
            asks[o] &= asks[o] - 1
            output[o].lost += 1
            wait(w, ((r.input + i) << w.shift) + chosen[o * MOST_PORTS + i], WAIT_LOST)
    return granted


cdef inline int32_t first_offer(Network* w, int32_t o, uint64_t free, int32_t accept) noexcept nogil:
    """Of the free channels of an output, the first in cyclic order, starting at the pointer of a head; numbered over the router's."""
    cdef int32_t pointer = accept - (o << w.shift)
    return (o << w.shift) + (from_pointer(free, pointer) if 0 < pointer < w.channels else low_bit(free))


cdef inline void take(Network* w, Router* r, int32_t vc, int32_t offer) noexcept nogil:
    """Let a head take a channel of an output. Both are numbered over the router's."""
    cdef int32_t i = vc >> w.shift
    cdef InputVc* v = &w.in_vc[(r.input << w.shift) + vc]
    cdef Input* p = &w.input[r.input + i]
    cdef uint64_t mine = bit(vc & ((1 << w.shift) - 1))
    v.output = <unsigned char>(offer >> w.shift)
    v.channel = <unsigned char>(offer & ((1 << w.shift) - 1))
    v.accept = offer + 1 if offer + 1 < r.outputs << w.shift else 0
    v.hop += 1
    w.out_vc[(r.output << w.shift) + offer].grant = vc + 1 if vc + 1 < r.inputs << w.shift else 0
    w.output[r.output + v.output].taken |= bit(v.channel)
    p.waiting &= ~mine
    p.active |= mine
    if p.waiting == 0:
        r.heads &= ~bit(i)
    r.ready |= bit(i)


cdef inline void refuse(Network* w, Router* r, int32_t vc, int32_t o) noexcept nogil:
    """Count a clock in which a head gets no channel."""
    w.output[r.output + o].no_channel += 1
    wait(w, (r.input << w.shift) + vc, WAIT_NO_CHANNEL)


cdef inline void take_first(Network* w, Router* r, int32_t vc) noexcept nogil:
    """F3 of a head with a fixed route, if no other head requests its output."""
    cdef InputVc* v = &w.in_vc[(r.input << w.shift) + vc]
    cdef uint64_t free = range_of(v.channel, v.last) & ~w.output[r.output + v.output].taken
    if free:
        take(w, r, vc, first_offer(w, v.output, free, v.accept))
    else:
        refuse(w, r, vc, v.output)


cdef inline uint64_t take_alone(Network* w, Router* r) noexcept nogil:
    """F3 with fixed routes of the heads that are alone at their outputs; return the outputs for which several heads compete."""
    cdef uint64_t todo = r.heads, set, asked = 0, shared = 0
    cdef int32_t i, k, vc, n = 0
    cdef InputVc* v = &w.in_vc[r.input << w.shift]
    while todo:
        i = low_bit(todo)
        todo &= todo - 1
        set = w.input[r.input + i].waiting
        while set:
            vc = (i << w.shift) + low_bit(set)
            set &= set - 1
            shared |= asked & bit(v[vc].output)
            asked |= bit(v[vc].output)
            w.waiting[n] = vc
            n += 1
    for k in range(n):
        vc = w.waiting[k]
        if not shared >> v[vc].output & 1:
            take_first(w, r, vc)
    return shared


cdef inline void add(Network* w, Request* lead, int32_t k, int32_t o, uint64_t channels, uint64_t* asked) noexcept nogil:
    """Make request `k`, of the head of `lead`, to an output of the router."""
    cdef Request* q = &w.request[k]
    q.channels = channels
    q.won = 0
    q.output = o
    q.lead = <int32_t>(lead - w.request)
    q.vc = lead.vc
    q.next = w.head[o] if asked[0] >> o & 1 else NONE
    w.head[o] = k
    asked[0] |= bit(o)


cdef int32_t ask(Network* w, Router* r, int32_t i, int32_t channel, int32_t k, uint64_t* asked) noexcept nogil:
    """Make the requests of a head, from request `k` on; return the number of all requests."""
    cdef Request* lead = &w.request[k]
    cdef InputVc* v = &w.in_vc[((r.input + i) << w.shift) + channel]
    cdef int32_t* row
    cdef int32_t n
    lead.vc = (i << w.shift) + channel
    lead.accept = v.accept
    lead.turn = FAR
    if w.escapes == 0:
        add(w, lead, k, v.output, range_of(v.channel, v.last), asked)
        return k + 1
    row = &w.adaptive[4 * ((r - w.router) * w.terminals + w.packet[v.packet].target)]
    if row[2] == NONE:                                      # the packet is at its target
        add(w, lead, k, row[0] - r.output, range_of(0, w.channels - 1), asked)
        return k + 1
    add(w, lead, k, row[2] - r.output, bit(row[3]), asked)
    k += 1
    if channel < w.escapes and w.input[r.input + i].output < w.outputs:
        return k
    for n in range(2):
        if row[n] != NONE:
            add(w, lead, k, row[n] - r.output, range_of(w.escapes, w.channels - 1), asked)
            k += 1
    return k


cdef inline void offer_channels(Network* w, Router* r, int32_t o) noexcept nogil:
    """Offer each free channel of an output to the first request for it, starting at the channel's pointer. The requests for an output
    are linked from the last channel of the inputs to the first."""
    cdef OutputVc* out_vc = &w.out_vc[(r.output + o) << w.shift]
    cdef uint64_t free = ~w.output[r.output + o].taken & range_of(0, w.channels - 1)
    cdef int32_t channel, first, above, k
    if w.request[w.head[o]].next == NONE:
        w.request[w.head[o]].won = free & w.request[w.head[o]].channels
        return
    while free:
        channel = low_bit(free)
        free &= free - 1
        first = above = NONE
        k = w.head[o]
        while k != NONE:
            if w.request[k].channels >> channel & 1:
                first = k
                if w.request[k].vc >= out_vc[channel].grant:
                    above = k
            k = w.request[k].next
        if first != NONE:
            w.request[above if above != NONE else first].won |= bit(channel)


cdef inline void keep_first(Network* w, Router* r, Request* q) noexcept nogil:
    """A head keeps the first of its offers."""
    cdef Request* lead = &w.request[q.lead]
    cdef int32_t offer, one
    if q.won == 0:
        return
    offer = first_offer(w, q.output, q.won, lead.accept)
    one = turn(offer, lead.accept, r.outputs << w.shift)
    if one < lead.turn:
        lead.turn = one
        lead.offer = offer


cdef void match_heads(Network* w, Router* r, uint64_t shared) noexcept nogil:
    """F3 for heads that may compete: with fixed routes, those that request an output of `shared`; else all."""
    cdef int32_t i, k, channel, n = 0
    cdef uint64_t todo = r.heads, set, asked = 0
    while todo:
        i = low_bit(todo)
        todo &= todo - 1
        set = w.input[r.input + i].waiting
        while set:
            channel = low_bit(set)
            set &= set - 1
            if w.escapes or shared >> w.in_vc[((r.input + i) << w.shift) + channel].output & 1:
                n = ask(w, r, i, channel, n, &asked)
    while asked:
        offer_channels(w, r, low_bit(asked))
        asked &= asked - 1
    for k in range(n):
        keep_first(w, r, &w.request[k])
    for k in range(n):
        if w.request[k].lead != k:
            continue
        if w.request[k].turn != FAR:
            take(w, r, w.request[k].vc, w.request[k].offer)
        else:
            refuse(w, r, w.request[k].vc, w.request[k].output)


cdef void match_channels(Network* w, Router* r) noexcept nogil:
    """F3: heads that wait take free channels of their outputs."""
    cdef uint64_t shared = 0
    if w.escapes == 0:
        shared = take_alone(w, r)
    if w.escapes or shared:
        match_heads(w, r, shared)
