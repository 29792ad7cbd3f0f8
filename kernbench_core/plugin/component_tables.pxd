"""Tables of plugged-in components: what is fixed, and where they stand. An arbiter of the run's own is plugged in too."""
from kernbench_core.plugin.abi cimport kb_arbiter_ops, kb_bank_request, kb_core_api, kb_engine_ops, kb_job, kb_scratchpad
from kernbench_core.plugin.cycle_heap cimport Clock
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t, uint64_t

cdef enum:
    NAMES = 64                # that `emit` was ever called with
    NAME_ROOM = 48            # [B] of each, with its 0
    MOST_BITS = 64            # of a weight
    BITS_AT = 7               # the parameter of a TE job that says them
    BITS = 8                  # where it does not

cdef enum Mistake:            # why a run failed; texts in plugin/plug_layout.pyx
    NO_MISTAKE = 0
    SAID_FAILED = 1           # value: what a callback returned
    WAKES_PAST = 2            # the cycle
    UNKNOWN_JOB = 3           # the job: of complete and emit
    UNKNOWN_ENGINE = 4        # the engine: of submit
    BAD_JOB = 5               # position of the parameter, 16 + 4 * region + field, or 100: its number of parameters or regions
    BAD_BYTES = 6
    BAD_PATH = 7              # the resource, or their number
    BAD_WEIGHT = 8
    UNKNOWN_FLOW = 9
    UNKNOWN_SPM = 10
    BAD_BANKS = 11            # the bank; -1: none at all
    OUTSIDE = 12              # called when the core called nobody
    BAD_NAME = 13
    TAKES_NO_JOBS = 14        # the job
    FORGOTTEN_JOB = 15        # the job: of started
    UNKNOWN_RESOURCE = 16     # the resource: of watch, set_capacity and members
    BAD_CAPACITY = 17         # its numerator

cdef struct Plug:             # a component; constant
    const kb_engine_ops* ops  # its functions
    kb_core_api api           # the functions that it may call
    void* sim                 # the run
    int32_t id                # its position among the components
    int32_t first_ghost       # its places in the tables of jobs,
    int32_t first_flow        # flows (from Plugs.first_flow on),
    int32_t first_ask         # and asks
    int32_t* engine           # [n_engines] those that it replaces: DMA engines, then compute from n_dma on
    int32_t n_engines         # how many these are

cdef struct PlugState:
    slot_t queue_first        # ghosts that wait for it, in order; those of an engine that it replaces stand there
    slot_t queue_last         # the last of these, or NONE
    int32_t queued            # how many these are
    bint busy                 # it has refused a job since it ran
    bint fresh                # it has not run yet
    int32_t ghosts            # open
    int32_t flows             # open flows
    int32_t asks              # open requests for banks
    int64_t jobs              # counters: jobs completed,
    nbytes_t nbytes           # bytes of flows closed,
    cycle_t held              # cycles that its asks were held, of those served

cdef struct Ghost:            # a job that a component submitted
    int32_t by                # component
    slot_t next               # in the queue of a component; in the free list
    kb_job job                # for a component that it goes to

cdef struct OpenFlow:         # by flow slot - Plugs.first_flow
    int64_t id                # number << 32 | slot; -1: not in use
    slot_t next               # in the free list
    bint ended                # in P7: it is over, and its component not told yet
    bint touched              # its end is to be found again
    nbytes_t gone             # [B] of earlier pieces

cdef struct Ask:              # a request for banks
    int64_t id                # -1: not in use
    slot_t next               # in the free list
    int32_t by                # the component that asks

cdef struct Notice:           # what is to be told in this P7
    int32_t to                # component; NONE: nobody any more
    int32_t kind              # what it says has ended: KB_JOB, KB_FLOW or KB_BANKS
    int64_t id                # of the job, flow or request

cdef struct Plugs:
    int32_t n                 # components
    Plug* plug                # [n] the components
    PlugState* state          # [n] their states
    int32_t calling           # the component that is being called, or NONE
    cycle_t now               # of the call
    bint late                 # it is P7: what it does counts from the next cycle on
    int32_t open              # jobs, flows and asks not closed, and components that have not run: the run is not over
    int32_t mistake           # Mistake; the first one ends the run
    int32_t mistaken          # its component
    int64_t mistake_value     # the value that was wrong
    cycle_t mistake_at        # the cycle of the mistake
    Clock wakes               # of components
    Clock ends                # of their flows
    int32_t* owner            # [entries, gap, ghosts] the component c that works on it; -2 - c: it has completed it; NONE
    slot_t* done              # entries completed in this cycle
    int32_t n_done            # how many these are
    Notice* notice            # what components will be notified of
    int32_t n_notices         # how many these are
    Ghost* ghost              # component jobs
    slot_t* free_ghost        # [components] of each: first free place; likewise
    slot_t* free_flow         # stack of unused flow slots of components
    slot_t* free_ask          # stack of unused requests
    int32_t first_flow        # flow slots from here on are theirs
    OpenFlow* flow            # flows of components
    slot_t* touched           # flows whose end is to be found again
    int32_t n_touched         # how many these are
    int32_t path_room         # resources of a flow, at most
    int32_t first_requester        # requesters from here on are asks
    Ask* ask                  # requests for banks
    slot_t* served            # asks served in this cycle
    int32_t n_served          # how many these are
    int64_t numbers           # flows and asks ever opened
    int64_t weight            # no resource has DMA flows of more weight at a time
    int32_t* dma_by           # [n_dma] the component that replaces the engine, or NONE
    int32_t* compute_by       # [n_compute]
    int32_t* opcode           # [entries] what they are called, and with what
    int64_t* params           # [entries][KB_PARAMS]
    int32_t* row              # [1 + ghosts] place of a submitted job among commands, from 1 on (plugin/traced_commands.pyx); NONE: unknown
    int64_t[MOST_BITS + 1] macs  # of submitted jobs that ended, by bits of the weights
    int64_t ops               # operations of jobs that ended
    nbytes_t streamed         # [B] of their operands that asked for banks
    char* names               # [NAMES][NAME_ROOM]
    int32_t n_names           # how many these are
    int32_t* watcher          # [resources] the component that is told of the members, or NONE
    int64_t* most             # [resources] numerator of the machine's capacity; 0: it was never set
    int32_t watched           # resources that have ever been watched

cdef enum ArbiterMistake:     # why it ended the run; texts in plugin/plugged_arbiter.pyx
    RULE_KEPT = 0
    RULE_FAILED = 1           # value: what `arbitrate` returned
    NOT_ASKED = 2             # the client
    TOO_MANY = 3              # ports that the bank has

cdef struct PluggedArbiter:   # up to `ops` it is state
    int32_t mistake           # ArbiterMistake; the first one ends the run
    int32_t spm               # where: scratchpad
    int32_t bank              # the bank of the mistake
    int64_t value             # the value that was wrong
    cycle_t at                # the cycle of the mistake
    const kb_arbiter_ops* ops  # the functions of the arbiter
    kb_scratchpad* pad        # [n_spm]
    kb_bank_request* request  # [requesters of a scratchpad, at most] of the cycle
    uint64_t* granted         # [requesters][mask_words] their masks

cdef inline int64_t place_in(int64_t id) noexcept nogil:
    """An id is number << 32 | place: in the tables of flows and asks, or of entries."""
    return <int64_t><uint32_t>id

cdef inline void plug_mistake(Plugs* p, int32_t component, int32_t what, int64_t value) noexcept nogil:
    """The run fails; only the first mistake counts."""
    if p.mistake == NO_MISTAKE:
        p.mistake = what
        p.mistaken = component
        p.mistake_value = value
        p.mistake_at = p.now

cdef inline void plug_tell(Plugs* p, int32_t to, int32_t kind, int64_t id) noexcept nogil:
    """In this P7."""
    cdef Notice* n = &p.notice[p.n_notices]
    n.to = to
    n.kind = kind
    n.id = id
    p.n_notices += 1
