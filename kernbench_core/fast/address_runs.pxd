"""From run to run of a flow whose runs are whole lines of the scratchpad."""
from kernbench_core.model.bank cimport Spm, bank_of, line_of
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.model.share.membership cimport Flow
from kernbench_core.types cimport nbytes_t
from kernbench_core.fast.block_ports cimport Walk

cdef inline bint goes_on(Flow* f, Walk* w, Dram* d) noexcept nogil:
    """The row has another run on this channel, which begins with a line."""
    cdef nbytes_t apart = (d.channels - 1) * d.interleave
    if apart <= 0 or d.line != 0 or apart & (w.line - 1) or w.shift < 0:
        return False
    return f.at.dram + f.at.run_seen + apart + w.line <= f.at.row_end

cdef inline void begin_run(Flow* f, Spm* p, Dram* d) noexcept nogil:
    """All of the run has been asked for, and it `goes_on`: stand before the next one."""
    f.at.dram += f.at.run_seen + (d.channels - 1) * d.interleave
    f.at.addr = f.at.dram + f.at.shift
    f.at.run_left = f.at.run_seen = min(d.interleave, f.at.row_end - f.at.dram)
    f.bank = bank_of(p, line_of(p, f.at.addr))
