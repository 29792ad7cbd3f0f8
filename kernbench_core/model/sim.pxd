"""Everything a run is: the tables of a machine and of its program, and where they stand."""
from kernbench_core.fast.request_table cimport Ahead
from kernbench_core.model.bank cimport Requester, Spm, TieBreak
from kernbench_core.model.cache cimport Caches
from kernbench_core.model.compute cimport Compute, ComputeJob, Stream
from kernbench_core.model.control cimport Control
from kernbench_core.model.dma cimport DmaEngine, DmaJob
from kernbench_core.model.dram.extent cimport Dram
from kernbench_core.trace.events cimport FlowTrace, StreamTrace, Tracer
from kernbench_core.fast.group cimport Groups
from kernbench_core.model.heap cimport TimerHeap
from kernbench_core.model.noc.interface cimport Interfaces
from kernbench_core.model.perturbed cimport Perturbed
from kernbench_core.plugin.component_tables cimport PluggedArbiter, Plugs
from kernbench_core.model.share.membership cimport Flow, Route, Routes, Share
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint64_t
from kernbench_core.fast.timing_wheel cimport Wheel

cdef struct Stops:            # what ends a run early (`kbsim step --until`)
    int32_t start_of          # entry, or NONE: the run ends when it starts
    int32_t end_of            # entry, or NONE: the run ends when it does
    bint on_stall             # the run ends when a DMA job stalls
    bint on_conflict          # the run ends when a request is denied
    bint hit                  # one of these came true

# Called before the state of a scratchpad is changed from outside in cycle `now`: fast paths may have left it behind.
ctypedef void (*change_fn)(void* sim, int32_t spm, cycle_t now) noexcept nogil

cdef struct Sim:
    cycle_t cycle             # @cycle the next cycle to run
    cycle_t max_cycles        # the run is aborted before this cycle
    int32_t status            # @status Status
    int32_t n_memories        # memories
    Dram* memory              # [n_memories] what DMA engines move tiles to and from
    Share share               # resources, flows and rates
    Control control           # the command queue
    int32_t n_dma             # DMA engines
    DmaEngine* dma            # [n_dma] DMA engines, by id
    int32_t* dma_spm          # [n_dma] the scratchpad of each
    DmaJob* dma_job           # [n_dma_jobs] jobs of DMA engines
    int32_t n_dma_jobs        # how many these are
    bint own_routes           # one memory, and each engine has its routes to it: engine, direction, channel
    Route* route              # a job's flows have consecutive ones, by channel
    cycle_t* route_latency    # of each, the sum of its links' latencies
    Routes routes             # all routes, also those added at run time
    int32_t n_compute         # tensor engines, then vector engines
    Compute* compute          # [n_compute] TEs and VEs
    int32_t* compute_spm      # [n_compute] the scratchpad of each
    Stream* stream            # of all of them
    Ahead* ahead              # [n_compute]
    ComputeJob* compute_job   # [n_compute_jobs] jobs of TEs and VEs
    int32_t n_compute_jobs, n_spm  # compute jobs; scratchpads
    Spm* spm                  # [n_spm] scratchpads
    uint64_t* denials         # [DENIED] where a scratchpad notes them during its turn (fast/block.pyx),
    int32_t noting            # and which one that is
    Requester* requester      # [n_flows] flows, then [n_compute], then far requesters of flows between scratchpads
    TieBreak* tie_break       # of each requester
    uint64_t* mask            # [requester][reads, writes][mask_words] what a request still lacks, where one word does not hold all banks
    int32_t mask_words        # 64-bit words of a mask of banks, at most
    int32_t n_flows           # slots in share.flow
    slot_t* free_flow         # stack of unused slots
    int32_t n_free            # how many these are
    TimerHeap joins           # jobs at the end of their head latency (P4)
    TimerHeap ends            # compute engines after their body (P7)
    slot_t* rejoin            # flows served while out for backpressure: members again at the next P4
    int32_t n_rejoin          # how many these are
    Groups groups             # how the machine is divided; a plain run has one group
    void* threads             # Threads (fast/threads.pyx) in which groups run ahead; NULL: they do so one after the other
    int32_t* member           # scratchpads, group by group
    int32_t* place            # where each scratchpad stands in its group
    int32_t n_member          # of the group whose turn it is, as all lists and heaps of more than one cycle
    uint64_t* wanted          # bit an engine: P3 has something to try there
    int32_t word, words       # the part of `wanted` that is looked at: first word, how many
    bint any_wanted           # some bit of that part is set
    slot_t* done_flow         # finished in this cycle
    int32_t n_done_flow       # how many these are
    slot_t* done_compute      # TEs and VEs that finished in this cycle
    int32_t n_done_compute    # how many these are
    slot_t* pressed           # flows whose backpressure begins in this P7
    int32_t n_pressed         # how many these are
    nbytes_t* channel_bytes   # working space: [channels of a memory + 1]
    Caches* caches            # NULL: there is no last-level cache
    Route* write_back_route   # [channels] of what a cache writes back
    int32_t overlap           # Overlap
    int32_t* running          # entries started and not ended, for the overlap check
    int32_t n_running         # how many these are
    int32_t* overlap_with     # [entries] the started entry that it overlapped, NONE
    int32_t failed_entry      # @entry? whose overlap ended the run, NONE
    Stops stops               # conditions that end the run
    change_fn changing        # NULL: no fast path is in use
    bint skip                 # quiet scratchpads are advanced in closed form
    int64_t looks             # looks for conflict-free horizons that paid are worth so many that did not (fast/conflict_free.pyx)
    int64_t* kept             # [2 * n_spm + 1] what is known of them between two runs: in no snapshot
    cycle_t* horizon          # a tree for each group: [leaves + place] of a scratchpad: it brings no event in an earlier cycle;
    int32_t leaves            # [i], the smaller one of [2 * i] and [2 * i + 1]: so [1] is the smallest of all
    Wheel* wheel              # of a scratchpad that is alone
    int32_t* paired           # scratchpads with requesters of flows between scratchpads that are run cycle by cycle (model/pair.pyx)
    slot_t* pair              # those flows
    int32_t n_paired          # how many these scratchpads are
    bint far_requesters       # every flow may have one in another scratchpad
    int32_t* far_open         # [scratchpads] transfers of components to or from it by others' engines; NULL: none
    int32_t* far_room         # [scratchpads] at most so many of them; NULL: none
    int32_t* touched          # scratchpads whose horizon is to be found again
    int32_t n_touched         # how many these are
    uint64_t shuffle          # state of the generator that shuffles work lists; 0: they keep their order
    Tracer* trace             # NULL: the run is not traced
    bint traced               # @flag some run of it was: it has
    FlowTrace* flow_trace     # [n_flows]
    StreamTrace* stream_trace  # [n_compute][MAX_REGIONS]
    int64_t issued            # @count entries: the place of the next one in P2
    int64_t denied            # @count requests denied, all scratchpads: for `--until conflict`
    int32_t n_plugs           # components, and what they take of the tables:
    int32_t n_ghosts          # places for jobs of components: behind those of the program, entries behind control.n + 1
    int32_t n_asks            # requesters for requests of components, the last of all
    int32_t n_open            # flow slots for components, the last of all
    Interfaces* noc           # NULL: transfers do not move over routers
    Plugs* plugs              # NULL: there are no components
    Perturbed* perturbed      # NULL: the run is not perturbed
    PluggedArbiter* arbiter   # NULL: scratchpads have arbiters of the core

cdef inline void scratchpad_changes(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    """Something is about to be done to a scratchpad in cycle `now`: its cycles before that must have been run."""
    if s.changing != NULL:
        s.changing(s, spm, now)

cdef inline int32_t flow_channel(Sim* s, Flow* f) noexcept nogil:
    """Its DRAM channel, or the resource of the cache that it is over alone: traces call both its channel. NONE where it has none."""
    cdef int32_t cache = s.memory[s.dma_job[f.job].memory].cache if f.bus == NONE and s.caches != NULL else NONE
    return s.caches.cache[cache].resource if cache != NONE else f.bus

cdef inline Dram* memory_of(Sim* s, slot_t job) noexcept nogil:
    return &s.memory[s.dma_job[job].memory]

cdef inline uint64_t* reads_of(Sim* s, slot_t requester) noexcept nogil:
    return &s.requester[requester].reads if s.mask_words == 1 else s.mask + 2 * requester * s.mask_words

cdef inline uint64_t* writes_of(Sim* s, slot_t requester) noexcept nogil:
    return &s.requester[requester].writes if s.mask_words == 1 else s.mask + (2 * requester + 1) * s.mask_words

cdef inline bint lacks_banks(Sim* s, slot_t requester) noexcept nogil:
    """The request of a requester was not granted in whole."""
    cdef int32_t w
    if s.mask_words == 1:
        return (s.requester[requester].reads | s.requester[requester].writes) != 0
    for w in range(s.spm[s.requester[requester].spm].words):
        if reads_of(s, requester)[w] | writes_of(s, requester)[w]:
            return True
    return False

cdef inline cycle_t next_body_cycle(Sim* s, int32_t c) noexcept nogil:
    """The body cycle whose lines a TE or VE has not asked for yet."""
    return s.compute[c].body - s.compute[c].body_left + (s.requester[s.n_flows + c].first_denied != NEVER)

cdef inline void want(Sim* s, int32_t engine) noexcept nogil:
    """P3 shall look at this engine (DMA engines first, then compute)."""
    cdef int32_t bit = s.groups.seat[engine]
    s.wanted[bit >> 6] |= <uint64_t>1 << (bit & 63)
    s.any_wanted = True

cdef inline void watch(Sim* s, int32_t dma) noexcept nogil:
    """What this DMA engine is doing may have changed: it is looked at after P6 (`activity_phase`)."""
    cdef Spm* p = &s.spm[s.dma_spm[dma]]
    if not s.dma[dma].watched:
        s.dma[dma].watched = True
        p.watch[p.n_watch] = dma
        p.n_watch += 1
