from kernbench_core.model.noc.routers cimport Hop, Network
from kernbench_core.state.arena cimport Arena
from kernbench_core.types cimport int32_t

cdef int lay_out_network(Network* w, Arena a, dict spec, int32_t packets) except -1
cdef Hop hop_of(int32_t output, int32_t low, int32_t high) noexcept
