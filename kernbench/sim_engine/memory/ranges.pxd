cimport cython

from kernbench.sim_engine.memory.keys cimport Keys

cdef class RangeMap:
    cdef Keys _starts
    cdef readonly dict held

    cpdef list _meeting(self, object start, object end)

    cpdef list over(self, object start, object end)

    cpdef remove(self, object start, object end)

    @cython.locals(same=tuple)
    cpdef put(self, object start, object end, object value)

    @cython.locals(met=list)
    cpdef _cut_out(self, object start, object end)
