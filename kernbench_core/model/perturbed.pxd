"""Perturbed runs (docs/model/perturbed_runs.md): what the core needs of the draws, as tables. They are made before the run."""
from kernbench_core.types cimport cycle_t, int32_t, int64_t

cdef struct Perturbed:
    cycle_t* latency          # [DMA jobs of the program, then of components] more head latency of each
    cycle_t* ready            # [scratchpads] the PE's engines start no job of the program before this cycle
    int64_t* grant            # [DMA engines, then TEs and VEs] P5: the engine's place in the tie-break order
    int32_t* first            # [scratchpads * CHANNELS + 1] where the delays of a PE's channel begin in `delay`
    cycle_t* delay            # more head latency of the jobs that components submit there, in the order of submission
    int32_t* submitted        # [scratchpads * CHANNELS] how many there were

cdef inline cycle_t more_latency(Perturbed* p, int32_t job) noexcept nogil:
    """[cycle] What the draws add to the head latency of a job."""
    return 0 if p == NULL else p.latency[job]

cdef inline int64_t grant_key(Perturbed* p, int32_t engine, int64_t key) noexcept nogil:
    """The place of an engine in the tie-break order of P5; `key`: without draws."""
    return key if p == NULL else p.grant[engine]

cdef inline void submitted_there(Perturbed* p, int32_t job, int32_t queue) noexcept nogil:
    """A component submitted a job to a channel of a PE: it gets the next delay of that channel."""
    cdef int32_t at
    if p == NULL:
        return
    at = p.first[queue] + p.submitted[queue]
    p.submitted[queue] += 1
    p.latency[job] = p.delay[at] if at < p.first[queue + 1] else 0
