cimport cython

from kernbench.common.pe_ops cimport Command, OpIds
from kernbench.sim_engine.memory_store cimport MemoryStore
from kernbench.sim_engine.ops.info cimport dma_read_row, gemm_row, math_row
from kernbench.sim_engine.ops.params cimport Template

cdef class OpLogger:
    cdef list _rows
    cdef Py_ssize_t _unread
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

    @cython.locals(command=Command, row=tuple, template=Template, rows=list, values=tuple)
    cpdef record_served(self, object t_start, object t_end, object component_id, object msg)

    cpdef tuple _snapshots(self, object msg)
