"""Steps from one address run to the next of a flow whose address runs are whole lines of the scratchpad."""
from kernbench_core.model.bank cimport Spm, bank_of, line_of
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport nbytes_t

cdef inline nbytes_t gap_of(Dram* d, Spm* p) noexcept nogil:
    """[B] from the end of one run of a row to the begin of the next, which are those of the other channels; 0: runs are not whole lines,
    or there is no next one."""
    cdef nbytes_t apart = (d.channels - 1) * d.interleave
    return 0 if apart <= 0 or d.line != 0 or p.line_shift < 0 or apart & (p.line - 1) else apart

cdef inline bint follows(Flow* f, nbytes_t apart, nbytes_t line) noexcept nogil:
    """The row has another run on this channel, which begins with a line; `apart` is that of `gap_of`."""
    return apart and f.at.dram + f.at.run_seen + apart + line <= f.at.row_end

cdef inline bint goes_on(Flow* f, Spm* p, Dram* d) noexcept nogil:
    """The same, for code that does not know `gap_of`."""
    return follows(f, gap_of(d, p), p.line)

cdef inline void begin_run(Flow* f, Spm* p, Dram* d) noexcept nogil:
    """The whole run was requested, and `goes_on` holds: move to the next run."""
    f.at.dram += f.at.run_seen + (d.channels - 1) * d.interleave
    f.at.addr = f.at.dram + f.at.shift
    f.at.run_left = f.at.run_seen = min(d.interleave, f.at.row_end - f.at.dram)
    f.bank = bank_of(p, line_of(p, f.at.addr))
