"""A flow over a block of cycles.

It asks for a line whenever its carry reaches one. That is regular while nothing is denied, inside a run and, where runs end with
lines, from run to run: `ask_lines` and `ask_rows` go through such requests, and `ask_slowly` makes any other.
"""
from kernbench_core.arith cimport quotient
from kernbench_core.bank cimport Lane
from kernbench_core.dram cimport cursor_sync
from kernbench_core.narrow_wait cimport ask_slowly, wait_for_bank
from kernbench_core.share cimport Flow
from kernbench_core.sim cimport memory_of
from kernbench_core.tally cimport tally_done, tally_word
from kernbench_core.types cimport NEVER, int64_t, nbytes_t, uint64_t
from kernbench_core.walk cimport run_of, take

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef struct Run:              # where a flow stands that asks line by line
    nbytes_t nbytes           # of its run
    int64_t before            # requests of this block before that run
    int64_t most              # and before the last line of it
    int64_t hops              # ends of runs that were gone over
    bint last                 # the next line is that one, and behind it is a whole line, it is known where


cdef inline void count(Spm* p, uint64_t* lines, uint64_t mask) noexcept nogil:
    """Note a grant where reads and writes have ports of their own; count those that are noted before a bank comes again, or there is
    no other."""
    if lines[0] & mask or mask == 0:
        tally_word(&p.grants, 0, lines[0])
        tally_done(&p.grants, 1)
        lines[0] = 0
    lines[0] |= mask


cdef inline bint goes_on(Walk* w, Flow* f, int64_t asked) noexcept nogil:
    return f.hop > 0 and f.left - (asked << w.shift) >= 2 * w.line


cdef inline Run stand(Walk* w, Flow* f) noexcept nogil:
    cdef Run r
    r.nbytes = f.at.run_left
    r.before = r.hops = 0
    r.most = (r.nbytes >> w.shift if w.shift >= 0 else r.nbytes // w.line) - 1
    r.last = r.most == 0 and goes_on(w, f, 0)
    return r


cdef inline uint64_t next_run(Sim* s, Walk* w, Flow* f, Run* r, int64_t asked, uint64_t mask) noexcept nogil:
    """The last line of the run was asked for, and `mask` is the bank behind it: the bank that the next run begins on."""
    r.hops += 1
    r.before = asked
    r.nbytes = min(s.memory.interleave if s.own_routes else memory_of(s, f.job).interleave, f.left - (asked << w.shift))
    r.most = asked + (r.nbytes >> w.shift) - 1
    return (mask << f.turn | (mask >> 1) >> (w.banks - 1 - f.turn)) & w.full


cdef inline void move_over(Walk* w, Flow* f, int64_t asked, Run* r) noexcept nogil:
    """The flow has asked for so many lines."""
    cdef nbytes_t ahead
    f.left -= asked * w.line
    if r.hops == 0:
        f.at.run_left -= asked * w.line
        return
    cursor_sync(&f.at)
    ahead = r.before * w.line + r.hops * f.hop
    f.at.addr += ahead
    f.at.dram += ahead
    f.at.run_seen = r.nbytes
    f.at.run_left = r.nbytes - (asked - r.before) * w.line


cdef inline int64_t ask_lines(
        Sim* s, Spm* p, Walk* w, slot_t lane, Flow* f, int64_t c, uint64_t* taken, int32_t ports, int32_t each) noexcept nogil:
    """A flow not faster than a line a cycle asks line by line until it is denied, or a piece may be another: the cycle of that.

    Right after a request the carry is less than the cycle's share. So the next comes `every` cycles later, or one more where the carry
    would not do."""
    cdef int64_t n = w.n, num = f.num, every = f.every, rest = f.rest, spent = 0, asked = 0, late, seen = 0
    cdef int64_t carry = f.carry + (w.begin + c + 1 - f.seen) * num - f.cost                    # when the request is made
    cdef uint64_t mask = <uint64_t>1 << f.bank, behind = w.full + 1, lines = 0                  # the banks, as if there were one more
    cdef Run r = stand(w, f)
    if <uint64_t>carry >= <uint64_t>num:
        return c
    while (asked < r.most or r.last) and not taken[c * each + each - 1] & mask:
        take(taken + c * each, each, mask)
        if ports == 0 and w.split:
            count(p, &lines, mask)
        asked += 1
        spent = carry
        seen = c + 1
        mask <<= 1
        mask = 1 if mask == behind else mask
        carry -= rest
        late = -<int64_t>(carry < 0)                        # all ones, or none
        carry += num & late
        c += every - late
        if r.last:
            mask = next_run(s, w, f, &r, asked, mask)
        if c >= n:
            break
        r.last = asked == r.most and goes_on(w, f, asked)
    if lines:
        count(p, &lines, 0)
    if asked:
        move_over(w, f, asked, &r)
        f.carry = spent
        f.seen = w.begin + seen
        f.bank = trailing_zeros(mask)
    return wait_for_bank(s, p, w, lane, c, taken, each) if c < n and asked < r.most else c


cdef inline int64_t ask_rows(Spm* p, Walk* w, Flow* f, int64_t c, uint64_t* taken, int32_t ports, int32_t each) noexcept nogil:
    """The same for a flow that asks for lines in every cycle: always as many, or one more."""
    cdef int64_t num = f.num, line = f.cost, carry = f.carry, run = f.at.run_left, bank = f.bank, k
    cdef int64_t lines = quotient(num, line), least = lines * line, enough = (lines + 2) * w.line
    cdef uint64_t mask
    if lines + 2 > w.banks or f.seen != w.begin + c or carry >= line:
        return c
    while c < w.n and run >= enough:
        k = lines + (carry + num - least >= line)
        mask = run_of(w, bank, k)
        if taken[c * each + each - 1] & mask:
            break
        take(taken + c * each, each, mask)
        if ports == 0 and w.split:
            tally_word(&p.grants, 0, mask)
            tally_done(&p.grants, 1)
        carry += num - k * line
        c += 1
        bank += k
        bank = bank - w.banks if bank >= w.banks else bank
        run -= k * w.line
    f.left -= f.at.run_left - run
    f.at.run_left = run
    f.carry = carry
    f.seen = w.begin + c
    f.bank = <int32_t>bank
    return c


cdef inline void flow_block(Sim* s, Spm* p, Walk* w, slot_t lane, int32_t ports) noexcept nogil:
    """`ports`: of each bank, where they are shared and few, else 0."""
    cdef Lane* a = &s.lane[lane]
    cdef Flow* f = &s.share.flow[lane]
    cdef int32_t side = 1 if ports == 0 and a.to_writes else 0
    cdef int32_t each = ports if ports else w.ports[side]
    cdef int64_t c = a.next_at - w.begin
    while True:
        if a.first_denied == NEVER and f.piece == w.piece:
            if f.every:
                c = ask_lines(s, p, w, lane, f, c, w.taken[side], ports, each)
            else:
                c = ask_rows(p, w, f, c, w.taken[side], ports, each)
            if c >= w.n:
                a.next_at = w.begin + c
                return
        c = ask_slowly(s, p, w, lane, c, ports)
        if c >= w.n:
            return


cdef void walk_flow_1(Sim* s, Spm* p, Walk* w, slot_t lane) noexcept nogil:
    flow_block(s, p, w, lane, 1)


cdef void walk_flow_2(Sim* s, Spm* p, Walk* w, slot_t lane) noexcept nogil:
    flow_block(s, p, w, lane, 2)


cdef void walk_flow_any(Sim* s, Spm* p, Walk* w, slot_t lane) noexcept nogil:
    flow_block(s, p, w, lane, 0)
