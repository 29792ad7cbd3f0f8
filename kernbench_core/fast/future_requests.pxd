"""The requests to come of one requester, from which the conflict-free horizon is found."""
from kernbench_core.model.division cimport quotient
from kernbench_core.model.compute cimport Stream
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t

cdef enum:
    SPAN = 64                 # cycles that are laid out at once: a bit each
    ALL = -2                  # behind its run a flow has no lines: it ends there

cdef struct Course:           # the requests to come of one requester
    cycle_t at                # the next: a flow's first piece, a body cycle; NEVER: none
    slot_t requester          # whose requests these are
    int32_t side              # of the ports
    int64_t carry             # a flow: what it has in that cycle [1/den B]
    int64_t pay               # and what the next piece costs
    int64_t bank              # of it
    int64_t lines             # to the end of its run
    int64_t chunk             # lines of the runs behind it,
    int64_t hop               # and how far a bank their first ones are from where the run before ended; -1: not known, or ALL
    bint dense                # a TE or VE: its requests are worked out by fast/request_table.pyx
    cycle_t i                 # that body cycle
    Stream* stream            # and its streams

cdef inline void open_carry(Course* x, Flow* f) noexcept nogil:
    """When it has earned its next piece, which it asks for in no earlier cycle than `at`."""
    cdef int64_t wait
    x.carry = f.carry + (x.at + 1 - f.seen) * f.num
    x.pay = f.piece * f.den
    if x.carry < x.pay:
        wait = quotient(x.pay - x.carry + f.num - 1, f.num)
        x.at += wait
        x.carry += wait * f.num
