cimport cython

from kernbench.sim_engine.ops.ranges cimport ReplayOp

cdef class Cell:
    cdef public Py_ssize_t writer, reader

cdef class _Bytes:
    cdef public Py_ssize_t splits
    cdef public list starts
    cdef public dict ends, cells

    @cython.locals(i="Py_ssize_t", free="bint", new=Cell)
    cpdef list over(self, object start, object end)

    cpdef _add(self, object start, object end, Cell cell)

    @cython.locals(cell=Cell, i="Py_ssize_t")
    cpdef _cut(self, object at)


@cython.locals(op=ReplayOp, cell=Cell, level="Py_ssize_t", reads=list, writes=list, level_of=dict, found=list)
cpdef list levels(object ops)


cpdef tuple _touched(dict spaces, ReplayOp op)


@cython.locals(memory=_Bytes, splits="Py_ssize_t")
cdef Py_ssize_t _splits(dict spaces) except -1


@cython.locals(memory=_Bytes, found=list)
cdef list _cells(dict spaces, list ranges)
