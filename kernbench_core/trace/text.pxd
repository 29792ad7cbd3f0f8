"""Text that is put together in a buffer, from pieces that are mostly short.

A short piece costs least as a copy of fixed length. CHUNK bytes are read from the beginning of a piece, and written after the existing
text. All pieces and buffers therefore need this much room at their end.
"""
from libc.string cimport memcpy

from kernbench_core.types cimport int64_t, uint64_t

cdef extern from "trace/digits.h":
    const char* kb_pairs
    int64_t kb_digits(uint64_t v) noexcept nogil

cdef enum:
    CHUNK = 32                # [B]

cdef struct Buffer:
    char* data                # the bytes of the text
    int64_t n                 # [B] length of the text so far
    int64_t room              # [B] capacity of the buffer

cdef inline void put_text(Buffer* b, const char* text, int64_t n) noexcept nogil:
    cdef char* to = b.data + b.n
    cdef int64_t k = CHUNK
    memcpy(to, text, CHUNK)
    while k < n:
        memcpy(to + k, text + k, CHUNK)
        k += CHUNK
    b.n += n

cdef inline void put_int(Buffer* b, int64_t value) noexcept nogil:
    cdef uint64_t v = <uint64_t>value, hundreds
    cdef int64_t n
    cdef char* at
    if value < 0:
        b.data[b.n] = b'-'
        b.n += 1
        v = 0 - v
    n = kb_digits(v)
    at = b.data + b.n + n
    b.n += n
    while v >= 10:
        hundreds = v // 100
        at -= 2
        memcpy(at, kb_pairs + 2 * (v - 100 * hundreds), 2)
        v = hundreds
    if at != b.data + b.n - n:
        (at - 1)[0] = <char>(48 + v)
