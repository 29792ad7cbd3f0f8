cdef class GemmForm:
    cdef readonly object columns_out, dtype_out, exact, k, lie_a, lie_b, round_sum, shape, small, tile_k
    cdef bint _swap_a, _swap_b
    cdef object _integer, _numpy_out

    cpdef product(self, a, b, acc)

    cpdef rounded(self, total)

cpdef one_gemm(GemmForm form, a, b, acc, epilogue)
