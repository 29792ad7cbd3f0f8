"""Walks a transfer's bytes in address order, row after row, and keeps those of one channel."""
from kernbench_core.types cimport int32_t, int64_t, nbytes_t


cdef void open_row(Cursor* c, Dram* d, Extent* x) noexcept nogil:
    cdef int64_t first = x.dram_addr + c.row * x.stride
    cdef int64_t spm = c.row_end + c.shift          # rows are packed: this one begins where the last ended
    c.dram = first // d.align * d.align
    c.row_end = (first + x.row_bytes + d.align - 1) // d.align * d.align
    c.shift = spm - c.dram


cdef bint find_chunk(Cursor* c, Dram* d, int32_t channel) noexcept nogil:
    """From `dram` on, go to the first byte of this row on the channel; false where there is none."""
    cdef int64_t chunk = c.dram >> d.interleave_shift if d.interleave_shift >= 0 else c.dram // d.interleave
    cdef int64_t ahead = channel - (chunk & d.channel_mask if d.channel_mask >= 0 else chunk % d.channels)
    if ahead:
        chunk += ahead if ahead > 0 else ahead + d.channels
        c.dram = chunk * d.interleave
    if c.dram >= c.row_end:
        return False
    c.run_left = (chunk + 1) * d.interleave - c.dram
    if d.channels == 1 or c.run_left > c.row_end - c.dram:
        c.run_left = c.row_end - c.dram
    c.run_seen = c.run_left
    c.addr = c.dram + c.shift
    return True


cdef void cursor_open(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil:
    """Stand before the first byte on `channel`; the transfer must touch it."""
    c.row = 0
    c.row_end = 0
    c.shift = x.spm_addr
    open_row(c, d, x)
    while not find_chunk(c, d, channel):
        c.row += 1
        open_row(c, d, x)


cdef void cursor_next_run(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil:
    while c.dram >= c.row_end or not find_chunk(c, d, channel):
        c.row += 1
        if c.row >= x.rows:
            c.run_left = 0
            c.run_seen = 0
            return
        open_row(c, d, x)


cdef void channel_bytes(nbytes_t* out, Dram* d, Extent* x) noexcept nogil:
    """Add up the transfer's aligned bytes on each channel into `out[channels]`."""
    cdef int64_t row, first, last, cycle = d.interleave * d.channels, whole, at, step
    cdef int32_t k
    for k in range(d.channels):
        out[k] = 0
    for row in range(x.rows):
        first = x.dram_addr + row * x.stride
        last = (first + x.row_bytes + d.align - 1) // d.align * d.align
        first = first // d.align * d.align
        whole = (last - first) // cycle
        if whole:
            for k in range(d.channels):
                out[k] += whole * d.interleave
        at = first + whole * cycle
        while at < last:
            step = (at // d.interleave + 1) * d.interleave - at
            if step > last - at:
                step = last - at
            out[at // d.interleave % d.channels] += step
            at += step
