"""Runs groups ahead in several host threads.

Two groups that run ahead share no state except the counts of the command queue (fast/groups.pyx). Each thread therefore has a copy of
`Sim`: the tables are those of the run, but lists that are used only within a cycle, and the notes of the command queue, belong to the
thread. When all groups have reached the same cycle, the notes are added up. Sums and sets do not depend on the assignment of groups to
threads, so neither does the result.

Threads take groups from a common counter, several neighbours at a time, because the states of neighbours share cache lines of the host.
"""
from kernbench_core.fast.block cimport notes_begin, notes_end
from kernbench_core.model.bank cimport DENIED
from kernbench_core.model.heap cimport Timer, TimerHeap, timer_before, timer_pop
from kernbench_core.types cimport nbytes_t, slot_t, uint64_t

cdef extern from "<pthread.h>" nogil:
    ctypedef unsigned long pthread_t
    int pthread_create(pthread_t* thread, const void* attributes, void* (*work)(void*) noexcept nogil, void* of)
    int pthread_join(pthread_t thread, void** result)

cdef extern from *:
    """
    #define kb_fetch_add(counter, n) __atomic_fetch_add(counter, n, __ATOMIC_RELAXED)
    """
    int32_t kb_fetch_add(int32_t* counter, int32_t n) noexcept nogil

cdef enum:
    PARTS = 8                 # each thread takes about this number of parts of the groups, so that all threads end at about the same time

cdef struct Worker:           # one thread
    Sim sim                   # its copy of the run
    Threads* threads          # the data that all threads share
    pthread_t thread          # the handle of the thread; valid if `started`
    bint started              # whether the thread was started

cdef struct Threads:
    int32_t n                 # number of threads; the first is the thread of the run
    Worker* worker            # [n] the threads
    Sim* run                  # the run
    group_fn advance          # runs the cycles of a group
    cycle_t to                # the first cycle that is not simulated
    int32_t next              # the first group that no thread has taken
    int32_t part              # number of groups that a thread takes at a time


cdef int lay_out_threads(Sim* s, Arena a, int32_t n) except -1:
    """Let the groups of a machine run ahead in `n` threads. The function does nothing for a machine with one group."""
    cdef Threads* t
    cdef Sim* w
    cdef int32_t k
    n = min(n, s.groups.n)
    if n < 2:
        return 0
    a.own(&s.threads, 1, sizeof(Threads), False)
    t = <Threads*>s.threads
    a.own(<void**>&t.worker, n, sizeof(Worker), False)
    t.n = n
    t.run = s
    t.part = max(1, s.groups.n // (n * PARTS))
    for k in range(n):
        t.worker[k].threads = t
        w = &t.worker[k].sim
        a.own(<void**>&w.denials, DENIED, sizeof(uint64_t), False)
        a.own(<void**>&w.done_flow, s.n_flows, sizeof(slot_t), False)
        a.own(<void**>&w.done_compute, s.n_compute, sizeof(slot_t), False)
        a.own(<void**>&w.pressed, s.n_flows, sizeof(slot_t), False)
        a.own(<void**>&w.channel_bytes, channels_of(s), sizeof(nbytes_t), False)
        a.own(<void**>&w.control.ready_jobs, s.control.n, sizeof(int32_t), False)
        a.own(<void**>&w.control.finished, s.control.n, sizeof(int32_t), False)
        a.own(<void**>&w.groups.early.item, s.control.n, sizeof(Timer), False)
    return 0


cdef int32_t threads_of(Sim* s) noexcept nogil:
    """The largest possible number of threads."""
    return (<Threads*>s.threads).n if s.threads != NULL else 1


cdef int32_t channels_of(Sim* s) noexcept nogil:
    """The largest number of channels of a memory, plus one."""
    cdef int32_t k, most = 0
    for k in range(s.n_memories):
        most = max(most, s.memory[k].channels)
    return most + 1


cdef void open_worker(Worker* w, Sim* s) noexcept nogil:
    """Make a copy of the run in its present state, with its own lists. The lists are empty, because P2 of this cycle has issued the ready
    entries."""
    cdef Sim own = w.sim
    w.sim = s[0]
    w.sim.share.sim = &w.sim
    w.sim.denials = own.denials
    w.sim.done_flow = own.done_flow
    w.sim.done_compute = own.done_compute
    w.sim.pressed = own.pressed
    w.sim.channel_bytes = own.channel_bytes
    w.sim.control.ready_jobs = own.control.ready_jobs
    w.sim.control.finished = own.control.finished
    w.sim.groups.early = own.groups.early
    w.sim.groups.early.n = 0
    w.sim.denied = w.sim.control.in_flight = 0


cdef void run_part(Worker* w, int32_t first, int32_t end) noexcept nogil:
    """Run some groups, one after another."""
    cdef Sim* s = &w.sim
    cdef int32_t k, last = s.groups.group[end - 1].first_spm + s.groups.group[end - 1].n_spm
    for k in range(s.groups.group[first].first_spm, last):
        s.spm[s.member[k]].lookahead.denied = s.denials
    notes_begin(s, s.member[s.groups.group[first].first_spm])
    for k in range(first, end):
        if s.groups.at[k] < w.threads.to:
            w.threads.advance(s, k, w.threads.to)
    notes_end(s)


cdef void* work(void* of) noexcept nogil:
    """The loop of a thread until no group is left."""
    cdef Worker* w = <Worker*>of
    cdef Threads* t = w.threads
    cdef int32_t first = kb_fetch_add(&t.next, t.part)
    while first < t.run.groups.n:
        run_part(w, first, min(first + t.part, t.run.groups.n))
        first = kb_fetch_add(&t.next, t.part)
    return NULL


cdef void close_worker(Worker* w, Sim* s) noexcept nogil:
    """Add the notes of a thread to the run."""
    cdef int32_t k
    for k in range(w.sim.control.n_finished):
        s.control.finished[s.control.n_finished] = w.sim.control.finished[k]
        s.control.n_finished += 1
    s.control.in_flight += w.sim.control.in_flight
    s.control.submitted += w.sim.groups.early.n
    s.denied += w.sim.denied


cdef void threads_run(Sim* s, group_fn advance, cycle_t to) noexcept nogil:
    """The cycles of all groups before `to`. A thread that cannot be started is left out, and the other threads do its work."""
    cdef Threads* t = <Threads*>s.threads
    cdef int32_t k
    t.advance = advance
    t.to = to
    t.next = 0
    notes_end(s)
    for k in range(t.n):
        open_worker(&t.worker[k], s)
    for k in range(1, t.n):
        t.worker[k].started = pthread_create(&t.worker[k].thread, NULL, work, &t.worker[k]) == 0
    work(&t.worker[0])
    for k in range(1, t.n):
        if t.worker[k].started:
            pthread_join(t.worker[k].thread, NULL)
    for k in range(t.n):
        close_worker(&t.worker[k], s)
    s.lookahead_credit = t.worker[0].sim.lookahead_credit             # only the frequency of look-aheads depends on this
    for k in range(s.n_spm):
        s.spm[k].lookahead.denied = s.denials
    notes_begin(s, 0)


cdef bint next_early(Sim* s, int32_t* entry) noexcept nogil:
    """Take the first of the jobs that groups issued while running ahead; false if there is none."""
    cdef Threads* t = <Threads*>s.threads
    cdef TimerHeap* first = &s.groups.early
    cdef TimerHeap* heap
    cdef int32_t k
    for k in range(t.n if t != NULL else 0):
        heap = &t.worker[k].sim.groups.early
        if heap.n and (first.n == 0 or timer_before(heap.item[0], first.item[0])):
            first = heap
    if first.n == 0:
        return False
    entry[0] = timer_pop(first)
    return True
