cimport cython

cdef class Reach:
    cdef public long long start
    cdef public long long end
    cdef public long long memory
    cdef public long long route
    cdef public long long peer


@cython.freelist(64)
cdef class Flight:
    cdef public object msg
    cdef public object part
    cdef public long long issued
    cdef public object line
    cdef public long long start
    cdef public long long end
    cdef public long long due
    cdef public object orders
    cdef public int engine
    cdef public int jobs_left
    cdef public tuple after
    cdef public long long visible
    cdef public long long command
    cdef public Flight parent
    cdef public bint plain
    cdef public Flight behind
    cdef public Flight before_open
    cdef public Flight after_open
    cdef public object reach
    cdef public int channel
    cdef public bint write
    cdef public long long addr
    cdef public long long nbytes
    cdef public long long place
    cdef public long long travel


cdef class OpenFlights:
    cdef public Py_ssize_t count
    cdef Flight _first
    cdef Flight _last

    @cython.locals(flight=Flight)
    cpdef list listed(self)

    cdef add(self, Flight flight)

    @cython.locals(before=Flight, after=Flight)
    cdef remove(self, Flight flight)
