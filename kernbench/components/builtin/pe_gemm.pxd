cimport cython
from libc.stdint cimport int64_t

from kernbench.common.handles cimport TensorHandle
from kernbench.common.pe_ops cimport GemmCmd
from kernbench.components.base cimport Typed
from kernbench.components.builtin.flight cimport Flight
from kernbench.components.builtin.part cimport Serving

cdef class Timing:
    cdef object shape_a, shape_b, shape_out, type_a, type_b, type_out
    cdef tuple params
    cdef long long bytes_a, bytes_b, bytes_out

cdef class Products(Serving):
    cdef object _te
    cdef dict _times
    cdef object _factor
    cdef dict _by_factor

    cdef bint _own_orders

    cdef Timing _last

    cpdef bint plan(self, Flight flight) except -1

    @cython.locals(time=Timing, msg=GemmCmd, a=TensorHandle, b=TensorHandle, out=TensorHandle, base="long long")
    cpdef int64_t send(self, Typed processor, Flight flight) except? -1

    @cython.locals(last=Timing, a=TensorHandle, b=TensorHandle, out=TensorHandle)
    cdef Timing _timing(self, GemmCmd msg)
