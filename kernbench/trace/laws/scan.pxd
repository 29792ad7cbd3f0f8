cimport cython

from kernbench.trace.laws.line cimport Line


cdef class Member:
    cdef bytes key
    cdef int kind, place
    cdef bint required
    cdef dict choices, texts
    cdef list recent


cdef class Layout:
    cdef object event
    cdef int number
    cdef bytes head
    cdef list members
    cdef bint has_unit
    cdef Layout next


cdef class Scan:
    cdef public Line line
    cdef dict _layouts
    cdef Layout _last
    cdef Py_ssize_t _at
    cdef long long _value

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, layout=Layout, member=Member, line=Line)
    cpdef Py_ssize_t next(self, bytes block, Py_ssize_t at) except -2

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, kind=int, true=bint)
    cdef bint _take(self, bytes block, Member member) except -1

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, value="long long")
    cdef bint _int(self, bytes block) noexcept

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, text=bytes, value=object)
    cdef bint _text(self, bytes block, Member member) except -1

    cdef bint _known(self, bytes text, Member member) except -1

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t)
    cdef bint _number(self, bytes block, Member member) except -1

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, at=Py_ssize_t, found=list)
    cdef bint _list(self, bytes block, Member member) except -1


@cython.locals(t="const unsigned char*", length=Py_ssize_t, i=Py_ssize_t)
cdef bint _same(const unsigned char* p, Py_ssize_t size, Py_ssize_t at, bytes text) noexcept


cdef Member _ANY_TEXT
cdef bytes _HEAD, _TRUE, _FALSE
