"""The allocators of a router: rules F2 to F4 of docs/model/flits.md. Both are separable, output-first, with one iteration.

Sets of ports and channels are masks of 64 bits, so that a loop over a set visits only its members. In most clocks, no two flits of a
router compete. Each allocator therefore first tries a short way, which changes nothing if two flits compete.
"""
from kernbench_core.model.noc.routers cimport (
    MOST_PORTS, WAIT_LOST, WAIT_NO_CHANNEL, WAIT_NO_CREDIT, Hop, Input, InputVc, Network, Output, OutputVc, Request, Router, bit,
    from_pointer, low_bit, prefetch, range_of, wait)
from kernbench_core.types cimport NONE, cycle_t, int32_t, uint64_t

cdef enum:
    FAR = 0x7fffffff          # Request.turn of a head without an offer
    COMPETE = -1              # the result of a short way that cannot be taken


cdef inline int32_t turn(int32_t place, int32_t pointer, int32_t n) noexcept nogil:
    """The cyclic distance of a position from the pointer."""
    return place - pointer if place >= pointer else place - pointer + n


cdef inline bint idle(Output* o, cycle_t now) noexcept nogil:
    """Whether the link takes a flit in this clock."""
    return now * o.num >= o.busy


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
    cdef InputVc* v = &w.in_vc[(r.input << w.shift) + vc]
    cdef Input* p = &w.input[r.input + (vc >> w.shift)]
    cdef uint64_t mine = bit(vc & ((1 << w.shift) - 1))
    v.output = offer >> w.shift
    v.channel = offer & ((1 << w.shift) - 1)
    v.accept = offer + 1 if offer + 1 < r.outputs << w.shift else 0
    w.out_vc[(r.output << w.shift) + offer].grant = vc + 1 if vc + 1 < r.inputs << w.shift else 0
    w.output[r.output + v.output].taken |= bit(v.channel)
    p.waiting &= ~mine
    p.active |= mine
    if p.waiting == 0:
        r.heads &= ~bit(vc >> w.shift)
    r.ready |= bit(vc >> w.shift)
    w.packet[v.flit.packet].hop += 1
    prefetch(&w.hop[w.packet[v.flit.packet].hop])           # other packets have read other hops since the last router


cdef inline void refuse(Network* w, Router* r, int32_t vc, int32_t o) noexcept nogil:
    """Count a clock in which a head gets no channel."""
    w.output[r.output + o].no_channel += 1
    wait(w, (r.input << w.shift) + vc, WAIT_NO_CHANNEL)


cdef inline bint take_alone(Network* w, Router* r) noexcept nogil:
    """F3 with fixed routes if each input has at most one head that waits, all of them for different outputs; else false."""
    cdef int32_t[MOST_PORTS] heads, wanted                 # channel of an input, output
    cdef uint64_t[MOST_PORTS] free                         # channels of this output that are free
    cdef uint64_t todo = r.heads, asked = 0, set
    cdef int32_t i, k, o, vc, n = 0
    cdef Hop* h
    while todo:
        i = low_bit(todo)
        todo &= todo - 1
        set = w.input[r.input + i].waiting
        vc = (i << w.shift) + low_bit(set)
        h = &w.hop[w.packet[w.in_vc[(r.input << w.shift) + vc].flit.packet].hop]
        o = h.output - r.output
        if set & (set - 1) or asked >> o & 1:
            return False
        asked |= bit(o)
        heads[n] = vc
        wanted[n] = o
        free[n] = range_of(h.low, h.high) & ~w.output[h.output].taken
        n += 1
    for k in range(n):
        if free[k]:
            take(w, r, heads[k], first_offer(w, wanted[k], free[k], w.in_vc[(r.input << w.shift) + heads[k]].accept))
        else:
            refuse(w, r, heads[k], wanted[k])
    return True


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
    """F2: make the requests of a head, from request `k` on; return the number of all requests."""
    cdef Request* lead = &w.request[k]
    cdef InputVc* v = &w.in_vc[((r.input + i) << w.shift) + channel]
    cdef Hop* h
    cdef int32_t* row
    cdef int32_t n
    lead.vc = (i << w.shift) + channel
    lead.accept = v.accept
    lead.turn = FAR
    if w.escapes == 0:
        h = &w.hop[w.packet[v.flit.packet].hop]
        add(w, lead, k, h.output - r.output, range_of(h.low, h.high), asked)
        return k + 1
    row = &w.adaptive[4 * ((r - w.router) * w.terminals + w.packet[v.flit.packet].target)]
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
    """Offer each free channel of an output to the first request for it, starting at the channel's pointer."""
    cdef OutputVc* out_vc = &w.out_vc[(r.output + o) << w.shift]
    cdef uint64_t free = ~w.output[r.output + o].taken & range_of(0, w.channels - 1)
    cdef int32_t channel, best, best_turn, one, k
    if w.request[w.head[o]].next == NONE:
        w.request[w.head[o]].won = free & w.request[w.head[o]].channels
        return
    while free:
        channel = low_bit(free)
        free &= free - 1
        best = NONE
        best_turn = FAR
        k = w.head[o]
        while k != NONE:
            one = turn(w.request[k].vc, out_vc[channel].grant, r.inputs << w.shift)
            if one < best_turn and w.request[k].channels >> channel & 1:
                best, best_turn = k, one
            k = w.request[k].next
        if best != NONE:
            w.request[best].won |= bit(channel)


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


cdef void match_heads(Network* w, Router* r) noexcept nogil:
    """F3 for heads that may compete."""
    cdef int32_t i, k, n = 0
    cdef uint64_t todo = r.heads, set, asked = 0
    while todo:
        i = low_bit(todo)
        todo &= todo - 1
        set = w.input[r.input + i].waiting
        while set:
            n = ask(w, r, i, low_bit(set), n, &asked)
            set &= set - 1
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
    if w.escapes or not take_alone(w, r):
        match_heads(w, r)
