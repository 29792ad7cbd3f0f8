"""The address of a burst: C4 of docs/model/dram_controller.md. The number of a burst is divided into fields, and the fields are
hashed."""
from libc.string cimport memset

from kernbench_core.model.controller.requests cimport (
    FIELD_BANK, FIELD_GROUP, FIELD_PSEUDO, FIELD_RANK, FIELD_ROW, FIELD_STACK, N_FIELDS, AddressFields, Controllers,
    Request)
from kernbench_core.model.controller.timing cimport BANK, GROUP, PSEUDO, RANK, STACK
from kernbench_core.types cimport int32_t, int64_t

cdef inline void place_burst(Controllers* d, Request* q) noexcept nogil:
    """Write the bank and the row of the burst with this number."""
    cdef AddressFields* m = &d.map
    cdef int64_t[<int>N_FIELDS] value
    cdef int64_t rest = q.number
    cdef int32_t k
    cdef int32_t* nodes = d.timing.nodes
    memset(value, 0, sizeof(value))
    for k in range(m.n):
        value[m.field[k]] += rest % m.size[k] * m.factor[k]
        rest = rest // m.size[k]
    value[<int>FIELD_ROW] = (value[<int>FIELD_ROW] + rest * m.rows) % m.rows
    for k in range(m.pairs):
        value[m.left[k]] ^= (value[m.right[k]] >> m.shift[k]) & m.mask[k]
    q.row = value[<int>FIELD_ROW]
    q.bank = <int32_t>(
        (((value[<int>FIELD_PSEUDO] * (nodes[<int>RANK] // nodes[<int>PSEUDO]) + value[<int>FIELD_RANK])
          * (nodes[<int>STACK] // nodes[<int>RANK]) + value[<int>FIELD_STACK])
         * (nodes[<int>GROUP] // nodes[<int>STACK]) + value[<int>FIELD_GROUP])
        * (nodes[<int>BANK] // nodes[<int>GROUP]) + value[<int>FIELD_BANK])
