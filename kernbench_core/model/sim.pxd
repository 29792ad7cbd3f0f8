"""All data of a run: the tables of a machine and of its program, and their state."""
from kernbench_core.fast.request_table cimport RequestTable
from kernbench_core.model.bank cimport Requester, Spm, TieBreak
from kernbench_core.model.cache cimport Caches
from kernbench_core.model.compute cimport Array, ArrayJob, Compute, ComputeJob, Stream
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
from kernbench_core.fast.lane_table cimport Lanes, LaneTable, RouteRate

cdef struct Stops:            # the conditions that stop a run early (`kbsim step --until`)
    int32_t start_of          # entry, or NONE: the run stops when the entry starts
    int32_t end_of            # entry, or NONE: the run stops when the entry ends
    bint on_stall             # the run stops when a DMA job stalls
    bint on_conflict          # the run stops when a request is denied
    bint hit                  # whether one of these conditions became true

# Called before the state of a scratchpad is changed from outside in cycle `now`: fast paths may not have simulated all its
# earlier cycles.
ctypedef void (*change_fn)(void* sim, int32_t spm, cycle_t now) noexcept nogil

cdef struct Sim:
    cycle_t cycle             # @cycle the next cycle to run
    cycle_t max_cycles        # the run is aborted before this cycle
    int32_t status            # @status Status
    int32_t n_memories        # number of memories
    Dram* memory              # [n_memories] the memories to and from which DMA engines move tiles
    Share share               # resources, flows and rates
    Control control           # the command queue
    int32_t n_dma             # number of DMA engines
    DmaEngine* dma            # [n_dma] DMA engines, by id
    int32_t* dma_spm          # [n_dma] index of the scratchpad of each DMA engine
    DmaJob* dma_job           # [n_dma_jobs] the jobs of all DMA engines
    int32_t n_dma_jobs        # number of DMA jobs
    bint own_routes  # whether there is one memory, and each engine has its own routes to it: engine, direction, channel
    Route* route              # all routes; the flows of a job have consecutive routes, by channel
    cycle_t* route_latency    # the sum of the link latencies of each route
    Routes routes             # all routes, also those added at run time
    int32_t n_compute         # number of tensor and vector engines
    Compute* compute          # [n_compute] tensor engines, then vector engines
    int32_t* compute_spm      # [n_compute] index of the scratchpad of each TE and VE
    Stream* stream            # the operand streams of all TEs and VEs
    RequestTable* ahead       # [n_compute] requests of the next body cycles of each TE and VE, for fast paths
    ComputeJob* compute_job   # [n_compute_jobs] the jobs of all TEs and VEs
    Array* array              # [n_compute] arrays, used for TEs whose jobs overlap; NULL: no jobs overlap
    ArrayJob* array_job       # [n_compute_jobs] times in the array of each compute job; NULL: no jobs overlap
    int32_t n_compute_jobs, n_spm  # numbers of compute jobs and of scratchpads
    Spm* spm                  # [n_spm] the scratchpads
    uint64_t* denials         # [DENIED] denials that a scratchpad notes during its turn (fast/block.pyx)
    int32_t noting            # index of the scratchpad whose denials are in `denials`
    Requester* requester      # [n_flows] flows, [n_compute] TEs and VEs, components' requests, far requesters of flows between scratchpads
    TieBreak* tie_break       # position of each requester in tie-break order
    uint64_t* mask  # [requester][reads, writes][mask_words] banks that a request still lacks, if one word does not have all banks
    int32_t mask_words        # largest number of 64-bit words of a mask of banks
    int32_t n_flows           # number of slots in share.flow
    slot_t* free_flow         # stack of unused slots of share.flow
    int32_t n_free            # number of unused slots of share.flow
    TimerHeap joins           # P4: DMA jobs in their head latency, by the cycle in which it ends
    TimerHeap ends  # P7: TEs and VEs after their body, by the cycle in which the job ends; n_compute + engine: the first draining job
    slot_t* rejoin            # flows served while out for backpressure: they are members again at the next P4
    int32_t n_rejoin          # number of these flows
    Groups groups             # the division of the machine into groups; a plain run has one group
    void* threads  # Threads (fast/threads.pyx) in which groups run ahead; NULL: the groups run ahead one after another
    int32_t* member           # indices of scratchpads, one group after another
    int32_t* spm_position     # position of each scratchpad among those of its group
    # number of scratchpads of the group that is being run; all lists and heaps that outlast a cycle belong to this group too
    int32_t n_member
    uint64_t* wanted          # one bit for each engine: whether P3 has work for it
    int32_t word, words       # the part of `wanted` that is tested: first word, number of words
    bint any_wanted           # whether some bit of that part is set
    slot_t* done_flow         # flows that finished in this cycle
    int32_t n_done_flow       # number of these flows
    slot_t* done_compute      # TEs and VEs that finished in this cycle
    int32_t n_done_compute    # number of these engines
    slot_t* pressed           # flows whose backpressure begins in this P7
    int32_t n_pressed         # number of these flows
    nbytes_t* channel_bytes   # [channels of a memory + 1] working space for the bytes of a transfer on each channel
    Caches* caches            # the last-level caches; NULL: there is none
    Route* write_back_route   # [channels] routes of the write-backs of a cache
    int32_t overlap           # Overlap: what the overlap check does
    int32_t* running          # entries that started and have not ended, for the overlap check
    int32_t n_running         # number of these entries
    int32_t* overlap_with     # [entries] the started entry that the entry overlapped, or NONE
    int32_t failed_entry      # @entry? the entry whose overlap ended the run, or NONE
    Stops stops               # conditions that end the run
    change_fn changing        # called before the state of a scratchpad changes (`scratchpad_touch`); NULL: no fast path is in use
    bint skip                 # whether quiet scratchpads are advanced in closed form
    int64_t lookahead_credit  # how many look-aheads without gain are allowed for one with gain (fast/conflict_free.pyx)
    int64_t* kept  # [2 * n_spm + 1] data about these look-aheads that is kept between two runs; not part of snapshots
    cycle_t* horizon          # a tree for each group: [leaves + position] is the cycle before which the scratchpad has no event;
    int32_t leaves            # [i] is the smaller of [2 * i] and [2 * i + 1], so [1] is the smallest of all
    LaneTable* lanes          # what the lanes of a machine with one scratchpad have in common
    Lanes* lane  # the lanes of all requesters of a machine with one scratchpad, and behind them room for a copy (fast/lane_windows.pyx)
    RouteRate* route_rate     # [routes.n] the rate of the open lanes of a route
    uint64_t* routes_over     # [n_res][LaneTable.route_words] a bit for each route over the resource
    uint64_t* lanes_of_route  # [routes.n][LaneTable.lane_words] a bit for each open lane of a flow of the route
    int32_t* lane_of          # [n_flows + n_compute] the lane of each requester, if it is the `Lanes.owner` of this lane
    int32_t* paired  # scratchpads with requesters of flows between scratchpads, which are run cycle by cycle (model/pair.pyx)
    slot_t* pair              # the flows between scratchpads
    int32_t n_paired          # number of scratchpads in `paired`
    bint far_requesters       # whether every flow may have a requester in another scratchpad
    # [scratchpads] open transfers of components that involve the scratchpad and are executed by engines of others; NULL: none
    int32_t* peer_transfers
    int32_t* peer_limit       # [scratchpads] largest number of such transfers; NULL: none
    int32_t* touched          # scratchpads whose horizon must be computed again
    int32_t n_touched         # number of scratchpads in `touched`
    uint64_t shuffle          # state of the generator that shuffles work lists; 0: the lists keep their order
    Tracer* trace             # the records of a traced run; NULL: the run is not traced
    bint traced               # @flag whether a part of the run was traced: `flow_trace` and `stream_trace` then exist
    FlowTrace* flow_trace     # [n_flows] trace data of each flow
    StreamTrace* stream_trace  # [n_compute][MAX_REGIONS] trace data of each operand stream
    int64_t issued            # @count number of issued entries, which is the position of the next one in the order of P2
    int64_t denied            # @count number of denied requests of all scratchpads, for `--until conflict`
    int32_t n_plugs           # number of components
    int32_t n_component_jobs  # room for jobs of components, which follow the jobs of the program; their entries follow control.n + 1
    int32_t n_component_requests  # number of requesters for requests of components, which follow those of TEs and VEs
    int32_t n_open            # number of flow slots for components, which are the last ones
    Interfaces* noc           # the network of routers; NULL: transfers do not move over routers
    Plugs* plugs              # the components; NULL: there are none
    Perturbed* perturbed      # the changes of a perturbed run; NULL: the run is not perturbed
    PluggedArbiter* arbiter   # the user-defined arbiter; NULL: scratchpads have arbiters of the core

cdef inline void scratchpad_changes(Sim* s, int32_t spm, cycle_t now) noexcept nogil:
    """Called before a scratchpad is changed in cycle `now`: its earlier cycles must have been simulated."""
    if s.changing != NULL:
        s.changing(s, spm, now)

cdef inline int32_t flow_channel(Sim* s, Flow* f) noexcept nogil:
    """The flow's DRAM channel, or the resource of the cache if it moves only over the cache; traces call both its channel. NONE
    if it has neither."""
    cdef int32_t cache = s.memory[s.dma_job[f.job].memory].cache if f.bus == NONE and s.caches != NULL else NONE
    return s.caches.cache[cache].resource if cache != NONE else f.bus

cdef inline Dram* memory_of(Sim* s, slot_t job) noexcept nogil:
    return &s.memory[s.dma_job[job].memory]

cdef inline uint64_t* reads_of(Sim* s, slot_t requester) noexcept nogil:
    return &s.requester[requester].reads if s.mask_words == 1 else s.mask + 2 * requester * s.mask_words

cdef inline uint64_t* writes_of(Sim* s, slot_t requester) noexcept nogil:
    return &s.requester[requester].writes if s.mask_words == 1 else s.mask + (2 * requester + 1) * s.mask_words

cdef inline bint lacks_banks(Sim* s, slot_t requester) noexcept nogil:
    """Whether the request of a requester was not granted completely."""
    cdef int32_t w
    if s.mask_words == 1:
        return (s.requester[requester].reads | s.requester[requester].writes) != 0
    for w in range(s.spm[s.requester[requester].spm].words):
        if reads_of(s, requester)[w] | writes_of(s, requester)[w]:
            return True
    return False

cdef inline cycle_t next_body_cycle(Sim* s, int32_t c) noexcept nogil:
    """The body cycle whose lines a TE or VE has not requested yet."""
    return s.compute[c].body - s.compute[c].body_left + (s.requester[s.n_flows + c].first_denied != NEVER)

cdef inline void want(Sim* s, int32_t engine) noexcept nogil:
    """Let P3 try this engine (DMA engines first, then compute engines)."""
    cdef int32_t bit = s.groups.engine_bit[engine]
    s.wanted[bit >> 6] |= <uint64_t>1 << (bit & 63)
    s.any_wanted = True

cdef inline bint has_queued(Sim* s, int32_t engine) noexcept nogil:
    """Whether jobs wait for this engine."""
    if engine < s.n_dma:
        return s.dma[engine].pending != 0
    return s.compute[engine - s.n_dma].queue_first != NONE

cdef inline void watch(Sim* s, int32_t dma) noexcept nogil:
    """The activity of this DMA engine may have changed: it is tested after P6 (`activity_phase`)."""
    cdef Spm* p = &s.spm[s.dma_spm[dma]]
    if not s.dma[dma].watched:
        s.dma[dma].watched = True
        p.watch[p.n_watch] = dma
        p.n_watch += 1
