"""Builds the tables of a run from a machine and a program that are already valid (`kernbench` checks them).

`machine` and `program` are dicts of ints, int64 arrays and lists of dicts, made by `kernbench.cmdq.lower`. All sizes are set here: no table
grows during a run, except those of routes that are added at run time (model/routes.pyx).
"""
import numpy as np

from kernbench_core.state.arrays cimport int64_rows, int64s, writable_int32s
from kernbench_core.plugin.abi cimport KB_HOPS
from kernbench_core.fast.request_table cimport RequestTable
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.arbiter.rule cimport OLDEST_FIRST, PLUGGED_IN
from kernbench_core.model.bank cimport DENIED, Requester, Spm, TieBreak
from kernbench_core.model.compute cimport (
    ARRAY_PARTS, MAX_REGIONS, Array, ArrayJob, Compute, ComputeJob, Stream, set_parts)
from kernbench_core.model.control cimport Control, Entry, control_open
from kernbench_core.model.dma cimport DmaEngine, DmaJob
from kernbench_core.model.dram.extent cimport Dram, Extent, channel_bytes, flows_of
from kernbench_core.trace.events cimport FlowTrace, StreamTrace
from kernbench_core.fast.group_layout cimport reset_horizons, lay_out_groups
from kernbench_core.fast.fast_state cimport forget
from kernbench_core.model.heap cimport Timer
from kernbench_core.model.mmio cimport Mmio
from kernbench_core.model.share.max_min cimport Fill
from kernbench_core.model.controller.requests cimport Controllers
from kernbench_core.state.cache_layout cimport lay_out_caches, lay_out_write_backs
from kernbench_core.state.controller_layout cimport lay_out_controllers
from kernbench_core.state.device_layout cimport lay_out_devices
from kernbench_core.state.interface_layout cimport lay_out_interfaces
from kernbench_core.state.perturbed_layout cimport lay_out_perturbed
from kernbench_core.model.share.membership cimport Flow, Resource, Route
from kernbench_core.model.share.rules cimport SHARE_RULES
from kernbench_core.model.sim cimport Sim, memory_of
from kernbench_core.model.bank_counters cimport Tally
from kernbench_core.types cimport (
    CHANNELS, COMM, NEVER, NONE, OP_BARRIER, OP_END, cycle_t, int8_t, int32_t, int64_t, slot_t, uint64_t)
from kernbench_core.fast.lane_table cimport LANES, Lanes, LaneTable, RouteRate


cdef int lay_out_routes(Sim* s, Arena a, dict m) except -1:
    """The routes of all transfers; returns the number of resources of the longest path. The paths of components' flows come before those of
    transfers."""
    cdef int32_t routes = len(m["route_latency"]), hop_count = len(m["route_path"])
    cdef const int64_t* start = int64s(m["route_start"], routes + 1)
    cdef const int64_t* path = int64s(m["route_path"], hop_count)
    cdef const int64_t* latency = int64s(m["route_latency"], routes)
    cdef int32_t k, hops = min(<int32_t>KB_HOPS, s.share.n_res) if s.n_open else 0, first = s.n_open * hops
    s.routes.n_path = first + hop_count + (2 * s.share.channels if m.get("caches") else 0)
    s.routes.n = routes
    a.own(<void**>&s.share.path, s.routes.n_path, sizeof(slot_t), s.n_open > 0)
    for k in range(hop_count):
        s.share.path[first + k] = <slot_t>path[k]
    a.own(<void**>&s.route, s.routes.n, sizeof(Route), False)
    a.own(<void**>&s.route_latency, s.routes.n, sizeof(int64_t), False)
    a.own(<void**>&s.routes.memory, s.routes.n, sizeof(int32_t), False)
    for k in range(s.routes.n):
        s.route[k].first = first + <int32_t>start[k]
        s.route[k].length = <int32_t>(start[k + 1] - start[k])
        s.route_latency[k] = latency[k]
        s.routes.memory[k] = NONE
        hops = max(hops, s.route[k].length)
    for k in range(s.n_dma_jobs):
        s.routes.memory[s.dma_job[k].route] = s.dma_job[k].memory
    if m.get("caches"):
        hops = max(hops, lay_out_write_backs(s, a, first + hop_count, m["caches"]))
    return hops


cdef int lay_out_share(Sim* s, Arena a, dict m) except -1:
    cdef int32_t resources = len(m["resource_num"])
    cdef const int64_t* num = int64s(m["resource_num"], resources)
    cdef const int64_t* den = int64s(m["resource_den"], resources)
    cdef int32_t k
    cdef object hops
    s.share.rule = m["allocation"]
    s.share.queues = SHARE_RULES[s.share.rule].queues
    s.share.n_res = resources
    s.share.channels = m["channels"]
    a.own(<void**>&s.share.res, s.share.n_res, sizeof(Resource))
    if s.n_plugs:                                   # components may set capacities: these are state
        a.keep_before(&s.share.res[0].binds)
    else:
        a.keep_before(&s.share.res[0].num)
    a.own(<void**>&s.share.dirty, s.share.n_res, sizeof(slot_t))
    a.own(<void**>&s.share.line, s.share.channels, sizeof(slot_t))
    a.own(<void**>&s.share.scratch, s.share.n_res, sizeof(Fill), False)
    for k in range(s.share.n_res):
        s.share.res[k].num = num[k]
        s.share.res[k].den = den[k]
        s.share.res[k].first = NONE
    for k in range(s.share.channels):
        s.share.line[k] = NONE
    hops = lay_out_routes(s, a, m)
    s.share.hop_shift = max(hops - 1, 0).bit_length()
    a.own(<void**>&s.share.flow, s.n_flows, sizeof(Flow))
    if s.n_open == 0:
        a.keep_before(&s.share.flow[0].num)
    a.own(<void**>&s.share.node_next, <size_t>s.n_flows << s.share.hop_shift, sizeof(slot_t))
    a.own(<void**>&s.share.node_prev, <size_t>s.n_flows << s.share.hop_shift, sizeof(slot_t), False)
    if m.get("controllers") is not None:
        a.own(&s.share.devices, 1, sizeof(Controllers))
        lay_out_controllers(<Controllers*>s.share.devices, a, m["controllers"], s.share.channels, s.n_flows)
        a.alias(<void**>&(<Controllers*>s.share.devices).memory, s.memory)
    return lay_out_devices(s, a, m.get("devices"))


cdef int lay_out_tally(Tally* t, Arena a, int32_t banks, int32_t words) except -1:
    t.banks = banks
    t.words = words
    a.own(<void**>&t.low, 8 * words, sizeof(uint64_t), False)
    a.own(<void**>&t.noted, 8 * words, sizeof(uint64_t), False)
    a.own(<void**>&t.count, banks, sizeof(int64_t))
    return 0


cdef int32_t log2_or_none(object n) except -2:
    """The shift that divides by `n`; -1 if there is none."""
    return n.bit_length() - 1 if n & (n - 1) == 0 else -1


cdef int lay_out_spm(Spm* p, Arena a, dict m, int32_t requesters, int32_t engines) except -1:
    cdef int32_t side
    p.banks = m["banks"]
    p.words = (p.banks + 63) // 64
    p.line = m["line"]
    p.line_shift = log2_or_none(p.line)
    p.bank_lines = m["bank_lines"]
    p.blocked = m["blocked"]
    p.nowhere = m.get("nowhere", False)
    p.split = m["split"]
    p.penalty = m["penalty"]
    p.max_wait = m["max_wait"]
    p.backpressure = m["backpressure"]
    p.arbiter = m.get("arbiter", OLDEST_FIRST)
    if p.arbiter == NONE:
        p.arbiter = PLUGGED_IN
    a.own(<void**>&p.pointer, p.banks, sizeof(int32_t))
    p.row = p.line * p.banks
    p.oldest = NEVER
    forget(&p.lookahead)
    p.requesters = max(requesters, 1)
    for side in range(2):
        p.given[side] = m["ports"][side]
        p.ports[side] = min(p.given[side], p.requesters)                # more ports than requesters are never all used
        a.own(<void**>&p.free[side], <size_t>p.ports[side] * p.words, sizeof(uint64_t), False)
    lay_out_tally(&p.grants, a, p.banks, p.words)
    lay_out_tally(&p.denials, a, p.banks, p.words)
    a.own(<void**>&p.order, requesters, sizeof(slot_t))
    a.own(<void**>&p.watch, engines, sizeof(int32_t))
    a.own(<void**>&p.turn, requesters, sizeof(slot_t), False)
    a.own(<void**>&p.requesting, requesters, sizeof(slot_t), False)
    a.own(<void**>&p.lookahead.due, requesters + 1, sizeof(slot_t), False)
    p.narrow = p.words == 1 and p.ports[0] <= 7 and p.ports[1] <= 7
    p.full = <uint64_t>-1 >> (64 - p.banks) if p.words == 1 else 0
    return 0


cdef int lay_out_memories(Sim* s, Arena a, dict m) except -1:
    cdef Dram* d
    cdef int32_t k, channels = 1
    s.n_memories = len(m["memories"])
    a.own(<void**>&s.memory, s.n_memories, sizeof(Dram), False)
    for k in range(s.n_memories):
        d = &s.memory[k]
        spec = m["memories"][k]
        d.first = spec["first"]
        d.channels = spec["channels"]
        d.ratio_num, d.ratio_den = spec.get("ratio", (1, 1))
        d.interleave = spec["interleave"] * d.ratio_num // d.ratio_den
        d.align = spec["align"] * d.ratio_num // d.ratio_den
        d.setup = spec["setup"]
        d.cache = spec.get("cache", NONE)
        d.line = m["caches"][d.cache]["line"] if d.cache != NONE else 0
        d.interleave_shift = log2_or_none(d.interleave)
        d.channel_mask = d.channels - 1 if log2_or_none(d.channels) >= 0 else -1
        channels = max(channels, flows_of(d))
    a.own(<void**>&s.channel_bytes, channels, sizeof(int64_t), False)
    return 0


cdef void expand(Dram* d, Extent* x) noexcept nogil:
    """A transfer through a codec: convert compressed bytes to expanded bytes, which begin and end at boundaries of compressed bytes."""
    cdef int64_t align = d.align * d.ratio_den // d.ratio_num, start, end
    if d.ratio_num == d.ratio_den:
        return
    start = x.dram_addr // align
    end = (x.dram_addr + x.row_bytes + align - 1) // align
    x.dram_addr = start * d.align
    x.row_bytes = x.stride = (end - start) * d.align


cdef int lay_out_dma_engines(Sim* s, Arena a, dict m) except -1:
    """The DMA engines with the limits of their channels; `m`: the machine."""
    cdef int32_t k, c
    cdef DmaEngine* e
    s.n_dma = len(m["dma"])
    a.own(<void**>&s.dma, s.n_dma, sizeof(DmaEngine))
    a.keep_before(&s.dma[0].id)
    a.own(<void**>&s.dma_spm, s.n_dma, sizeof(int32_t), False)
    for k in range(s.n_dma):
        e = &s.dma[k]
        spec = m["dma"][k]
        e.id = k
        e.arbiter = spec["arbiter"]
        e.period = spec["period"]
        e.max_concurrent = spec["max_concurrent"]
        e.queue_depth = spec["queue_depth"]
        s.dma_spm[k] = spec["spm"]
        for c in range(CHANNELS):
            if c < len(spec["channels"]):               # else no transfer uses it
                e.limit[c].max_concurrent, e.limit[c].score, e.limit[c].weight = spec["channels"][c]
                if "ties" in spec:                      # of a perturbed run
                    e.limit[c].tie = spec["ties"][c]
            e.channel[c].first = NONE
            e.channel[c].last = NONE
    return 0


cdef int lay_out_dma_jobs(Sim* s, Arena a, dict p) except -1:
    """The DMA jobs of the program; `p`: one array for each field, with one element for each job."""
    cdef int32_t n = len(p["engine"])
    cdef const int64_t* engine = int64s(p["engine"], n)
    cdef const int64_t* channel = int64s(p["channel"], n)
    cdef const int64_t* group = int64s(p["group"], n)
    cdef const int64_t* write = int64s(p["write"], n)
    cdef const int64_t* t_start = int64s(p["t_start"], n)
    cdef const int64_t* dram_addr = int64s(p["dram_addr"], n)
    cdef const int64_t* row_bytes = int64s(p["row_bytes"], n)
    cdef const int64_t* stride = int64s(p["stride"], n)
    cdef const int64_t* rows = int64s(p["rows"], n)
    cdef const int64_t* spm_addr = int64s(p["spm_addr"], n)
    cdef const int64_t* entry = int64s(p["entry"], n)
    cdef const int64_t* memory = int64s(p["memory"], n)
    cdef const int64_t* route = int64s(p["route"], n)
    cdef const int64_t* peer = int64s(p["peer"], n)
    cdef int32_t k, c
    cdef DmaJob* j
    s.n_dma_jobs = n
    a.own(<void**>&s.dma_job, s.n_dma_jobs + s.n_component_jobs, sizeof(DmaJob))
    for k in range(s.n_dma_jobs):
        j = &s.dma_job[k]
        j.extent.dram_addr = dram_addr[k]
        j.extent.row_bytes = row_bytes[k]
        j.extent.stride = stride[k]
        j.extent.rows = rows[k]
        j.extent.spm_addr = spm_addr[k]
        expand(&s.memory[memory[k]], &j.extent)
        j.engine = <int32_t>engine[k]
        j.memory = <int32_t>memory[k]
        j.route = <int32_t>route[k]
        j.peer = <int32_t>peer[k]
        j.channel = <int32_t>channel[k]
        j.group = <int32_t>group[k]
        j.write = write[k] != 0
        j.t_start = t_start[k]
        j.entry = <int32_t>entry[k]
        j.flows = NONE
        channel_bytes(s.channel_bytes, memory_of(s, k), &j.extent)
        for c in range(memory_of(s, k).channels):
            j.nbytes += s.channel_bytes[c]
    return 0


cdef int lay_out_streams(Sim* s, Arena a) except -1:
    """One stream for each region of an engine's jobs; jobs of components may have the largest number."""
    cdef int32_t k, n = 0
    of_engine = np.full(s.n_compute, MAX_REGIONS if s.n_component_jobs else 0, dtype=np.int32)
    cdef int32_t* regions = writable_int32s(of_engine)
    for k in range(s.n_compute_jobs):
        regions[s.compute_job[k].engine] = max(regions[s.compute_job[k].engine], s.compute_job[k].regions)
    a.own(<void**>&s.stream, sum(of_engine.tolist()), sizeof(Stream))
    a.keep_before(&s.stream[0].per_cycle)
    for k in range(s.n_compute):
        s.compute[k].stream = s.stream + n
        n += regions[k]
    return 0


cdef int lay_out_compute_engines(Sim* s, Arena a, dict m) except -1:
    cdef int32_t k
    cdef Compute* e
    s.n_compute = len(m["compute"])
    a.own(<void**>&s.compute, s.n_compute, sizeof(Compute))
    a.keep_before(&s.compute[0].period)
    a.own(<void**>&s.compute_spm, s.n_compute, sizeof(int32_t), False)
    a.own(<void**>&s.ahead, s.n_compute, sizeof(RequestTable), False)
    a.own(<void**>&s.kept, 2 * len(m["spm"]) + 1, sizeof(int64_t), False)
    for k in range(s.n_compute):
        e = &s.compute[k]
        spec = m["compute"][k]
        e.kind, e.id = spec["kind"], spec["id"]
        e.period = spec["period"]
        e.traffic = spec["traffic"]
        e.overlaps = spec.get("overlaps", False)
        e.job = e.queue_first = e.queue_last = NONE
        e.done_at = NEVER
        s.compute_spm[k] = spec["spm"]
        s.ahead[k].job = NONE
    return 0


cdef int lay_out_compute_jobs(Sim* s, Arena a, dict p) except -1:
    """Jobs of TEs and VEs. `region_...`: rows of a job's operands, as long as the job with most operands needs."""
    cdef int32_t n = len(p["engine"]), width = p["region_addr"].shape[1]        # regions for which a job has room
    cdef const int64_t* engine = int64s(p["engine"], n)
    cdef const int64_t* init = int64s(p["init"], n)
    cdef const int64_t* body = int64s(p["body"], n)
    cdef const int64_t* finalize = int64s(p["finalize"], n)
    cdef const int64_t* work = int64s(p["work"], n)
    cdef const int64_t* regions = int64s(p["regions"], n)
    cdef const int64_t* entry = int64s(p["entry"], n)
    cdef const int64_t* addr = int64_rows(p["region_addr"], n, width)
    cdef const int64_t* nbytes = int64_rows(p["region_bytes"], n, width)
    cdef const int64_t* write = int64_rows(p["region_write"], n, width)
    cdef int32_t k, r
    cdef ComputeJob* j
    s.n_compute_jobs = n
    a.own(<void**>&s.compute_job, s.n_compute_jobs + s.n_component_jobs, sizeof(ComputeJob))
    for k in range(s.n_compute_jobs):
        j = &s.compute_job[k]
        j.engine = <int32_t>engine[k]
        j.init = init[k]
        j.body = body[k]
        j.finalize = finalize[k]
        j.work = work[k]
        j.entry = <int32_t>entry[k]
        j.regions = <int32_t>regions[k]
        for r in range(j.regions):
            j.region[r].addr = addr[k * width + r]
            j.region[r].nbytes = nbytes[k * width + r]
            j.written |= (write[k * width + r] != 0) << r
    return 0


cdef int lay_out_arrays(Sim* s, Arena a, table) except -1:
    """Arrays whose jobs overlap; `table`: for each job, the constant fields of its ArrayJob."""
    cdef const int64_t* parts = int64_rows(table, s.n_compute_jobs, ARRAY_PARTS)
    cdef int32_t k
    a.own(<void**>&s.array, s.n_compute, sizeof(Array))
    a.own(<void**>&s.array_job, s.n_compute_jobs + s.n_component_jobs, sizeof(ArrayJob))
    for k in range(s.n_compute_jobs):
        set_parts(&s.array_job[k], parts + ARRAY_PARTS * k)
    return 0


cdef int lay_out_issue(Control* q, Arena a, issue) except -1:
    """The rank of each entry in P2 of a perturbed run: a permutation in which each barrier keeps its position."""
    cdef const int64_t* rank = int64s(issue, q.n)
    cdef int32_t k
    a.own(<void**>&q.rank, q.n, sizeof(int32_t), False)
    a.own(<void**>&q.ranked, q.n, sizeof(int32_t), False)
    for k in range(q.n):
        q.rank[k] = <int32_t>rank[k]
        q.ranked[rank[k]] = k
    return 0


cdef int lay_out_mmio(Control* q, Arena a, dict m, dict p) except -1:
    """The host of a machine with MMIO: `m` has its three times, `p` the entries that it writes and the entries that raise interrupts."""
    cdef const int64_t* written = int64s(p["written"], q.n)
    cdef const int64_t* raises = int64s(p["raises"], q.n)
    cdef Mmio* h
    cdef int32_t k, i, writes = 0
    a.own(<void**>&q.mmio, 1, sizeof(Mmio))
    h = q.mmio
    h.write, h.latency, h.interrupt = m["write"], m["latency"], m["interrupt"]
    a.own(<void**>&h.raises, q.n, sizeof(int8_t), False)
    a.own(<void**>&h.written, q.n, sizeof(int8_t), False)
    a.own(<void**>&h.unknown, q.n, sizeof(int32_t))
    a.own(<void**>&h.known, q.n, sizeof(cycle_t))
    a.own(<void**>&h.arrival, q.n, sizeof(cycle_t))
    for k in range(q.n):
        h.raises[k] = raises[k] != 0
        h.written[k] = written[k] != 0
        h.arrival[k] = NEVER if h.written[k] else 0
        q.entry[k].waits += h.written[k]
        writes += h.written[k]
    for k in range(q.n):
        for i in range(q.entry[k].after, q.entry[k + 1].after):
            h.unknown[q.dependents[i]] += h.raises[k] and h.written[q.dependents[i]]
    a.own(<void**>&h.coming.item, writes, sizeof(Timer))
    a.own(<void**>&h.waiting, writes, sizeof(int32_t))
    a.own(<void**>&h.in_transit, writes, sizeof(int32_t))
    return 0


cdef int lay_out_control(Sim* s, Arena a, dict m, dict p) except -1:
    cdef int32_t n = len(p["op"]), edges = len(p["dependents"])
    cdef const int64_t* op = int64s(p["op"], n)
    cdef const int64_t* job = int64s(p["job"], n)
    cdef const int64_t* waits = int64s(p["waits"], n)
    cdef const int64_t* after = int64s(p["after"], n + 1)
    cdef const int64_t* dependents = int64s(p["dependents"], edges)
    cdef Control* q = &s.control
    cdef int32_t k
    q.n = n
    q.width = m["issue_width"]
    q.end = -1
    a.own(<void**>&q.entry, q.n + 1 + s.n_component_jobs, sizeof(Entry))
    a.own(<void**>&q.dependents, edges, sizeof(int32_t), False)
    a.own(<void**>&q.barriers, q.n, sizeof(int32_t), False)
    a.own(<void**>&q.ready_jobs, q.n, sizeof(int32_t))
    a.own(<void**>&q.ready_control, q.n, sizeof(int32_t))
    a.own(<void**>&q.later, q.n, sizeof(int32_t), False)
    a.own(<void**>&q.finished, s.n_dma_jobs + s.n_compute_jobs, sizeof(int32_t))
    for k in range(edges):
        q.dependents[k] = <int32_t>dependents[k]
    for k in range(q.n + 1):
        q.entry[k].after = <int32_t>after[k]
    if m.get("perturbed") is not None and m["perturbed"]["issue"] is not None:
        lay_out_issue(q, a, m["perturbed"]["issue"])
    for k in range(q.n):
        q.entry[k].op = <int32_t>op[k]
        q.entry[k].job = <int32_t>job[k]
        q.entry[k].waits = <int32_t>waits[k]
        q.entry[k].issue = q.entry[k].start = q.entry[k].end = NEVER
        if op[k] == OP_BARRIER:
            q.barriers[q.n_barriers] = k
            q.n_barriers += 1
        elif op[k] == OP_END:
            q.end = k
    if m.get("mmio") is not None:
        lay_out_mmio(q, a, m["mmio"], p["mmio"])
    control_open(q)
    return 0


cdef list flows_at_once(Sim* s, dict program):
    """For each DMA engine, the largest number of concurrent flows."""
    cdef int32_t k
    # A component may access any memory.
    most = max([flows_of(&s.memory[k]) for k in range(s.n_memories)], default=1) if s.n_component_jobs else 0
    jobs, channels = [s.n_component_jobs] * s.n_dma, [most] * s.n_dma
    for k in range(s.n_dma_jobs):
        jobs[s.dma_job[k].engine] += 1
        channels[s.dma_job[k].engine] = max(channels[s.dma_job[k].engine], flows_of(memory_of(s, k)))
    return [
        channels[k] * (min(s.dma[k].limit[COMM].max_concurrent, s.n_component_jobs) + min(
            jobs[k], s.dma[k].max_concurrent, sum(min(s.dma[k].limit[c].max_concurrent, jobs[k]) for c in range(COMM))))
        for k in range(s.n_dma)
    ]


cdef list far_requesters(Sim* s, n_spm, list flows):
    """For each scratchpad, the largest number of concurrent requesters of other engines' flows."""
    cdef int32_t k
    reach = sorted({(s.dma_job[k].peer, s.dma_job[k].engine) for k in range(s.n_dma_jobs) if s.dma_job[k].peer != NONE})
    far = [0] * n_spm
    for peer, engine in reach:
        far[peer] += flows[engine]
    s.far_requesters = any(far)
    return far


cdef int lay_out_traces(Sim* s, Arena a, bint wanted) except -1:
    """The trace data of flows and streams: not allocated before the first traced run."""
    cdef bint there = s.flow_trace != NULL
    if wanted and not there:
        a.own(<void**>&s.flow_trace, s.n_flows, sizeof(FlowTrace))
        a.own(<void**>&s.stream_trace, s.n_compute * MAX_REGIONS, sizeof(StreamTrace))
    if wanted == s.traced:
        return 0
    s.traced = wanted
    if there:
        a.clear(<void**>&s.flow_trace, wanted)
        a.clear(<void**>&s.stream_trace, wanted)
    return 0


cdef int lay_out_scratchpads(Sim* s, Arena a, list specs, list flows, list far) except -1:
    """`flows`: the most flows of each DMA engine at a time. `far`: the most requesters at each scratchpad of flows of other PEs."""
    cdef int32_t k
    s.n_spm = len(specs)
    a.own(<void**>&s.spm, s.n_spm, sizeof(Spm))
    a.keep_before(&s.spm[0].banks)
    a.own(<void**>&s.denials, DENIED, sizeof(uint64_t), False)
    a.own(<void**>&s.touched, s.n_spm, sizeof(int32_t), False)
    requesters, engines = [s.n_component_requests + one for one in far], [0] * s.n_spm
    for k in range(s.n_dma):
        requesters[s.dma_spm[k]] += flows[k]
        engines[s.dma_spm[k]] += 1
    for k in range(s.n_compute):
        requesters[s.compute_spm[k]] += 1
    for k in range(s.n_spm):
        lay_out_spm(&s.spm[k], a, specs[k], requesters[k], engines[k])
        s.mask_words = max(s.mask_words, s.spm[k].words)
        s.spm[k].lookahead.denied = s.denials
    return 0


cdef int lay_out_lanes(Sim* s, Arena a) except -1:
    """The tables of lanes, for machines with one scratchpad."""
    cdef int32_t k, h, routes = s.routes.n if s.n_spm == 1 else 0
    a.own(<void**>&s.lanes, 1, sizeof(LaneTable), False)
    a.own(<void**>&s.lane, 2 * ((s.n_flows + s.n_compute) // LANES + 1) if s.n_spm == 1 else 0, sizeof(Lanes), False)
    a.own(<void**>&s.lane_of, s.n_flows + s.n_compute if s.n_spm == 1 else 0, sizeof(int32_t), False)
    s.lanes.route_words = routes // 64 + 1
    s.lanes.lane_words = (s.n_flows + s.n_compute) // 64 + 1
    a.own(<void**>&s.route_rate, routes, sizeof(RouteRate), False)
    a.own(<void**>&s.routes_over, <size_t>s.share.n_res * s.lanes.route_words if routes else 0, sizeof(uint64_t), False)
    a.own(<void**>&s.lanes_of_route, <size_t>routes * s.lanes.lane_words, sizeof(uint64_t), False)
    for k in range(routes):
        for h in range(s.route[k].length):
            s.routes_over[s.share.path[s.route[k].first + h] * s.lanes.route_words + (k >> 6)] |= <uint64_t>1 << (k & 63)
    return 0


cdef int lay_out_requesters(Sim* s, Arena a) except -1:
    """The tables of requesters: flows, TEs and VEs, requests of components, and the second requesters of flows between scratchpads."""
    cdef int32_t k, requesters
    requesters = s.n_flows + s.n_compute + s.n_component_requests + s.far_requesters * s.n_flows
    a.own(<void**>&s.requester, requesters, sizeof(Requester))
    a.keep_before(&s.requester[0].ends_at)
    a.own(<void**>&s.tie_break, requesters, sizeof(TieBreak))
    a.own(<void**>&s.paired, s.far_requesters * s.n_spm, sizeof(int32_t), False)
    a.own(<void**>&s.pair, s.far_requesters * s.n_flows, sizeof(slot_t), False)
    a.alias(<void**>&s.share.requester, s.requester)
    a.own(<void**>&s.mask, <size_t>requesters * 2 * s.mask_words if s.mask_words > 1 else 0, sizeof(uint64_t))
    for k in range(requesters):
        s.requester[k].compute = s.n_flows <= k < s.n_flows + s.n_compute
        s.requester[k].next_at = s.requester[k].first_denied = s.requester[k].backpressure_at = NEVER
    return 0


cdef int lay_out_work_lists(Sim* s, Arena a) except -1:
    """The lists of what happens in a cycle, the timers, and the tables of the overlap check. Each has room for the most that can happen."""
    cdef int32_t k, engines = s.n_dma + s.n_compute
    a.own(<void**>&s.joins.item, s.n_flows, sizeof(Timer))
    a.own(<void**>&s.ends.item, 2 * s.n_compute, sizeof(Timer))
    a.own(<void**>&s.rejoin, s.n_flows, sizeof(slot_t))
    a.own(<void**>&s.done_flow, s.n_flows, sizeof(slot_t), False)
    a.own(<void**>&s.done_compute, s.n_compute, sizeof(slot_t), False)
    a.own(<void**>&s.pressed, s.n_flows, sizeof(slot_t), False)
    # A component and an array whose jobs overlap may work on any number of jobs at a time.
    many = s.n_plugs or s.array != NULL
    a.own(<void**>&s.running, engines if s.overlap == 0 else s.control.n if many else s.n_flows + engines, sizeof(int32_t))
    a.own(<void**>&s.overlap_with, s.control.n if s.overlap else 0, sizeof(int32_t))
    if s.overlap:
        for k in range(s.control.n):
            s.overlap_with[k] = NONE
    return 0


cdef int lay_out(Sim* s, Arena a, dict machine, dict program) except -1:
    """Fill `s`; the tables belong to `a`. The order matters: the numbers of jobs decide how many flows there can be at a time, and the
    numbers of flows decide the sizes of all later tables."""
    a.adopt(s, sizeof(Sim))
    s.max_cycles = machine["max_cycles"]
    s.overlap = machine["overlap"]
    lay_out_memories(s, a, machine)
    s.own_routes = machine.get("own_routes", False)
    s.stops.start_of = s.stops.end_of = NONE
    s.failed_entry = NONE
    lay_out_dma_engines(s, a, machine)
    lay_out_dma_jobs(s, a, program["dma"])
    lay_out_compute_engines(s, a, machine)
    lay_out_compute_jobs(s, a, program["compute"])
    if any([spec.get("overlaps", False) for spec in machine["compute"]]):
        lay_out_arrays(s, a, program["compute"]["parts"])
    lay_out_streams(s, a)
    lay_out_control(s, a, machine, program)
    flows = flows_at_once(s, program)
    s.n_flows = sum(flows) + s.n_open
    if machine.get("caches"):
        s.n_flows += machine["channels"]        # queues of write-backs
    far = far_requesters(s, len(machine["spm"]), flows)
    lay_out_share(s, a, machine)
    lay_out_scratchpads(s, a, machine["spm"], flows, far)
    lay_out_requesters(s, a)
    lay_out_lanes(s, a)
    if machine.get("caches"):
        lay_out_caches(s, a, machine["caches"], sum(flows))
    lay_out_interfaces(s, a, machine)
    lay_out_groups(s, a, flows)
    lay_out_work_lists(s, a)
    lay_out_perturbed(s, a, machine.get("perturbed"))
    reset_horizons(s)
    return 0
