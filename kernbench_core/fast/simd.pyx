"""The vector instructions in use: the best that the processor has, or those that the environment variable KERNBENCH_ISA names.

`plain` is the readable Cython code, `avx2` is fast/simd.h. Both give the same results. ImportError for another value, and if the processor
does not have the instructions.
"""
from kernbench_core.fast.choices import LEVELS, chosen_level

cdef extern from "fast/simd.h":
    """
    #define KB_TAKE_ONE(level) KB_OF(level, kb_take_one)
    #define KB_TAKE_TWO(level) KB_OF(level, kb_take_two)
    #define KB_ADD_LINES_OF(level) KB_OF(level, kb_add_lines)
    #define KB_RUN_LANES_OF(level) KB_OF(level, kb_run_lanes)
    #define KB_COPY_LANES_OF(level) KB_OF(level, kb_copy_lanes)
    #define KB_GRANTED_CYCLES_OF(level) KB_OF(level, kb_granted_cycles)
    #define KB_COUNT_GRANTS_OF(level) KB_OF(level, kb_count_grants)
    #define KB_DUE_OF(level) KB_OF(level, kb_due)
    #define KB_REPACE_OF(level) KB_OF(level, kb_repace)
    #define KB_LEAST_OF(level) KB_OF(level, kb_least)
    """
    bint kb_supported(int level) noexcept nogil
    take_fn KB_TAKE_ONE(int level) noexcept nogil
    take_fn KB_TAKE_TWO(int level) noexcept nogil
    lines_fn KB_ADD_LINES_OF(int level) noexcept nogil
    lanes_fn KB_RUN_LANES_OF(int level) noexcept nogil
    copy_fn KB_COPY_LANES_OF(int level) noexcept nogil
    granted_fn KB_GRANTED_CYCLES_OF(int level) noexcept nogil
    count_fn KB_COUNT_GRANTS_OF(int level) noexcept nogil
    due_fn KB_DUE_OF(int level) noexcept nogil
    repace_fn KB_REPACE_OF(int level) noexcept nogil
    least_fn KB_LEAST_OF(int level) noexcept nogil


def isa():
    """The name of the instructions in use: one of LEVELS."""
    return LEVELS[vectors.level]


vectors.level = chosen_level([kb_supported(level) for level in range(len(LEVELS))])
vectors.take[0] = KB_TAKE_ONE(vectors.level)
vectors.take[1] = KB_TAKE_TWO(vectors.level)
vectors.add_lines = KB_ADD_LINES_OF(vectors.level)
vectors.run_lanes = KB_RUN_LANES_OF(vectors.level)
vectors.copy_lanes = KB_COPY_LANES_OF(vectors.level)
vectors.granted_cycles = KB_GRANTED_CYCLES_OF(vectors.level)
vectors.count_grants = KB_COUNT_GRANTS_OF(vectors.level)
vectors.due = KB_DUE_OF(vectors.level)
vectors.repace = KB_REPACE_OF(vectors.level)
vectors.least = KB_LEAST_OF(vectors.level)
