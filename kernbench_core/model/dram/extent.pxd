"""Where a transfer's bytes are: rows, alignment, interleave over channels, scratchpad addresses (docs/model/bytes.md)."""
from kernbench_core.types cimport cycle_t, int32_t, int64_t, nbytes_t

cdef struct Dram:             # one memory: all channels of an NPU, or one slice of a stack
    int32_t first             # resource of its first channel; NONE: it has no channels (between scratchpads)
    int32_t channels
    nbytes_t interleave       # [B] consecutive bytes on one channel
    int32_t interleave_shift  # log2(interleave), or -1
    int32_t channel_mask      # channels - 1 where that is a mask, else -1
    nbytes_t align            # [B] every row is widened to multiples of it
    cycle_t setup             # from a transfer's start to its first share, links apart

cdef struct Extent:           # what a DMA job moves; 1-D is one row
    int64_t dram_addr         # first byte of row 0, before alignment
    nbytes_t row_bytes        # [B] of one row, before alignment
    nbytes_t stride           # [B] from row to row
    int64_t rows
    nbytes_t spm_addr         # flat scratchpad address of the first aligned byte

cdef struct Cursor:           # the next byte of a flow and the contiguous run that it begins
    nbytes_t run_left         # [B] bytes of the run from here on; 0 past the last byte
    nbytes_t run_seen         # [B] run_left when `addr` and `dram` were brought up to date: inside a run only run_left is moved
    nbytes_t addr             # its flat scratchpad address
    int64_t dram              # its DRAM address
    int64_t row
    int64_t row_end           # aligned end of the row, a DRAM address
    int64_t shift             # scratchpad address - DRAM address, constant in a row

cdef void cursor_open(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil
cdef void cursor_next_run(Cursor* c, Dram* d, Extent* x, int32_t channel) noexcept nogil
cdef void channel_bytes(nbytes_t* out, Dram* d, Extent* x) noexcept nogil

cdef inline void cursor_sync(Cursor* c) noexcept nogil:
    c.addr += c.run_seen - c.run_left
    c.dram += c.run_seen - c.run_left
    c.run_seen = c.run_left

cdef inline void cursor_advance(Cursor* c, Dram* d, Extent* x, int32_t channel, nbytes_t n) noexcept nogil:
    """Go `n` bytes on, at most to the end of the run, and then to the next one. The cursor is up to date before and after."""
    c.addr += n
    c.dram += n
    c.run_left -= n
    c.run_seen = c.run_left
    if c.run_left == 0:
        cursor_next_run(c, d, x, channel)
