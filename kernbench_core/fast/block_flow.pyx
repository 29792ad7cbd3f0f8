"""A flow over a block of cycles.

The flow requests a line whenever its carry reaches one. Inside a run, these requests are regular as long as none is denied.
`request_lines` and `request_rows` handle regular requests, and `request_slowly` handles all others.
"""
from kernbench_core.model.division cimport quotient
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.fast.block_flow_denied cimport request_slowly, request_slowly_traced, wait_for_bank
from kernbench_core.fast.address_runs cimport begin_run, goes_on
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.model.sim cimport memory_of
from kernbench_core.trace.events cimport TRACE_FULL
from kernbench_core.trace.record_request_notes cimport open_run, put_note, run_requested
from kernbench_core.types cimport NEVER, int32_t, int64_t, nbytes_t, slot_t, uint64_t
from kernbench_core.fast.block_ports cimport run_of, take

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil


cdef inline int64_t lines_ahead(Flow* f, Spm* p, Walk* w, Dram* d, bint* over, bint traced) noexcept nogil:
    """The number of requests of one line each up to the end of the run. The last request is included if the run ends with a line and
    another run follows: `over` is then set. A trace records the end of each run."""
    cdef nbytes_t run = f.at.run_left
    cdef int64_t lines = run >> w.shift if w.shift >= 0 else run // w.line
    over[0] = not traced and lines * w.line == run and goes_on(f, p, d)
    return lines if over[0] else lines - 1


cdef inline void note_lines(Walk* w, slot_t requester, int64_t c, int32_t side, uint64_t mask) noexcept nogil:
    """Note lines that were granted to a traced flow."""
    put_note(w, requester, c, 0 if side else mask, mask if side else 0)


cdef inline int64_t request_lines(
        Sim* s, Spm* p, Walk* w, slot_t requester, Flow* f, int64_t c, uint64_t* taken, int32_t each, int32_t side,
        bint traced) noexcept nogil:
    """A flow that is not faster than one line in a cycle requests line by line, inside its row and until it is denied; returns the cycle in
    which this ends.

    Directly after a request, the carry is less than the share of the cycle. The next request therefore comes `every` cycles later, or one
    cycle later than this if the carry is not sufficient. `every` cycles earn `rest` less than a line costs.

    `taken`: for each cycle of the block, `each` masks of banks; the last mask has the banks without a free port. `side`: 1 if the requests
    are for write ports."""
    cdef int64_t n = w.n, num = f.num, every = f.every, rest = f.rest
    cdef int64_t carry = f.carry + (w.begin + c + 1 - f.seen) * num - f.cost                    # after the request of cycle `c`
    cdef int64_t requested = 0, late
    cdef int64_t last = -1, last_carry = 0      # cycle of the last request, and the carry after it
    cdef uint64_t mask = <uint64_t>1 << f.bank, no_bank = w.full + 1        # `no_bank`: the mask of the bank after the last bank
    cdef Dram* d = memory_of(s, f.job)
    cdef bint over
    cdef int64_t most = lines_ahead(f, p, w, d, &over, traced)
    if <uint64_t>carry >= <uint64_t>num:
        return c
    while True:
        while requested < most and c < n and not taken[c * each + each - 1] & mask:
            take(taken + c * each, each, mask)
            if traced:
                note_lines(w, requester, c, side, mask)
            requested += 1
            last_carry = carry
            last = c
            mask <<= 1
            mask = 1 if mask == no_bank else mask
            carry -= rest
            late = -<int64_t>(carry < 0)                        # all ones, or zero: a branch could not be predicted
            carry += num & late
            c += every - late
        f.left -= requested * w.line
        f.at.run_left -= requested * w.line
        if f.at.run_left or requested < most:
            break
        begin_run(f, p, d)
        mask = <uint64_t>1 << f.bank
        most = lines_ahead(f, p, w, d, &over, traced)
        requested = 0
    if last >= 0:
        f.carry = last_carry
        f.seen = w.begin + last + 1
        f.bank = trailing_zeros(mask)
    if traced or c >= n or requested >= most - over:
        return c
    return wait_for_bank(s, p, w, requester, c, taken, each)


cdef inline int64_t request_rows(
        Walk* w, slot_t requester, Flow* f, int64_t c, uint64_t* taken, int32_t each, int32_t side, bint traced) noexcept nogil:
    """The same for a flow that requests lines in every cycle: always the same number, or one more."""
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
        if traced:
            note_lines(w, requester, c, side, mask)
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


cdef inline int64_t request_regularly(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, int32_t ports, bint traced) noexcept nogil:
    """Handle all regular requests; return the cycle of the first request that is not regular, or of the first request after the block."""
    cdef Flow* f = &s.share.flow[requester]
    cdef int32_t side = 1 if ports == 0 and s.requester[requester].to_writes else 0
    cdef int32_t each = ports if ports else w.ports[side]
    cdef nbytes_t rest = f.at.run_left
    cdef int32_t bank = f.bank
    cdef int64_t end
    if f.piece != w.piece or traced and w.trace.level > TRACE_FULL:     # every request is an event
        return c
    if f.every:
        end = request_lines(s, p, w, requester, f, c, w.taken[side], each, side, traced)
    else:
        end = request_rows(w, requester, f, c, w.taken[side], each, side, traced)
    if traced and f.at.run_left != rest:
        open_run(&w.flow_trace[requester], f, rest, bank)
        run_requested(&w.flow_trace[requester], w.begin + c)
    return end


cdef inline void flow_block(Sim* s, Spm* p, Walk* w, slot_t requester, int32_t ports, bint traced) noexcept nogil:
    """`ports`: the ports of each bank, if they are shared and few, else 0."""
    cdef Requester* a = &s.requester[requester]
    cdef int64_t c = a.next_at - w.begin
    while True:
        if a.first_denied == NEVER:
            c = request_regularly(s, p, w, requester, c, ports, traced)
            if c >= w.n:
                a.next_at = w.begin + c
                return
        c = request_slowly_traced(s, p, w, requester, c) if traced else request_slowly(s, p, w, requester, c, ports)
        if c >= w.n:
            return


cdef void walk_flow_1(Sim* s, Spm* p, Walk* w, slot_t requester) noexcept nogil:
    flow_block(s, p, w, requester, 1, False)


cdef void walk_flow_2(Sim* s, Spm* p, Walk* w, slot_t requester) noexcept nogil:
    flow_block(s, p, w, requester, 2, False)


cdef void walk_flow_any(Sim* s, Spm* p, Walk* w, slot_t requester) noexcept nogil:
    flow_block(s, p, w, requester, 0, False)


cdef void walk_flow_traced(Sim* s, Spm* p, Walk* w, slot_t requester) noexcept nogil:
    flow_block(s, p, w, requester, 0, True)
