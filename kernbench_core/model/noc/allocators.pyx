"""The allocators of routers: rules F2 to F4 of docs/model/flits.md. Both are separable, output-first, with one iteration.

The network lists the channels that wait for a channel of an output, and those that are ready to send a flit through a switch. In most
clocks, few of them compete. Each allocator therefore has a short path for heads and flits that do not compete. This path visits the lists,
and no router. For those that compete, the ports and virtual channels of a router are also masks of 64 bits.
"""
from kernbench_core.model.noc.routers cimport (
    ADAPTIVE_COLUMNS, ESCAPE, ESCAPE_CHANNEL, MAX_PORTS, MINIMAL, WAIT_LOST, WAIT_NO_CHANNEL, WAIT_NO_CREDIT, Input, InputVc, Network,
    Output, OutputVc, Request, Router, bit, channel_of, from_pointer, idle, low_bit, port_of, range_of, vc_of, wait)
from kernbench_core.types cimport NONE, cycle_t, int16_t, int32_t, uint64_t

cdef enum:
    NO_OFFER = 0x7fffffff          # Request.distance of a head without an offer


cdef inline int32_t cyclic_distance(int32_t position, int32_t pointer, int32_t n) noexcept nogil:
    """The cyclic distance of a position from the pointer."""
    return position - pointer if position >= pointer else position - pointer + n


cdef struct Match:            # the requests for the switch of one router in a clock
    unsigned char[MAX_PORTS * MAX_PORTS] channel  # by output and input: the requesting channel
    uint64_t[MAX_PORTS] requests  # by requested output: the requesting inputs
    uint64_t[MAX_PORTS] offers  # by input with an offer: the outputs that offer
    uint64_t requested        # outputs that are requested
    uint64_t offered          # inputs that have an offer


cdef inline void lose(Network* w, Router* r, int32_t o, int32_t vc) noexcept nogil:
    """Record that a flit did not get an output in this clock."""
    w.output[r.output + o].lost += 1
    wait(w, vc, WAIT_LOST)


cdef inline void request_outputs(Network* w, Router* r, Match* m, cycle_t now) noexcept nogil:
    """Each input requests the outputs of its flits, with at most one channel for an output."""
    cdef Input* input = &w.input[r.input]
    cdef Output* output = &w.output[r.output]
    cdef uint64_t channels
    cdef int32_t i, o, channel, vc
    m.requested = 0
    for o in range(r.outputs):
        output[o].requested = False
    for i in range(r.inputs):
        input[i].granted = 0
        channels = input[i].held & input[i].active
        while channels:
            channel = from_pointer(channels, input[i].channel)
            channels &= ~bit(channel)
            vc = vc_of(w, r.input + i, channel)
            o = port_of(w, w.in_vc[vc].to) - r.output
            if output[o].empty >> channel_of(w, w.in_vc[vc].to) & 1:
                output[o].no_credit += 1
                wait(w, vc, WAIT_NO_CREDIT)
                continue
            if not m.requested >> o & 1:
                m.requests[o] = 0
            if not idle(&output[o], now) or m.requests[o] >> i & 1:
                lose(w, r, o, vc)
                continue
            m.requested |= bit(o)
            m.requests[o] |= bit(i)
            m.channel[o * MAX_PORTS + i] = <unsigned char>channel


cdef inline void offer_inputs(Network* w, Router* r, Match* m) noexcept nogil:
    """Each requested output offers itself to one of its inputs, in cyclic order from its pointer."""
    cdef Output* output = &w.output[r.output]
    cdef uint64_t todo = m.requested
    cdef int32_t i, o
    m.offered = 0
    while todo:
        o = low_bit(todo)
        todo &= todo - 1
        i = from_pointer(m.requests[o], output[o].grant)
        if not m.offered >> i & 1:
            m.offers[i] = 0
        m.offered |= bit(i)
        m.offers[i] |= bit(o)


cdef inline void accept_offers(Network* w, Router* r, Match* m) noexcept nogil:
    """Each input with an offer accepts one, in cyclic order from its pointer."""
    cdef Input* input = &w.input[r.input]
    cdef uint64_t todo = m.offered
    cdef int32_t i, o
    while todo:
        i = low_bit(todo)
        todo &= todo - 1
        o = from_pointer(m.offers[i], input[i].accept)
        input[i].granted = 1 + m.channel[o * MAX_PORTS + i]
        m.requests[o] &= ~bit(i)


cdef inline void record_losers(Network* w, Router* r, Match* m) noexcept nogil:
    """All other requests wait for the next clock."""
    cdef uint64_t todo = m.requested
    cdef int32_t i, o
    while todo:
        o = low_bit(todo)
        todo &= todo - 1
        while m.requests[o]:
            i = low_bit(m.requests[o])
            m.requests[o] &= m.requests[o] - 1
            lose(w, r, o, vc_of(w, r.input + i, m.channel[o * MAX_PORTS + i]))


cdef void match_flits(Network* w, Router* r, cycle_t now) noexcept nogil:
    """F4 for the flits of a router that may compete."""
    cdef Match m
    request_outputs(w, r, &m, now)
    offer_inputs(w, r, &m)
    accept_offers(w, r, &m)
    record_losers(w, r, &m)


cdef void match_switches(Network* w, cycle_t now) noexcept nogil:
    """F4: set `granted` of all inputs with a channel that is ready. `depart` moves the pointers.

    A flit is granted the switch at once if no other flit is ready at its input or requests its output, and if nothing else delays it. The
    flits of a router compete as soon as this does not hold for one of them.
    """
    cdef int32_t k, vc, n = 0
    cdef Input* p
    cdef Output* o
    cdef Router* r
    for k in range(w.n_ready):
        vc = w.in_vc[w.ready[k]].to
        p = &w.input[port_of(w, w.ready[k])]
        o = &w.output[port_of(w, vc)]
        if p.granted or o.requested or o.empty >> channel_of(w, vc) & 1 or not idle(o, now):
            r = &w.router[p.router]
            if not r.listed:
                r.listed = True
                w.crowded[n] = p.router
                n += 1
        o.requested = True
        p.granted = <unsigned char>(1 + channel_of(w, w.ready[k]))
    for k in range(n):
        r = &w.router[w.crowded[k]]
        r.listed = False
        match_flits(w, r, now)


cdef inline int32_t first_offer(Network* w, int32_t o, uint64_t free, int32_t accept) noexcept nogil:
    """The first free channel of an output in cyclic order, starting at the pointer of a head. It is numbered over all channels of the
    router's outputs."""
    cdef int32_t pointer = accept - vc_of(w, o, 0)
    return vc_of(w, o, from_pointer(free, pointer) if 0 < pointer < w.channels else low_bit(free))


cdef inline void take_channel(Network* w, Router* r, int32_t vc, int32_t offer) noexcept nogil:
    """Give a channel of an output to a head. The channel is numbered over all channels of the router. It requests the switch from the
    next clock on."""
    cdef InputVc* v = &w.in_vc[vc]
    cdef Input* p = &w.input[port_of(w, vc)]
    cdef uint64_t mine = bit(channel_of(w, vc))
    v.to = vc_of(w, r.output, offer)
    v.accept = <int16_t>(offer + 1)
    v.hop += 1
    w.out_vc[v.to].grant = vc + 1
    w.output[port_of(w, v.to)].taken |= bit(channel_of(w, offer))
    p.waiting &= ~mine
    p.active |= mine
    w.ready[w.n_ready] = vc
    w.n_ready += 1


cdef inline void refuse(Network* w, int32_t vc, int32_t output) noexcept nogil:
    """Count a clock in which a head gets no channel."""
    w.output[output].no_channel += 1
    wait(w, vc, WAIT_NO_CHANNEL)


cdef inline void take_first(Network* w, int32_t vc) noexcept nogil:
    """F3 of a head with a fixed route, if no other head requests its output."""
    cdef InputVc* v = &w.in_vc[vc]
    cdef Router* r = &w.router[w.input[port_of(w, vc)].router]
    cdef int32_t output = port_of(w, v.to)
    cdef uint64_t free = range_of(channel_of(w, v.to), v.last) & ~w.output[output].taken
    if free:
        take_channel(w, r, vc, first_offer(w, output - r.output, free, v.accept))
    else:
        refuse(w, vc, output)


cdef inline void add(Network* w, Request* lead, int32_t k, int32_t o, uint64_t channels, uint64_t* requested) noexcept nogil:
    """Make request `k`, of the head of `lead`, to an output of the router."""
    cdef Request* q = &w.request[k]
    q.channels = channels
    q.won = 0
    q.output = o
    q.lead = <int32_t>(lead - w.request)
    q.vc = lead.vc
    q.next = w.head[o] if requested[0] >> o & 1 else NONE
    w.head[o] = k
    requested[0] |= bit(o)


cdef int32_t make_requests(Network* w, Router* r, int32_t vc, int32_t k, uint64_t* requested) noexcept nogil:
    """Make the requests of a head, from request `k` on; return the number of all requests."""
    cdef Request* lead = &w.request[k]
    cdef InputVc* v = &w.in_vc[vc]
    cdef int32_t* row
    cdef int32_t n
    lead.vc = vc
    lead.accept = v.accept
    lead.distance = NO_OFFER
    if w.escapes == 0:
        add(w, lead, k, port_of(w, v.to) - r.output, range_of(channel_of(w, v.to), v.last), requested)
        return k + 1
    row = &w.adaptive[<int>ADAPTIVE_COLUMNS * ((r - w.router) * w.terminals + w.packet[v.packet].target)]
    if row[<int>ESCAPE] == NONE:                            # the packet is at its target
        add(w, lead, k, row[<int>MINIMAL] - r.output, range_of(0, w.channels - 1), requested)
        return k + 1
    add(w, lead, k, row[<int>ESCAPE] - r.output, bit(row[<int>ESCAPE_CHANNEL]), requested)
    k += 1
    if channel_of(w, vc) < w.escapes and w.input[port_of(w, vc)].output < w.outputs:
        return k                                            # a packet in the escape network stays there
    for n in range(MINIMAL, ESCAPE):
        if row[n] != NONE:
            add(w, lead, k, row[n] - r.output, range_of(w.escapes, w.channels - 1), requested)
            k += 1
    return k


cdef inline void offer_channels(Network* w, Router* r, int32_t o) noexcept nogil:
    """Offer each free channel of an output to the first request for it, starting at the channel's pointer. The requests for an output
    are linked from the last channel of the inputs to the first."""
    cdef OutputVc* out_vc = &w.out_vc[vc_of(w, r.output + o, 0)]
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
    one = cyclic_distance(offer, lead.accept, vc_of(w, r.outputs, 0))
    if one < lead.distance:
        lead.distance = one
        lead.offer = offer


cdef void match_heads(Network* w, Router* r, int32_t output) noexcept nogil:
    """F3 for heads of a router that may compete: with fixed routes, those that request this output; else all."""
    cdef int32_t i, k, vc, n = 0
    cdef uint64_t set, requested = 0
    for i in range(r.input, r.input + r.inputs):
        set = w.input[i].waiting
        while set:
            vc = vc_of(w, i, low_bit(set))
            set &= set - 1
            if w.escapes or port_of(w, w.in_vc[vc].to) == output:
                n = make_requests(w, r, vc, n, &requested)
    while requested:
        offer_channels(w, r, low_bit(requested))
        requested &= requested - 1
    for k in range(n):
        keep_first(w, r, &w.request[k])
    for k in range(n):
        if w.request[k].lead != k:
            continue
        if w.request[k].distance != NO_OFFER:
            take_channel(w, r, w.request[k].vc, w.request[k].offer)
        else:
            refuse(w, w.request[k].vc, r.output + w.request[k].output)


cdef inline void match_fixed(Network* w) noexcept nogil:
    """F3 with fixed routes. A head that is alone at its output takes the first channel that is free."""
    cdef int32_t k, vc, output, n = 0
    cdef Output* o
    for k in range(w.n_waiting):
        o = &w.output[port_of(w, w.in_vc[w.waiting[k]].to)]
        if o.heads == 1:
            w.crowded[n] = w.waiting[k]
            n += 1
        o.heads = min(o.heads + 1, 2)
    for k in range(w.n_waiting):
        vc = w.waiting[k]
        o = &w.output[port_of(w, w.in_vc[vc].to)]
        if o.heads == 1:
            o.heads = 0
            take_first(w, vc)
    for k in range(n):
        output = port_of(w, w.in_vc[w.crowded[k]].to)
        w.output[output].heads = 0
        match_heads(w, &w.router[w.input[port_of(w, w.crowded[k])].router], output)


cdef inline void match_adaptive(Network* w) noexcept nogil:
    """F3 with adaptive routes: one router after another."""
    cdef int32_t k, n = 0
    cdef Router* r
    for k in range(w.n_waiting):
        r = &w.router[w.input[port_of(w, w.waiting[k])].router]
        if not r.listed:
            r.listed = True
            w.crowded[n] = <int32_t>(r - w.router)
            n += 1
    for k in range(n):
        r = &w.router[w.crowded[k]]
        r.listed = False
        match_heads(w, r, NONE)


cdef void match_channels(Network* w) noexcept nogil:
    """F3: heads that wait take free channels of their outputs. Heads without a channel continue to wait."""
    cdef int32_t k, vc, n = 0
    if w.escapes:
        match_adaptive(w)
    else:
        match_fixed(w)
    for k in range(w.n_waiting):
        vc = w.waiting[k]
        w.waiting[n] = vc
        n += w.input[port_of(w, vc)].waiting >> channel_of(w, vc) & 1
    w.n_waiting = n
