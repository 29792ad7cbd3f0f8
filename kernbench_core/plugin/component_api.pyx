"""The functions of `kb_core_api`. A component's mistake ends the run; a lack of room (`KB_FULL`) is not a mistake."""
from libc.string cimport memset, strcmp, strcpy, strlen

from kernbench_core.plugin.abi cimport (
    KB_ABI_VERSION, KB_BUSY, KB_FULL, KB_OK, KB_PARAMS, KB_REFUSED, KB_REGIONS, kb_core_api, kb_job, kb_member)
from kernbench_core.plugin.bank_requests cimport ask_open
from kernbench_core.plugin.component_jobs cimport COUNTS, fill_compute, fill_dma
from kernbench_core.plugin.component_flows cimport flow_close, flow_open
from kernbench_core.model.compute cimport compute_enqueue
from kernbench_core.model.control cimport Entry
from kernbench_core.model.dma cimport dma_submit
from kernbench_core.model.perturbed cimport submitted_there
from kernbench_core.plugin.component_tables cimport (
    BAD_BANKS, BAD_BYTES, BAD_CAPACITY, BAD_JOB, BAD_NAME, BAD_PATH, BAD_WEIGHT, FORGOTTEN_JOB, NAME_BYTES, NAMES, OUTSIDE,
    UNKNOWN_ENGINE, UNKNOWN_FLOW,
    UNKNOWN_JOB, UNKNOWN_RESOURCE, UNKNOWN_SPM, ComponentJob, Plug, Plugs, PlugState, slot_of, plug_mistake)
from kernbench_core.trace.record cimport record_emit
from kernbench_core.model.share.membership cimport Flow, Resource, on_resources, share_touch
from kernbench_core.model.sim cimport Sim, want
from kernbench_core.types cimport (
    CHANNELS, COMPONENT, CPU, DMA, FIFO, MAX_MIN, NEVER, NONE, OP_COMPONENT, OP_COMPUTE, OP_DMA, SHARED_BW, TE, VE, int32_t,
    int64_t, slot_t, uint64_t)

cdef int64_t TERM = <int64_t>1 << 31       # limit of the terms of capacities and rates (docs/model/index.md)
cdef int64_t LONGEST = <int64_t>1 << 48    # [B] or [cycle] limit of one job: sums of addresses and times stay far below 2**63


cdef int64_t refuse(Plug* u, int32_t what, int64_t value) noexcept nogil:
    plug_mistake((<Sim*>u.sim).plugs, u.id, what, value)
    return KB_REFUSED


cdef bint inside(Plug* u) noexcept nogil:
    """Whether the core is calling this component; its requests are not allowed at any other time."""
    cdef Plugs* p = (<Sim*>u.sim).plugs
    if p.calling == u.id:
        return True
    plug_mistake(p, u.id, OUTSIDE, 0)
    return False


cdef int32_t engine_number(Sim* s, int32_t kind, int32_t engine) noexcept nogil:
    """The number of an engine: DMA engines, TEs and VEs, components; NONE if it does not exist."""
    cdef int32_t k, first = 0, last = s.n_compute
    if engine < 0:
        return NONE
    if kind == DMA:
        return engine if engine < s.n_dma else NONE
    if kind == COMPONENT:
        return s.n_dma + s.n_compute + engine if engine < s.plugs.n else NONE
    if kind == CPU:                     # an M_CPU: the core counts M_CPUs among components
        kind = COMPONENT
    if kind == VE:                      # VEs come after all tensor engines, of which a large machine has many
        while first < last:
            k = first + (last - first) // 2
            if s.compute[k].kind == TE:
                first = k + 1
            else:
                last = k
    k = first + engine
    if k < s.n_compute and s.compute[k].kind == kind and s.compute[k].id == engine:
        return s.n_dma + k
    for k in range(s.n_compute):
        if s.compute[k].kind == kind and s.compute[k].id == engine:
            return s.n_dma + k
    return NONE


cdef int32_t fill(Sim* s, int32_t engine, int32_t slot, const kb_job* j) noexcept nogil:
    """Make a job of the core from a component's job; return the wrong field, else NONE."""
    cdef Entry* e = &s.control.entry[s.control.n + 1 + slot]
    e.job = slot
    if not 0 <= j.n_params <= KB_PARAMS or not 0 <= j.n_regions <= KB_REGIONS:
        return COUNTS
    if engine < s.n_dma:
        e.op = OP_DMA
        e.job = s.n_dma_jobs + slot
        s.dma_job[e.job].entry = s.control.n + 1 + slot
        return fill_dma(s, &s.dma_job[e.job], engine, j)
    if engine < s.n_dma + s.n_compute:
        e.op = OP_COMPUTE
        e.job = s.n_compute_jobs + slot
        s.compute_job[e.job].entry = s.control.n + 1 + slot
        return fill_compute(s, &s.compute_job[e.job], engine - s.n_dma, j)
    e.op = OP_COMPONENT
    return NONE


cdef void enqueue(Sim* s, int32_t engine, int32_t slot) noexcept nogil:
    cdef Plugs* p = s.plugs
    cdef Entry* e = &s.control.entry[s.control.n + 1 + slot]
    cdef PlugState* to
    e.number = s.control.submitted
    e.issue = p.now + p.late
    e.start = e.end = NEVER
    s.control.submitted += 1
    if engine < s.n_dma:
        if s.dma_job[e.job].peer != NONE:
            s.peer_transfers[s.dma_job[e.job].peer] += 1
        submitted_there(s.perturbed, e.job, s.dma_spm[engine] * CHANNELS + s.dma_job[e.job].channel)
        dma_submit(&s.dma[engine], s.dma_job, e.job, e.number)
    elif engine < s.n_dma + s.n_compute:
        compute_enqueue(&s.compute[engine - s.n_dma], s.compute_job, e.job)
    else:
        to = &p.state[engine - s.n_dma - s.n_compute]
        p.component_job[slot].next = NONE
        if to.queue_last == NONE:
            to.queue_first = slot
        else:
            p.component_job[to.queue_last].next = slot
        to.queue_last = slot
        to.queued += 1
    want(s, engine)


cdef void keep(kb_job* to, const kb_job* job) noexcept nogil:
    """Copy the used parts of its arrays; the other parts may have any content, and must not get into a snapshot."""
    cdef int32_t k
    to.opcode = job.opcode
    to.n_params = job.n_params
    to.n_regions = job.n_regions
    for k in range(job.n_params):
        to.params[k] = job.params[k]
    for k in range(job.n_regions):
        to.region[k] = job.region[k]


cdef int64_t api_submit(void* core, int32_t kind, int32_t engine, const kb_job* job) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef Plugs* p = s.plugs
    cdef int32_t number, wrong
    cdef slot_t g
    cdef ComponentJob* submitted
    if not inside(u):
        return KB_REFUSED
    number = engine_number(s, kind, engine)
    if number == NONE:
        return refuse(u, UNKNOWN_ENGINE, <int64_t>kind << 32 | slot_of(engine))
    g = p.free_component_job[u.id]
    if g == NONE:
        return KB_FULL
    wrong = fill(s, number, g, job)
    if wrong != NONE:
        return refuse(u, BAD_JOB, wrong)
    submitted = &p.component_job[g]
    p.free_component_job[u.id] = submitted.next
    p.state[u.id].open_jobs += 1
    p.open += 1
    submitted.by = u.id
    keep(&submitted.job, job)
    submitted.job.entry = -1
    submitted.job.id = s.control.submitted << 32 | (s.control.n + 1 + g)
    p.row[g + 1] = NONE
    enqueue(s, number, g)
    return submitted.job.id


cdef int32_t accepted_entry(Plug* u, int64_t job) noexcept nogil:
    """The entry of a job on which the component works, else NONE."""
    cdef Sim* s = <Sim*>u.sim
    cdef int64_t entry = slot_of(job)
    if job < 0 or entry > s.control.n + s.n_component_jobs or s.plugs.owner[entry] != u.id:
        return NONE
    if job != (s.plugs.component_job[entry - s.control.n - 1].job.id if entry > s.control.n else entry):
        return NONE
    return <int32_t>entry


cdef int32_t submitted_entry(Plug* u, int64_t job) noexcept nogil:
    """The entry of a job that the component submitted and whose place is not in use again, else NONE."""
    cdef Sim* s = <Sim*>u.sim
    cdef int64_t g = slot_of(job) - s.control.n - 1
    if job < 0 or not 0 <= g < s.n_component_jobs or s.plugs.component_job[g].by != u.id or s.plugs.component_job[g].job.id != job:
        return NONE
    return <int32_t>(s.control.n + 1 + g)


cdef int64_t api_started(void* core, int64_t job) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef int32_t entry
    if not inside(u):
        return KB_REFUSED
    entry = submitted_entry(u, job)
    if entry == NONE:
        return refuse(u, FORGOTTEN_JOB, job)
    return KB_BUSY if s.control.entry[entry].start == NEVER else s.control.entry[entry].start


cdef int64_t api_complete(void* core, int64_t job) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef int32_t entry
    if not inside(u):
        return KB_REFUSED
    entry = accepted_entry(u, job)
    if entry == NONE:
        return refuse(u, UNKNOWN_JOB, job)
    s.plugs.owner[entry] = -2 - u.id
    s.plugs.done[s.plugs.n_done] = entry
    s.plugs.n_done += 1
    return KB_OK


cdef bint fits(Resource* r, int64_t weight, int64_t others) noexcept nogil:
    """Whether no rate on the resource gets a term of 2**31 or more."""
    return weight <= TERM and r.num * weight < TERM and r.den * (r.weight + others + weight) < TERM


cdef int64_t api_open_flow(void* core, int64_t nbytes, const int32_t* path, int32_t n, int32_t weight) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef int32_t k, i, channels = 0
    if not inside(u):
        return KB_REFUSED
    if not 0 < nbytes <= LONGEST:
        return refuse(u, BAD_BYTES, nbytes)
    if not 0 < n <= s.plugs.max_path:
        return refuse(u, BAD_PATH, n)
    for k in range(n):
        if not 0 <= path[k] < s.share.n_res:
            return refuse(u, BAD_PATH, path[k])
        for i in range(k):
            if path[i] == path[k]:
                return refuse(u, BAD_PATH, path[k])
        channels += path[k] < s.share.channels
        if weight < 1 or not fits(&s.share.res[path[k]], weight, s.plugs.weight):
            return refuse(u, BAD_WEIGHT, weight)
    if channels > 1 and s.share.rule == FIFO or channels and s.share.devices != NULL:     # two waiting lines, or bursts without addresses
        return refuse(u, BAD_PATH, channels)
    if s.plugs.free_flow[u.id] == NONE:
        return KB_FULL
    return flow_open(s, u.id, nbytes, path, n, weight, s.plugs.now + s.plugs.late)


cdef int64_t api_close_flow(void* core, int64_t flow) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef int64_t moved
    if not inside(u):
        return KB_REFUSED
    moved = flow_close(s, u.id, flow, s.plugs.now + s.plugs.late)
    return moved if moved >= 0 else refuse(u, UNKNOWN_FLOW, flow)


cdef int64_t wrong_bank(const uint64_t* mask, int32_t words, int32_t banks, bint* any) noexcept nogil:
    """The first bank of the mask that does not exist, else -1."""
    cdef int32_t w, b
    for w in range(words):
        if mask[w] == 0:
            continue
        any[0] = True
        for b in range(64):
            if mask[w] >> b & 1 and 64 * w + b >= banks:
                return 64 * w + b
    return -1


cdef int64_t api_ask_banks(
        void* core, int32_t spm, const uint64_t* reads, const uint64_t* writes, int32_t words) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef bint any = False
    cdef int64_t bank
    if not inside(u):
        return KB_REFUSED
    if not 0 <= spm < s.n_spm:
        return refuse(u, UNKNOWN_SPM, spm)
    bank = wrong_bank(reads, words, s.spm[spm].banks, &any)
    if bank < 0:
        bank = wrong_bank(writes, words, s.spm[spm].banks, &any)
    if bank >= 0 or not any:
        return refuse(u, BAD_BANKS, bank)
    if s.plugs.free_bank_request[u.id] == NONE:
        return KB_FULL
    return ask_open(s, u.id, spm, reads, writes, words, s.plugs.now + s.plugs.late)


cdef int32_t name_number(Plugs* p, const char* name) noexcept nogil:
    """The index of a name; a new name is added. NONE: there is no room."""
    cdef int32_t k
    for k in range(p.n_names):
        if strcmp(p.names + k * NAME_BYTES, name) == 0:
            return k
    if p.n_names == NAMES:
        return NONE
    strcpy(p.names + p.n_names * NAME_BYTES, name)
    p.n_names += 1
    return p.n_names - 1


cdef int64_t api_emit(void* core, int64_t job, const char* name, int64_t value) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef int32_t entry, number
    if not inside(u):
        return KB_REFUSED
    if name == NULL or name[0] == 0 or strlen(name) >= NAME_BYTES:
        return refuse(u, BAD_NAME, NAME_BYTES)
    entry = accepted_entry(u, job)
    if entry == NONE:
        entry = submitted_entry(u, job)
    if entry == NONE:
        return refuse(u, UNKNOWN_JOB, job)
    number = name_number(s.plugs, name)
    if number == NONE:
        return KB_FULL
    if s.trace != NULL:
        record_emit(s, entry, s.plugs.now, number, value)
    return KB_OK


cdef bint shared(Sim* s, int32_t resource) noexcept nogil:
    """Whether the resource exists and its members share it by weight alone."""
    return 0 <= resource < s.share.n_res and s.share.devices == NULL and (s.share.rule == SHARED_BW or s.share.rule == MAX_MIN)


cdef int64_t api_watch(void* core, int32_t resource) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    if not inside(u):
        return KB_REFUSED
    if not shared(s, resource):
        return refuse(u, UNKNOWN_RESOURCE, resource)
    s.plugs.watched += s.plugs.watcher[resource] == NONE
    s.plugs.watcher[resource] = u.id
    return KB_OK


cdef int64_t api_set_capacity(void* core, int32_t resource, int64_t num, int64_t den) noexcept nogil:
    """The denominator must remain that of the machine, so that the checks of terms at loading remain valid."""
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef Resource* r
    if not inside(u):
        return KB_REFUSED
    if not shared(s, resource):
        return refuse(u, UNKNOWN_RESOURCE, resource)
    r = &s.share.res[resource]
    if s.plugs.most[resource] == 0:
        s.plugs.most[resource] = r.num
    if den < 1 or r.den % den or not 0 < num <= s.plugs.most[resource] // (r.den // den):
        return refuse(u, BAD_CAPACITY, num)
    num *= r.den // den
    if num != r.num:
        r.num = num
        if r.members:
            share_touch(&s.share, resource)
    return KB_OK


cdef bint before(Flow* a, Flow* b) noexcept nogil:
    """The order of members: by start, engine and submission; flows of one transfer by channel."""
    if a.started != b.started:
        return a.started < b.started
    if a.engine != b.engine:
        return a.engine < b.engine
    if a.job_seq != b.job_seq:
        return a.job_seq < b.job_seq
    return a.channel < b.channel if a.channel != b.channel else a < b


cdef int64_t api_members(void* core, int32_t resource, kb_member* out, int32_t room) noexcept nogil:
    cdef Plug* u = <Plug*>core
    cdef Sim* s = <Sim*>u.sim
    cdef slot_t node, other, slot
    cdef Flow* f
    cdef kb_member* m
    cdef int32_t entry, rank
    if not inside(u):
        return KB_REFUSED
    if not shared(s, resource):
        return refuse(u, UNKNOWN_RESOURCE, resource)
    node = s.share.res[resource].first
    while node != NONE:
        slot = node >> s.share.hop_shift
        f = &s.share.flow[slot]
        rank = 0                        # number of members that come before it
        other = s.share.res[resource].first
        while other != NONE:
            rank += before(&s.share.flow[other >> s.share.hop_shift], f)
            other = s.share.node_next[other]
        if rank < room:
            m = &out[rank]
            memset(m, 0, sizeof(kb_member))
            if slot >= s.plugs.first_flow:
                m.id = s.plugs.flow[slot - s.plugs.first_flow].id
                m.engine = -1
            else:
                entry = s.dma_job[f.job].entry
                m.id = entry if entry <= s.control.n else s.plugs.component_job[entry - s.control.n - 1].job.id
                m.engine = f.engine
            m.weight = f.weight
            m.nbytes = on_resources(f, f.total)
            m.num = f.num if f.raw_den else 0
            m.den = f.den if f.raw_den else 1
            if f.compressed:                    # the bytes of the resource are compressed
                m.num *= f.ratio_den
                m.den *= f.ratio_num
        node = s.share.node_next[node]
    return s.share.res[resource].members


cdef void open_api(kb_core_api* api, Plug* plug) noexcept nogil:
    memset(api, 0, sizeof(kb_core_api))
    api.abi_version = KB_ABI_VERSION
    api.struct_size = sizeof(kb_core_api)
    api.core = plug
    api.submit = api_submit
    api.complete = api_complete
    api.open_flow = api_open_flow
    api.close_flow = api_close_flow
    api.ask_banks = api_ask_banks
    api.emit = api_emit
    api.started = api_started
    api.watch = api_watch
    api.set_capacity = api_set_capacity
    api.members = api_members
