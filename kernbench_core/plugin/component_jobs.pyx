"""Conversion of components' jobs to jobs of the core: finds errors, or fills the job's place in the tables."""
from kernbench_core.plugin.abi cimport KB_PARAMS, kb_job
from kernbench_core.model.bank cimport Spm
from kernbench_core.model.compute cimport ARRAY_PARTS, ComputeJob, set_parts
from kernbench_core.model.dma cimport DmaJob
from kernbench_core.model.dram.extent cimport channel_bytes, flows_of, lines_of
from kernbench_core.model.sim cimport Sim
from kernbench_core.types cimport CHANNELS, NONE, int32_t, int64_t, nbytes_t

cdef int64_t LONGEST = <int64_t>1 << 48    # [B] or [cycle] limit of one job: sums of addresses and times stay far below 2**63


cdef int32_t wrong_region(Sim* s, int32_t spm, const kb_job* j) noexcept nogil:
    """16 + 4 * region + field of the first wrong region; NONE if all are right."""
    cdef int32_t k
    cdef nbytes_t room = s.spm[spm].bank_lines * s.spm[spm].banks * s.spm[spm].line
    for k in range(j.n_regions):
        if not 0 < j.region[k].nbytes <= room:
            return KB_PARAMS + 4 * k + 1
        if not 0 <= j.region[k].addr <= room - j.region[k].nbytes:
            return KB_PARAMS + 4 * k
    return NONE


cdef nbytes_t room_in(Spm* p) noexcept nogil:
    """[B] The largest size of a transfer: a memory without banks has no limit."""
    return LONGEST if p.nowhere else p.bank_lines * p.banks * p.line


cdef int32_t fill_road(Sim* s, DmaJob* d, int32_t engine, const kb_job* j) noexcept nogil:
    """The location of its bytes and their route: the own route on one NPU, else memory and route, and the far scratchpad if there is
    one."""
    d.peer = NONE
    if s.own_routes:
        d.memory = 0
        d.route = (2 * engine + d.write) * flows_of(&s.memory[0])
        return NONE
    if not 0 <= j.params[6] < s.n_memories:
        return 6
    if not 0 <= j.params[7] < s.routes.n or s.routes.memory[j.params[7]] != j.params[6]:
        return 7
    d.memory = <int32_t>j.params[6]
    d.route = <int32_t>j.params[7]
    if j.n_params == 8 or j.params[8] == NONE:
        return NONE
    if not 0 <= j.params[8] < s.n_spm or s.spm[j.params[8]].nowhere or j.params[8] == s.dma_spm[engine]:
        return 8
    if s.peer_transfers == NULL or s.peer_transfers[j.params[8]] >= s.peer_limit[j.params[8]]:
        return 8
    d.peer = <int32_t>j.params[8]
    return NONE


cdef int32_t wrong_pair(Sim* s, DmaJob* d) noexcept nogil:
    """Between scratchpads: the bytes must be one run from line to line, inside both."""
    cdef Spm* far = &s.spm[d.peer]
    if d.extent.rows != 1:
        return 5
    if d.extent.dram_addr % far.line or d.extent.dram_addr > room_in(far) - d.nbytes:
        return 2
    return KB_PARAMS if d.extent.spm_addr % far.line else NONE


cdef int32_t fill_dma(Sim* s, DmaJob* d, int32_t engine, const kb_job* j) noexcept nogil:
    """A transfer: channel, write, dram_addr, row_bytes, stride, rows; on a system also memory, route and, between scratchpads, peer. Its
    only region is the location in the scratchpad."""
    cdef int32_t k
    cdef nbytes_t room = room_in(&s.spm[s.dma_spm[engine]])
    if j.n_params < (6 if s.own_routes else 8) or j.n_regions != 1:
        return COUNTS
    if not 0 <= j.params[0] < CHANNELS:
        return 0
    if j.params[1] != 0 and j.params[1] != 1:
        return 1
    for k in range(2, 6):
        if not (0 if k == 2 or k == 4 else 1) <= j.params[k] <= LONGEST >> 1:
            return k
    if j.params[5] > 1 and j.params[4] < j.params[3]:
        return 4
    if j.params[3] > room // j.params[5]:
        return 3
    d.channel = <int32_t>j.params[0]
    d.write = j.params[1] != 0
    d.extent.dram_addr = j.params[2]
    d.extent.row_bytes = j.params[3]
    d.extent.stride = j.params[4]
    d.extent.rows = j.params[5]
    d.extent.spm_addr = j.region[0].addr
    d.engine = engine
    d.group = NONE
    d.t_start = 0
    d.flows = NONE
    d.nbytes = 0
    k = fill_road(s, d, engine, j)
    if k != NONE:
        return k
    if s.memory[d.memory].cache != NONE and d.extent.rows * lines_of(&s.memory[d.memory], &d.extent) > 64 * <int64_t>s.caches.words:
        return 3
    channel_bytes(s.channel_bytes, &s.memory[d.memory], &d.extent)
    for k in range(s.memory[d.memory].channels):
        d.nbytes += s.channel_bytes[k]
    if not 0 <= d.extent.spm_addr <= room - d.nbytes:
        return KB_PARAMS
    return NONE if d.peer == NONE else wrong_pair(s, d)


cdef enum:
    PARTS_AT = 9              # of a product, behind its shape and types: the parts of its body


cdef int32_t fill_parts(Sim* s, int64_t slot, const kb_job* j) noexcept nogil:
    """The parts of a body on an array whose jobs overlap; a job without them holds the array during its whole body."""
    cdef const int64_t* part = &j.params[PARTS_AT]
    cdef int64_t[ARRAY_PARTS] none
    cdef int64_t held
    cdef int32_t k
    if j.n_params < PARTS_AT + ARRAY_PARTS:
        for k in range(ARRAY_PARTS):
            none[k] = 0
        set_parts(&s.array_job[slot], none)
        return NONE
    held = j.params[1] - part[4]
    if not 0 <= part[4] < j.params[0] + j.params[1] or held < 0:
        return PARTS_AT + 4
    for k in range(2):
        if not 0 <= part[k] <= held:
            return PARTS_AT + k
    if not 0 <= part[2] <= held - max(part[0], part[1]):
        return PARTS_AT + 2
    if not 0 <= part[3] <= part[2]:
        return PARTS_AT + 3
    set_parts(&s.array_job[slot], part)
    return NONE


cdef int32_t fill_compute(Sim* s, ComputeJob* c, int32_t engine, const kb_job* j) noexcept nogil:
    """A TE or VE job: init, body, finalize, work; its regions are streamed over its body. Behind the shape of a product, the parts of its
    body."""
    cdef int32_t k, wrong
    if j.n_params < 4:
        return COUNTS
    for k in range(4):
        if not 0 <= j.params[k] <= LONGEST:
            return k
    if j.params[0] + j.params[1] + j.params[2] == 0:
        return 1
    c.init = j.params[0]
    c.body = j.params[1]
    c.finalize = j.params[2]
    c.work = j.params[3]
    c.engine = engine
    c.regions = j.n_regions
    c.written = 0
    for k in range(j.n_regions):
        c.region[k].addr = j.region[k].addr
        c.region[k].nbytes = j.region[k].nbytes
        c.written |= (j.region[k].write != 0) << k
    if s.array != NULL and s.compute[engine].overlaps:
        wrong = fill_parts(s, c - s.compute_job, j)
        if wrong != NONE:
            return wrong
    return wrong_region(s, s.compute_spm[engine], j)
