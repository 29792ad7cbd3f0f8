"""Arbiters written in Python. An exception in `arbitrate` is kept, and ends the run as failed."""
from collections import namedtuple
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport uintptr_t

from kernbench_core.plugin.abi cimport (
    KB_ABI_VERSION, KB_ARBITER_CAPSULE, KB_FAILED, kb_arbiter_ops, kb_bank_request, kb_scratchpad)
from kernbench_core.plugin.plugged_arbiter import check_arbiter
from kernbench_core.plugin.pycomponent cimport Saved, saved_restore, saved_snapshot
from kernbench_core.types cimport int32_t, int64_t, uint64_t

Scratchpad = namedtuple("Scratchpad", "number banks ports split clients")
Scratchpad.__doc__ = """The scratchpad of an arbitration. `ports`: of each bank, for reads (or for both) and for writes.

>>> from kernbench_core import Scratchpad
>>> Scratchpad(number=0, banks=16, ports=(1, 1), split=False, clients=4).banks
16
"""
BankRequest = namedtuple("BankRequest", "client submission channel since reads writes")
BankRequest.__doc__ = """A request in one cycle. Bit `b` of `reads` and `writes`: it still needs bank `b`.

>>> from kernbench_core import BankRequest
>>> BankRequest(client=0, submission=0, channel=0, since=-1, reads=0b101, writes=0).reads >> 2 & 1
1
"""


cdef object mask_of(const uint64_t* words, int32_t n):
    """A mask of banks as one integer."""
    cdef int32_t w
    cdef object found = 0, word
    for w in range(n - 1, -1, -1):
        word = words[w]
        found = found << 64 | word
    return found


cdef class Arbiter(Saved):
    """An arbitration rule written in Python: subclass it and define `arbitrate`. docs/how-to/add_a_rule.md builds one.

    >>> from kernbench import Arbiter, Machine, Program
    >>> class FirstOfAll(Arbiter):
    ...     def arbitrate(self, scratchpad, now, requests):
    ...         return [requests[0].reads | requests[0].writes] + [0] * (len(requests) - 1)
    >>> program = Program()
    >>> load = program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=1024, spm_bank=0, spm_offset=0)
    >>> machine = Machine("npu_mobile", program, arbiter=FirstOfAll())
    >>> machine.run(), machine.status
    (False, 'done')
    """

    cdef kb_arbiter_ops ops
    cdef bint plugged
    cdef bytes name

    def arbitrate(self, scratchpad, now, requests):
        """P5 of cycle `now`, for a scratchpad with requests: the mask of granted banks for each request, in tie-break order."""
        raise NotImplementedError(f"{type(self).__name__} has no arbitrate")

    def snapshot(self):
        """The whole state as bytes."""
        raise NotImplementedError(f"{type(self).__name__} has no snapshot")

    def restore(self, image):
        """Set the state to that of a snapshot."""
        raise NotImplementedError(f"{type(self).__name__} has no restore")

    cdef int grant(self, const kb_scratchpad* p, int64_t now, kb_bank_request* request, int32_t n) except -1:
        cdef kb_bank_request* r
        cdef int32_t k, w
        cdef object beyond = 1
        beyond <<= 64 * p.words
        pad = Scratchpad(p.number, p.banks, (p.ports[0], p.ports[1]), bool(p.split), p.clients)
        requested = []
        for k in range(n):
            r = &request[k]
            requested.append(BankRequest(
                r.client, r.submission, r.channel, r.since, mask_of(r.reads, p.words), mask_of(r.writes, p.words)))
        granted = self.arbitrate(pad, now, requested)
        if not isinstance(granted, (list, tuple)) or [type(mask) for mask in granted] != [int] * n:
            raise TypeError(f"{type(self).__name__}.arbitrate returned {granted!r}: it must be a mask of banks for each of {n} requests")
        for k in range(n):
            if not 0 <= granted[k] < beyond:
                raise ValueError(f"{type(self).__name__}.arbitrate: mask {granted[k]}: the scratchpad has {p.banks} banks")
            for w in range(p.words):
                request[k].granted[w] = granted[k] >> (64 * w) & 0xFFFFFFFFFFFFFFFF
        return 0

    cdef uintptr_t plug(self) except 0:
        """Fill in the operations, once: an arbiter belongs to one run."""
        if self.plugged:
            raise ValueError(f"this {type(self).__name__} is in a machine already: make one for each")
        self.plugged = True
        self.name = type(self).__name__.encode()
        self.ops.abi_version = KB_ABI_VERSION
        self.ops.struct_size = sizeof(kb_arbiter_ops)
        self.ops.self = <void*>self
        self.ops.name = self.name
        self.ops.arbitrate = arbitrate
        if type(self).snapshot is not Arbiter.snapshot:
            self.ops.snapshot = saved_snapshot
            self.ops.restore = saved_restore
        return <uintptr_t>&self.ops


cdef int64_t arbitrate(void* itself, const kb_scratchpad* spm, int64_t now, kb_bank_request* request, int32_t n) noexcept with gil:
    cdef Arbiter a = <Arbiter>itself
    try:
        return a.grant(spm, now, request, n)
    except BaseException as error:
        a.failure = error
    return KB_FAILED


def arbiter_operations(arbiter):
    """The address of the kb_arbiter_ops of a capsule or an `Arbiter`. ValueError if this core cannot call it."""
    cdef uintptr_t address
    if isinstance(arbiter, Arbiter):
        address = (<Arbiter>arbiter).plug()
        check_arbiter(address, type(arbiter).__name__)
    elif PyCapsule_IsValid(arbiter, KB_ARBITER_CAPSULE):
        address = <uintptr_t>PyCapsule_GetPointer(arbiter, KB_ARBITER_CAPSULE)
        check_arbiter(address, "an arbiter given as a capsule")
    else:
        raise ValueError(
            f"{arbiter!r} is not an arbiter: it must be an object of a class derived from Arbiter, "
            f"or a PyCapsule named {KB_ARBITER_CAPSULE.decode()}")
    return address


def arbiter_exception(arbiter):
    """The exception that ended the run in an arbiter written in Python, else None."""
    return (<Arbiter>arbiter).failure if isinstance(arbiter, Arbiter) else None
