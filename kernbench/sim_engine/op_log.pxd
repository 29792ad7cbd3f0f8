cimport cython

from kernbench.common.pe_ops cimport Command, OpIds
from kernbench.sim_engine.memory_store cimport MemoryStore
from kernbench.sim_engine.ops.info cimport copy_row, math_row, put_dma_read, put_dma_write, put_gemm
from kernbench.sim_engine.ops.params cimport OpValues, Template


@cython.no_gc
cdef class OpRow(OpValues):
    cdef readonly object t_start, t_end, component_id, op_id
    cdef readonly tuple deps
    cdef object _record


cdef class OpLogger:
    cdef list _rows
    cdef public list _records
    cdef public dict _pending
    cdef public MemoryStore _memory_store
    cdef MemoryStore _initial
    cdef readonly OpIds ids
    cdef object _process
    cdef public list outputs
    cdef object _limit
    cdef object _directory
    cdef object _held
    cdef object _runs
    cdef object _spilled

    cpdef record_start(self, object t, object component_id, object msg)

    @cython.locals(template=Template, values=tuple, entry=tuple, snapshots=tuple)
    cpdef record_end(self, object t, object component_id, object msg)

    @cython.locals(command=Command, row=OpRow)
    cpdef record_served(self, object t_start, object t_end, object component_id, object msg)

    cpdef tuple _snapshots(self, object msg)


@cython.locals(row=OpRow)
cpdef OpRow row_of(object record)
