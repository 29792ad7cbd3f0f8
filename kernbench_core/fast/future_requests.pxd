"""The coming requests of one requester, from which the conflict-free horizon is found."""
from kernbench_core.model.division cimport quotient
from kernbench_core.model.compute cimport Stream
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t

cdef enum:
    SPAN = 64                 # cycles that are examined at once: one bit for each
    ALL = -2                  # the flow has no lines after its run: it ends there

cdef struct Course:           # the coming requests of one requester
    cycle_t at                # cycle of the next request: a flow's first piece, or a body cycle; NEVER: none
    slot_t requester          # the requester that makes these requests
    int32_t side              # index of the ports that it requests: 0 for reads (or shared), 1 for writes
    int64_t carry             # a flow: its bandwidth credit in cycle `at` [1/den B]
    int64_t pay               # a flow: the credit that its next piece needs [1/den B]
    int64_t bank              # a flow: the bank of its next piece
    int64_t lines             # a flow: lines to the end of the current address run
    int64_t chunk             # a flow: lines of each of the following address runs
    int64_t hop               # a flow: distance in banks from the end of a run to the beginning of the next; -1: not known, or ALL
    bint dense                # whether it is a TE or VE whose requests fast/request_table.pyx computes
    cycle_t i                 # a TE or VE: the next body cycle
    Stream* stream            # a TE or VE: the operand streams in this body cycle

cdef inline void open_carry(Course* x, Flow* f) noexcept nogil:
    """Set the cycle in which it has earned its next piece; the request comes in no cycle before `at`."""
    cdef int64_t wait
    x.carry = f.carry + (x.at + 1 - f.seen) * f.num
    x.pay = f.piece * f.den
    if x.carry < x.pay:
        wait = quotient(x.pay - x.carry + f.num - 1, f.num)
        x.at += wait
        x.carry += wait * f.num
