"""Components written in Python: the only place that takes the GIL.

A `Plugged` is a kb_engine_ops whose functions call Python methods. An exception of a method is kept, and ends the run as failed.
"""
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport uintptr_t
from libc.string cimport memcpy

from collections import namedtuple

from kernbench_core.plugin.abi cimport (
    KB_ABI_VERSION, KB_BANKS, KB_BUSY, KB_CAPSULE, KB_FAILED, KB_FLOW, KB_FULL, KB_JOB, KB_MEMBERS,
    KB_PARAMS, KB_REGIONS, kb_core_api, kb_engine_ops, kb_job, kb_member, kb_region)
from kernbench_core.plugin.plug_layout import check_operations
from kernbench_core.types cimport NEVER as LAST_CYCLE
from kernbench_core.types cimport int32_t, int64_t, uint64_t

cdef extern from "abi.h" nogil:
    enum:
        KB_DMA

cdef extern from "Python.h" nogil:
    ctypedef int PyGILState_STATE
    PyGILState_STATE PyGILState_Ensure()
    void PyGILState_Release(PyGILState_STATE state)

NEVER = LAST_CYCLE            #: a cycle that never comes: sleep
BUSY = KB_BUSY                #: the result of `accept` if it does not take the job now
FLOW, BANKS, JOB, MEMBERS = KB_FLOW, KB_BANKS, KB_JOB, KB_MEMBERS  #: the events that `notify` receives

Member = namedtuple("Member", "id engine weight nbytes num den")
Member.__doc__ = """A flow that shares a resource. `id`: of its job (the position of a queued entry), or of a flow that a component
opened. `engine`: the DMA engine of the job, -1 for a flow of a component. `nbytes`: of the flow, moved and not. `num`/`den`:
[B/cycle] the rate by the last P4; 0/1 if it has none yet.

>>> from kernbench_core import Member
>>> Member(id=0, engine=0, weight=1, nbytes=640, num=16, den=1).nbytes
640
"""
Job = namedtuple("Job", "id entry opcode params regions")
Job.__doc__ = """A job as a component gets it. `entry`: its position in the command queue, or -1 if a component submitted it.

>>> from kernbench_core import Job
>>> Job(id=0, entry=2, opcode=1, params=(), regions=()).entry
2
"""
JobRegion = namedtuple("JobRegion", "addr nbytes write")
JobRegion.__doc__ = """An operand region: flat scratchpad address, bytes, and whether the job writes it.

>>> from kernbench_core import JobRegion
>>> JobRegion(addr=0, nbytes=64, write=True).nbytes
64
"""


class NoRoom(RuntimeError):
    """The component has as many open jobs, flows or bank requests as its limits allow.

    >>> from kernbench_core import NoRoom
    >>> issubclass(NoRoom, RuntimeError)
    True
    """


class Refused(RuntimeError):
    """The core refuses a request of a component. The run ends as failed, even if the component catches this.

    >>> from kernbench_core import Refused
    >>> issubclass(Refused, RuntimeError)
    True
    """


cdef object job_of(const kb_job* j):
    cdef int32_t k
    return Job(
        j.id, j.entry, j.opcode, tuple([j.params[k] for k in range(j.n_params)]),
        tuple([JobRegion(j.region[k].addr, j.region[k].nbytes, bool(j.region[k].write)) for k in range(j.n_regions)]))


cdef void put_region(kb_region* region, int64_t addr, int64_t nbytes, bint write) noexcept:
    region.addr = addr
    region.nbytes = nbytes
    region.write = write


cdef int64_t cycle_from(Plugged c, str method, object value) except? -1:
    if not isinstance(value, int):
        raise TypeError(f"{type(c).__name__}.{method} returned {value!r}: it must be the next cycle to run in, or NEVER")
    return value


cdef int64_t advance(void* itself, int64_t now, const kb_core_api* api) noexcept with gil:
    cdef Plugged c = <Plugged>itself
    c.api = api
    try:
        return c.woken(now)
    except BaseException as error:
        c.failure = error
    return KB_FAILED


cdef int32_t hold(const kb_engine_ops* ops, int32_t held) noexcept nogil:
    """Called before each call of a phase: in a sequence of Python components, only the first waits for the GIL.

    `held` is the result of the last call, 0 at first; after the phase `ops` is NULL. Other components are called without the GIL.
    """
    cdef bint python = ops != NULL and ops.advance == advance
    if python and not held:
        return 1 + <int32_t>PyGILState_Ensure()
    if held and not python:
        PyGILState_Release(<PyGILState_STATE>(held - 1))
        return 0
    return held


cdef int64_t accept(void* itself, const kb_job* job, int64_t now) noexcept with gil:
    cdef Plugged c = <Plugged>itself
    try:
        if c.refuses(now):
            return KB_BUSY
        return cycle_from(c, "accept", c.accept(job_of(job), now))
    except BaseException as error:
        c.failure = error
    return KB_FAILED


cdef int64_t notify(void* itself, int32_t notice, int64_t number, int64_t now) noexcept with gil:
    cdef Plugged c = <Plugged>itself
    try:
        return c.told(notice, number, now)
    except BaseException as error:
        c.failure = error
    return KB_FAILED


cdef class Saved:
    """A plug-in that is written in Python: it may save its state, and exceptions of its methods are kept."""


cdef int64_t saved_snapshot(void* itself, void* buf, int64_t room) noexcept with gil:
    """The `snapshot` of a table of operations whose `self` is a `Saved`."""
    cdef Saved c = <Saved>itself
    cdef bytes image
    try:
        image = (<object>c).snapshot()
    except BaseException as error:
        c.failure = error
        return KB_FAILED
    if 0 < <int64_t>len(image) <= room:  # `buf` is NULL if the caller needs only the size: memcpy must not get it
        memcpy(buf, PyBytes_AS_STRING(image), len(image))
    return len(image)


cdef int64_t saved_restore(void* itself, const void* buf, int64_t n) noexcept with gil:
    """The `restore` of such a table."""
    cdef Saved c = <Saved>itself
    try:
        (<object>c).restore((<const char*>buf)[:n])
    except BaseException as error:
        c.failure = error
        return KB_FAILED
    return 0


cdef class Plugged(Saved):
    """The interface of a `Component` (component_base.py) to the core: its operations, and its requests. Its fields are in the .pxd."""

    cpdef submit(self, int32_t kind, int32_t engine, params=(), regions=(), int32_t opcode=0):
        """Submit a job to an engine (`EngineType`, id); return the id of the job.

        The job becomes visible in P3 of this cycle; after a call from `notify`, in P3 of the next cycle.
        """
        cdef kb_job job
        cdef int32_t k
        cdef tuple values = tuple(params), places = tuple(regions)
        if len(values) > KB_PARAMS or len(places) > KB_REGIONS:
            raise ValueError(f"{len(values)} parameters and {len(places)} regions: at most {KB_PARAMS} and {KB_REGIONS}")
        job.opcode = opcode
        job.n_params = <int32_t>len(values)
        job.n_regions = <int32_t>len(places)
        for k in range(job.n_params):
            job.params[k] = values[k]
        for k in range(job.n_regions):
            job.region[k].addr, job.region[k].nbytes, job.region[k].write = places[k]
        self.check_called()
        return self.said(self.api.submit(self.api.core, kind, engine, &job))

    cpdef int64_t submit_transfer(
            self, int32_t engine, int64_t channel, bint write, int64_t addr, int64_t nbytes, int64_t memory, int64_t route,
            int64_t place, int64_t travel, int64_t peer=-1) except? -1:
        """`submit` of contiguous bytes to a DMA engine, without tuples: `nbytes` bytes at `addr`; `travel` bytes at `place`.

        `memory` and `route` are -1 on a machine whose engines have their own routes. `peer`: the scratchpad of `addr`, if not -1.
        """
        cdef kb_job job
        job.opcode = 0
        job.n_params = 6 if memory < 0 else 8 if peer < 0 else 9
        job.n_regions = 1
        job.params[0] = channel
        job.params[1] = write
        job.params[2] = addr
        job.params[3] = nbytes
        job.params[4] = 0
        job.params[5] = 1
        job.params[6] = memory
        job.params[7] = route
        job.params[8] = peer
        put_region(&job.region[0], place, travel, not write)
        self.check_called()
        return self.said(self.api.submit(self.api.core, KB_DMA, engine, &job))

    cpdef int64_t submit_compute(
            self, int32_t kind, int32_t engine, tuple params, int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes, int64_t out,
            int64_t out_bytes) except? -1:
        """`submit` of a TE or VE job, without tuples: flat address and bytes of each operand (only one operand if `b` is -1) and of the
        result."""
        cdef kb_job job
        cdef int32_t k
        if len(params) > KB_PARAMS:
            raise ValueError(f"{len(params)} parameters: at most {KB_PARAMS}")
        job.opcode = 0
        job.n_params = <int32_t>len(params)
        job.n_regions = 2
        for k in range(job.n_params):
            job.params[k] = params[k]
        put_region(&job.region[0], a, a_bytes, False)
        if b >= 0:
            put_region(&job.region[1], b, b_bytes, False)
            job.n_regions = 3
        put_region(&job.region[job.n_regions - 1], out, out_bytes, True)
        self.check_called()
        return self.said(self.api.submit(self.api.core, kind, engine, &job))

    cdef bint refuses(self, int64_t now) except -1:
        """Whether the component refuses every job now. A compiled class may override this method, so that no `Job` is made for `accept`."""
        return False

    cdef int64_t woken(self, int64_t now) except? -1:
        """P1. A compiled class may override this method to do the work of `step` without boxing integers."""
        return cycle_from(self, "step", self.step_method(now))

    cdef int64_t told(self, int32_t notice, int64_t number, int64_t now) except? -1:
        """P7; a compiled class may override it in the same way."""
        return cycle_from(self, "notify", self.notify(notice, number, now))

    cpdef int64_t started(self, int64_t job) except? -1:
        """The cycle in which a submitted job started, or NEVER.

        It is valid until the end of the `notify` that reports the end of the job.
        """
        cdef int64_t at
        self.check_called()
        at = self.api.started(self.api.core, job)
        return LAST_CYCLE if at == KB_BUSY else self.said(at)

    def complete(self, int64_t job):
        """End an accepted job: this cycle is its last."""
        self.check_called()
        self.said(self.api.complete(self.api.core, job))

    def open_flow(self, int64_t nbytes, path, *, int32_t weight=1):
        """Open a flow of bytes over resources, given by number, from this cycle on; return its id."""
        cdef int32_t n = len(path), k
        cdef int32_t* numbers = <int32_t*>PyMem_Malloc((n + 1) * sizeof(int32_t))
        if numbers == NULL:
            raise MemoryError(f"no memory for a path of {n} resources")
        try:
            for k in range(n):
                numbers[k] = path[k]
            self.check_called()
            return self.said(self.api.open_flow(self.api.core, nbytes, numbers, n, weight))
        finally:
            PyMem_Free(numbers)

    def close_flow(self, int64_t flow):
        """Close a flow early; return the bytes that it has moved."""
        self.check_called()
        return self.said(self.api.close_flow(self.api.core, flow))

    def watch(self, int32_t resource):
        """Request a MEMBERS notification about this resource in P4 of each cycle in which flows enter or leave it or its capacity was
        set."""
        self.check_called()
        self.said(self.api.watch(self.api.core, resource))

    def set_capacity(self, int32_t resource, int64_t num, int64_t den=1):
        """Set the capacity of a resource to `num`/`den` [B/cycle] from the next P4 on; in `step` and in a MEMBERS notification, this is P4
        of the same cycle.

        The capacity must be above 0 and at most that of the machine; `den` must divide the denominator of the machine's capacity. The
        capacity holds until the next call.
        """
        self.check_called()
        self.said(self.api.set_capacity(self.api.core, resource, num, den))

    def members(self, int32_t resource):
        """The flows that share a resource, as a tuple of `Member`, in the order of start, engine and submission."""
        cdef int64_t n
        cdef int32_t k
        cdef kb_member* found = NULL
        self.check_called()
        n = self.said(self.api.members(self.api.core, resource, NULL, 0))
        found = <kb_member*>PyMem_Malloc((n + 1) * sizeof(kb_member))
        if found == NULL:
            raise MemoryError(f"no memory for {n} members")
        try:
            self.said(self.api.members(self.api.core, resource, found, <int32_t>n))
            return tuple([
                Member(found[k].id, found[k].engine, found[k].weight, found[k].nbytes, found[k].num, found[k].den) for k in range(n)])
        finally:
            PyMem_Free(found)

    def ask_banks(self, int32_t scratchpad=0, *, reads=(), writes=()):
        """Request banks of a scratchpad to read and to write, from this cycle on; return the id that BANKS will report."""
        cdef int32_t words = 1, k
        cdef uint64_t[2][16] masks
        masks[0][:] = [0] * 16
        masks[1][:] = [0] * 16
        for k, banks in enumerate((reads, writes)):
            for bank in banks:
                if not 0 <= bank < 16 * 64:
                    raise ValueError(f"bank {bank}: it must be 0 to {16 * 64 - 1}")
                masks[k][bank // 64] |= <uint64_t>1 << <int32_t>(bank % 64)
                words = max(words, bank // 64 + 1)
        self.check_called()
        return self.said(self.api.ask_banks(self.api.core, scratchpad, masks[0], masks[1], words))

    def emit(self, int64_t job, str name not None, int64_t value):
        """Write a MARKER `name=value` into the trace, for the command of an accepted job."""
        cdef bytes text = name.encode()
        self.check_called()
        self.said(self.api.emit(self.api.core, job, text, value))

    cdef int check_called(self) except -1:
        if self.api == NULL:
            raise Refused(f"{type(self).__name__} is in no machine yet: its first step is the first that can ask the core")
        return 0

    cdef int64_t said(self, int64_t status) except? -1:
        if status == KB_FULL:
            raise NoRoom(f"{type(self).__name__} has as many open as it said: raise its jobs, flows or asks")
        if status < 0:
            raise Refused(f"{type(self).__name__} asked the core for what cannot be; the run says what")
        return status

    cdef uintptr_t plug(self) except 0:
        """Fill in the operations; allowed once, because a component belongs to one run."""
        if self.plugged:
            raise ValueError(f"this {type(self).__name__} is in a machine already: make one for each")
        self.plugged = True
        self.name = type(self).__name__.encode()
        self.step_method = self.step
        self.ops.abi_version = KB_ABI_VERSION
        self.ops.struct_size = sizeof(kb_engine_ops)
        self.ops.self = <void*>self
        self.ops.name = self.name
        self.ops.jobs = self.jobs
        self.ops.flows = self.flows
        self.ops.asks = self.asks
        self.ops.advance = advance
        if self.has("accept"):
            self.ops.accept = accept
        if self.has("notify"):
            self.ops.notify = notify
        if self.has("snapshot"):
            self.ops.snapshot = saved_snapshot
            self.ops.restore = saved_restore
        return <uintptr_t>&self.ops

    cdef bint has(self, str method):
        """Whether its class overrides the method, and does not only inherit it from `Component`."""
        return getattr(type(self), method).__module__ != "kernbench_core.plugin.component_base"


def operations_of(component):
    """The address of the kb_engine_ops of a capsule or a `Component`. ValueError if this core cannot call it."""
    cdef uintptr_t address
    if isinstance(component, Plugged):
        address = (<Plugged>component).plug()
        check_operations(address, type(component).__name__)
    elif PyCapsule_IsValid(component, KB_CAPSULE):
        address = <uintptr_t>PyCapsule_GetPointer(component, KB_CAPSULE)
        check_operations(address, "a component given as a capsule")
    else:
        raise ValueError(
            f"{component!r} is not a component: it must be an object of a class derived from Component, "
            f"or a PyCapsule named {KB_CAPSULE.decode()}")
    return address


def exception_of(component):
    """The exception that ended the run in a Python component, or None."""
    return (<Plugged>component).failure if isinstance(component, Plugged) else None


def reraise(components):
    """Raise Ctrl-C and SystemExit again, because they are not failures of a component."""
    for component in components:
        error = exception_of(component)
        if error is not None and not isinstance(error, Exception):
            raise error


def refuse_snapshot(components):
    """ValueError if a component cannot be saved."""
    for component in components:
        why = getattr(component, "no_snapshot", "")
        if why:
            raise ValueError(f"component {type(component).__name__}: {why}")
