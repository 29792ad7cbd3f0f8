"""The entries and the state of the engines of a stopped run; reading does not change the run."""
import numpy as np

from kernbench_core.state.arrays cimport writable_int64s
from kernbench_core.state.counters cimport live_flows
from kernbench_core.model.bank cimport Requester
from kernbench_core.model.compute cimport Compute
from kernbench_core.model.control cimport Control
from kernbench_core.plugin.traced_commands cimport command_of
from kernbench_core.model.dma cimport DmaEngine, DmaJob
from kernbench_core.model.heap cimport Timer
from kernbench_core.model.share.membership cimport Flow, flow_next
from kernbench_core.types cimport CHANNELS, NEVER, NONE, cycle_t, int32_t, int64_t, slot_t


cdef object or_none(cycle_t at):
    """The cycle, or None for a cycle that never comes."""
    return None if at == NEVER else at


cdef tuple entries_of(Sim* s):
    """The cycles of issue, start and end of each entry; -1 if not yet."""
    cdef int32_t k, n = s.control.n
    issue, start, end = np.empty((3, n), dtype=np.int64)
    cdef int64_t* i = writable_int64s(issue)
    cdef int64_t* b = writable_int64s(start)
    cdef int64_t* e = writable_int64s(end)
    for k in range(n):
        i[k] = -1 if s.control.entry[k].issue == NEVER else s.control.entry[k].issue
        b[k] = -1 if s.control.entry[k].start == NEVER else s.control.entry[k].start
        e[k] = -1 if s.control.entry[k].end == NEVER else s.control.entry[k].end
    return issue, start, end


cdef cycle_t flow_asks_at(Sim* s, slot_t slot):
    """The cycle of the flow's next request, if its rate stays the same; the plain model tests the flow in every cycle."""
    cdef Flow* f = &s.share.flow[slot]
    return flow_next(f) if f.member and f.left and s.requester[slot].first_denied == NEVER else s.requester[slot].next_at


cdef dict flow_state(Sim* s, slot_t slot):
    """The state of a flow that has bytes left."""
    cdef Flow* f = &s.share.flow[slot]
    rate = (0, 1)
    if f.member:
        rate = (f.num, f.den)
    return {
        "channel": f.bus, "bytes_left": f.left, "member": bool(f.member), "out": bool(f.out),
        "rate": rate,
        "held_since": or_none(s.requester[slot].first_denied), "asks_at": or_none(flow_asks_at(s, slot)),
        "in_line": bool(f.entered and not f.member),
    }


cdef dict job_state(Sim* s, slot_t job):
    """The state of a DMA job that has not ended."""
    cdef DmaJob* j = &s.dma_job[job]
    cdef slot_t flow = j.flows
    flows = []
    left = 0 if flow != NONE else j.nbytes
    while flow != NONE:
        left += s.share.flow[flow].left
        if s.share.flow[flow].left:
            flows.append(flow_state(s, flow))
        flow = s.share.flow[flow].sibling
    return {
        "entry": command_of(s, j.entry),
        "state": j.state, "channel": j.channel, "write": bool(j.write), "bytes": j.nbytes, "bytes_left": left,
        "stall": j.reason, "stalled_since": j.stalled_at if j.reason else None, "in_head": bool(j.in_head), "flows": flows,
    }


cdef dict dma_state(Sim* s, int32_t engine, list active):
    """The active jobs of a DMA engine, and its queue in the order of submission."""
    cdef DmaEngine* e = &s.dma[engine]
    cdef slot_t job
    cdef int32_t c
    queue = []
    for c in range(CHANNELS):
        job = e.channel[c].first
        while job != NONE:
            queue.append((s.dma_job[job].seq, job))
            job = s.dma_job[job].next
    return {"active": active, "queue": [job_state(s, job) for _, job in sorted(queue)]}


cdef cycle_t body_left(Sim* s, int32_t c):
    """Body cycles that are not done; cycles that a requester sleeps through count when they come."""
    cdef Compute* e = &s.compute[c]
    cdef Requester* a = &s.requester[s.n_flows + c]
    cdef bint asleep = e.streams > 0 and e.idle > 0 and a.first_denied == NEVER
    cdef cycle_t ahead = (a.next_at - s.cycle) // e.period if asleep else 0
    return e.body_left + max(0, min(e.idle, ahead))


cdef cycle_t body_asks_at(Sim* s, int32_t c):
    """The cycle in which it next requests a bank, or does its last body cycle. The plain model tests it in every cycle, and so does any
    walk in the first cycle after a snapshot; cycles without requests are skipped here."""
    cdef Compute* e = &s.compute[c]
    cdef cycle_t i = e.body - e.body_left, last = e.body - 1, at = s.requester[s.n_flows + c].next_at
    cdef int32_t k
    if not e.sparse or i == 0 or e.body_left == 0 or s.requester[s.n_flows + c].first_denied != NEVER:
        return at
    for k in range(e.streams):
        last = min(last, e.stream[k].next)
    return at + (last - i) * e.period


cdef dict compute_state(Sim* s, int32_t c):
    """The state of a TE or VE: its job and its queue."""
    cdef Compute* e = &s.compute[c]
    cdef slot_t job = e.queue_first
    queue = []
    while job != NONE:
        queue.append(command_of(s, s.compute_job[job].entry))
        job = s.compute_job[job].next
    state = {"kind": e.kind, "id": e.id, "entry": None, "queue": queue}
    if e.job != NONE:
        state.update(
            entry=command_of(s, s.compute_job[e.job].entry), started=e.started,
            body=s.compute_job[e.job].body - e.outside, body_left=body_left(s, c),
            streams=bool(e.streams), done_at=or_none(e.done_at), held_since=or_none(s.requester[s.n_flows + c].first_denied),
            next_at=or_none(body_asks_at(s, c)) if e.streams else None)
    if e.overlaps:
        state["draining"] = draining_jobs(s, c)
    return state


cdef list draining_jobs(Sim* s, int32_t c):
    """The entry and the end of each job that has left the array, in order."""
    cdef slot_t job = s.array[c].drain_first
    cdef int32_t _k
    jobs = []
    for _k in range(s.array[c].draining):
        jobs.append((command_of(s, s.compute_job[job].entry), s.array_job[job].ends))
        job = s.compute_job[job].next
    return jobs


cdef dict engines_of(Sim* s):
    """`dma`: {active, queue} of job states; `compute`: entry, body cycles left, held since; `resources`: members."""
    cdef int32_t k, i, n
    cdef Timer* join
    active = [[] for _ in range(s.n_dma)]
    transferring = []
    for k in range(s.groups.n):
        join = s.joins.item + s.groups.group[k].first_flow
        n = s.groups.group[k].n_joins if s.groups.n > 1 else s.joins.n
        for i in range(n):
            transferring.append((s.dma_job[join[i].id].seq, join[i].id, join[i].at))
    for slot in live_flows(s):
        k = s.share.flow[slot].job
        transferring.append((s.dma_job[k].seq, k, None))
    done = set()
    for _, job, joins_at in sorted(transferring, key=lambda item: item[:2]):
        if job not in done:
            done.add(job)
            state = job_state(s, job)
            state["joins_at"] = joins_at
            active[s.dma_job[<slot_t>job].engine].append(state)
    return {
        "dma": [dma_state(s, k, active[k]) for k in range(s.n_dma)],
        "compute": [compute_state(s, k) for k in range(s.n_compute)],
        "resources": [{"members": s.share.res[k].members, "num": s.share.res[k].num, "den": s.share.res[k].den}
                      for k in range(s.share.n_res)],
    }


cdef object arrivals_of(Sim* s):
    """The cycle in which each entry arrives in the queue; -1 if the host has not begun to write it. None if there is no host."""
    cdef int32_t k
    if s.control.mmio == NULL:
        return None
    arrivals = np.empty(s.control.n, dtype=np.int64)
    cdef int64_t* a = writable_int64s(arrivals)
    for k in range(s.control.n):
        a[k] = -1 if s.control.mmio.arrival[k] == NEVER else s.control.mmio.arrival[k]
    return arrivals


cdef tuple waiting_of(Sim* s):
    """The number of incomplete dependencies of each entry, and the first incomplete barrier, or -1."""
    cdef Control* q = &s.control
    cdef int32_t k
    waits = np.empty(q.n, dtype=np.int64)
    cdef int64_t* w = writable_int64s(waits)
    for k in range(q.n):
        w[k] = q.entry[k].waits
    return waits, (q.barriers[q.passed] if q.passed < q.n_barriers else -1)


cdef list overlaps_of(Sim* s):
    """(entry, the entry whose bytes it overlaps), for each overlap that the check found."""
    cdef int32_t k
    if s.overlap == 0:
        return []
    return [(k, s.overlap_with[k]) for k in range(s.control.n) if s.overlap_with[k] != NONE]
