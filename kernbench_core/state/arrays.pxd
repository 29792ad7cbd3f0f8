"""Arrays of integers from Python, as pointers.

A pointer is valid as long as its array is alive and keeps its size, so the code that takes a pointer must keep the array. Reads are not
checked, so the number of elements is checked here, where it is known.
"""
from kernbench_core.types cimport int32_t, int64_t

cdef enum:
    ANY = -1                  # for a length: any

cdef const int64_t* int64s(object array, Py_ssize_t length) except NULL
cdef const int64_t* int64_rows(object array, Py_ssize_t rows, Py_ssize_t columns) except NULL  # the rows are adjacent
cdef int64_t* writable_int64s(object array) except NULL      # for writing: an array that the core made, of any shape
cdef int32_t* writable_int32s(object array) except NULL
