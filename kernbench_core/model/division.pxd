"""Division of integers that are not negative."""
from kernbench_core.types cimport int64_t, uint32_t, uint64_t

cdef inline int64_t quotient(int64_t a, int64_t b) noexcept nogil:
    """a // b for a >= 0 and b > 0: a 32-bit division takes a third of the time, and is nearly always sufficient."""
    return <int64_t>(<uint32_t>a // <uint32_t>b) if (a | b) >> 32 == 0 else a // b

cdef inline uint64_t reciprocal(int64_t b) noexcept nogil:
    """The reciprocal that `divided` needs of its divisor; 0 if it must work without one."""
    return (<uint64_t>1 << 32) // <uint64_t>b if b >> 32 == 0 else 0

cdef inline int64_t divided(int64_t a, int64_t b, uint64_t inverse) noexcept nogil:
    """a // b for a >= 0: the estimate from the reciprocal is at most one too small, and two multiplications take a third of the
    time of a division."""
    cdef int64_t q
    if inverse == 0 or a >> 32:
        return a // b
    q = <int64_t>((<uint64_t>a * inverse) >> 32)
    return q + (a - q * b >= b)

cdef inline int64_t gcd(int64_t a, int64_t b) noexcept nogil:
    """The greatest common divisor; gcd(a, 0) is a."""
    cdef int64_t t
    while b:
        t = a - quotient(a, b) * b
        a = b
        b = t
    return a
