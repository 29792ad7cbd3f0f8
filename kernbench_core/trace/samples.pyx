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
    int64_t length            # [B]


cdef class Samples:
    """Lines of one form.

    `start`: before the cycle. `units`: for each row, the text after the cycle, which names the unit. `texts`: the texts before the
    window's length, before each number, and at the end. `kept`: which rows are written, one byte each.
    """
    cdef list keep                # references to all objects to which pointers exist
    cdef Piece start
    cdef Piece* unit              # [rows]
    cdef Piece* text              # [numbers + 2]
    cdef const unsigned char* kept
    cdef int32_t rows, numbers
    cdef int64_t longest          # [B] of a line, at most

    def __init__(self, bytes start not None, list units not None, list texts not None, bytes kept not None):
        cdef int32_t k
        if self.unit != NULL:
            raise RuntimeError("Samples are made once")
        if len(kept) != len(units):
            raise ValueError(f"{len(units)} units, and {len(kept)} bytes that say which are kept")
        self.rows, self.numbers = len(units), len(texts) - 2
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

    def lines(self, cycle_t cycle, int64_t length, numbers not None):
        """`(lines, how many, works)` of a window of `length` cycles that ends with `cycle`: of each row of numbers that is not all zeros.
        `works`: which rows these are, one byte each, also those that are not kept.

        ValueError where there are not as many rows, or numbers in one, as this was made for.
        """
        cdef Buffer b
        cdef int32_t k, i, n = 0
        cdef int64_t some
        cdef const int64_t* number = int64_rows(numbers, ANY, ANY)
        cdef bytearray works = bytearray(self.rows)
        if numbers.shape[0] != self.rows or numbers.shape[1] != self.numbers:
            raise ValueError(f"{numbers.shape[0]} x {numbers.shape[1]} numbers, where {self.rows} x {self.numbers} are written")
        b.data = <char*>malloc(self.rows * self.longest + CHUNK)
        b.n = 0
        if b.data == NULL:
            raise MemoryError(f"no memory for the samples of {self.rows} units")
        for k in range(self.rows):
            some = 0
            if k:
                number += self.numbers
            for i in range(self.numbers):
                some |= number[i]
            works[k] = some != 0
            if some == 0 or self.kept[k] == 0:
                continue
            put_text(&b, self.start.data, self.start.length)
            put_int(&b, cycle)
            put_text(&b, self.unit[k].data, self.unit[k].length)
            put_text(&b, self.text[0].data, self.text[0].length)
            put_int(&b, length)
            for i in range(self.numbers):
                put_text(&b, self.text[i + 1].data, self.text[i + 1].length)
                put_int(&b, number[i])
            put_text(&b, self.text[self.numbers + 1].data, self.text[self.numbers + 1].length)
            n += 1
        try:
            return PyBytes_FromStringAndSize(b.data, b.n), n, bytes(works)
        finally:
            free(b.data)
