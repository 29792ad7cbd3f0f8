cimport cython

cdef class Fifo:
    cdef list _places
    cdef Py_ssize_t _first
    cdef readonly Py_ssize_t count

    @cython.locals(room=Py_ssize_t, at=Py_ssize_t)
    cpdef put(self, object one)

    @cython.locals(room=Py_ssize_t)
    cpdef at(self, Py_ssize_t place)

    cpdef take(self)
