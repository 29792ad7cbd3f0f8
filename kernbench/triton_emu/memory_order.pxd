cdef class Ranges:
    cdef readonly list items
    cdef object _longest

cdef class MemoryOrder:
    cdef Ranges _loads
    cdef dict _fresh
    cdef Ranges _stores
    cdef Ranges _reads

    cpdef load_issued(self, object msg, object start, object end)

    cpdef load_ended(self, object msg, object start)
