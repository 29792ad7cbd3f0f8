"""`round_robin` of docs/model/banks_and_arbiters.md, P5: each bank grants its clients in circular order."""
from kernbench_core.model.arbiter.grant cimport requested_banks, client_of, clients, grant_bank, open_traced_requests
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil

cdef inline void grant_round(Sim* s, Spm* p, int32_t bank) noexcept nogil:
    """Grant one bank to the clients, beginning at its pointer; the clients of a cycle are in tie-break order."""
    cdef int32_t[2] left
    cdef int32_t first = 0, k
    left[0], left[1] = p.ports[0], p.ports[1]
    while first < p.n_requesting and client_of(s, p.requesting[first]) < p.pointer[bank]:
        first += 1
    for k in range(first, first + p.n_requesting):
        if grant_bank(s, p, k % p.n_requesting, bank, left):
            p.pointer[bank] = (client_of(s, p.requesting[k % p.n_requesting]) + 1) % clients(s)

cdef inline void round_robin(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """Grant the requests of this cycle, bank by bank."""
    cdef int32_t w
    cdef uint64_t requested
    open_traced_requests(s, p, now)
    for w in range(p.words):
        requested = requested_banks(s, p, w)
        while requested:
            grant_round(s, p, 64 * w + trailing_zeros(requested))
            requested &= requested - 1
