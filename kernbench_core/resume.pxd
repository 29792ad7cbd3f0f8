"""A run goes on from a snapshot (docs/adr/0009-checkpoints.md)."""
from kernbench_core.arena cimport Arena
from kernbench_core.sim cimport Sim

cdef int resume(Sim* s, Arena a, bytes image) except -1
