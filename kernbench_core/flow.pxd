"""What a flow asks its scratchpad for: whole pieces, within its carry (MODEL section 3, "Whole lines")."""
from kernbench_core.bank cimport Spm, set_banks
from kernbench_core.dram cimport Dram, Extent
from kernbench_core.share cimport Flow
from kernbench_core.types cimport int32_t, int64_t, nbytes_t, uint64_t

cdef bint ask_pieces(Flow* f, Spm* p, Dram* d, Extent* x, uint64_t* mask) noexcept nogil
cdef void settle_cursor(Flow* f, Spm* p) noexcept nogil
cdef void flow_jump(Flow* f, Spm* p, Dram* d, Extent* x, uint64_t* mask, int64_t cycles) noexcept nogil

cdef inline void cap_carry(Flow* f, Spm* p) noexcept nogil:
    if f.whole >= p.row:
        f.whole = p.row
        f.frac = 0

cdef inline void accrue(Flow* f) noexcept nogil:
    cdef int64_t over
    f.whole += f.rate_whole
    f.frac += f.rate_frac
    over = f.frac >= f.den
    f.whole += over
    f.frac -= f.den & -over

cdef inline bint flow_want(Flow* f, Spm* p, Dram* d, Extent* x, uint64_t* mask) noexcept nogil:
    """P5: spend this cycle's share. True where something is asked for: `asked` bytes, its banks added to `mask`."""
    cdef int64_t n
    if not f.member:
        return False
    accrue(f)
    if f.whole < f.piece:
        return False
    if f.whole >= f.at.run_left or p.blocked:
        return ask_pieces(f, p, d, x, mask)
    n = f.whole - f.piece
    n = 1 + (n >> p.line_shift if p.line_shift >= 0 else n // p.line)
    if n > p.banks:
        n = p.banks
    set_banks(p, mask, f.bank, n)
    f.asked = f.piece + (n - 1) * p.line
    f.bank += <int32_t>n
    if f.bank >= p.banks:
        f.bank -= p.banks
    f.at.addr += f.asked
    f.at.dram += f.asked
    f.at.run_left -= f.asked
    f.piece = p.line if f.at.run_left > p.line else f.at.run_left
    f.whole -= f.asked
    cap_carry(f, p)
    return True
