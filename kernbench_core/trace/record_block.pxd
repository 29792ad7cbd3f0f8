"""Notes about the requests of a traced scratchpad in a block of cycles."""
from kernbench_core.model.bank cimport Spm
from kernbench_core.trace.events cimport Note, Tracer
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport cycle_t, int32_t, int64_t, slot_t, uint64_t
from kernbench_core.fast.block_ports cimport Walk

cdef void note_denial(Sim* s, Spm* p, Walk* w, slot_t requester, int64_t c, uint64_t reads, uint64_t writes, uint64_t denied,
                      bint fresh) noexcept nogil
cdef void open_notes(Sim* s, Walk* w) noexcept nogil
cdef void close_notes(Sim* s, Spm* p, Walk* w) noexcept nogil
