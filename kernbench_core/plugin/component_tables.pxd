"""Tables of plugged-in components: constants and state. A user-defined arbiter is a plug-in too."""
from kernbench_core.plugin.abi cimport kb_arbiter_ops, kb_bank_request, kb_core_api, kb_engine_ops, kb_job, kb_scratchpad
from kernbench_core.plugin.cycle_heap cimport Clock
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t, nbytes_t, slot_t, uint32_t, uint64_t

cdef enum:
    NAMES = 64                # limit of names with which `emit` was called
    NAME_BYTES = 48           # [B] of each name, including its final 0
    MAX_BITS = 64             # largest number of bits of a weight
    BITS_AT = 7               # index of the parameter of a TE job with these bits
    BITS = 8                  # bits if the parameter is missing

cdef enum Mistake:            # why a run failed; plugin/plug_layout.pyx has the texts
    NO_MISTAKE = 0
    CALLBACK_FAILED = 1       # value: the result of the callback
    WAKES_PAST = 2            # value: the cycle
    UNKNOWN_JOB = 3           # value: the job of complete or emit
    UNKNOWN_ENGINE = 4        # value: the engine of submit
    BAD_JOB = 5               # value: index of the parameter; 16 + 4 * region + field; or 100: the number of parameters or regions
    BAD_BYTES = 6
    BAD_PATH = 7              # value: the resource, or the number of resources
    BAD_WEIGHT = 8
    UNKNOWN_FLOW = 9
    UNKNOWN_SPM = 10
    BAD_BANKS = 11            # value: the bank; -1: no banks at all
    OUTSIDE = 12              # called when the core was not calling the component
    BAD_NAME = 13
    TAKES_NO_JOBS = 14        # value: the job
    FORGOTTEN_JOB = 15        # value: the job of started
    UNKNOWN_RESOURCE = 16     # value: the resource of watch, set_capacity or members
    BAD_CAPACITY = 17         # value: its numerator

cdef struct Plug:             # a component; constant
    const kb_engine_ops* ops  # its functions
    kb_core_api api           # the functions that it may call
    void* sim                 # the run
    int32_t id                # index of the component
    int32_t first_flow        # index of its first place in `Plugs.flow`
    int32_t first_bank_request  # index of its first place in `Plugs.bank_request`
    int32_t* engine           # [n_engines] the engines that it replaces: DMA engines, then compute engines from n_dma on
    int32_t n_engines         # number of engines that it replaces

cdef struct PlugState:
    slot_t queue_first        # the first component job that waits for it; NONE: none waits. Jobs of a replaced engine are in its queue
    slot_t queue_last         # the last component job that waits for it; NONE: none waits
    int32_t queued            # number of component jobs that wait for it
    bint busy                 # whether it has refused a job since it last ran
    bint fresh                # whether it has not run yet
    int32_t open_jobs         # number of jobs that it works on
    int32_t flows             # number of its flows that have not ended
    int32_t asks              # number of its requests for banks that are not served
    int64_t jobs              # number of jobs that it has completed
    nbytes_t nbytes           # [B] moved by its flows that have ended
    cycle_t held              # number of cycles in which its requests were held; counted when a request is served

cdef struct ComponentJob:     # a job that a component submitted
    int32_t by                # index of the component that submitted it
    slot_t next               # the next job in the queue of a component, or the next unused place
    kb_job job                # the job in the form that a receiving component gets

cdef struct OpenFlow:         # indexed by flow slot - Plugs.first_flow
    int64_t id                # number << 32 | slot; -1: the place is unused
    slot_t next               # the next unused place
    bint ended                # in P7: it has ended, and its component is not yet notified
    bint touched              # whether its end must be computed again
    nbytes_t gone             # [B] moved by earlier pieces of the flow

cdef struct OpenRequest:      # a request for banks
    int64_t id                # id of the request; -1: the place is unused
    slot_t next               # the next unused place
    int32_t by                # index of the component that makes the request

cdef struct Notice:           # a notification of this P7
    int32_t to                # index of the component that is notified; NONE: the notification was withdrawn
    int32_t kind              # kind of the ended item: KB_JOB, KB_FLOW or KB_BANKS
    int64_t id                # id of the job, flow or request that has ended

cdef struct Plugs:
    int32_t n                 # number of components
    Plug* plug                # [n] the components
    PlugState* state          # [n] the state of each component
    int32_t calling           # index of the component that is being called; NONE: the core is calling none
    cycle_t now               # the cycle of the call
    bint late                 # whether it is P7: requests take effect from the next cycle on
    int32_t open              # jobs, flows and requests that are not closed, and components that have not run: the run is not over
    int32_t mistake           # Mistake; the first one ends the run
    int32_t mistaken          # index of the component that made the mistake
    int64_t mistake_value     # the value that was wrong
    cycle_t mistake_at        # the cycle of the mistake
    Clock wakes               # components, by the cycle in which they wake
    Clock ends                # flows of components, by the cycle in which they end
    int32_t* owner            # [entries, gap, component jobs] the component c that works on it; -2 - c: that has completed it; NONE
    slot_t* done              # entries completed in this cycle
    int32_t n_done            # number of these entries
    Notice* notice            # notifications of components
    int32_t n_notices         # number of these notifications
    ComponentJob* component_job  # the jobs that components submitted
    slot_t* free_component_job  # [components] first unused place of each component in `component_job`
    slot_t* free_flow         # [components] first unused place of each component in `flow`
    slot_t* free_bank_request  # [components] first unused place of each component in `bank_request`
    int32_t first_flow        # the flow slots from here on belong to components
    OpenFlow* flow            # the flows of components
    slot_t* touched           # flows whose end must be computed again
    int32_t n_touched         # number of these flows
    int32_t max_path          # largest number of resources of a flow
    int32_t first_requester        # the requesters from here on are requests of components
    OpenRequest* bank_request  # the requests of components for banks
    slot_t* served            # requests for banks that were served in this cycle
    int32_t n_served          # number of these requests
    int64_t numbers           # number of flows and requests ever opened
    int64_t weight            # largest weight of the concurrent DMA flows of any resource
    int32_t* dma_by           # [n_dma] the component that replaces the engine, or NONE
    int32_t* compute_by       # [n_compute] the component that replaces the engine, or NONE
    int32_t* opcode           # [entries] opcode and further data of the entries
    int64_t* params           # [entries][KB_PARAMS] parameters of the entries
    int32_t* row  # [1 + component jobs] row of a submitted job among commands, from 1 on (plugin/traced_commands.pyx); NONE: unknown
    int64_t[MAX_BITS + 1] macs  # MACs of submitted jobs that have ended, by the bits of the weights
    int64_t ops               # operations of submitted jobs that have ended
    nbytes_t streamed         # [B] of the operands of these jobs that requested banks
    char* names               # [NAMES][NAME_BYTES] the names with which `emit` was called
    int32_t n_names           # number of names
    int32_t* watcher          # [resources] the component that is notified of the members, or NONE
    int64_t* most             # [resources] numerator of the machine's capacity; 0: the capacity was never set
    int32_t watched           # number of resources that have ever been watched

cdef enum ArbiterMistake:     # why the arbiter ended the run; plugin/plugged_arbiter.pyx has the texts
    NO_ARBITER_MISTAKE = 0
    RULE_FAILED = 1           # value: the result of `arbitrate`
    NOT_REQUESTED = 2         # value: the client
    TOO_MANY = 3              # value: the number of ports of the bank

cdef struct PluggedArbiter:   # the fields up to `ops` are state
    int32_t mistake           # ArbiterMistake; the first one ends the run
    int32_t spm               # the scratchpad of the mistake
    int32_t bank              # the bank of the mistake
    int64_t value             # the value that was wrong
    cycle_t at                # the cycle of the mistake
    const kb_arbiter_ops* ops  # the functions of the arbiter
    kb_scratchpad* pad        # [n_spm] the scratchpads in the form that the arbiter gets
    kb_bank_request* request  # [most requesters of a scratchpad] requests of the cycle
    uint64_t* granted         # [requesters][mask_words] masks of the requests

cdef inline int64_t slot_of(int64_t id) noexcept nogil:
    """An id is number << 32 | place: a place in the tables of flows and requests, or of entries."""
    return <int64_t><uint32_t>id

cdef inline void plug_mistake(Plugs* p, int32_t component, int32_t what, int64_t value) noexcept nogil:
    """Record a mistake, with which the run fails; only the first mistake counts."""
    if p.mistake == NO_MISTAKE:
        p.mistake = what
        p.mistaken = component
        p.mistake_value = value
        p.mistake_at = p.now

cdef inline void plug_notify(Plugs* p, int32_t to, int32_t kind, int64_t id) noexcept nogil:
    """Add a notification to this P7."""
    cdef Notice* n = &p.notice[p.n_notices]
    n.to = to
    n.kind = kind
    n.id = id
    p.n_notices += 1
