"""Compares the ranges of a job about to start with those of every started job that has not ended."""
from kernbench_core.compute cimport MAX_REGIONS, ComputeJob, Region
from kernbench_core.control cimport Entry
from kernbench_core.dma cimport DmaJob
from kernbench_core.types cimport FAILED, NONE, OP_DMA, OVERLAP_ERROR, OVERLAP_NONE, int32_t


cdef int32_t regions_of(Sim* s, int32_t entry, Region* out, int32_t* spm) noexcept nogil:
    """The ranges that an entry's job touches, and in which scratchpad; returns how many."""
    cdef Entry* e = &s.control.entry[entry]
    cdef DmaJob* d
    cdef ComputeJob* c
    cdef int32_t k
    if e.op == OP_DMA:
        d = &s.dma_job[e.job]
        spm[0] = s.dma_spm[d.engine]
        out[0].addr = d.extent.spm_addr
        out[0].nbytes = d.nbytes
        out[0].write = not d.write
        return 1
    c = &s.compute_job[e.job]
    spm[0] = s.compute_spm[c.engine]
    for k in range(c.regions):
        out[k] = c.region[k]
    return c.regions


cdef bint clash(Region* a, int32_t n_a, Region* b, int32_t n_b) noexcept nogil:
    cdef int32_t i, k
    for i in range(n_a):
        for k in range(n_b):
            if (a[i].write or b[k].write) and a[i].addr < b[k].addr + b[k].nbytes and b[k].addr < a[i].addr + a[i].nbytes:
                return True
    return False


cdef bint overlap_allows(Sim* s, int32_t entry) noexcept nogil:
    """Before a start: note the first entry in file order that it overlaps; false, and the run has failed, where that is an error."""
    cdef Region[MAX_REGIONS] mine
    cdef Region[MAX_REGIONS] theirs
    cdef int32_t n, k, spm, other_spm, m, other, found = NONE
    if s.overlap == OVERLAP_NONE or entry > s.control.n:        # jobs of components are not checked
        return True
    n = regions_of(s, entry, mine, &spm)
    for k in range(s.n_running):
        other = s.running[k]
        m = regions_of(s, other, theirs, &other_spm)
        if other_spm == spm and clash(mine, n, theirs, m) and (found == NONE or other < found):
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
