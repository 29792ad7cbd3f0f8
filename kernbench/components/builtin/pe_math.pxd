cimport cython
from libc.stdint cimport int64_t

from kernbench.common.handles cimport TensorHandle
from kernbench.common.pe_ops cimport MathCmd
from kernbench.components.base cimport Typed
from kernbench.components.builtin.flight cimport Flight
from kernbench.components.builtin.part cimport Serving

cdef class VectorWork(Serving):
    cdef object _ve
    cdef dict _times
    cdef object _factor
    cdef dict _by_factor
    cdef bint _own_orders

    cpdef bint plan(self, Flight flight) except -1

    @cython.locals(a=TensorHandle, b=TensorHandle, out=TensorHandle, base="long long", b_addr="long long", b_bytes="long long")
    cpdef int64_t send(self, Typed processor, Flight flight) except? -1

    @cython.locals(out=TensorHandle, key=tuple, params=tuple)
    cdef tuple _params_of(self, MathCmd msg, TensorHandle first)
