"""Lays out the routers of a machine and the data that its transfers need of them, from the tables of kernbench/noc/machine.py."""
from kernbench_core.model.noc.interface cimport Interface, Interfaces, Segment
from kernbench_core.model.noc.routers cimport Hop
from kernbench_core.state.arrays cimport int64_rows, int64s
from kernbench_core.state.network_layout cimport hop_of, lay_out_network
from kernbench_core.types cimport NONE, int32_t, int64_t, slot_t

cdef enum:
    MOST = 1 << 26            # limit of packets, segments or hops


cdef int lay_out_packets(Interfaces* x, Arena a, int64_t n) except -1:
    """All packets are unused."""
    cdef int64_t k
    for k in range(n):
        x.net.packet[k].next = <slot_t>(k + 1)
    x.net.packet[n - 1].next = NONE
    return 0


cdef int lay_out_segments(Sim* s, Arena a, dict spec) except -1:
    """`route_members`, `route_segments`: for each route, the number of resources of which flows are members, and the index of its first
    segment."""
    cdef Interfaces* x = s.noc
    cdef int32_t k, n = len(spec["segments"]), routes = s.routes.n
    cdef const int64_t* row = int64_rows(spec["segments"], n, 4)
    cdef const int64_t* first = int64s(spec["route_segments"], routes + 1)
    cdef const int64_t* members = int64s(spec["route_members"], routes)
    x.n_segments, x.segment_room = n, max(n, 1)
    x.n_hops = x.hop_capacity = len(spec["hops"])
    a.own(<void**>&x.segment, x.segment_room, sizeof(Segment), False)
    for k in range(n):
        x.segment[k].source, x.segment[k].target = <int32_t>row[4 * k], <int32_t>row[4 * k + 1]
        x.segment[k].hop, x.segment[k].alone = <int32_t>row[4 * k + 2], <int32_t>row[4 * k + 3]
    for k in range(routes):
        s.route[k].segment, s.route[k].segments = <int32_t>first[k], <int32_t>(first[k + 1] - first[k])
        s.route[k].more = s.route[k].length - <int32_t>members[k]
        s.route[k].length = <int32_t>members[k]
    return 0


cdef int lay_out_interfaces(Sim* s, Arena a, dict m) except -1:
    """Does nothing if transfers do not move over routers."""
    spec = m.get("network")
    if spec is None:
        return 0
    cdef int32_t k, outputs
    cdef object packets
    cdef const int64_t* resource
    a.own(<void**>&s.noc, 1, sizeof(Interfaces), False)
    s.noc.flit, s.noc.packet, s.noc.window = spec["flit_bytes"], spec["packet_bytes"], spec["window_bytes"]
    packets = (spec["window_bytes"] // spec["packet_bytes"] + 1) * max(s.n_flows, 1)
    if packets > MOST:
        raise ValueError(f"{s.n_flows} flows with windows of {spec['window_bytes']} bytes: at most {MOST} packets may be on their way")
    lay_out_network(&s.noc.net, a, spec, packets)
    lay_out_packets(s.noc, a, packets)
    outputs = s.noc.net.outputs + s.noc.net.terminals
    resource = int64s(spec["resources"], outputs)
    a.own(<void**>&s.noc.at, s.n_flows, sizeof(Interface), False)
    a.own(<void**>&s.noc.active, s.n_flows, sizeof(slot_t), False)
    a.own(<void**>&s.noc.going_on, s.noc.net.terminals, sizeof(slot_t), False)
    a.own(<void**>&s.noc.resource, outputs, sizeof(int32_t), False)
    a.own(<void**>&s.noc.output, s.share.n_res, sizeof(int32_t), False)
    for k in range(s.share.n_res):
        s.noc.output[k] = NONE
    for k in range(outputs):
        s.noc.resource[k] = <int32_t>resource[k]
        if resource[k] != NONE:
            s.noc.output[resource[k]] = k
    return lay_out_segments(s, a, spec)


cdef int add_segments(Sim* s, Arena a, list segments) except -1:
    """Add the segments of a route that is added at run time: rows (source, target, alone, hops), with hops (output, low, high)."""
    cdef Interfaces* x = s.noc
    cdef Segment* g
    hops = sum([len(row) for _, _, _, row in segments])
    if x.n_segments + len(segments) > MOST or x.n_hops + hops > MOST:
        raise ValueError(f"{x.n_segments} segments of {x.n_hops} hops: there is no place for more")
    if x.n_segments + len(segments) > x.segment_room:
        x.segment_room = 2 * (x.n_segments + len(segments))
        a.grow(<void**>&x.segment, x.segment_room, sizeof(Segment))
    if x.n_hops + hops > x.hop_capacity:
        x.hop_capacity = 2 * (x.n_hops + hops)
        a.grow(<void**>&x.net.hop, x.hop_capacity, sizeof(Hop))
    for source, target, alone, row in segments:
        g = &x.segment[x.n_segments]
        g.source, g.target, g.alone, g.hop = source, target, alone, x.n_hops
        x.n_segments += 1
        for output, low, high in row:
            x.net.hop[x.n_hops] = hop_of(output, low, high)
            x.n_hops += 1
    return 0
