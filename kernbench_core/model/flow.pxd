"""The request of a flow to its scratchpad: whole pieces, within its carry (docs/model/sharing.md, P5)."""
from kernbench_core.model.division cimport quotient
from kernbench_core.model.bank cimport Spm, set_banks
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport Dram, Extent
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport int32_t, int64_t, nbytes_t, uint64_t

cdef bint request_pieces(Flow* f, Spm* p, Dram* d, Extent* x, uint64_t* mask) noexcept nogil
cdef void settle_cursor(Flow* f, Spm* p) noexcept nogil

cdef inline void cap_carry(Flow* f, Spm* p) noexcept nogil:
    if f.carry >= p.row * f.den:
        f.carry = p.row * f.den

cdef inline bint reaches_piece(Flow* f) noexcept nogil:
    """Whether the carry covers the next piece; if not, the flow makes no request."""
    return f.carry >= f.piece * f.den

cdef inline bint reaches_end(Flow* f, Spm* p) noexcept nogil:
    """Whether the carry covers the rest of the run: the last piece may continue in the next run."""
    return f.at.run_left <= p.row and f.carry >= f.at.run_left * f.den

cdef inline bint flow_want(Flow* f, Spm* p, Dram* memories, DmaJob* j, uint64_t* mask) noexcept nogil:
    """P5, after the carry was accrued: true if bytes are requested: `requested` bytes, whose banks are added to `mask`.

    `j`: the job of the flow; it is not read inside a run.
    """
    cdef int64_t n
    if not reaches_piece(f):
        return False
    if p.blocked or reaches_end(f, p):
        return request_pieces(f, p, &memories[j.memory], &j.extent, mask)
    n = 1 + quotient(f.carry - f.piece * f.den, p.line * f.den)
    if n > p.banks:
        n = p.banks
    set_banks(p, mask, f.bank, n)
    take_pieces(f, p, n)
    return True

cdef inline void take_pieces(Flow* f, Spm* p, int64_t n) noexcept nogil:
    """Spend the carry on `n` pieces that end inside the run, at most one in each bank."""
    cdef int64_t requested = f.piece + (n - 1) * p.line
    cdef int32_t bank = f.bank + <int32_t>n
    f.bank = bank - p.banks if bank >= p.banks else bank
    f.requested = requested
    f.at.run_left -= requested
    f.piece = p.line if f.at.run_left > p.line else f.at.run_left
    f.carry -= requested * f.den
    cap_carry(f, p)
