cdef extern from "../kernbench/common/halves.h":
    bint kb_halves_supported() noexcept
    int kb_halves(int op, object x, object y, object out) except -1
