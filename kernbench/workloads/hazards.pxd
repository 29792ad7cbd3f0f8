cimport cython


cdef class _Range:
    cdef long long start, end
    cdef object writer
    cdef list readers


@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, one=_Range)
cdef Py_ssize_t _below(list ranges, long long at) except -1


cdef class _Bucket:
    cdef list ranges, unwritten

    @cython.locals(one=_Range, low="long long", high="long long")
    cdef settle(self)

    @cython.locals(first=Py_ssize_t, before=_Range)
    cdef list touching(self, long long start, long long end)

    @cython.locals(i=Py_ssize_t, one=_Range)
    cdef Py_ssize_t cut(self, long long at) except -1

    @cython.locals(i=Py_ssize_t, one=_Range)
    cdef _Range whole(self, long long low, long long high)

    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, i=Py_ssize_t, at="long long", one=_Range, found=list)
    cdef list parted(self, long long low, long long high)

    @cython.locals(whole=_Range, one=_Range)
    cdef read(self, long long low, long long high, object job, set waits)

    @cython.locals(whole=_Range, one=_Range, first=Py_ssize_t, last=Py_ssize_t)
    cdef write(self, long long low, long long high, object job, set waits)


cdef class Hazards:
    cdef dict _buckets

    @cython.locals(one=_Range)
    cpdef set before_read(self, long long start, long long end)

    @cython.locals(one=_Range)
    cpdef set before_write(self, long long start, long long end)

    @cython.locals(high="long long")
    cpdef set read(self, long long start, long long end, object job, set waits=*)

    @cython.locals(high="long long")
    cpdef set write(self, long long start, long long end, object job, set waits=*)

    @cython.locals(one=_Range)
    cpdef join(self, long long start, long long end, object job)

    @cython.locals(number="long long")
    cdef _Bucket _bucket(self, long long at)

    @cython.locals(high="long long", found=list, bucket=_Bucket)
    cdef list _touching(self, long long start, long long end, bint cut=*)


cdef class Emitter:
    cdef readonly object node, program, waits
    cdef object _dram_base, _config
    cdef dict _where, _common, _load, _uses, _banks
    cdef readonly Hazards _scratchpad  # a peer reads it
    cdef Hazards _dram

    cdef dict _shape(self, span)

    cdef _place(self, dict raw, tuple names, tuple places)

    @cython.locals(load=list, chosen=Py_ssize_t, raw=dict, new=dict, meta=dict, waits=set)
    cdef _add(self, str opcode, str kind, tuple names, tuple places, dict fields, bint together=*)

    cdef tuple _key(self, str opcode, str kind, Py_ssize_t regions, bint together, dict fields)

    cdef set _transfer(self, use, spm, dict fields, job)

    cdef set _compute(self, use, tuple places, job)
