"""Samples of a window as lines of JSON: rows of numbers, each of one unit.

The form of a line is data, as in trace/format.pyx: the texts between its numbers.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc

from kernbench_core.state.arrays cimport ANY, int64_rows
from kernbench_core.trace.text cimport CHUNK, Buffer, put_int, put_text
from kernbench_core.types cimport cycle_t, int32_t, int64_t

cdef enum:
    DIGITS = 20               # [B] of a number, at most

cdef struct Piece:
    const char* data          # with a chunk of room behind it
    int64_t length            # [B] length of the text


cdef class Samples:
    """Lines of one form.

    `start`: before the cycle. `units`: for each row, the text after the cycle, which names the unit. `texts`: the texts before the
    window's length, before each number, and at the end. `kept`: which rows are written, one byte each. `timed`: whether the lines
    contain the window's length; if not, its text is left out too.
    """
    cdef list keep                # references to all objects to which pointers exist
    cdef Piece start
    cdef Piece* unit              # [rows]
    cdef Piece* text              # [numbers + timed + 1]
    cdef bint timed
    cdef const unsigned char* kept
    cdef int32_t rows, numbers
    cdef int64_t longest          # [B] of a line, at most

    def __init__(self, bytes start not None, list units not None, list texts not None, bytes kept not None, *, bint timed=True):
        cdef int32_t k
        if self.unit != NULL:
            raise RuntimeError("Samples are made once")
        if len(kept) != len(units):
            raise ValueError(f"{len(units)} units, and {len(kept)} bytes that say which are kept")
        self.rows, self.numbers, self.timed = len(units), len(texts) - 1 - timed, timed
        self.keep = [kept]
        self.kept = <const unsigned char*>PyBytes_AS_STRING(kept)
        self.unit = <Piece*>malloc((self.rows + 1) * sizeof(Piece))
        self.text = <Piece*>malloc(len(texts) * sizeof(Piece))
        if self.unit == NULL or self.text == NULL:
            raise MemoryError(f"no memory for the samples of {self.rows} units")
        self.start = self.piece(start)
        for k, text in enumerate(units):
            self.unit[k] = self.piece(text)
        for k, text in enumerate(texts):
            self.text[k] = self.piece(text)
        self.longest = len(start) + max(map(len, units), default=0) + sum(map(len, texts))
        self.longest += (self.numbers + 2) * DIGITS

    cdef Piece piece(self, bytes text):
        cdef Piece p
        padded = text + bytes(CHUNK)
        self.keep.append(padded)
        p.data = PyBytes_AS_STRING(padded)
        p.length = PyBytes_GET_SIZE(text)
        return p

    def __dealloc__(self):
        free(self.unit)
        free(self.text)

    def windows(self, list cycles not None, list lengths not None, numbers not None):
        """`(lines, how many, works)` of each window: the lines of its rows of numbers that are not all zeros. `works`: which rows these
        are, one byte each, also those that are not kept.

        `cycles`: the last cycle of each window. `lengths`: their lengths in cycles. `numbers`: an int64 array of all rows of the first
        window, then of the second, and so on. ValueError if it has another shape.
        """
        cdef Buffer b
        cdef int64_t k
        cdef int64_t each = self.rows * self.numbers
        cdef const int64_t* number = int64_rows(numbers, ANY, ANY)
        rows = len(cycles) * self.rows
        if tuple(numbers.shape) != (rows, self.numbers) or len(lengths) != len(cycles):
            raise ValueError(f"{numbers.shape[0]} x {numbers.shape[1]} numbers, where {rows} x {self.numbers} are written")
        b.data = <char*>malloc(self.rows * self.longest + CHUNK)
        if b.data == NULL:
            raise MemoryError(f"no memory for the samples of {self.rows} units")
        try:
            return [self.window(&b, cycles[k], lengths[k], number + k * each) for k in range(len(cycles))]
        finally:
            free(b.data)

    cdef tuple window(self, Buffer* b, cycle_t cycle, int64_t length, const int64_t* number):
        """The lines of one window."""
        cdef int32_t k, i, n = 0
        cdef int64_t some
        cdef Piece* text
        cdef bytearray works = bytearray(self.rows)
        b.n = 0
        for k in range(self.rows):
            some = 0
            if k:
                number += self.numbers
            for i in range(self.numbers):
                some |= number[i]
            works[k] = some != 0
            if some == 0 or self.kept[k] == 0:
                continue
            put_text(b, self.start.data, self.start.length)
            put_int(b, cycle)
            put_text(b, self.unit[k].data, self.unit[k].length)
            text = self.text
            if self.timed:
                put_text(b, text.data, text.length)
                put_int(b, length)
                text += 1
            for i in range(self.numbers):
                put_text(b, text[i].data, text[i].length)
                put_int(b, number[i])
            put_text(b, text[self.numbers].data, text[self.numbers].length)
            n += 1
        return PyBytes_FromStringAndSize(b.data, b.n), n, bytes(works)
