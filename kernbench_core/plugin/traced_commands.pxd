"""The data of the core about commands that components submit."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport int32_t, int64_t

cdef tuple describe_job(Sim* s, int64_t id, int32_t row)
cdef list open_jobs(Sim* s)
cdef tuple submitted_work(Sim* s)
cdef int32_t command_of(Sim* s, int32_t entry) noexcept nogil
