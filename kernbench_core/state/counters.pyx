"""The counters of a run, for results and for the windows of a trace.

The loop keeps some counters as intervals. A report closes open intervals in copies, so reading does not change the run.
"""
import numpy as np

from libc.string cimport memcpy
from kernbench_core.state.arrays cimport writable_int64s
from kernbench_core.model.cache cimport Cache
from kernbench_core.model.cache_flows cimport cache_pending
from kernbench_core.model.compute cimport Compute
from kernbench_core.model.dma cimport BUSY, IDLE, STALLED_BACKPRESSURE, STALLED_BANK, DmaEngine, DmaJob
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.model.noc.routers cimport Network, Output, vc_of
from kernbench_core.model.share.membership cimport Flow, Resource, on_resources
from kernbench_core.model.bank_counters cimport Tally, tally_drain
from kernbench_core.types cimport (
    CHANNELS, COMM, CONTROLLER_MODEL, NEVER, NONE, PRIORITY_DEFERRED, QUEUE_FULL, cycle_t, int32_t, int64_t, nbytes_t, slot_t)

cdef enum:
    TOTALS = 4                # number of totals of a resource or DMA engine
    OF_COMPUTE = 2            # number of totals of a TE or VE


cdef cycle_t dma_spent(Sim* s, DmaEngine* e, int32_t activity) noexcept nogil:
    """The cycles that a DMA engine spent in an activity, up to the current cycle."""
    return e.spent[activity] + (s.cycle - e.since if e.activity == activity else 0)


cdef dict dma_counters(Sim* s, int32_t engine):
    """The counters of a DMA engine, without the bytes of transfers that have not ended."""
    cdef DmaEngine* e = &s.dma[engine]
    cdef DmaJob* j
    cdef slot_t job
    cdef int32_t c
    cdef int64_t full = e.queue_full, deferred = e.deferred
    for c in range(CHANNELS):
        job = e.channel[c].first
        while job != NONE:
            j = &s.dma_job[job]
            if j.reason == QUEUE_FULL:
                full += s.cycle - j.stalled_at
            elif j.reason == PRIORITY_DEFERRED:
                deferred += s.cycle - j.stalled_at
            job = j.next
    return {
        "jobs": e.jobs, "busy": dma_spent(s, e, BUSY), "idle": dma_spent(s, e, IDLE),
        "backpressure": dma_spent(s, e, STALLED_BACKPRESSURE), "bank_conflict": dma_spent(s, e, STALLED_BANK),
        "queue_full": full, "priority_deferred": deferred, "bytes": e.nbytes,
    }


cdef void compute_spent(Sim* s, int32_t k, cycle_t* busy, cycle_t* conflict) noexcept nogil:
    """The cycles in which a TE or VE was busy, and in which its request was held, up to the current cycle."""
    cdef Compute* e = &s.compute[k]
    cdef cycle_t held = s.requester[s.n_flows + k].first_denied
    conflict[0] = e.conflict
    busy[0] = e.job_cycles
    if e.job != NONE or e.overlaps and s.array[k].draining:
        busy[0] += s.cycle - (s.array[k].since if e.overlaps else e.started)
    if e.job != NONE and held != NEVER:
        conflict[0] += s.cycle - held
    busy[0] -= conflict[0]


cdef dict compute_counters(Sim* s, int32_t k):
    """The counters of a TE or VE."""
    cdef Compute* e = &s.compute[k]
    cdef cycle_t busy, conflict
    compute_spent(s, k, &busy, &conflict)
    return {
        "kind": e.kind, "id": e.id, "jobs": e.jobs, "busy": busy, "idle": s.cycle - busy - conflict,
        "bank_conflict": conflict, "work": e.work,
    }


cdef dict device_counters(Sim* s, int32_t resource):
    """The commands that the controller of a DRAM channel issued."""
    cdef Controller* c
    cdef Channel* v
    if s.share.devices == NULL or resource >= s.share.channels:
        return {}
    if s.share.rule == CONTROLLER_MODEL:
        v = &(<Controllers*>s.share.devices).channel[resource]
        return {
            "bursts": v.bursts, "activations": v.activations, "refreshes": v.refs,
            "row_hits": v.hits, "row_misses": v.misses, "row_conflicts": v.conflicts,
        }
    c = &(<Devices*>s.share.devices).channel[resource]
    return {"bursts": c.bursts, "activations": c.activations, "refreshes": c.refreshes}


cdef dict cache_counters(Sim* s, int32_t resource):
    """The lookups and write-backs of a last-level cache."""
    cdef Cache* c
    cdef int32_t k
    for k in range(s.caches.n if s.caches != NULL else 0):
        c = &s.caches.cache[k]
        if c.resource == resource:
            return {
                "hits": c.hits, "misses": c.misses, "hit_bytes": c.hit_bytes, "miss_bytes": c.miss_bytes,
                "evictions": c.evictions, "write_backs": c.write_backs,
            }
    return {}


cdef cycle_t link_cycles(Sim* s, Output* o) noexcept nogil:
    """The number of cycles in which a link between routers was busy."""
    return min(s.cycle, (o.flits * o.den + o.num - 1) // o.num)


cdef dict router_counters(Sim* s, int32_t resource):
    """The counters of flits at a link between routers."""
    cdef Output* o
    cdef cycle_t busy
    if s.noc == NULL or s.noc.output[resource] == NONE:
        return {}
    o = &s.noc.net.output[s.noc.output[resource]]
    busy = link_cycles(s, o)
    return {
        "busy": busy, "member_cycles": busy, "flits": o.flits, "no_credit": o.no_credit, "no_channel": o.no_channel, "lost": o.lost,
    }


cdef nbytes_t moved_at(Sim* s, slot_t flow, int32_t hop) noexcept nogil:
    """The bytes of a flow that a resource of its route has moved: bytes that entered the routers, or that have passed them."""
    cdef Flow* f = &s.share.flow[flow]
    if s.noc == NULL:
        return on_resources(f, f.total - f.left)
    return s.noc.at[flow].entered if hop < f.route.length else s.noc.at[flow].ejected


cdef list live_flows(Sim* s):
    """The slots of flows that are requesters of a scratchpad, in its order, and of flows that wait in lines before they become
    requesters."""
    cdef int32_t k, i
    cdef slot_t flow
    found = [s.spm[k].order[i] for k in range(s.n_spm) for i in range(s.spm[k].n_order) if s.spm[k].order[i] < s.n_flows]
    for k in range(s.share.channels if s.share.queues else 0):
        flow = s.share.line[k]
        while flow != NONE:
            if s.requester[flow].spm != NONE and not s.requester[flow].listed:
                found.append(flow)
            flow = s.share.flow[flow].line_next
    return found


cdef const int64_t* bank_counts(Tally* t) noexcept nogil:
    """The totals of a counter of each bank."""
    tally_drain(t)                      # the totals stay the same, but more of them are in `count`
    return t.count


cdef inline cycle_t open_cycles(Sim* s, Resource* r) noexcept nogil:
    """The cycles of a resource with its current members, which are not yet in its counters."""
    return s.cycle - r.since if r.members else 0


cdef dict counters_of(Sim* s):
    """All counters of a run: `dma`, `compute`, `resources`, `spm`, lists in the order of the machine's tables."""
    cdef int32_t k, h
    cdef Resource* r
    cdef Flow* f
    cdef slot_t flow
    cdef const int64_t* granted
    cdef const int64_t* denied
    dma = [dma_counters(s, k) for k in range(s.n_dma)]
    resources = []
    for k in range(s.share.n_res):
        r = &s.share.res[k]
        gap = open_cycles(s, r)
        shares = {"bytes": r.bytes, "busy": r.busy + gap, "member_cycles": r.member_cycles + gap * r.members}
        resources.append({**shares, **device_counters(s, k), **cache_counters(s, k), **router_counters(s, k)})
    for k in range(s.share.channels if s.caches != NULL else 0):
        f = &s.share.flow[s.caches.first + k]
        for h in range(f.route.length):
            resources[s.share.path[f.route.first + h]]["bytes"] += cache_pending(s, k)
    for flow in live_flows(s):
        f = &s.share.flow[flow]
        dma[f.engine]["bytes"] += f.total - f.left
        for h in range(f.route.length + f.route.more):
            resources[s.share.path[f.route.first + h]]["bytes"] += moved_at(s, flow, h)
    spms = []
    for k in range(s.n_spm):
        granted, denied = bank_counts(&s.spm[k].grants), bank_counts(&s.spm[k].denials)
        grants, denials = [granted[h] for h in range(s.spm[k].grants.banks)], [denied[h] for h in range(s.spm[k].grants.banks)]
        spms.append({"requests": [g + d for g, d in zip(grants, denials)], "grants": grants, "denials": denials})
    return {
        "dma": dma, "compute": [compute_counters(s, k) for k in range(s.n_compute)],
        "resources": resources, "spm": spms,
    }


cdef list outputs_of(Sim* s):
    """For each output of a router, and then for each terminal's link: flits, and clocks without a credit, without a channel, lost."""
    cdef int32_t k
    cdef Output* o
    if s.noc == NULL:
        return []
    out = []
    for k in range(s.noc.net.outputs + s.noc.net.terminals):
        o = &s.noc.net.output[k]
        out.append((o.flits, o.no_credit, o.no_channel, o.lost))
    return out


cdef object dma_totals(Sim* s):
    """For each DMA engine: busy cycles, cycles under backpressure, cycles with bank conflicts, and bytes."""
    cdef int32_t k, i
    cdef slot_t slot
    cdef DmaEngine* e
    totals = np.empty((s.n_dma, TOTALS), dtype=np.int64)
    cdef int64_t* t = writable_int64s(totals)
    for k in range(s.n_dma):
        e = &s.dma[k]
        t[TOTALS * k] = dma_spent(s, e, BUSY)
        t[TOTALS * k + 1] = dma_spent(s, e, STALLED_BACKPRESSURE)
        t[TOTALS * k + 2] = dma_spent(s, e, STALLED_BANK)
        t[TOTALS * k + 3] = e.nbytes
    for k in range(s.n_spm):
        for i in range(s.spm[k].n_order):
            slot = s.spm[k].order[i]
            if slot < s.n_flows:
                t[TOTALS * s.share.flow[slot].engine + 3] += s.share.flow[slot].total - s.share.flow[slot].left
    return totals


cdef object compute_totals(Sim* s):
    """For each TE and VE: busy cycles, and cycles with bank conflicts."""
    cdef int32_t k
    totals = np.empty((s.n_compute, OF_COMPUTE), dtype=np.int64)
    cdef cycle_t* t = writable_int64s(totals)
    for k in range(s.n_compute):
        compute_spent(s, k, &t[OF_COMPUTE * k], &t[OF_COMPUTE * k + 1])
    return totals


cdef object resource_totals(Sim* s):
    """For each resource: bytes towards the scratchpad, bytes towards DRAM, busy cycles and member-cycles."""
    cdef int32_t k, i, h
    cdef slot_t flow
    cdef cycle_t gap
    cdef Resource* r
    cdef Flow* f
    totals = np.empty((s.share.n_res, TOTALS), dtype=np.int64)
    cdef int64_t* t = writable_int64s(totals)
    for k in range(s.share.n_res):
        r = &s.share.res[k]
        gap = open_cycles(s, r)
        t[TOTALS * k] = r.bytes - r.stored
        t[TOTALS * k + 1] = r.stored
        t[TOTALS * k + 2] = r.busy + gap
        t[TOTALS * k + 3] = r.member_cycles + gap * r.members
        if s.noc != NULL and s.noc.output[k] != NONE:
            t[TOTALS * k + 2] = t[TOTALS * k + 3] = link_cycles(s, &s.noc.net.output[s.noc.output[k]])
    for k in range(s.share.channels if s.caches != NULL else 0):
        f = &s.share.flow[s.caches.first + k]
        for h in range(f.route.length):
            t[TOTALS * s.share.path[f.route.first + h] + 1] += cache_pending(s, k)
    for k in range(s.n_spm):
        for i in range(s.spm[k].n_order):
            flow = s.spm[k].order[i]
            if flow < s.n_flows:
                f = &s.share.flow[flow]
                for h in range(f.route.length + f.route.more):
                    t[TOTALS * s.share.path[f.route.first + h] + (1 if s.dma_job[f.job].write else 0)] += moved_at(s, flow, h)
    return totals


cdef object queue_depths(Sim* s):
    """The jobs in queues: for each DMA engine, the waiting jobs by channel and the active jobs by channel; for each TE and VE, the number
    of waiting jobs and of active jobs. Without queues between PEs, the channel COMM is left out."""
    cdef int32_t k, c, channels = CHANNELS if s.peer_transfers != NULL else COMM
    cdef slot_t job
    depths = np.zeros(2 * (s.n_dma * channels + s.n_compute), dtype=np.int64)
    cdef int64_t* d = writable_int64s(depths)
    for k in range(s.n_dma):
        for c in range(channels):
            job = s.dma[k].channel[c].first
            while job != NONE:
                d[c] += 1
                job = s.dma_job[job].next
            d[channels + c] = s.dma[k].channel[c].outstanding
        d += 2 * channels
    for k in range(s.n_compute):
        d[2 * k] = s.compute[k].queued
        d[2 * k + 1] = (s.compute[k].job != NONE) + (s.array[k].draining if s.compute[k].overlaps else 0)
    return depths


cdef object bank_totals(Sim* s):
    """The grants of all banks and then the denials of all banks, for each scratchpad."""
    cdef int32_t k
    cdef int64_t n = 0
    for k in range(s.n_spm):
        n += 2 * s.spm[k].grants.banks
    totals = np.empty(n, dtype=np.int64)
    cdef int64_t* t = writable_int64s(totals)
    for k in range(s.n_spm):
        n = s.spm[k].grants.banks
        memcpy(t, bank_counts(&s.spm[k].grants), n * sizeof(int64_t))
        memcpy(t + n, bank_counts(&s.spm[k].denials), n * sizeof(int64_t))
        t += 2 * n
    return totals


cdef tuple router_queues(Sim* s):
    """For the inputs of all routers: the flits in their buffers summed over clocks, and the flits by channel. The number of packets in the
    terminals that have not left. Empty without routers."""
    cdef int32_t k, channel
    cdef slot_t packet
    cdef Network* w
    if s.noc == NULL:
        return ()
    w = &s.noc.net
    sums, depths = np.empty(w.inputs, dtype=np.int64), np.empty((w.inputs, w.channels), dtype=np.int64)
    packets = np.zeros(w.terminals, dtype=np.int64)
    cdef int64_t* occupied = writable_int64s(sums)
    cdef int64_t* depth = writable_int64s(depths)
    cdef int64_t* waiting = writable_int64s(packets)
    for k in range(w.inputs):
        occupied[k] = w.input[k].occupied + w.input[k].n * s.cycle
        for channel in range(w.channels):
            depth[k * w.channels + channel] = (w.input[k].held >> channel & 1) + w.behind[vc_of(w, k, channel)].n
    for k in range(w.terminals):
        packet = w.terminal[k].first
        while packet != NONE:
            waiting[k] += 1
            packet = w.packet[packet].next
    return sums, depths, packets


cdef tuple totals_of(Sim* s):
    """int64 arrays: the totals of DMA engines (busy, backpressure, bank conflict, bytes), of TEs and VEs (busy, bank conflict), of
    resources and of banks, which only grow; and the depths of queues."""
    return dma_totals(s), compute_totals(s), resource_totals(s), bank_totals(s), queue_depths(s)
