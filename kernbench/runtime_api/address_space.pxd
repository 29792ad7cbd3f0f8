cimport cython

cdef class AddressSpace:
    cdef public long long virtual_base
    cdef object _next
    cdef list _bases, _ends, _starts, _ranges

    cpdef list physical(self, object address, object nbytes)

    @cython.locals(place="Py_ssize_t", at="Py_ssize_t")
    cpdef window(self, object address)

    cpdef _in_one(self, object address, object nbytes)

    cpdef list _cut(self, object physical, object nbytes)
