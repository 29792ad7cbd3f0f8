"""Routes that are added at run time: their tables grow.

The tables grow while Python runs inside a call of a component, or between two cycles. At these points the loop holds no pointer
into the tables, and flows keep numbers. The content of snapshots would grow with the tables, so a run whose tables have grown
cannot be saved in a snapshot.
"""
from kernbench_core.model.dram.extent cimport Dram, flows_of
from kernbench_core.model.share.membership cimport Route
from kernbench_core.state.interface_layout cimport add_segments
from kernbench_core.types cimport NONE, int32_t, int64_t, slot_t

cdef enum:
    LONGEST = 1 << 20         # largest number of links of a route
    MOST = 1 << 29  # limit of the routes, of the links of all routes, and of the nodes of member lists: slots have 31 bits


cdef slot_t renumbered(slot_t node, int32_t old, int32_t shift) noexcept nogil:
    """The number of a node of the member lists after there is room for longer routes."""
    return NONE if node == NONE else ((node >> old) << shift) + (node & ((1 << old) - 1))


cdef void renumber(slot_t* table, slot_t flows, int32_t old, int32_t shift) noexcept nogil:
    """Move the entries, the last one first, so that no entry is overwritten before it was moved."""
    cdef slot_t flow
    cdef int32_t h
    for flow in range(flows - 1, -1, -1):
        for h in range((1 << old) - 1, -1, -1):
            table[(flow << shift) + h] = renumbered(table[(flow << old) + h], old, shift)


cdef int widen(Sim* s, Arena a, int32_t shift) except -1:
    """Make room for longer routes in the member lists."""
    cdef int32_t old = s.share.hop_shift, k
    if <int64_t>s.n_flows << shift > MOST:
        raise ValueError(f"a route over {1 << shift} links for {s.n_flows} flows: there is place for {MOST} in all")
    a.grow(<void**>&s.share.node_next, <size_t>s.n_flows << shift, sizeof(slot_t))
    a.grow(<void**>&s.share.node_prev, <size_t>s.n_flows << shift, sizeof(slot_t))
    renumber(s.share.node_next, s.n_flows, old, shift)
    renumber(s.share.node_prev, s.n_flows, old, shift)
    for k in range(s.share.n_res):
        s.share.res[k].first = renumbered(s.share.res[k].first, old, shift)
    s.share.hop_shift = shift
    return 0


cdef int check(Sim* s, int64_t memory, list links, int64_t latency) except -1:
    cdef object n = len(links)
    if not 0 <= memory < s.n_memories:
        raise ValueError(f"a route to memory {memory}: the machine has {s.n_memories}")
    if s.own_routes:
        raise ValueError("the routes of one NPU are all there from the start")
    if n > LONGEST or latency < 0:
        raise ValueError(f"a route over {n} links with a latency of {latency} cycles: it has up to {LONGEST} links, and no latency below 0")
    if not n and s.memory[memory].first == NONE:
        raise ValueError("a route without a link to a memory without channels: nothing limits it")
    for link in links:
        if not s.share.channels <= link < s.share.n_res:
            raise ValueError(f"a route over resource {link}: links are {s.share.channels} to {s.share.n_res - 1}")
    if len(set(links)) != n:
        raise ValueError("a route goes over each link once")
    if s.routes.n_path + (n + 2) * flows_of(&s.memory[memory]) > MOST or s.routes.n + flows_of(&s.memory[memory]) > MOST:
        raise ValueError(f"{s.routes.n} routes over {s.routes.n_path} links: there is no place for one more")
    return 0


cdef int make_room(Sim* s, Arena a, int64_t routes, int64_t path) except -1:
    """Double the tables, so that an additional route costs little on average."""
    if routes > s.routes.room:
        s.routes.room = <int32_t>(2 * routes)
        a.grow(<void**>&s.route, s.routes.room, sizeof(Route))
        a.grow(<void**>&s.route_latency, s.routes.room, sizeof(int64_t))
        a.grow(<void**>&s.routes.memory, s.routes.room, sizeof(int32_t))
    if path > s.routes.max_path:
        s.routes.max_path = <int32_t>(2 * path)
        a.grow(<void**>&s.share.path, s.routes.max_path, sizeof(slot_t))
    return 0


cdef int check_through(Sim* s, list links, through) except -1:
    if (s.noc == NULL) != (through is None):
        raise ValueError("a route of a machine with routers has segments, and no other has")
    if through is not None and not 0 <= through[0] <= len(links):
        raise ValueError(f"a route with {through[0]} of {len(links)} links that flows are members of")
    return 0


cdef int64_t route_add(Sim* s, Arena a, int64_t memory, list links, int64_t latency, through) except -1:
    """Add a route for each channel of a memory, over this channel, its cache and these links, and a route that goes only over
    the cache; return the number of the first route, which transfers name. `through`, with routers: the number of links of which
    flows are members, and the segments."""
    cdef int32_t channels, k, n = <int32_t>len(links), segment = 0, more = 0
    cdef Dram* d
    cdef object most
    cdef int64_t first = s.routes.n, path
    check(s, memory, links, latency)
    check_through(s, links, through)
    d = &s.memory[memory]
    channels = flows_of(d)
    most = n + 1 + (d.cache != NONE)
    path = s.routes.n_path + <int64_t>most * channels
    s.routes.grown = True
    if most > 1 << s.share.hop_shift:
        widen(s, a, (most - 1).bit_length())
    make_room(s, a, first + channels, path)
    if through is not None:
        segment = s.noc.n_segments
        more = n - <int32_t>through[0]
        add_segments(s, a, through[1])
    for k in range(channels):
        s.route[s.routes.n].first = s.routes.n_path
        s.route_latency[s.routes.n] = latency
        s.routes.memory[s.routes.n] = NONE if k else <int32_t>memory
        if d.first != NONE and k < d.channels:
            s.share.path[s.routes.n_path] = d.first + k
            s.routes.n_path += 1
        if d.cache != NONE:
            s.share.path[s.routes.n_path] = s.caches.cache[d.cache].resource
            s.routes.n_path += 1
        for link in links:
            s.share.path[s.routes.n_path] = link
            s.routes.n_path += 1
        s.route[s.routes.n].length = s.routes.n_path - s.route[s.routes.n].first - more
        s.route[s.routes.n].more = more
        s.route[s.routes.n].segment = segment
        s.route[s.routes.n].segments = 0 if s.noc == NULL else s.noc.n_segments - segment
        s.routes.n += 1
    return first


cdef int route_refuse_snapshot(Sim* s) except -1:
    """Refuse a snapshot, because its content would have another size."""
    if s.routes.grown:
        raise ValueError("routes were found while it went on, and such a run cannot be saved")
    return 0
