"""Compares the ranges of a job that is about to start with the ranges of every started job that has not ended."""
from kernbench_core.model.compute cimport MAX_REGIONS, ComputeJob, writes_to
from kernbench_core.model.control cimport Entry
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.types cimport FAILED, NONE, OP_DMA, OVERLAP_ERROR, OVERLAP_NONE, int32_t, nbytes_t


cdef struct Range:            # a range of a scratchpad
    int32_t spm
    nbytes_t addr
    nbytes_t nbytes
    bint write


cdef Range range_of(int32_t spm, nbytes_t addr, nbytes_t nbytes, bint write) noexcept nogil:
    cdef Range r
    r.spm = spm
    r.addr = addr
    r.nbytes = nbytes
    r.write = write
    return r


cdef int32_t ranges_of(Sim* s, int32_t entry, Range* out) noexcept nogil:
    """The ranges that the job of an entry touches; returns their number."""
    cdef Entry* e = &s.control.entry[entry]
    cdef DmaJob* d
    cdef ComputeJob* c
    cdef int32_t k
    if e.op == OP_DMA:
        d = &s.dma_job[e.job]
        k = s.dma_spm[d.engine]
        if s.spm[k].nowhere:
            return 0
        out[0] = range_of(k, d.extent.spm_addr, d.nbytes, not d.write)
        if d.peer == NONE:
            return 1
        out[1] = range_of(d.peer, d.extent.dram_addr, d.nbytes, d.write)
        return 2
    c = &s.compute_job[e.job]
    for k in range(c.regions):
        out[k] = range_of(s.compute_spm[c.engine], c.region[k].addr, c.region[k].nbytes, writes_to(c, k))
    return c.regions


cdef bint clash(Range* a, int32_t n_a, Range* b, int32_t n_b) noexcept nogil:
    cdef int32_t i, k
    for i in range(n_a):
        for k in range(n_b):
            if a[i].spm == b[k].spm and (a[i].write or b[k].write) and (
                    a[i].addr < b[k].addr + b[k].nbytes and b[k].addr < a[i].addr + a[i].nbytes):
                return True
    return False


cdef bint overlap_allows(Sim* s, int32_t entry) noexcept nogil:
    """Before a start: record the first entry in file order that the job overlaps; false, with the run failed, if an overlap is
    an error."""
    cdef Range[MAX_REGIONS] mine
    cdef Range[MAX_REGIONS] theirs
    cdef int32_t n, k, m, other, found = NONE
    if s.overlap == OVERLAP_NONE or entry > s.control.n:        # jobs of components are not checked
        return True
    n = ranges_of(s, entry, mine)
    for k in range(s.n_running):
        other = s.running[k]
        m = ranges_of(s, other, theirs)
        if clash(mine, n, theirs, m) and (found == NONE or other < found):
            found = other
    s.overlap_with[entry] = found
    if found == NONE or s.overlap != OVERLAP_ERROR:
        return True
    s.status = FAILED
    s.failed_entry = entry
    return False


cdef void overlap_started(Sim* s, int32_t entry) noexcept nogil:
    if s.overlap != OVERLAP_NONE:
        s.running[s.n_running] = entry
        s.n_running += 1


cdef void overlap_ended(Sim* s, int32_t entry) noexcept nogil:
    cdef int32_t k = 0
    if s.overlap == OVERLAP_NONE:
        return
    while s.running[k] != entry:
        k += 1
    s.n_running -= 1
    s.running[k] = s.running[s.n_running]
