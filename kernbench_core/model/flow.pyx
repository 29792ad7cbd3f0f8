"""Requests piece by piece, if a request may cross the end of a row or of an interleave chunk."""
from kernbench_core.model.bank cimport Spm, bank_of, line_of
from kernbench_core.model.dram.extent cimport Cursor, Dram, Extent, cursor_advance, cursor_sync
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport int32_t, int64_t, nbytes_t, uint64_t


cdef void settle_cursor(Flow* f, Spm* p) noexcept nogil:
    """After the cursor moved: update the bank of its line, and the bytes up to the end of the line or run."""
    cdef int64_t line = line_of(p, f.at.addr)
    f.bank = bank_of(p, line)
    f.piece = (line + 1) * p.line - f.at.addr
    if f.piece > f.at.run_left:
        f.piece = f.at.run_left


cdef nbytes_t next_piece(Cursor* at, nbytes_t left, Spm* p, Dram* d, Extent* x, int32_t channel) noexcept nogil:
    """Move the cursor over the next piece, which may continue in the next run; return the bytes of the piece. `left`: the bytes
    to the end of the flow."""
    cdef int64_t line = line_of(p, at.addr)
    cdef nbytes_t size = 0, step
    while True:
        step = (line + 1) * p.line - at.addr
        if step > at.run_left:
            step = at.run_left
        size += step
        cursor_advance(at, d, x, channel, step)
        if size == left or line_of(p, at.addr) != line:
            return size


cdef bint request_pieces(Flow* f, Spm* p, Dram* d, Extent* x, uint64_t* mask) noexcept nogil:
    """Request the longest sequence of whole next pieces that the carry covers and in which no bank has two lines."""
    cdef Cursor probe
    cdef nbytes_t left = f.left, requested = 0, size, budget = f.carry // f.den
    cdef int32_t bank
    cursor_sync(&f.at)
    probe = f.at
    while requested < left:
        bank = bank_of(p, line_of(p, probe.addr))
        if mask[bank >> 6] >> (bank & 63) & 1:
            break
        size = next_piece(&probe, left - requested, p, d, x, f.channel)
        if requested + size > budget:
            break
        mask[bank >> 6] |= <uint64_t>1 << (bank & 63)
        requested += size
        f.at = probe
    if requested == 0:
        return False
    f.requested = requested
    f.carry -= requested * f.den
    settle_cursor(f, p)
    cap_carry(f, p)
    return True
