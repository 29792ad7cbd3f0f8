cdef extern from "../kernbench/triton_emu/frames.h":
    object kb_frame()
    long long kb_instruction(object frame)

cdef bint _COMPILED
cdef dict _LINES

cpdef caller()

cpdef line_at(object frame)
