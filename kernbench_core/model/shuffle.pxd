"""The order of work lists, for tests."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int32_t, uint64_t

cdef inline void shuffle(Sim* s, int32_t* item, int32_t n) noexcept nogil:
    """For tests: the order in which equal events of a cycle are handled must not change the result."""
    cdef int32_t k, other, held
    for k in range(n - 1, 0, -1):
        s.shuffle ^= s.shuffle << 13
        s.shuffle ^= s.shuffle >> 7
        s.shuffle ^= s.shuffle << 17
        other = <int32_t>(s.shuffle % <uint64_t>(k + 1))
        held = item[k]
        item[k] = item[other]
        item[other] = held
