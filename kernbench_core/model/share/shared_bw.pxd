"""`shared_bw_v1` of docs/model/sharing.md, P4: the rate of a flow is the smallest of its shares by weight along its route.

Most flows get their rate from their DRAM channel, and a link that changes limits none of its members. The plain model visits the members of
every resource that changed. On machines with few channels, fast runs leave out a link that limited no member, and whose share is not below
the largest share of a channel.
"""
from libc.string cimport memset

from kernbench_core.model.share.membership cimport Flow, Resource, Route, Share, set_rate
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t, slot_t

cdef enum:
    KNOWN = 64                # routes whose rate is kept while the rates of a cycle are set

cdef struct KnownRate:        # flows of one route and one weight have the same rate
    int32_t first             # the route, by its first resource in Share.path; -1: no rate is kept here
    int32_t length            # number of resources of the route
    int32_t weight            # weight of the flows
    int64_t num               # numerator of the rate [B/cycle]
    int64_t den               # denominator of the rate

cdef inline void find_rate(Share* s, Route* route, int32_t weight, KnownRate* rate) noexcept nogil:
    """The smallest num * w / (den * W) along the route."""
    cdef int64_t num = 0, den = 1, n, d
    cdef int32_t h
    cdef Resource* r
    cdef Resource* least = NULL
    for h in range(route.length):
        r = &s.res[s.path[route.first + h]]
        n = r.num * weight
        d = r.den * r.weight
        if h == 0 or n * den < num * d:     # both sides are below 2**62: the terms are checked when the machine is loaded
            num = n
            den = d
            least = r
    if least != NULL:
        least.binds = True
    rate.first = route.first
    rate.length = route.length
    rate.weight = weight
    rate.num = num
    rate.den = den

cdef inline void equal_share(Share* s, slot_t flow, cycle_t now, KnownRate* known) noexcept nogil:
    """Set the rate of a flow, unless this was done in this cycle."""
    cdef Flow* f = &s.flow[flow]
    cdef KnownRate* rate = &known[f.route.first & (KNOWN - 1)]
    if f.rated == now:                  # it is a member of several resources that changed
        return
    f.rated = now
    if rate.first != f.route.first or rate.length != f.route.length or rate.weight != f.weight:
        find_rate(s, &f.route, f.weight, rate)
    set_rate(s, flow, rate.num, rate.den, now)

cdef inline Resource* widest_channel(Share* s) noexcept nogil:
    """The channel whose share for each unit of weight is the largest; NULL if no channel has members."""
    cdef Resource* most = NULL
    cdef Resource* r
    cdef int32_t k
    for k in range(s.channels):
        r = &s.res[k]
        if r.members and (most == NULL or r.num * (most.den * most.weight) > most.num * (r.den * r.weight)):
            most = r
    return most

cdef inline bint may_limit(Resource* r, Resource* channel) noexcept nogil:
    """Whether a link that changed limited the rate of a member before, or may limit it now."""
    if r.binds or r.off_channels or channel == NULL:
        return True
    return r.num * (channel.den * channel.weight) < channel.num * (r.den * r.weight)

cdef inline void shared_bw_rates(Share* s, cycle_t now) noexcept nogil:
    """Set the rates of all flows on resources whose membership changed."""
    cdef KnownRate[KNOWN] known
    cdef int32_t i, n = 0
    cdef slot_t node, res
    cdef Resource* channel = widest_channel(s) if s.whole and s.devices == NULL and s.channels <= KNOWN else NULL
    for i in range(s.n_dirty):              # those whose members are visited come first
        res = s.dirty[i]
        if res < s.channels or s.res[res].members and may_limit(&s.res[res], channel):
            s.res[res].binds = False        # set again when the rates of its members are found
            s.dirty[i] = s.dirty[n]
            s.dirty[n] = res
            n += 1
    if s.set_rates != NULL and s.set_rates(s.sim, n, now):
        return
    memset(known, -1, sizeof(known))
    for i in range(n):
        node = s.res[s.dirty[i]].first
        while node != NONE:
            equal_share(s, node >> s.hop_shift, now, known)
            node = s.node_next[node]
