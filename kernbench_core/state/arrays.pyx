from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer)

cdef int64_t nothing = 0      # the beginning of an array without elements


cdef bint is_integer(const char* form) noexcept:
    """Whether a `struct` format, in this machine's byte order and sizes, is a signed integer; its size is itemsize."""
    if form[0] == b"@" or form[0] == b"=":
        form += 1
    return (form[0] == b"i" or form[0] == b"l" or form[0] == b"q") and form[1] == 0


cdef void* first(object array, int flags, Py_ssize_t itemsize, int dimensions, Py_ssize_t rows, Py_ssize_t columns) except NULL:
    """The address of the first element. TypeError if the object is no buffer; ValueError for a buffer of another type, shape or order."""
    cdef Py_buffer b
    PyObject_GetBuffer(array, &b, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags)
    try:
        if b.itemsize != itemsize or b.format == NULL or not is_integer(b.format):
            form = "bytes" if b.format == NULL else (<bytes>b.format).decode("ascii", "replace")
            raise ValueError(f"Buffer dtype mismatch, expected 'int{8 * itemsize}_t' but got items of {b.itemsize} bytes, format '{form}'")
        if dimensions != ANY and b.ndim != dimensions:
            raise ValueError(f"Buffer has wrong number of dimensions (expected {dimensions}, got {b.ndim})")
        if rows != ANY and b.shape[0] != rows:
            raise ValueError(f"Buffer has wrong length (expected {rows}, got {b.shape[0]})")
        if columns != ANY and b.shape[1] != columns:
            raise ValueError(f"Buffer has wrong number of columns (expected {columns}, got {b.shape[1]})")
        return b.buf if b.len else <void*>&nothing
    finally:
        PyBuffer_Release(&b)


cdef const int64_t* int64s(object array, Py_ssize_t length) except NULL:
    return <const int64_t*>first(array, 0, sizeof(int64_t), 1, length, ANY)


cdef const int64_t* int64_rows(object array, Py_ssize_t rows, Py_ssize_t columns) except NULL:
    return <const int64_t*>first(array, 0, sizeof(int64_t), 2, rows, columns)


cdef int64_t* writable_int64s(object array) except NULL:
    return <int64_t*>first(array, PyBUF_WRITABLE, sizeof(int64_t), ANY, ANY, ANY)


cdef int32_t* writable_int32s(object array) except NULL:
    return <int32_t*>first(array, PyBUF_WRITABLE, sizeof(int32_t), ANY, ANY, ANY)
