"""Conversion of components' jobs to jobs of the core."""
from kernbench_core.plugin.abi cimport kb_job
from kernbench_core.model.compute cimport ComputeJob
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int32_t

cdef enum:
    COUNTS = 100              # BAD_JOB: the number of parameters or regions is wrong

cdef int32_t fill_dma(Sim* s, DmaJob* d, int32_t engine, const kb_job* j) noexcept nogil
cdef int32_t fill_compute(Sim* s, ComputeJob* c, int32_t engine, const kb_job* j) noexcept nogil
