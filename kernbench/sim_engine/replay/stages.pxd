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


cdef class Level:
    cdef readonly list early, computing, late

cdef class Stages:
    cdef readonly Py_ssize_t count, total
    cdef Py_ssize_t _computing, _moving
    cdef set _waiting
    cdef dict _found, _spaces, _stage_of

    @cython.locals(op=ReplayOp, cell=Cell, stage="Py_ssize_t", computing="bint", waits="bint", reads=list, writes=list)
    cpdef add(self, object ops)

    cpdef tuple computations(self)

    cpdef list moves(self)

    cdef list _begun(self, Py_ssize_t number)


cdef Py_ssize_t _after_writer(Py_ssize_t writer, bint computing) except -1


cdef Py_ssize_t _after_reader(Py_ssize_t reader, bint computing) except -2


cpdef tuple _touched(dict spaces, ReplayOp op)


@cython.locals(memory=_Bytes, splits="Py_ssize_t")
cdef Py_ssize_t _splits(dict spaces) except -1


@cython.locals(memory=_Bytes, found=list)
cdef list _cells(dict spaces, list ranges)
