"""Walks over a transfer's bytes in address order, row after row, and keeps the bytes of one channel.

Behind a last-level cache, these are the bytes of lines that do not move only over the cache; the other bytes form a separate
flow, whatever their channel.
"""
from kernbench_core.types cimport int32_t, int64_t, nbytes_t


cdef void open_row(Cursor* c, Dram* d, Extent* x) noexcept nogil:
    cdef int64_t first = x.dram_addr + c.row * x.stride
    cdef int64_t spm = c.row_end + c.shift          # rows are packed: this row begins where the last row ended
    c.dram = first // d.align * d.align
    c.row_end = (first + x.row_bytes + d.align - 1) // d.align * d.align
    c.shift = spm - c.dram


cdef inline bint cached(Dram* d, Extent* x, int64_t row, int64_t line) noexcept nogil:
    """A line of a row moves only over the cache."""
    cdef int64_t bit = row * x.pitch + line - rows_begin(d, x, row) // d.line
    return x.cached[bit >> 6] >> (bit & 63) & 1


cdef bint find_lines(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil:
    """`find_chunk` behind a cache: a run consists of lines of one kind, and ends with the chunk of a channel."""
    cdef bint alone = channel == d.channels
    cdef int64_t line, chunk, end, ahead
    while c.dram < c.row_end:
        end = c.row_end
        if not alone and d.channels > 1:
            chunk = c.dram // d.interleave
            ahead = channel - chunk % d.channels
            if ahead:
                c.dram = (chunk + (ahead if ahead > 0 else ahead + d.channels)) * d.interleave
                continue
            end = min(end, (chunk + 1) * d.interleave)
        line = c.dram // d.line
        if cached(d, x, c.row, line) != alone:
            c.dram = (line + 1) * d.line
            continue
        while (line + 1) * d.line < end and cached(d, x, c.row, line + 1) == alone:
            line += 1
        c.run_left = c.run_seen = min(end, (line + 1) * d.line) - c.dram
        c.addr = c.dram + c.shift
        return True
    return False


cdef bint find_chunk(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil:
    """From `dram` on, move to the first byte of this row on the channel; false if there is none."""
    cdef int64_t chunk, ahead
    if x.cached != NULL:
        return find_lines(c, d, x, channel)
    chunk = c.dram >> d.interleave_shift if d.interleave_shift >= 0 else c.dram // d.interleave
    ahead = channel - (chunk & d.channel_mask if d.channel_mask >= 0 else chunk % d.channels)
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
    """Move to the first byte on `channel`; the transfer must touch this channel."""
    c.row = 0
    c.row_end = 0
    c.shift = x.spm_addr
    open_row(c, d, x)
    while not find_chunk(c, d, x, channel):
        c.row += 1
        open_row(c, d, x)


cdef void cursor_next_run(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil:
    while c.dram >= c.row_end or not find_chunk(c, d, x, channel):
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


cdef void source_bytes(nbytes_t* out, Dram* d, Extent* x) noexcept nogil:
    """The same behind a cache: the bytes of each channel, and then the bytes that move only over the cache, into `out[channels
    + 1]`."""
    cdef int64_t row, at, last, line, step
    cdef int32_t k
    for k in range(d.channels + 1):
        out[k] = 0
    for row in range(x.rows):
        at = rows_begin(d, x, row)
        last = rows_end(d, x, row)
        while at < last:
            line = at // d.line
            step = min((line + 1) * d.line, last) - at
            if cached(d, x, row, line):
                k = d.channels
            else:
                step = min(step, (at // d.interleave + 1) * d.interleave - at)
                k = <int32_t>(at // d.interleave % d.channels)
            out[k] += step
            at += step
