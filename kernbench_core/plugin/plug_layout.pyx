"""Checks the declarations of components before cycle 0, lays out their tables, and reads them.

`operations` is a list of addresses of `kb_engine_ops`, as ints.
"""
from libc.stdint cimport uintptr_t
from libc.string cimport memset
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from kernbench_core.state.arrays cimport int64_rows, int64s
from kernbench_core.plugin.abi cimport KB_ABI_VERSION, KB_HOPS, KB_PARAMS, kb_engine_ops
from kernbench_core.plugin.component_api cimport open_api
from kernbench_core.model.dram.extent cimport flows_of
from kernbench_core.plugin.component_tables cimport (
    NAME_BYTES, NAMES, OpenRequest, ComponentJob, Notice, OpenFlow, Plug, Plugs, PlugState, slot_of)
from kernbench_core.plugin.cycle_heap cimport Clock, clock_set
from kernbench_core.types cimport COMM, NEVER, NONE, int32_t, int64_t, slot_t

MOST = 1 << 20                # limit of jobs, flows or requests of a component

MISTAKES = (
    "",
    "a callback returned {0}: it must be the next cycle to run in, or KB_NEVER",
    "it wants to run in cycle {0}, which is not after cycle {cycle}",
    "job {0} is none that it has accepted and not completed",
    "it submits a job to engine {kind}:{engine}, which the machine does not have",
    "it submits a job with a wrong {job}",
    "a flow of {0} bytes: it must be 1 to 2**48",
    "a flow over resource {0}: a path has 1 to 64 different resources of the machine, "
    "one DRAM channel at most under fifo_v1, none under row_buffer_v1 and row_buffer_v2",
    "a flow of weight {0}: it must be 1 or more, and products with capacities stay below 2**31",
    "flow {0} is none that it has opened and that is still open",
    "it asks scratchpad {0} for banks, which the machine does not have",
    "it asks for bank {0}, which the scratchpad does not have (-1: for none at all)",
    "it calls the core while it is not called itself",
    "an event's name has 1 to {0} bytes, with the 0 at its end",
    "it is given job {0}, but takes no jobs (accept is NULL)",
    "job {0} is none that it has submitted, or its place is taken again",
    "resource {0} cannot be watched or set: it must be one of the machine, under shared_bw_v1 or max_min_v1 and without a model "
    "of rows or controllers",
    "a capacity of {0}: it must be above 0 and at most the machine's, and its denominator must divide that of the machine's",
)  #: by Mistake (plugin/component_tables.pxd)


def check_table(str what not None, str name not None, int64_t version, int64_t size, int64_t expected):
    """ValueError if the head of a table of operations, a struct of this name, is not compatible with this core."""
    if version != KB_ABI_VERSION:
        raise ValueError(
            f"{what}: its {name} is of ABI version {version}, this core's is {KB_ABI_VERSION}: "
            "build it against the abi.h of kernbench_core.get_include()")
    if size != expected:
        raise ValueError(
            f"{what}: its {name} has struct_size {size}, this core's has {expected}: "
            f"set it to sizeof({name}), and build against the abi.h of kernbench_core.get_include()")


def check_functions(str what not None, str name not None, dict required not None, dict saved not None):
    """ValueError if such a table lacks a required function. The values say whether each function exists."""
    missing = [one for one, there in required.items() if not there]
    if missing:
        raise ValueError(f"{what}: its {name} has no {missing[0]}")
    if len(set(saved.values())) > 1:
        raise ValueError(f"{what}: its {name} has one of {' and '.join(saved)}: give both or none")


def check_operations(uintptr_t address, str what not None):
    """ValueError if this core cannot call a `kb_engine_ops`."""
    cdef const kb_engine_ops* o = <const kb_engine_ops*>address
    check_table(what, "kb_engine_ops", o.abi_version, o.struct_size, sizeof(kb_engine_ops))
    required, saved = {"name": o.name != NULL, "advance": o.advance != NULL}, {"snapshot": o.snapshot != NULL, "restore": o.restore != NULL}
    check_functions(what, "kb_engine_ops", required, saved)
    for name, n in (("jobs", o.jobs), ("flows", o.flows), ("asks", o.asks)):
        if not 0 <= n <= MOST:
            raise ValueError(f"{what}: its kb_engine_ops has {name} = {n}: it must be 0 to {MOST}")


cdef const kb_engine_ops* ops_at(object address):
    return <const kb_engine_ops*><uintptr_t>address


cdef int plug_sizes(Sim* s, list operations) except -1:
    """The additional sizes of the tables of a run, before they are laid out."""
    for address in operations:
        s.n_component_jobs += ops_at(address).jobs
        s.n_open += ops_at(address).flows
        s.n_component_requests += ops_at(address).asks
    s.n_plugs = len(operations)
    return 0


cdef int lay_out_clock(Clock* c, Arena a, int32_t n) except -1:
    cdef int32_t k
    a.own(<void**>&c.at, n, sizeof(int64_t))
    a.own(<void**>&c.heap, n, sizeof(int32_t))
    a.own(<void**>&c.place, n, sizeof(int32_t))
    for k in range(n):
        c.at[k] = NEVER
    return 0


cdef int own_tables(Sim* s, Arena a) except -1:
    cdef Plugs* p = s.plugs
    cdef int32_t n = s.n_plugs, k
    a.own(<void**>&p.plug, n, sizeof(Plug), False)
    a.own(<void**>&p.state, n, sizeof(PlugState))
    a.own(<void**>&p.owner, s.control.n + 1 + s.n_component_jobs, sizeof(int32_t))
    a.own(<void**>&p.done, s.control.n + 1 + s.n_component_jobs, sizeof(slot_t))
    a.own(<void**>&p.notice, s.n_open + s.n_component_requests + s.n_component_jobs, sizeof(Notice), False)
    a.own(<void**>&p.component_job, s.n_component_jobs, sizeof(ComponentJob))
    a.own(<void**>&p.flow, s.n_open, sizeof(OpenFlow))
    a.own(<void**>&p.touched, s.n_open, sizeof(slot_t))
    a.own(<void**>&p.bank_request, s.n_component_requests, sizeof(OpenRequest))
    a.own(<void**>&p.served, s.n_component_requests, sizeof(slot_t), False)
    a.own(<void**>&p.free_component_job, n, sizeof(slot_t))
    a.own(<void**>&p.free_flow, n, sizeof(slot_t))
    a.own(<void**>&p.free_bank_request, n, sizeof(slot_t))
    a.own(<void**>&p.dma_by, s.n_dma, sizeof(int32_t), False)
    a.own(<void**>&p.compute_by, s.n_compute, sizeof(int32_t), False)
    a.own(<void**>&p.opcode, s.control.n, sizeof(int32_t), False)
    a.own(<void**>&p.params, <size_t>s.control.n * KB_PARAMS, sizeof(int64_t), False)
    a.own(<void**>&p.names, NAMES, NAME_BYTES)
    a.own(<void**>&p.row, s.n_component_jobs + 1, sizeof(int32_t))
    for k in range(s.n_component_jobs + 1):
        p.row[k] = NONE
    a.own(<void**>&p.watcher, s.share.n_res, sizeof(int32_t))
    a.own(<void**>&p.most, s.share.n_res, sizeof(int64_t))
    for k in range(s.share.n_res):
        p.watcher[k] = NONE
    lay_out_clock(&p.wakes, a, n)
    lay_out_clock(&p.ends, a, s.n_open)
    return 0


cdef int lay_out_places(Sim* s, list operations) except -1:
    """Give every component its own part of the tables, as free lists."""
    cdef Plugs* p = s.plugs
    cdef int32_t c, k, open_jobs = 0, flows = 0, asks = 0
    cdef const kb_engine_ops* o
    for c in range(p.n):
        o = ops_at(operations[c])
        p.plug[c].ops = o
        p.plug[c].sim = s
        p.plug[c].id = c
        p.plug[c].first_flow = flows
        open_api(&p.plug[c].api, &p.plug[c])
        p.state[c].queue_first = p.state[c].queue_last = NONE
        p.state[c].fresh = True
        p.free_component_job[c] = open_jobs if o.jobs else NONE
        p.free_flow[c] = flows if o.flows else NONE
        p.free_bank_request[c] = asks if o.asks else NONE
        for k in range(o.jobs):
            p.component_job[open_jobs + k].next = open_jobs + k + 1 if k + 1 < o.jobs else NONE
        for k in range(o.flows):
            p.flow[flows + k].id = -1
            p.flow[flows + k].next = flows + k + 1 if k + 1 < o.flows else NONE
        for k in range(o.asks):
            p.bank_request[asks + k].id = -1
            p.bank_request[asks + k].next = asks + k + 1 if k + 1 < o.asks else NONE
        open_jobs += o.jobs
        flows += o.flows
        asks += o.asks
        clock_set(&p.wakes, c, 0)
    p.open = p.n                                # no component has run yet
    return 0


cdef int lay_out_replaced(Sim* s, Arena a, dict machine) except -1:
    """Set the component that takes the jobs of each engine: `replaced` has a component or -1 for each DMA engine, then each TE and VE."""
    cdef Plugs* p = s.plugs
    cdef int32_t k, c, i
    by = list(machine.get("replaced", [NONE] * (s.n_dma + s.n_compute)))
    for k in range(s.n_dma):
        p.dma_by[k] = by[k]
    for k in range(s.n_compute):
        p.compute_by[k] = by[s.n_dma + k]
        s.compute[k].overlaps = s.compute[k].overlaps and by[s.n_dma + k] == NONE
    engines = [[] for _ in range(p.n)]
    for k, component in enumerate(by):
        if component != NONE:
            engines[component].append(k)
    for c in range(p.n):
        mine = engines[c]
        p.plug[c].n_engines = len(mine)
        a.own(<void**>&p.plug[c].engine, len(mine), sizeof(int32_t), False)
        for i, k in enumerate(mine):
            p.plug[c].engine[i] = k
    return 0


cdef int lay_out_plugs(Sim* s, Arena a, list operations, dict machine, dict program) except -1:
    """After `lay_out`: the tables of components, if there are any."""
    cdef const int64_t* opcode
    cdef const int64_t* params
    cdef int32_t k, i, width
    cdef Plugs* p
    if not operations:
        return 0
    a.own(<void**>&s.plugs, 1, sizeof(Plugs))
    p = s.plugs
    p.n = s.n_plugs
    p.calling = NONE
    own_tables(s, a)
    for k in range(s.control.n + 1 + s.n_component_jobs):
        p.owner[k] = NONE
    lay_out_places(s, operations)
    lay_out_replaced(s, a, machine)
    p.first_flow = s.n_flows - s.n_open
    p.first_requester = s.n_flows + s.n_compute
    p.max_path = min(<int32_t>KB_HOPS, s.share.n_res)
    for k in range(s.n_open):
        s.requester[p.first_flow + k].spm = NONE
    for k in range(s.n_component_requests):
        s.requester[p.first_requester + k].compute = True
    channels = max([flows_of(&s.memory[k]) for k in range(s.n_memories)], default=1)
    for k in range(s.n_dma):
        p.weight += channels * <int64_t>s.dma[k].max_concurrent * max(s.dma[k].limit[i].weight for i in range(COMM))
        p.weight += channels * <int64_t>s.dma[k].limit[COMM].max_concurrent * s.dma[k].limit[COMM].weight
    if "opcode" in program:
        width = program["params"].shape[1]
        opcode = int64s(program["opcode"], s.control.n)
        params = int64_rows(program["params"], s.control.n, width)
        for k in range(s.control.n):
            p.opcode[k] = <int32_t>opcode[k]
            for i in range(min(<int32_t>KB_PARAMS, width)):
                p.params[<int64_t>k * KB_PARAMS + i] = params[<int64_t>k * width + i]
    return 0


cdef str job_fault(int64_t value):
    """The wrong part of a submitted job (`fill` of plugin/component_api.pyx)."""
    if value >= 100:
        return "number of parameters or regions"
    if value < KB_PARAMS:
        return f"params[{value}]"
    return f"region[{(value - KB_PARAMS) // 4}]"


cdef object plug_failure(Sim* s):
    """`(component, cycle, sentence)` for a run that a component ended, else None."""
    cdef Plugs* p = s.plugs
    if p == NULL or p.mistake == 0:
        return None
    value = p.mistake_value
    text = MISTAKES[p.mistake].format(
        value, cycle=p.mistake_at, kind=value >> 32, engine=<int32_t>slot_of(p.mistake_value), job=job_fault(value))
    return p.mistaken, p.mistake_at, text


cdef list plug_counters(Sim* s):
    """For each component: jobs completed, bytes of its closed flows, and cycles in which its served requests were held."""
    cdef int32_t k
    if s.plugs == NULL:
        return []
    return [{"jobs": s.plugs.state[k].jobs, "bytes": s.plugs.state[k].nbytes, "held": s.plugs.state[k].held}
            for k in range(s.plugs.n)]


cdef int plug_check_snapshot(Sim* s) except -1:
    cdef int32_t k
    for k in range(s.n_plugs):
        if s.plugs.plug[k].ops.snapshot == NULL:
            raise ValueError(f"component {s.plugs.plug[k].ops.name.decode()} has no snapshot: a run with it cannot be saved")
    return 0


cdef bytes plug_snapshot(Sim* s):
    """The bytes of all components, each after their length."""
    cdef int32_t k
    cdef int64_t n
    cdef bytes image
    cdef const kb_engine_ops* o
    parts = []
    for k in range(s.n_plugs):
        o = s.plugs.plug[k].ops
        n = o.snapshot(o.self, NULL, 0)
        if n < 0:
            raise ValueError(f"component {o.name.decode()}: its snapshot failed (status {n})")
        image = PyBytes_FromStringAndSize(NULL, n)
        memset(PyBytes_AS_STRING(image), 0, n)
        if o.snapshot(o.self, PyBytes_AS_STRING(image), n) != n:
            raise ValueError(f"component {o.name.decode()}: its snapshot is not as long as it said")
        parts += [n.to_bytes(8, "little"), image]
    return b"".join(parts)


cdef int plug_restore(Sim* s, bytes image, size_t at) except -1:
    """Restore every component from its bytes, which begin at `at`."""
    cdef int32_t k
    cdef const kb_engine_ops* o
    for k in range(s.n_plugs):
        o = s.plugs.plug[k].ops
        n = int.from_bytes(image[at:at + 8], "little")
        at += 8
        if at + n > <size_t>len(image):
            raise ValueError("the snapshot ends inside the state of component " + o.name.decode())
        if o.restore(o.self, PyBytes_AS_STRING(image) + at, n) != 0:
            raise ValueError(f"component {o.name.decode()} does not take its part of the snapshot")
        at += n
    if at != <size_t>len(image):
        raise ValueError(f"the snapshot has {len(image) - at} bytes too many")
    return 0
