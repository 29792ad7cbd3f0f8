"""Builds the tables of a perturbed run from the draws that `kernbench.sim_engine.perturbation` makes for a machine."""
from kernbench_core.state.arrays cimport int64s
from kernbench_core.types cimport CHANNELS, int32_t, int64_t


cdef int lay_out_perturbed(Sim* s, Arena a, dict spec) except -1:
    """`spec`: None, or arrays by the names of the fields of `Perturbed`."""
    cdef int32_t k, queues = s.n_spm * CHANNELS
    if spec is None:
        return 0
    cdef const int64_t* latency = int64s(spec["latency"], s.n_dma_jobs)
    cdef const int64_t* ready = int64s(spec["ready"], s.n_spm)
    cdef const int64_t* grant = int64s(spec["grant"], s.n_dma + s.n_compute)
    cdef const int64_t* first = int64s(spec["first"], queues + 1)
    cdef const int64_t* delay = int64s(spec["delay"], len(spec["delay"]))
    a.own(<void**>&s.perturbed, 1, sizeof(s.perturbed[0]), False)
    a.own(<void**>&s.perturbed.latency, s.n_dma_jobs + s.n_component_jobs, sizeof(int64_t), False)
    a.own(<void**>&s.perturbed.ready, s.n_spm, sizeof(int64_t), False)
    a.own(<void**>&s.perturbed.grant, s.n_dma + s.n_compute, sizeof(int64_t), False)
    a.own(<void**>&s.perturbed.first, queues + 1, sizeof(int32_t), False)
    a.own(<void**>&s.perturbed.delay, len(spec["delay"]), sizeof(int64_t), False)
    a.own(<void**>&s.perturbed.submitted, queues, sizeof(int32_t), False)
    for k in range(s.n_dma_jobs):
        s.perturbed.latency[k] = latency[k]
    for k in range(s.n_spm):
        s.perturbed.ready[k] = ready[k]
    for k in range(s.n_dma + s.n_compute):
        s.perturbed.grant[k] = grant[k]
    for k in range(queues + 1):
        s.perturbed.first[k] = <int32_t>first[k]
    for k in range(len(spec["delay"])):
        s.perturbed.delay[k] = delay[k]
    return 0
