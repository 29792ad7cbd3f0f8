"""Finds the groups of a machine and its program, and gives each its part of every list.

Two scratchpads are in the same group if a resource is on routes of the jobs of both. There is only one group if anything else connects the
scratchpads: components, transfers between scratchpads, an overlap check over all entries, or allocation rules that examine all channels
together. The data of a group are adjacent, in the order of scratchpads and engines.
"""
import numpy as np

from kernbench_core.state.arrays cimport writable_int32s
from kernbench_core.state.arena cimport Arena
from kernbench_core.model.control cimport Control, Entry
from kernbench_core.fast.group cimport Group
from kernbench_core.model.heap cimport Timer
from kernbench_core.model.share.rules cimport SHARE_RULES
from kernbench_core.model.sim cimport Sim, memory_of
from kernbench_core.types cimport NEVER, NONE, OP_COMPUTE, OP_DMA, cycle_t, int32_t, slot_t, uint64_t


cdef int32_t root(int32_t* up, int32_t k) noexcept nogil:
    while up[k] != k:
        up[k] = up[up[k]]
        k = up[k]
    return k


cdef void bind(int32_t* up, int32_t a, int32_t b) noexcept nogil:
    """The lower number becomes the root, because scratchpads come before resources."""
    a = root(up, a)
    b = root(up, b)
    if a < b:
        up[b] = a
    else:
        up[a] = b


cdef bint apart(Sim* s) noexcept nogil:
    """Whether scratchpads that share no resource are independent of each other."""
    cdef bint bound = s.n_plugs or s.n_open or s.n_component_requests or s.overlap or s.far_requesters or s.caches != NULL
    return not s.share.plain and s.n_spm > 1 and not bound and SHARE_RULES[s.share.rule].local


cdef void bind_routes(Sim* s, int32_t* up, int32_t* user) noexcept nogil:
    """Connect scratchpads with the resources on the routes of their jobs. `user`: 1 + the first scratchpad that was found to use a
    route."""
    cdef int32_t k, c, h, spm
    cdef slot_t route
    for k in range(s.n_dma_jobs):
        spm = s.dma_spm[s.dma_job[k].engine]
        route = s.dma_job[k].route
        if user[route]:
            bind(up, spm, user[route] - 1)
            continue
        user[route] = spm + 1
        for c in range(memory_of(s, k).channels):
            for h in range(s.route[route + c].length):
                bind(up, spm, s.n_spm + s.share.path[s.route[route + c].first + h])


cdef object groups_of(Sim* s):
    """The group of each scratchpad, and then of each resource; groups are numbered in the order of scratchpads. Resources without users:
    0."""
    up = np.arange(s.n_spm + s.share.n_res, dtype=np.int32)
    group = np.zeros(s.n_spm + s.share.n_res, dtype=np.int32)
    user = np.zeros(s.routes.n, dtype=np.int32)
    cdef int32_t* to = writable_int32s(up)
    cdef int32_t* of = writable_int32s(group)
    cdef int32_t k
    s.groups.n = 1
    if not apart(s):
        return group
    bind_routes(s, to, writable_int32s(user))
    s.groups.n = 0
    for k in range(s.n_spm):
        if to[k] == k:
            of[k] = s.groups.n
            s.groups.n += 1
    for k in range(s.n_spm + s.share.n_res):
        if root(to, k) < s.n_spm:
            of[k] = of[root(to, k)]
    return group


cdef list sizes_of(Sim* s, int32_t* group, list flows):
    """For each group, the number of its scratchpads, flows, TEs and VEs, resources and engines."""
    cdef int32_t k
    sizes = [[0, 0, 0, 0, 0] for _ in range(s.groups.n)]
    for k in range(s.n_spm):
        sizes[group[k]][0] += 1
    for k in range(s.n_dma):
        sizes[group[s.dma_spm[k]]][1] += flows[k]
        sizes[group[s.dma_spm[k]]][4] += 1
    for k in range(s.n_compute):
        sizes[group[s.compute_spm[k]]][2] += 1
        sizes[group[s.compute_spm[k]]][4] += 1
    for k in range(s.share.n_res):
        sizes[group[s.n_spm + k]][3] += 1
    sizes[0][4] += s.n_plugs
    return sizes


cdef int32_t leaves_of(int32_t n):
    """The smallest power of two that is at least `n`."""
    return 1 << (n - 1).bit_length() if n > 1 else 1


cdef void share_out(Sim* s, list sizes):
    """The part of each group in a list begins where the part of the previous group ends. `n_free`: the number of flows of the group."""
    cdef int32_t k, spm = 0, tree = 0, flow = 0, compute = 0, res = 0, word = 0, i
    cdef Group* g
    for k in range(s.groups.n):
        g = &s.groups.group[k]
        g.first_spm, g.first_flow, g.first_compute, g.first_res, g.word = spm, flow, compute, res, word
        g.n_spm, g.n_free = sizes[k][0], sizes[k][1]
        g.first_tree, g.leaves = tree, leaves_of(g.n_spm)
        g.words = (sizes[k][4] + 63) // 64
        for i in range(g.n_free):               # the lowest is taken first
            s.free_flow[flow + i] = flow + g.n_free - 1 - i
        spm += g.n_spm
        tree += 2 * g.leaves
        flow += g.n_free
        compute += sizes[k][2]
        res += sizes[k][3]
        word += g.words


cdef int engine_bit(Sim* s, int32_t* group) except -1:
    """Assign a bit of `wanted` to each engine, and a position in `member` to each scratchpad."""
    cdef int32_t k, g, w
    counts = np.zeros((2, s.groups.n), dtype=np.int32)
    cdef int32_t* spms = writable_int32s(counts)
    cdef int32_t* engines = spms + s.groups.n
    for k in range(s.n_spm):
        s.member[s.groups.group[group[k]].first_spm + spms[group[k]]] = k
        s.spm_position[k] = spms[group[k]]
        spms[group[k]] += 1
    for g in range(s.groups.n):
        for w in range(s.groups.group[g].words):
            s.groups.word[s.groups.group[g].word + w] = g
    for k in range(s.n_dma + s.n_compute + s.n_plugs):
        g = 0
        if k < s.n_dma:
            g = group[s.dma_spm[k]]
        elif k < s.n_dma + s.n_compute:
            g = group[s.compute_spm[k - s.n_dma]]
        s.groups.engine_bit[k] = 64 * s.groups.group[g].word + engines[g]
        s.groups.bit_engine[s.groups.engine_bit[k]] = k
        engines[g] += 1
    return 0


cdef void reset_horizons(Sim* s) noexcept nogil:
    """Every scratchpad was brought up to date, and no horizon is kept: all next events must be computed again."""
    cdef int32_t k, i
    cdef Group* g
    cdef cycle_t* tree
    for k in range(s.groups.n):
        g = &s.groups.group[k]
        for i in range(g.n_spm):
            s.touched[g.first_spm + i] = s.member[g.first_spm + i]
        g.n_touched = g.n_spm
        s.groups.at[k] = 0
        tree = s.horizon + g.first_tree
        for i in range(g.leaves):
            tree[g.leaves + i] = 0 if i < g.n_spm else NEVER
        for i in range(g.leaves - 1, 0, -1):
            tree[i] = tree[2 * i]               # not above the right child: there are no gaps
    s.n_touched = s.n_spm
    if s.groups.n > 1:                          # no group is being run
        s.n_touched = s.n_member = s.n_free = s.joins.n = s.ends.n = s.word = s.words = 0


cdef int32_t group_of(Sim* s, int32_t* group, int32_t entry) noexcept nogil:
    """The group of the engine of a job; NONE for other entries."""
    cdef Entry* e = &s.control.entry[entry]
    if e.op == OP_DMA:
        return group[s.dma_spm[s.dma_job[e.job].engine]]
    return group[s.compute_spm[s.compute_job[e.job].engine]] if e.op == OP_COMPUTE else NONE


cdef void untie(Sim* s, int32_t* group, int32_t* mixed) noexcept nogil:
    """Mark jobs whose dependents are all in the same group and wait for nothing else: they do not matter to other groups. `mixed`:
    zeros."""
    cdef Control* q = &s.control
    cdef int32_t i, k, of
    cdef bint alone
    for i in range(q.n):
        of = group_of(s, group, i)
        for k in range(q.entry[i].after, q.entry[i + 1].after):
            if of == NONE or group_of(s, group, q.dependents[k]) != of:
                mixed[q.dependents[k]] = True
    for i in range(q.n):
        alone = q.entry[i].tied
        for k in range(q.entry[i].after, q.entry[i + 1].after):
            alone = alone and not mixed[q.dependents[k]]
        if alone:
            q.entry[i].tied = False
            q.tied -= 1


cdef int lay_out_groups(Sim* s, Arena a, list flows) except -1:
    """`flows`: the largest number of flows that each DMA engine can have at a time. Afterwards no group is being run, unless there is only
    one."""
    groups = groups_of(s)
    mixed = np.zeros(s.control.n, dtype=np.int32)
    cdef int32_t* group = writable_int32s(groups)
    cdef int32_t words
    sizes = sizes_of(s, group, flows)
    words = sum([(size[4] + 63) // 64 for size in sizes])
    a.own(<void**>&s.groups.group, s.groups.n, sizeof(Group))
    a.own(<void**>&s.groups.at, s.groups.n, sizeof(cycle_t))
    a.own(<void**>&s.member, s.n_spm, sizeof(int32_t), False)
    a.own(<void**>&s.spm_position, s.n_spm, sizeof(int32_t), False)
    a.own(<void**>&s.horizon, sum([2 * leaves_of(size[0]) for size in sizes]), sizeof(cycle_t), False)
    a.own(<void**>&s.free_flow, s.n_flows, sizeof(slot_t))
    a.own(<void**>&s.wanted, words, sizeof(uint64_t))
    a.own(<void**>&s.groups.engine_bit, s.n_dma + s.n_compute + s.n_plugs, sizeof(int32_t), False)
    a.own(<void**>&s.groups.bit_engine, 64 * words, sizeof(int32_t), False)
    a.own(<void**>&s.groups.word, words, sizeof(int32_t), False)
    share_out(s, sizes)
    engine_bit(s, group)
    if s.groups.n > 1:
        untie(s, group, writable_int32s(mixed))
    a.own(<void**>&s.groups.early.item, s.control.n if s.groups.n > 1 else 0, sizeof(Timer), False)
    if s.groups.n == 1:
        s.n_member = s.n_spm
        s.leaves = s.groups.group[0].leaves
        s.n_free = s.groups.group[0].n_free
        s.words = words
    return 0
