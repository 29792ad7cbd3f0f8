"""Checks the declarations of a user-defined arbiter before cycle 0, calls it, and checks its grants.

The arbiter is called in the order of cycles, and within a cycle in the order of scratchpads, so the model alone runs a run with such an
arbiter.
"""
from libc.stdint cimport uintptr_t
from libc.string cimport memset
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from kernbench_core.model.arbiter.grant cimport client_of, clients, deny_bank, grant_bank, open_traced_requests
from kernbench_core.model.sim cimport reads_of, writes_of
from kernbench_core.plugin.abi cimport kb_arbiter_ops, kb_bank_request, kb_scratchpad
from kernbench_core.plugin.plug_layout import check_functions, check_table
from kernbench_core.plugin.component_tables cimport NOT_REQUESTED, RULE_FAILED, NO_ARBITER_MISTAKE, TOO_MANY, PluggedArbiter
from kernbench_core.types cimport int32_t, int64_t, slot_t, uint64_t

cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t v) noexcept nogil

cdef const int64_t CHANNEL = (1 << 20) - 1  # the channel bits of a flow's `TieBreak.seq`; the submission number is above them

MISTAKES = (
    "",
    "arbitrate returned {value}: it must return 0",
    "it grants bank {bank} of scratchpad {spm} to client {value}, which does not ask for it",
    "it grants bank {bank} of scratchpad {spm} more often than it has ports ({value})",
)  #: by ArbiterMistake


def check_arbiter(uintptr_t address, str what not None):
    """ValueError if this core cannot call a `kb_arbiter_ops`."""
    cdef const kb_arbiter_ops* o = <const kb_arbiter_ops*>address
    check_table(what, "kb_arbiter_ops", o.abi_version, o.struct_size, sizeof(kb_arbiter_ops))
    required = {"name": o.name != NULL, "arbitrate": o.arbitrate != NULL}
    check_functions(what, "kb_arbiter_ops", required, {"snapshot": o.snapshot != NULL, "restore": o.restore != NULL})


cdef int lay_out_arbiter(Sim* s, Arena a, object address) except -1:
    """After `lay_out`: set up a run with a user-defined arbiter."""
    cdef PluggedArbiter* x
    cdef kb_scratchpad* pad
    cdef int32_t k, requesters = 1
    a.own(<void**>&s.arbiter, 1, sizeof(PluggedArbiter))
    x = s.arbiter
    a.keep_before(&x.ops)
    x.ops = <const kb_arbiter_ops*><uintptr_t>address
    a.own(<void**>&x.pad, s.n_spm, sizeof(kb_scratchpad), False)
    for k in range(s.n_spm):
        requesters = max(requesters, s.spm[k].requesters)
        pad = &x.pad[k]
        pad.number = k
        pad.banks = s.spm[k].banks
        pad.words = s.spm[k].words
        pad.split = s.spm[k].split
        pad.ports[0] = s.spm[k].given[0]
        pad.ports[1] = s.spm[k].given[1] if s.spm[k].split else 0
        pad.clients = clients(s)
    a.own(<void**>&x.request, requesters, sizeof(kb_bank_request), False)
    a.own(<void**>&x.granted, requesters * s.mask_words, sizeof(uint64_t), False)
    for k in range(requesters):
        x.request[k].granted = x.granted + k * s.mask_words
    return 0


cdef void mistake(PluggedArbiter* x, int32_t what, int32_t spm, int32_t bank, int64_t value, cycle_t now) noexcept nogil:
    """Record a mistake, with which the run fails after this cycle; only the first mistake counts."""
    if x.mistake == NO_ARBITER_MISTAKE:
        x.mistake = what
        x.spm = spm
        x.bank = bank
        x.value = value
        x.at = now


cdef void describe(Sim* s, kb_bank_request* r, slot_t requester) noexcept nogil:
    cdef bint flow = requester < s.n_flows or requester >= s.n_flows + s.n_compute + s.n_component_requests
    r.client = client_of(s, requester)
    r.submission = s.tie_break[requester].seq >> 20 if flow else s.tie_break[requester].seq
    r.channel = <int32_t>(s.tie_break[requester].seq & CHANNEL) if flow else 0
    r.since = s.requester[requester].first_denied
    r.reads = reads_of(s, requester)
    r.writes = writes_of(s, requester)


cdef void settle_bank(Sim* s, Spm* p, int32_t bank, cycle_t now) noexcept nogil:
    """Give the requests the ports of a bank that they were granted. A request that was not granted lacks the ports of which none is left,
    or all."""
    cdef PluggedArbiter* x = s.arbiter
    cdef int32_t[2] left
    cdef int32_t k, w = bank >> 6
    cdef uint64_t bit = <uint64_t>1 << (bank & 63)
    cdef bint read, write
    left[0], left[1] = p.ports[0], p.ports[1]
    for k in range(p.n_requesting):
        if x.granted[k * s.mask_words + w] & bit and not grant_bank(s, p, k, bank, left):
            mistake(x, TOO_MANY, <int32_t>(p - s.spm), bank, p.given[left[0] > 0], now)
    for k in range(p.n_requesting):
        if x.granted[k * s.mask_words + w] & bit:
            continue
        read, write = x.request[k].reads[w] & bit != 0, x.request[k].writes[w] & bit != 0
        if read and write and (left[0] == 0) != (left[1] == 0):
            read, write = left[0] == 0, left[1] == 0
        if read or write:
            deny_bank(s, p, k, bank, read, write)


cdef void plugged_in(Sim* s, Spm* p, cycle_t now) noexcept nogil:
    """P5: call the arbiter, and grant the banks that it returns."""
    cdef PluggedArbiter* x = s.arbiter
    cdef int32_t spm = <int32_t>(p - s.spm), k, w
    cdef int64_t said
    cdef uint64_t requested, wrong
    if p.n_requesting == 0:
        return
    open_traced_requests(s, p, now)
    memset(x.granted, 0, p.n_requesting * s.mask_words * sizeof(uint64_t))
    for k in range(p.n_requesting):
        describe(s, &x.request[k], p.requesting[k])
    said = x.ops.arbitrate(x.ops.self, &x.pad[spm], now, x.request, p.n_requesting)
    if said:
        mistake(x, RULE_FAILED, spm, 0, said, now)
    for w in range(p.words):
        requested = 0
        for k in range(p.n_requesting):
            wrong = x.granted[k * s.mask_words + w] & ~(x.request[k].reads[w] | x.request[k].writes[w])
            requested |= x.request[k].reads[w] | x.request[k].writes[w]
            if wrong:
                mistake(x, NOT_REQUESTED, spm, 64 * w + trailing_zeros(wrong), x.request[k].client, now)
        while requested:
            settle_bank(s, p, 64 * w + trailing_zeros(requested), now)
            requested &= requested - 1


cdef object arbiter_failure(Sim* s):
    """`(cycle, sentence)` for a run that its arbiter ended, else None."""
    cdef PluggedArbiter* x = s.arbiter
    if x == NULL or x.mistake == NO_ARBITER_MISTAKE:
        return None
    return x.at, MISTAKES[x.mistake].format(value=x.value, bank=x.bank, spm=x.spm)


cdef bytes arbiter_snapshot(Sim* s):
    """The length and the bytes of the arbiter's state; empty if there is no such arbiter. ValueError if it supports no snapshot."""
    cdef const kb_arbiter_ops* o
    cdef int64_t n
    cdef bytes image
    if s.arbiter == NULL:
        return b""
    o = s.arbiter.ops
    if o.snapshot == NULL:
        raise ValueError(f"arbiter {o.name.decode()} has no snapshot: a run with it cannot be saved")
    n = o.snapshot(o.self, NULL, 0)
    if n < 0:
        raise ValueError(f"arbiter {o.name.decode()}: its snapshot failed (status {n})")
    image = PyBytes_FromStringAndSize(NULL, n)
    memset(PyBytes_AS_STRING(image), 0, n)
    if o.snapshot(o.self, PyBytes_AS_STRING(image), n) != n:
        raise ValueError(f"arbiter {o.name.decode()}: its snapshot is not as long as it said")
    return n.to_bytes(8, "little") + image


cdef size_t arbiter_restore(Sim* s, bytes image, size_t at) except? 0:
    """Restore the arbiter from its bytes, which begin at `at`; return their end."""
    cdef const kb_arbiter_ops* o
    if s.arbiter == NULL:
        return at
    o = s.arbiter.ops
    n = int.from_bytes(image[at:at + 8], "little")
    at += 8
    if at + n > <size_t>len(image):
        raise ValueError("the snapshot ends inside the state of arbiter " + o.name.decode())
    if o.restore == NULL or o.restore(o.self, PyBytes_AS_STRING(image) + at, n) != 0:
        raise ValueError(f"arbiter {o.name.decode()} does not take its part of the snapshot")
    return at + n
