cdef class Keys:
    cdef list _runs
    cdef list _firsts

    cpdef before(self, object key)

    cpdef list within(self, object start, object end)

    cpdef add(self, object key)

    cpdef discard(self, object keys)
