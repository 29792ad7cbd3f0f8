cimport cython

cdef extern from "../kernbench/triton_emu/frames.h":
    object kb_frame()
    long long kb_instruction(object frame)
    object kb_line(long long at)
    void kb_keep_line(long long at, object line)

cdef bint _COMPILED
cdef dict _LINES

cpdef caller()


@cython.locals(at="long long")
cpdef line_at(object frame)
