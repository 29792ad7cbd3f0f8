"""Continuing a run from a snapshot (docs/adr/0009-checkpoints.md)."""
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.sim cimport Sim

cdef int resume(Sim* s, Arena a, bytes image) except -1
