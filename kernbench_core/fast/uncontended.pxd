"""The condition under which closed forms are exact: no bank can have more requesters than ports, in whatever cycle they make requests,
until the requesters change."""
from kernbench_core.model.arbiter.oldest_first cimport by_age
from kernbench_core.model.bank cimport Requester, Spm, bank_of, line_of, may_request, open_ports, set_banks, take_ports
from kernbench_core.model.bank_mask cimport set_run
from kernbench_core.model.compute cimport Compute, ComputeJob, writes_to
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.model.sim cimport Sim, reads_of, writes_of
from kernbench_core.types cimport int32_t, int64_t, nbytes_t, slot_t, uint64_t

cdef inline bint uncontended_can(Sim* s, Spm* p) noexcept nogil:
    """Whether no requester makes requests, or no bank can have more requesters than ports."""
    return p.n_order == 0 or s.skip and p.n_pairs == 0 and scratchpad_uncontended(s, <int32_t>(p - s.spm))

cdef inline void footprint(Spm* p, uint64_t* mask, nbytes_t addr, nbytes_t nbytes) noexcept nogil:
    """Add every bank that a range of the scratchpad touches."""
    cdef int64_t line = line_of(p, addr), last = line_of(p, addr + nbytes - 1)
    if p.blocked:
        set_run(mask, bank_of(p, line), bank_of(p, last) - bank_of(p, line) + 1)
    else:
        set_banks(p, mask, bank_of(p, line), last - line + 1)

cdef inline bint reserve(Spm* p, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """Take a port on each bank of the masks and clear the masks; false if some bank has no port left."""
    cdef int32_t w
    cdef bint ok = True
    for w in range(p.words):
        if reads[w] & ~p.free[0][w]:
            ok = False
        take_ports(p.free[0], p.ports[0], p.words, w, reads[w])
        if p.split:
            if writes[w] & ~p.free[1][w]:
                ok = False
            take_ports(p.free[1], p.ports[1], p.words, w, writes[w])
        reads[w] = 0
        writes[w] = 0
    return ok

cdef inline nbytes_t bytes_ahead(Sim* s, slot_t flow) noexcept nogil:
    """The bytes that a flow may still request, and those between them: all bytes of its transfer from the flow's next byte on."""
    cdef Flow* f = &s.share.flow[flow]
    cdef DmaJob* j = &s.dma_job[f.job]
    return j.extent.spm_addr + j.nbytes - f.at.addr

cdef inline bint crowded(Sim* s, Spm* p) noexcept nogil:
    """Whether more flows than a bank has ports access every bank: a quick test that a request may be denied."""
    cdef int32_t[2] ports
    cdef int32_t k, side
    cdef Requester* a
    ports[0] = p.ports[0]
    ports[1] = p.ports[1]
    if p.blocked:
        return False
    for k in range(p.n_order):
        a = &s.requester[p.order[k]]
        if a.compute:
            return False
        if may_request(a) and bytes_ahead(s, p.order[k]) >= p.row:
            side = p.split and a.to_writes
            ports[side] -= 1
            if ports[side] < 0:
                return True
    return False

cdef inline void compute_footprint(Sim* s, Spm* p, Compute* e, uint64_t* reads, uint64_t* writes) noexcept nogil:
    """Add the banks of all operands of a job."""
    cdef ComputeJob* j = &s.compute_job[e.job]
    cdef int32_t i
    for i in range(j.regions):
        footprint(p, writes if p.split and writes_to(j, i) else reads, j.region[i].addr, j.region[i].nbytes)

cdef inline void flow_footprint(Sim* s, Spm* p, slot_t flow, uint64_t* mask) noexcept nogil:
    """Add the banks of the bytes that a flow may still request."""
    footprint(p, mask, s.share.flow[flow].at.addr, bytes_ahead(s, flow))

cdef inline bint scratchpad_uncontended(Sim* s, int32_t spm) noexcept nogil:
    """Whether no bank can have more requesters than ports, in whatever cycle they make requests: no request is then ever denied."""
    cdef Spm* p = &s.spm[spm]
    cdef int32_t k
    cdef slot_t requester
    cdef Compute* e
    cdef uint64_t* reads
    cdef uint64_t* writes
    if not p.lookahead.recheck:
        return p.lookahead.uncontended
    p.lookahead.recheck = False
    p.lookahead.uncontended = False
    if not by_age(p) or p.n_held or p.n_component_requests or crowded(s, p):
        return False
    open_ports(p)
    for k in range(p.n_order):
        requester = p.order[k]
        reads = reads_of(s, requester)
        writes = writes_of(s, requester)
        if s.requester[requester].compute:
            e = &s.compute[requester - s.n_flows]
            if e.body_left == 0:
                continue
            compute_footprint(s, p, e, reads, writes)
        elif may_request(&s.requester[requester]):      # a flow that waits is judged when it becomes a member
            flow_footprint(s, p, requester, writes if s.requester[requester].to_writes else reads)
        if not reserve(p, reads, writes):
            return False
    p.lookahead.uncontended = True
    return True
