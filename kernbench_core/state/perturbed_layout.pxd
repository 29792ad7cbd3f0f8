"""The tables of perturbed runs."""
from kernbench_core.model.sim cimport Sim
from kernbench_core.state.arena cimport Arena

cdef int lay_out_perturbed(Sim* s, Arena a, dict spec) except -1
