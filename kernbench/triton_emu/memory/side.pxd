cimport cython

from kernbench.common.handles cimport TensorHandle
from kernbench.common.pe_ops cimport DmaReadCmd, DmaWriteCmd, OpIds
from kernbench.sim_engine.memory_store cimport MemoryStore
from kernbench.triton_emu.memory.order cimport MemoryOrder

cdef class MemorySide:
    cdef public MemoryStore store
    cdef public object log
    cdef public object translation
    cdef public MemoryOrder _order
    cdef OpIds _ids
    cdef bint _started, _contents
    cdef long long _sram, _sram_end

    cpdef new_id(self)

    cpdef str space_of(self, long long addr)

    cdef _check_one(self, long long low, long long high, object line)

    @cython.locals(start="long long")
    cpdef load_issued(self, DmaReadCmd msg)

    @cython.locals(tile=TensorHandle)
    cpdef load_ended(self, DmaReadCmd msg)

    @cython.locals(tile=TensorHandle, start="long long", end="long long")
    cpdef store_issued(self, DmaWriteCmd msg)

    @cython.locals(start="long long", end="long long")
    cpdef store_ended(self, DmaWriteCmd msg)
