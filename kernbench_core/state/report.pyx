"""Reads the tables of a stopped run. Counters that the loop keeps as intervals are closed up to the current cycle on copies, so reading
changes nothing."""
import numpy as np

from kernbench_core.state.arrays cimport writable_int64s
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.cache cimport Cache
from kernbench_core.model.cache_flows cimport cache_pending
from kernbench_core.model.compute cimport Compute
from kernbench_core.model.control cimport Control
from kernbench_core.plugin.traced_commands cimport command_of
from kernbench_core.model.dma cimport BUSY, IDLE, STALLED_BACKPRESSURE, STALLED_BANK, DmaEngine, DmaJob
from kernbench_core.model.heap cimport Timer
from kernbench_core.model.controller.requests cimport Channel, Controllers
from kernbench_core.model.dram.devices cimport Controller, Devices
from kernbench_core.model.noc.routers cimport Network, Output
from kernbench_core.model.share.membership cimport Flow, Resource, flow_next, on_resources
from kernbench_core.model.bank_counters cimport Tally, tally_drain
from kernbench_core.types cimport (
    CHANNELS, COMM, CONTROLLER_MODEL, NEVER, NONE, PRIORITY_DEFERRED, QUEUE_FULL, cycle_t, int32_t, int64_t, nbytes_t,
    slot_t)

cdef enum:
    TOTALS = 4                # number of totals of a resource or DMA engine in totals_of
    OF_COMPUTE = 2            # number of totals of a TE or VE


cdef object seen(cycle_t at):
    return None if at == NEVER else at


cdef tuple entries_of(Sim* s):
    cdef int32_t k, n = s.control.n
    issue, start, end = np.empty((3, n), dtype=np.int64)
    cdef int64_t* i = writable_int64s(issue)
    cdef int64_t* b = writable_int64s(start)
    cdef int64_t* e = writable_int64s(end)
    for k in range(n):
        i[k] = -1 if s.control.entry[k].issue == NEVER else s.control.entry[k].issue
        b[k] = -1 if s.control.entry[k].start == NEVER else s.control.entry[k].start
        e[k] = -1 if s.control.entry[k].end == NEVER else s.control.entry[k].end
    return issue, start, end


cdef list tally_list(Tally* t):
    cdef int32_t k
    tally_drain(t)                      # the totals stay the same, but more of them are in `count`
    return [t.count[k] for k in range(t.banks)]


cdef dict dma_counters(Sim* s, int32_t engine):
    cdef DmaEngine* e = &s.dma[engine]
    cdef DmaJob* j
    cdef slot_t job
    cdef int32_t c
    cdef int64_t full = e.queue_full, deferred = e.deferred
    spent = [e.spent[c] for c in range(4)]
    spent[e.activity] += s.cycle - e.since
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
        "jobs": e.jobs, "busy": spent[BUSY], "idle": spent[IDLE], "backpressure": spent[STALLED_BACKPRESSURE],
        "bank_conflict": spent[STALLED_BANK], "queue_full": full, "priority_deferred": deferred, "bytes": e.nbytes,
    }


cdef dict compute_counters(Sim* s, Compute* e):
    cdef cycle_t cycles = e.job_cycles, conflict = e.conflict, held = s.requester[s.n_flows + <slot_t>(e - s.compute)].first_denied
    if e.job != NONE:
        cycles += s.cycle - e.started
        if held != NEVER:
            conflict += s.cycle - held
    return {
        "kind": e.kind, "id": e.id, "jobs": e.jobs, "busy": cycles - conflict, "idle": s.cycle - cycles,
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


cdef dict counters_of(Sim* s):
    """`dma`, `compute`, `resources`, `spm`: lists in the order of the machine's tables."""
    cdef int32_t k, h
    cdef Resource* r
    cdef Flow* f
    cdef slot_t flow
    dma = [dma_counters(s, k) for k in range(s.n_dma)]
    resources = []
    for k in range(s.share.n_res):
        r = &s.share.res[k]
        gap = s.cycle - r.since if r.members else 0
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
        grants = tally_list(&s.spm[k].grants)
        denials = tally_list(&s.spm[k].denials)
        spms.append({"requests": [g + d for g, d in zip(grants, denials)], "grants": grants, "denials": denials})
    return {
        "dma": dma, "compute": [compute_counters(s, &s.compute[k]) for k in range(s.n_compute)],
        "resources": resources, "spm": spms,
    }


cdef object bank_counts(Tally* t):
    cdef int32_t k
    counts = np.empty(t.banks, dtype=np.int64)
    cdef int64_t* c = writable_int64s(counts)
    tally_drain(t)
    for k in range(t.banks):
        c[k] = t.count[k]
    return counts


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
        gap = s.cycle - r.since if r.members else 0
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


cdef list queue_depths(Sim* s):
    """(queued, active): for each DMA engine by channel, and for each TE and VE. Without queues between PEs, the channel COMM is left
    out."""
    cdef int32_t k, c, channels = CHANNELS if s.peer_transfers != NULL else COMM
    cdef slot_t job
    out = []
    for k in range(s.n_dma):
        waiting = [0] * channels
        for c in range(channels):
            job = s.dma[k].channel[c].first
            while job != NONE:
                waiting[c] += 1
                job = s.dma_job[job].next
        out.append((waiting, [s.dma[k].channel[c].outstanding for c in range(channels)]))
    for k in range(s.n_compute):
        out.append(([s.compute[k].queued], [int(s.compute[k].job != NONE)]))
    return out


cdef tuple router_queues(Sim* s):
    """Of the inputs of all routers: the flits in their buffers summed over clocks, and the flits by channel. Of the terminals: the packets
    that have not left. Empty without routers."""
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
            depth[k * w.channels + channel] = (w.input[k].held >> channel & 1) + w.behind[(k << w.shift) + channel].n
    for k in range(w.terminals):
        packet = w.terminal[k].first
        while packet != NONE:
            waiting[k] += 1
            packet = w.packet[packet].next
    return sums, depths, packets


cdef tuple totals_of(Sim* s):
    """The totals that only grow, as int64 arrays: DMA engines (busy, backpressure, bank conflict, bytes), TEs and VEs (busy, bank
    conflict), resources, and banks (grants, denials) of each scratchpad; and the depths of queues."""
    cdef int32_t k, i
    cdef DmaEngine* e
    cdef Flow* f
    cdef slot_t slot
    cdef cycle_t held, cycles, conflict
    dma, compute = np.empty((s.n_dma, TOTALS), dtype=np.int64), np.empty((s.n_compute, OF_COMPUTE), dtype=np.int64)
    cdef int64_t* d = writable_int64s(dma)
    cdef int64_t* c = writable_int64s(compute)
    for k in range(s.n_dma):
        e = &s.dma[k]
        d[TOTALS * k] = e.spent[<int32_t>BUSY]
        d[TOTALS * k + 1] = e.spent[<int32_t>STALLED_BACKPRESSURE]
        d[TOTALS * k + 2] = e.spent[<int32_t>STALLED_BANK]
        d[TOTALS * k + 3] = e.nbytes
        if e.activity != IDLE:
            d[TOTALS * k + (0 if e.activity == BUSY else 1 if e.activity == STALLED_BACKPRESSURE else 2)] += s.cycle - e.since
    for k in range(s.n_spm):
        for i in range(s.spm[k].n_order):
            slot = s.spm[k].order[i]
            if slot < s.n_flows:
                f = &s.share.flow[slot]
                d[TOTALS * f.engine + 3] += f.total - f.left
    for k in range(s.n_compute):
        cycles = s.compute[k].job_cycles
        conflict = s.compute[k].conflict
        held = s.requester[s.n_flows + k].first_denied
        if s.compute[k].job != NONE:
            cycles += s.cycle - s.compute[k].started
            if held != NEVER:
                conflict += s.cycle - held
        c[OF_COMPUTE * k] = cycles - conflict
        c[OF_COMPUTE * k + 1] = conflict
    banks = [(bank_counts(&s.spm[k].grants), bank_counts(&s.spm[k].denials)) for k in range(s.n_spm)]
    return dma, compute, resource_totals(s), banks, queue_depths(s)


cdef list live_flows(Sim* s):
    """The slots of flows that are requesters of a scratchpad, in its order."""
    cdef int32_t k, i
    return [s.spm[k].order[i] for k in range(s.n_spm) for i in range(s.spm[k].n_order) if s.spm[k].order[i] < s.n_flows]


cdef cycle_t flow_asks_at(Sim* s, slot_t slot):
    """The cycle of the flow's next request, if its rate stays the same; the plain model tests the flow in every cycle."""
    cdef Flow* f = &s.share.flow[slot]
    return flow_next(f) if f.member and f.left and s.requester[slot].first_denied == NEVER else s.requester[slot].next_at


cdef dict flow_state(Sim* s, slot_t slot):
    cdef Flow* f = &s.share.flow[slot]
    rate = (0, 1)
    if f.member:
        rate = (f.num, f.den)
    return {
        "channel": f.bus, "bytes_left": f.left, "member": bool(f.member), "out": bool(f.out),
        "rate": rate,
        "held_since": seen(s.requester[slot].first_denied), "asks_at": seen(flow_asks_at(s, slot)),
        "in_line": bool(f.entered and not f.member),
    }


cdef dict job_state(Sim* s, slot_t job):
    cdef DmaJob* j = &s.dma_job[job]
    cdef slot_t flow = j.flows
    flows = []
    left = 0 if flow != NONE else j.nbytes
    while flow != NONE:
        left += s.share.flow[flow].left
        if s.share.flow[flow].left:
            flows.append(flow_state(s, flow))
        flow = s.share.flow[flow].sibling
    return {
        "entry": command_of(s, j.entry),
        "state": j.state, "channel": j.channel, "write": bool(j.write), "bytes": j.nbytes, "bytes_left": left,
        "stall": j.reason, "stalled_since": j.stalled_at if j.reason else None, "in_head": bool(j.in_head), "flows": flows,
    }


cdef dict dma_state(Sim* s, int32_t engine, list active):
    cdef DmaEngine* e = &s.dma[engine]
    cdef slot_t job
    cdef int32_t c
    queue = []
    for c in range(CHANNELS):
        job = e.channel[c].first
        while job != NONE:
            queue.append((s.dma_job[job].seq, job))
            job = s.dma_job[job].next
    return {"active": active, "queue": [job_state(s, job) for _, job in sorted(queue)]}


cdef cycle_t body_left(Sim* s, int32_t c):
    """Body cycles that are not done; cycles that a requester sleeps through count when they come."""
    cdef Compute* e = &s.compute[c]
    cdef Requester* a = &s.requester[s.n_flows + c]
    cdef bint asleep = e.streams > 0 and e.idle > 0 and a.first_denied == NEVER
    cdef cycle_t ahead = (a.next_at - s.cycle) // e.period if asleep else 0
    return e.body_left + max(0, min(e.idle, ahead))


cdef cycle_t body_asks_at(Sim* s, int32_t c):
    """The cycle in which it next requests a bank, or does its last body cycle. The plain model tests it in every cycle, and so does any
    walk in the first cycle after a snapshot; cycles without requests are skipped here."""
    cdef Compute* e = &s.compute[c]
    cdef cycle_t i = e.body - e.body_left, last = e.body - 1, at = s.requester[s.n_flows + c].next_at
    cdef int32_t k
    if not e.sparse or i == 0 or e.body_left == 0 or s.requester[s.n_flows + c].first_denied != NEVER:
        return at
    for k in range(e.streams):
        last = min(last, e.stream[k].next)
    return at + (last - i) * e.period


cdef dict compute_state(Sim* s, int32_t c):
    cdef Compute* e = &s.compute[c]
    cdef slot_t job = e.queue_first
    queue = []
    while job != NONE:
        queue.append(command_of(s, s.compute_job[job].entry))
        job = s.compute_job[job].next
    state = {"kind": e.kind, "id": e.id, "entry": None, "queue": queue}
    if e.job != NONE:
        state.update(
            entry=command_of(s, s.compute_job[e.job].entry), started=e.started, body=s.compute_job[e.job].body, body_left=body_left(s, c),
            streams=bool(e.streams), done_at=seen(e.done_at), held_since=seen(s.requester[s.n_flows + c].first_denied),
            next_at=seen(body_asks_at(s, c)) if e.streams else None)
    return state


cdef dict engines_of(Sim* s):
    """`dma`: {active, queue} of job states; `compute`: entry, body cycles left, held since; `resources`: members."""
    cdef int32_t k, i, n
    cdef Timer* join
    active = [[] for _ in range(s.n_dma)]
    transferring = []
    for k in range(s.groups.n):
        join = s.joins.item + s.groups.group[k].first_flow
        n = s.groups.group[k].n_joins if s.groups.n > 1 else s.joins.n
        for i in range(n):
            transferring.append((s.dma_job[join[i].id].seq, join[i].id, join[i].at))
    for slot in live_flows(s):
        k = s.share.flow[slot].job
        transferring.append((s.dma_job[k].seq, k, None))
    done = set()
    for _, job, joins_at in sorted(transferring, key=lambda item: item[:2]):
        if job not in done:
            done.add(job)
            state = job_state(s, job)
            state["joins_at"] = joins_at
            active[s.dma_job[<slot_t>job].engine].append(state)
    return {
        "dma": [dma_state(s, k, active[k]) for k in range(s.n_dma)],
        "compute": [compute_state(s, k) for k in range(s.n_compute)],
        "resources": [{"members": s.share.res[k].members, "num": s.share.res[k].num, "den": s.share.res[k].den}
                      for k in range(s.share.n_res)],
    }


cdef object arrivals_of(Sim* s):
    """The cycle in which each entry arrives in the queue; -1 if the host has not begun to write it. None if there is no host."""
    cdef int32_t k
    if s.control.mmio == NULL:
        return None
    arrivals = np.empty(s.control.n, dtype=np.int64)
    cdef int64_t* a = writable_int64s(arrivals)
    for k in range(s.control.n):
        a[k] = -1 if s.control.mmio.arrival[k] == NEVER else s.control.mmio.arrival[k]
    return arrivals


cdef tuple waiting_of(Sim* s):
    cdef Control* q = &s.control
    cdef int32_t k
    waits = np.empty(q.n, dtype=np.int64)
    cdef int64_t* w = writable_int64s(waits)
    for k in range(q.n):
        w[k] = q.entry[k].waits
    return waits, (q.barriers[q.passed] if q.passed < q.n_barriers else -1)


cdef list overlaps_of(Sim* s):
    cdef int32_t k
    if s.overlap == 0:
        return []
    return [(k, s.overlap_with[k]) for k in range(s.control.n) if s.overlap_with[k] != NONE]
