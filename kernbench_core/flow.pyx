"""Asking piece by piece, where a request may cross the end of a row or of an interleave chunk, and many cycles at once."""
from kernbench_core.bank cimport Spm, bank_of, line_of
from kernbench_core.dram cimport Cursor, Dram, Extent, cursor_advance, cursor_sync
from kernbench_core.share cimport Flow, flow_accrue
from kernbench_core.tally cimport tally_done, tally_range, tally_word
from kernbench_core.types cimport int32_t, int64_t, nbytes_t, uint64_t


cdef void settle_cursor(Flow* f, Spm* p) noexcept nogil:
    """After the cursor moved: the bank of its line and the bytes up to the end of the line or run."""
    cdef int64_t line = line_of(p, f.at.addr)
    f.bank = bank_of(p, line)
    f.piece = (line + 1) * p.line - f.at.addr
    if f.piece > f.at.run_left:
        f.piece = f.at.run_left


cdef nbytes_t next_piece(Cursor* at, nbytes_t left, Spm* p, Dram* d, Extent* x, int32_t channel) noexcept nogil:
    """Move the cursor over the next piece, which may go on in the next run; return its bytes. `left`: to the end of the flow."""
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


cdef bint ask_pieces(Flow* f, Spm* p, Dram* d, Extent* x, uint64_t* mask) noexcept nogil:
    """The longest run of whole next pieces that the carry reaches and in which no bank has two lines."""
    cdef Cursor probe
    cdef nbytes_t left = f.left, asked = 0, size, budget = f.carry // f.den
    cdef int32_t bank
    cursor_sync(&f.at)
    probe = f.at
    while asked < left:
        bank = bank_of(p, line_of(p, probe.addr))
        if mask[bank >> 6] >> (bank & 63) & 1:
            break
        size = next_piece(&probe, left - asked, p, d, x, f.channel)
        if asked + size > budget:
            break
        mask[bank >> 6] |= <uint64_t>1 << (bank & 63)
        asked += size
        f.at = probe
    if asked == 0:
        return False
    f.asked = asked
    f.carry -= asked * f.den
    settle_cursor(f, p)
    cap_carry(f, p)
    return True


cdef void jump_in_run(Flow* f, Spm* p, int64_t cycles) noexcept nogil:
    """`cycles` cycles at once, in which the carry stays below the end of the run: every line reached is asked for once."""
    cdef int64_t n
    flow_accrue(f, cycles)
    n = f.carry - f.piece * f.den
    if n < 0:
        return
    n = 1 + n // (p.line * f.den)
    tally_range(&p.grants, f.bank, n)
    f.asked = f.piece + (n - 1) * p.line
    f.carry -= f.asked * f.den
    f.left -= f.asked
    f.at.run_left -= f.asked
    f.bank = <int32_t>((f.bank + n) % p.banks)
    f.piece = p.line if f.at.run_left > p.line else f.at.run_left


cdef void flow_jump(Flow* f, Spm* p, Dram* d, Extent* x, uint64_t* mask, int64_t cycles) noexcept nogil:
    """Advance a flow that nobody can deny: in closed form inside a run, cycle by cycle where a request may cross its end."""
    cdef int64_t k
    cdef int32_t w
    # A cycle asks for less than one line more than its rate; where those lines fit one row of banks, none is cut off.
    cdef int64_t most = f.num // f.den + 1         # [B] that a cycle earns, and one more
    cdef bint uncut = not p.blocked and 2 + most // p.line < p.banks
    f.seen += cycles
    while cycles:
        k = (f.at.run_left - 1 - f.carry // f.den) // most if uncut else 0
        if k > cycles:
            k = cycles
        if k > 1:
            if k > (<int64_t>1 << 61) // f.num:
                k = (<int64_t>1 << 61) // f.num
            jump_in_run(f, p, k)
            cycles -= k
            continue
        cycles -= 1
        flow_accrue(f, 1)
        if flow_want(f, p, d, x, mask):
            for w in range(p.words):
                tally_word(&p.grants, w, mask[w])
                mask[w] = 0
            tally_done(&p.grants, 1)
            f.left -= f.asked
