"""The locations of a transfer's bytes: rows, alignment, interleave over channels, scratchpad addresses
(docs/model/bytes.md)."""
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t, nbytes_t, uint64_t

cdef struct Dram:             # one memory: all channels of an NPU, or one slice of a stack; state/layout.pyx writes it
    int32_t first             # resource of its first channel; NONE: it has no channels (between scratchpads)
    int32_t channels          # number of channels over which its addresses are interleaved
    nbytes_t interleave       # [B] consecutive bytes on one channel
    int32_t interleave_shift  # log2(interleave), or -1 if it is not a power of two
    int32_t channel_mask      # channels - 1 if the number of channels is a power of two, else -1
    nbytes_t align            # [B] every row of a transfer is widened to multiples of this
    int32_t cache             # number of the last-level cache in front of it, or NONE
    nbytes_t line             # [B] length of a line of that cache
    cycle_t setup             # [cycle] from a transfer's start to its first share, without the latency of links
    # with a codec in front of the memory, addresses and bytes in this struct are expanded: ratio_num/ratio_den expanded bytes
    int64_t ratio_num  # for each
    int64_t ratio_den         # compressed byte; 1/1 without a codec

cdef struct Extent:  # the bytes that a DMA job moves; a 1-D transfer is one row; state/layout.pyx or a component writes it
    int64_t dram_addr         # DRAM address of the first byte of row 0, before alignment
    nbytes_t row_bytes        # [B] length of a row, before alignment
    nbytes_t stride           # [B] distance from the first byte of a row to the first byte of the next
    int64_t rows              # number of rows of the transfer
    nbytes_t spm_addr         # flat scratchpad address of the first aligned byte
    int64_t pitch             # behind a cache: number of bits of `cached` for each row
    uint64_t* cached  # a bit for each line that a row touches, from its first line on: set if the line moves only over the cache; else NULL

cdef struct Cursor:  # the next byte of a flow, and the address run that begins there; cursor_open and cursor_next_run write it
    nbytes_t run_left         # [B] from the next byte to the end of its address run; 0 after the last byte of the flow
    nbytes_t run_seen  # [B] run_left when `addr` and `dram` were last brought up to date: inside a run only run_left changes
    nbytes_t addr             # flat scratchpad address of the next byte
    int64_t dram              # DRAM address of the next byte
    int64_t row               # number of the transfer's row that contains the next byte
    int64_t row_end           # DRAM address of the aligned end of this row
    int64_t shift             # scratchpad address minus DRAM address, constant in a row

cdef void cursor_open(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil
cdef void cursor_next_run(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil
cdef void channel_bytes(nbytes_t* out, Dram* d, Extent* x) noexcept nogil
cdef void source_bytes(nbytes_t* out, Dram* d, Extent* x) noexcept nogil

cdef inline int64_t rows_begin(Dram* d, Extent* x, int64_t row) noexcept nogil:
    """DRAM address of the aligned beginning of a row."""
    return (x.dram_addr + row * x.stride) // d.align * d.align

cdef inline int64_t rows_end(Dram* d, Extent* x, int64_t row) noexcept nogil:
    """The first DRAM address after the aligned end of a row."""
    return (x.dram_addr + row * x.stride + x.row_bytes + d.align - 1) // d.align * d.align

cdef inline int64_t lines_of(Dram* d, Extent* x) noexcept nogil:
    """Lines of the cache that an aligned row can touch."""
    return (x.row_bytes + 2 * d.align - 2) // d.line + 2

cdef inline int32_t flows_of(Dram* d) noexcept nogil:
    """The largest number of flows of a transfer: one for each channel, and behind a cache one more that moves only over the
    cache and has the number `channels`."""
    return d.channels + (d.cache != NONE)

cdef inline void cursor_sync(Cursor* c) noexcept nogil:
    c.addr += c.run_seen - c.run_left
    c.dram += c.run_seen - c.run_left
    c.run_seen = c.run_left

cdef inline void cursor_advance(Cursor* c, Dram* d, Extent* x, int32_t channel, nbytes_t n) noexcept nogil:
    """Advance by `n` bytes, at most to the end of the run; at the end, move to the next run. The cursor must be up to date, and
    is up to date afterwards."""
    c.addr += n
    c.dram += n
    c.run_left -= n
    c.run_seen = c.run_left
    if c.run_left == 0:
        cursor_next_run(c, d, x, channel)
