cimport cython
from libc.string cimport memcmp

from kernbench.trace.laws.line cimport Line


cdef class Text:
    cdef bytes text
    cdef const unsigned char* start     # of `text`
    cdef Py_ssize_t size
    cdef object value


cdef class Member:
    cdef bytes text
    cdef const unsigned char* key       # of `text`
    cdef Py_ssize_t size
    cdef int kind, index
    cdef unsigned char first            # character of the field's name
    cdef bint required, closed, counted, needed
    cdef dict texts
    cdef list slots


cdef class Layout:
    cdef object event, component
    cdef int number
    cdef bytes text
    cdef const unsigned char* head      # of `text`
    cdef Py_ssize_t size
    cdef list members
    cdef Py_ssize_t optional
    cdef bint has_unit
    cdef Layout next


cdef class Scan:
    cdef public Line line
    cdef dict _layouts
    cdef list _slots
    cdef Layout _last
    cdef const unsigned char* _head     # of `_HEAD`
    cdef bytes _block
    cdef const unsigned char* _p        # of `_block`
    cdef Py_ssize_t _head_size, _size, _at
    cdef long long _value

    cpdef open(self, bytes block)

    @cython.locals(
        p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, left=Py_ssize_t, mixed="unsigned int",
        slot=Py_ssize_t, layout=Layout, member=Member, line=Line,
    )
    cpdef Py_ssize_t next(self, Py_ssize_t at) except -2

    @cython.locals(kind=int, true=bint)
    cdef bint _value_of(self, Member member) except -1

    @cython.locals(p="const unsigned char*")
    cdef bint _same(self, Py_ssize_t at, const unsigned char* text, Py_ssize_t length) noexcept

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, value="long long")
    cdef bint _int(self) noexcept

    @cython.locals(
        p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, mixed="unsigned int", slot=Py_ssize_t, known=Text
    )
    cdef bint _text(self, Member member) except -1

    @cython.locals(found=Text)
    cdef Text _known(self, bytes text, Member member)

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t)
    cdef bint _number(self, Member member) except -1

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, at=Py_ssize_t, found=list)
    cdef bint _list(self, Member member) except -1


cdef bint _COMPILED
cdef Member _ANY_TEXT
cdef bytes _HEAD, _TRUE, _FALSE
cdef Py_ssize_t _SLOTS
cdef long long _OMITTED
