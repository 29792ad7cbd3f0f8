"""A request of a component is a requester from the cycle in which it is made: last in tie-break order, and held and aged like any other. A
scratchpad with requests of components is run cycle by cycle in the model, because each request may have an event."""
from kernbench_core.model.bank cimport Requester, order_insert
from kernbench_core.model.sim cimport Sim, reads_of, scratchpad_changes, writes_of
from kernbench_core.plugin.component_tables cimport Plugs
from kernbench_core.types cimport COMPONENT, NEVER, cycle_t, int32_t, int64_t, slot_t, uint64_t

cdef inline int64_t ask_open(
        Sim* s, int32_t c, int32_t spm, const uint64_t* reads, const uint64_t* writes, int32_t words, cycle_t at) noexcept nogil:
    """Make a request from cycle `at` on; there is a free place, and the banks exist. Returns the id of the request."""
    cdef Plugs* p = s.plugs
    cdef slot_t k = p.free_bank_request[c], requester = p.first_requester + k
    cdef Requester* a = &s.requester[requester]
    cdef uint64_t* r = reads_of(s, requester)
    cdef uint64_t* w = writes_of(s, requester)
    cdef int32_t i
    p.free_bank_request[c] = p.bank_request[k].next
    p.bank_request[k].id = p.numbers << 32 | k
    p.bank_request[k].by = c
    p.numbers += 1
    p.state[c].asks += 1
    p.open += 1
    scratchpad_changes(s, spm, at)
    for i in range(s.mask_words):
        r[i] = reads[i] if i < words else 0
        w[i] = writes[i] if i < words else 0
        if not s.spm[spm].split:
            r[i] |= w[i]
            w[i] = 0
    a.spm = spm
    s.tie_break[requester].engine = <int64_t>COMPONENT << 32 | c
    s.tie_break[requester].seq = p.numbers
    a.next_at = at
    a.ends_at = 0
    a.first_denied = NEVER
    a.backpressure_at = NEVER
    order_insert(&s.spm[spm], s.tie_break, requester)
    s.spm[spm].n_component_requests += 1
    return p.bank_request[k].id
