"""Perturbed runs (docs/model/perturbed_runs.md): the draws for the core, as tables. The tables are made before the run."""
from kernbench_core.types cimport cycle_t, int32_t, int64_t

cdef struct Perturbed:
    cycle_t* latency          # [DMA jobs of the program, then of components] additional head latency of each job
    cycle_t* ready            # [scratchpads] the engines of the PE start no job of the program before this cycle
    int64_t* grant            # [DMA engines, then TEs and VEs] P5: the engine's position in the tie-break order
    int32_t* first            # [scratchpads * CHANNELS + 1] index in `delay` of the first delay of a PE's channel
    cycle_t* delay  # additional head latency of the jobs that components submit to a channel, in the order of submission
    int32_t* submitted        # [scratchpads * CHANNELS] number of submitted jobs

cdef inline cycle_t more_latency(Perturbed* p, int32_t job) noexcept nogil:
    """[cycle] The additional head latency of a job."""
    return 0 if p == NULL else p.latency[job]

cdef inline int64_t grant_key(Perturbed* p, int32_t engine, int64_t key) noexcept nogil:
    """The position of an engine in the tie-break order of P5; `key`: the position in a run that is not perturbed."""
    return key if p == NULL else p.grant[engine]

cdef inline void submitted_there(Perturbed* p, int32_t job, int32_t queue) noexcept nogil:
    """A component submitted a job to a channel of a PE: return the next delay of this channel."""
    cdef int32_t at
    if p == NULL:
        return
    at = p.first[queue] + p.submitted[queue]
    p.submitted[queue] += 1
    p.latency[job] = p.delay[at] if at < p.first[queue + 1] else 0
