"""One clock of a network of routers: rules F1 to F6 of docs/model/flits.md."""
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, slot_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef inline int32_t turn(int32_t place, int32_t pointer, int32_t n) noexcept nogil:
    """The cyclic distance of a position from the pointer."""
    return place - pointer if place >= pointer else place - pointer + n


cdef void schedule(Network* w, cycle_t at, int32_t place, int32_t channel, slot_t packet, int32_t number) noexcept nogil:
    cdef int32_t k = w.free_arrival
    cdef Arrival* e = &w.arrival[k]
    w.free_arrival = e.next
    e.flit.packet = packet
    e.flit.number = number
    e.place = place
    e.channel = channel
    e.next = w.bucket[at % w.horizon]
    w.bucket[at % w.horizon] = k
    w.in_flight += 1


cdef inline void count(Input* p, int32_t more, cycle_t now) noexcept nogil:
    p.occupied += p.n * (now - p.since)
    p.since = now
    p.n += more
    p.most = max(p.most, p.n)


cdef void arrive(Network* w, Arrival* e, cycle_t now) noexcept nogil:
    """F1: a flit arrives in the buffer of its channel."""
    cdef Input* p = &w.input[e.place]
    cdef int32_t at = e.place * w.channels + e.channel
    cdef InputVc* v = &w.in_vc[at]
    cdef int32_t place = v.first + v.n
    w.flit[at * w.depth + (place if place < w.depth else place - w.depth)] = e.flit
    v.n += 1
    count(p, 1, now)
    w.router[p.router].n += 1
    w.n_flits += 1
    if v.state == VC_IDLE:
        v.state = VC_WAITING
        p.waiting |= <uint64_t>1 << e.channel
    elif v.state == VC_ACTIVE and v.n == 1:
        p.ready |= <uint64_t>1 << e.channel


cdef void eject(Network* w, Output* o, Arrival* e, cycle_t now) noexcept nogil:
    """F6: a terminal takes a flit; its packet ends with the tail."""
    cdef Packet* p = &w.packet[e.flit.packet]
    schedule(w, now + o.credit, <int32_t>(o - w.output), e.channel, NONE, -1)
    if e.flit.number < p.flits - 1:
        return
    p.end = now
    p.next = NONE
    if w.ended == NONE:
        w.ended = e.flit.packet
    else:
        w.packet[w.ended_last].next = e.flit.packet
    w.ended_last = e.flit.packet


cdef void arrivals(Network* w, cycle_t now) noexcept nogil:
    cdef int32_t k = w.bucket[now % w.horizon], following
    cdef Arrival* e
    w.bucket[now % w.horizon] = NONE
    while k != NONE:
        e = &w.arrival[k]
        following = e.next
        if e.flit.number < 0:
            w.out_vc[e.place * w.channels + e.channel].credits += 1
        elif e.place >= 0:
            arrive(w, e, now)
        else:
            eject(w, &w.output[-2 - e.place], e, now)
        e.next = w.free_arrival
        w.free_arrival = k
        w.in_flight -= 1
        k = following


cdef inline bint idle(Output* o, cycle_t now) noexcept nogil:
    """Whether the link takes a flit in this clock."""
    return now * o.num >= o.busy


cdef inline void occupy(Output* o, cycle_t now) noexcept nogil:
    """A flit occupies the link for den/num clocks. Fractions of a clock are carried over between consecutive flits."""
    cdef int64_t at = now * o.num
    o.busy = (o.busy if o.busy > at - o.num else at) + o.den
    o.flits += 1


cdef void leave(Network* w, int32_t output, int32_t channel, slot_t packet, int32_t number, cycle_t now) noexcept nogil:
    """Send a flit to the input or the terminal at the end of an output."""
    cdef Output* o = &w.output[output]
    cdef OutputVc* v = &w.out_vc[output * w.channels + channel]
    occupy(o, now)
    v.credits -= 1
    if number == w.packet[packet].flits - 1:
        v.taken = False
    schedule(w, now + o.latency, o.input if o.input != NONE else -2 - output, channel, packet, number)


cdef int32_t free_channel(Network* w, Terminal* t) noexcept nogil:
    """F6: the channel for a new packet: the first channel after that of the last packet that is free and has a credit."""
    cdef int32_t _k, channel = t.channel
    for _k in range(w.channels):
        channel = channel + 1 if channel + 1 < w.channels else 0
        if not w.out_vc[t.output * w.channels + channel].taken and w.out_vc[t.output * w.channels + channel].credits:
            return channel
    return NONE


cdef void inject(Network* w, cycle_t now) noexcept nogil:
    """F6: each terminal sends a flit of its oldest packet."""
    cdef int32_t k, channel
    cdef Terminal* t
    cdef slot_t packet
    cdef Output* o
    if w.n_queued == 0:
        return
    for k in range(w.terminals):
        t = &w.terminal[k]
        packet = t.first
        if packet == NONE:
            continue
        o = &w.output[t.output]
        if not idle(o, now):
            continue
        if t.sent == 0:
            channel = free_channel(w, t)
            if channel == NONE:
                o.no_channel += 1
                w.packet[packet].waits[<int>WAIT_NO_CHANNEL] += 1
                continue
            t.channel = channel
            w.out_vc[t.output * w.channels + channel].taken = True
        elif w.out_vc[t.output * w.channels + t.channel].credits == 0:
            o.no_credit += 1
            w.packet[packet].waits[<int>WAIT_NO_CREDIT] += 1
            continue
        leave(w, t.output, t.channel, packet, t.sent, now)
        t.sent += 1
        if t.sent == w.packet[packet].flits:
            t.sent = 0
            t.first = w.packet[packet].next
            w.n_queued -= 1
            if t.first == NONE:
                t.last = NONE


cdef inline void wait(Network* w, int32_t input, int32_t channel, int32_t why) noexcept nogil:
    """Count a clock in which the first flit of a channel does not move."""
    cdef int32_t at = input * w.channels + channel
    w.packet[w.flit[at * w.depth + w.in_vc[at].first].packet].waits[why] += 1


cdef void match_switch(Network* w, Router* r, cycle_t now) noexcept nogil:
    """F4: choose the flits of a router that leave in this clock. Only the pointers change."""
    cdef int32_t[MOST_PORTS * MOST_PORTS] chosen           # by output and input: the requesting channel
    cdef int32_t[MOST_PORTS] winner                        # by output: the input that wins
    cdef uint64_t[MOST_PORTS] asks                         # by output: the requesting inputs
    cdef uint64_t[MOST_PORTS] offers                       # by input: the outputs that offer
    cdef int32_t i, o, k, channel
    cdef uint64_t todo, set
    cdef Input* p
    cdef InputVc* v
    cdef bint any = False
    for o in range(r.outputs):
        asks[o] = 0
    for i in range(r.inputs):
        offers[i] = 0
        p = &w.input[r.input + i]
        todo = p.ready
        while todo:
            # Channels from the pointer on, then the channels before it.
            set = todo >> p.channel << p.channel
            channel = trailing_zeros(set if set else todo)
            todo &= ~(<uint64_t>1 << channel)
            v = &w.in_vc[(r.input + i) * w.channels + channel]
            o = v.output - r.output
            if w.out_vc[v.output * w.channels + v.channel].credits == 0:
                w.output[v.output].no_credit += 1
                wait(w, r.input + i, channel, WAIT_NO_CREDIT)
                continue
            if not idle(&w.output[v.output], now) or asks[o] >> i & 1:
                w.output[v.output].lost += 1
                wait(w, r.input + i, channel, WAIT_LOST)
                continue
            asks[o] |= <uint64_t>1 << i
            chosen[o * r.inputs + i] = channel
            any = True
    if not any:
        return
    for o in range(r.outputs):
        if asks[o] == 0:
            continue
        k = w.output[r.output + o].grant
        set = asks[o] >> k << k
        winner[o] = trailing_zeros(set if set else asks[o])
        offers[winner[o]] |= <uint64_t>1 << o
    for i in range(r.inputs):
        if offers[i] == 0:
            continue
        p = &w.input[r.input + i]
        set = offers[i] >> p.accept << p.accept
        o = trailing_zeros(set if set else offers[i])
        channel = chosen[o * r.inputs + i]
        w.output[r.output + o].grant = i + 1 if i + 1 < r.inputs else 0
        p.accept = o + 1 if o + 1 < r.outputs else 0
        p.channel = channel + 1 if channel + 1 < w.channels else 0
        w.granted[w.n_granted].input = r.input + i
        w.granted[w.n_granted].channel = channel
        w.granted[w.n_granted].output = r.output + o
        w.n_granted += 1
        asks[o] &= ~(<uint64_t>1 << i)
    for o in range(r.outputs):
        while asks[o]:
            w.output[r.output + o].lost += 1
            i = trailing_zeros(asks[o])
            wait(w, r.input + i, chosen[o * r.inputs + i], WAIT_LOST)
            asks[o] &= asks[o] - 1


cdef void ask_channels(Network* w, Router* r, int32_t output, int32_t vc, int32_t low, int32_t high, int32_t* n) noexcept nogil:
    """Request each free channel from `low` to `high` of an output."""
    cdef int32_t o = output - r.output
    cdef Request* q = &w.request[n[0]]
    q.vc = vc
    q.output = output
    q.low = low
    q.high = high
    q.next = w.head[o]
    w.head[o] = n[0]
    n[0] += 1


cdef void ask(Network* w, Router* r, int32_t input, int32_t channel, int32_t* n) noexcept nogil:
    """F2: the channels that a head may take."""
    cdef int32_t at = input * w.channels + channel
    cdef InputVc* v = &w.in_vc[at]
    cdef Packet* p = &w.packet[w.flit[at * w.depth + v.first].packet]
    cdef int32_t vc = (input - r.input) * w.channels + channel
    cdef Hop* h
    cdef int32_t* row
    cdef int32_t k
    if w.escapes == 0:
        h = &w.hop[p.hop]
        ask_channels(w, r, h.output, vc, h.low, h.high, n)
        return
    row = &w.adaptive[4 * (w.input[input].router * w.terminals + p.target)]
    if row[2] == NONE:                                      # the packet is at its target
        ask_channels(w, r, row[0], vc, 0, w.channels - 1, n)
        return
    ask_channels(w, r, row[2], vc, row[3], row[3], n)
    if w.output[w.input[input].output].router != NONE and channel < w.escapes:
        return
    for k in range(2):
        if row[k] != NONE:
            ask_channels(w, r, row[k], vc, w.escapes, w.channels - 1, n)


cdef void offer_channel(Network* w, Router* r, int32_t o, int32_t channel) noexcept nogil:
    """Offer a free channel of an output to the first request for it, from its pointer on."""
    cdef OutputVc* c = &w.out_vc[(r.output + o) * w.channels + channel]
    cdef int32_t best = NONE, best_turn = 0, k = w.head[o], one, number = o * w.channels + channel, n = r.inputs * w.channels
    cdef Request* q
    while k != NONE:
        q = &w.request[k]
        k = q.next
        if not q.low <= channel <= q.high:
            continue
        one = turn(q.vc, c.grant, n)
        if best == NONE or one < best_turn:
            best, best_turn = q.vc, one
    if best == NONE:
        return
    one = turn(number, w.in_vc[r.input * w.channels + best].accept, r.outputs * w.channels)
    if w.offer[best] == NONE or one < w.offer_turn[best]:
        w.offer[best] = number
        w.offer_turn[best] = one


cdef void accept_channel(Network* w, Router* r, int32_t vc) noexcept nogil:
    """A head takes one of the channels that were offered to it: the first from its pointer on."""
    cdef InputVc* v = &w.in_vc[r.input * w.channels + vc]
    cdef int32_t number = w.offer[vc], inputs = r.inputs * w.channels, outputs = r.outputs * w.channels
    cdef OutputVc* c = &w.out_vc[r.output * w.channels + number]
    cdef Input* p = &w.input[r.input + vc // w.channels]
    cdef uint64_t bit = <uint64_t>1 << (vc % w.channels)
    c.grant = vc + 1 if vc + 1 < inputs else 0
    c.taken = True
    v.accept = number + 1 if number + 1 < outputs else 0
    v.state = VC_ACTIVE
    v.output = r.output + number // w.channels
    v.channel = number % w.channels
    p.waiting &= ~bit
    p.ready |= bit


cdef void match_channels(Network* w, Router* r) noexcept nogil:
    """F3: heads that wait take free channels of their outputs."""
    cdef int32_t i, o, channel, k, n = 0, vc
    cdef uint64_t todo
    for o in range(r.outputs):
        w.head[o] = NONE
    for i in range(r.inputs):
        todo = w.input[r.input + i].waiting
        while todo:
            channel = trailing_zeros(todo)
            todo &= todo - 1
            w.offer[i * w.channels + channel] = NONE
            ask(w, r, r.input + i, channel, &n)
    if n == 0:
        return
    for o in range(r.outputs):
        if w.head[o] == NONE:
            continue
        for channel in range(w.channels):
            if not w.out_vc[(r.output + o) * w.channels + channel].taken:
                offer_channel(w, r, o, channel)
    for k in range(n):
        vc = w.request[k].vc
        if w.offer[vc] == NONE:
            if k == 0 or w.request[k - 1].vc != vc:
                w.output[w.request[k].output].no_channel += 1
                wait(w, r.input + vc // w.channels, vc % w.channels, WAIT_NO_CHANNEL)
        elif w.offer[vc] >= 0:
            accept_channel(w, r, vc)
            w.offer[vc] = -2                                # several requests of the same head


cdef void depart(Network* w, Grant* g, cycle_t now) noexcept nogil:
    """F5: a granted flit leaves its buffer, and its credit is returned."""
    cdef int32_t at = g.input * w.channels + g.channel
    cdef InputVc* v = &w.in_vc[at]
    cdef Input* p = &w.input[g.input]
    cdef Flit flit = w.flit[at * w.depth + v.first]
    cdef uint64_t bit = <uint64_t>1 << g.channel
    cdef int32_t back = p.output
    cdef Packet* q = &w.packet[flit.packet]
    v.first = v.first + 1 if v.first + 1 < w.depth else 0
    v.n -= 1
    count(p, -1, now)
    w.router[p.router].n -= 1
    w.n_flits -= 1
    leave(w, g.output, v.channel, flit.packet, flit.number, now)
    schedule(w, now + w.output[back].credit, back, g.channel, NONE, -1)
    if flit.number == 0:
        q.hop += 1
    if v.n == 0:
        p.ready &= ~bit
    if flit.number == q.flits - 1:
        p.ready &= ~bit
        if v.n:
            v.state = VC_WAITING
            p.waiting |= bit
        else:
            v.state = VC_IDLE


cdef void network_send(Network* w, slot_t packet) noexcept nogil:
    """Append a packet to the queue of its terminal; the packet may leave in this clock, if the clock has not been run."""
    cdef Packet* p = &w.packet[packet]
    cdef Terminal* t = &w.terminal[p.source]
    p.next = NONE
    p.end = NEVER
    if t.first == NONE:
        t.first = packet
    else:
        w.packet[t.last].next = packet
    t.last = packet
    w.n_queued += 1


cdef void network_clock(Network* w, cycle_t now) noexcept nogil:
    """One clock. Packets that end are listed from `ended` on, and the caller removes them."""
    cdef int32_t k
    w.ended = NONE
    w.n_granted = 0
    arrivals(w, now)
    inject(w, now)
    if w.n_flits == 0:
        return
    # All allocators read the state at the beginning of the clock, so the grants of the switches are carried out at the end of
    # the clock.
    for k in range(w.routers):
        if w.router[k].n:
            match_switch(w, &w.router[k], now)
            match_channels(w, &w.router[k])
    for k in range(w.n_granted):
        depart(w, &w.granted[k], now)


cdef cycle_t network_next(Network* w, cycle_t now) noexcept nogil:
    """The next clock in which anything moves or is counted; NEVER if the network is empty."""
    cdef int32_t k
    if w.n_flits or w.n_queued:
        return now + 1
    if w.in_flight == 0:
        return NEVER
    for k in range(1, w.horizon + 1):
        if w.bucket[(now + k) % w.horizon] != NONE:
            return now + k
    return NEVER
