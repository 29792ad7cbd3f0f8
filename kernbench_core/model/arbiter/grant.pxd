"""The functions by which arbiters grant and deny requests, and the numbers of the clients."""
from kernbench_core.model.bank cimport Spm, grant, grant_words
from kernbench_core.model.pair_requesters cimport flow_of
from kernbench_core.model.sim cimport Sim, reads_of, writes_of
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.trace.record_requests cimport open_traced_request, record_request, record_denied
from kernbench_core.types cimport cycle_t, int32_t, slot_t, uint64_t

cdef inline bint traces_requests(Sim* s) noexcept nogil:
    """The run records every request."""
    return s.trace != NULL and s.trace.level >= TRACE_FULL

cdef inline int32_t clients(Sim* s) noexcept nogil:
    """Clients are numbered over the machine in tie-break order: DMA engines, TEs and VEs, then components."""
    return s.n_dma + s.n_compute + s.n_plugs

cdef inline int32_t client_of(Sim* s, slot_t requester) noexcept nogil:
    """The client that makes a request."""
    if requester < s.n_flows or requester >= s.n_flows + s.n_compute + s.n_component_requests:
        return s.share.flow[flow_of(s, requester)].engine
    if requester < s.n_flows + s.n_compute:
        return s.n_dma + requester - s.n_flows
    return s.n_dma + s.n_compute + s.plugs.bank_request[requester - s.plugs.first_requester].by

cdef inline void grant_request(Sim* s, Spm* p, slot_t requester, cycle_t now, bint traced) noexcept nogil:
    """Grant a request the ports that are left; its masks keep the banks that it still lacks. The function is inlined where
    `traced` is a constant."""
    if traced:
        record_request(s, p, requester, reads_of(s, requester), writes_of(s, requester), now)
    if s.mask_words == 1:
        grant_words(p, &s.requester[requester].reads, &s.requester[requester].writes, 1)
    else:
        grant(p, reads_of(s, requester), writes_of(s, requester))

cdef inline void open_traced_requests(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """Record all requests, before an arbiter goes from bank to bank."""
    cdef int32_t k
    for k in range(p.n_requesting if traces_requests(s) else 0):
        open_traced_request(s, p, p.requesting[k], reads_of(s, p.requesting[k]), writes_of(s, p.requesting[k]), now)

cdef inline uint64_t requested_banks(Sim* s, Spm* p, int32_t w) noexcept nogil:
    """The banks of the w-th word that some request needs."""
    cdef uint64_t requested = 0
    cdef int32_t k
    for k in range(p.n_requesting):
        requested |= reads_of(s, p.requesting[k])[w] | writes_of(s, p.requesting[k])[w]
    return requested

cdef inline void deny_bank(Sim* s, Spm* p, int32_t k, int32_t bank, bint no_read, bint no_write) noexcept nogil:
    """Deny a bank to the k-th request of the cycle, for lack of these ports."""
    p.denials.count[bank] += 1
    if traces_requests(s):
        record_denied(s, p, k, bank, no_read, no_write)

cdef inline bint grant_bank(Sim* s, Spm* p, int32_t k, int32_t bank, int32_t* left) noexcept nogil:
    """Grant a bank to the k-th request of the cycle, if the request needs the bank and its port is among the ports `left`
    there."""
    cdef uint64_t* reads = reads_of(s, p.requesting[k]) + (bank >> 6)
    cdef uint64_t* writes = writes_of(s, p.requesting[k]) + (bank >> 6)
    cdef int32_t read = reads[0] >> (bank & 63) & 1, write = writes[0] >> (bank & 63) & 1
    if not (read or write):
        return False
    if read > left[0] or write > left[1]:
        deny_bank(s, p, k, bank, read > left[0], write > left[1])
        return False
    left[0] -= read
    left[1] -= write
    reads[0] &= ~(<uint64_t>read << (bank & 63))
    writes[0] &= ~(<uint64_t>write << (bank & 63))
    p.grants.count[bank] += 1
    return True
