"""The executor of the command queue: counts of dependencies, issue width, barriers (docs/model/control.md, P2)."""
from kernbench_core.model.mmio cimport Mmio
from kernbench_core.types cimport cycle_t, int8_t, int16_t, int32_t, int64_t

cdef struct Entry:
    int16_t op                # Opkind: the kind of the entry
    int8_t tied               # whether the job is a dependency of entries outside its group (fast/group_layout.pyx)
    int32_t job               # index of its DMA or compute job
    int32_t waits             # number of dependencies that are not complete
    int32_t after             # index of its first dependent in Control.dependents
    cycle_t issue             # @past? the cycle in which it was issued; NEVER: not yet
    cycle_t start             # @past? the cycle in which its job started; NEVER: not yet
    cycle_t end               # @past? the cycle in which it was complete; NEVER: not yet
    int64_t number            # @count position of its job in the order of issue

cdef struct Control:
    Entry* entry              # [n] the entries of the program, in file order
    int32_t n                 # number of entries
    int32_t* dependents       # entries that depend on entry i: positions `entry[i].after` to `entry[i + 1].after`; entry[n] ends the list
    int32_t* barriers         # positions of the BARRIER entries, in file order
    int32_t n_barriers        # number of barriers
    int32_t passed            # number of barriers that are complete; these are the first ones
    int32_t end               # position of the END entry; -1 if there is none
    int32_t width             # largest number of engine jobs that are issued in a cycle; 0: no limit
    int32_t completed         # number of entries that are complete
    int32_t tied              # number of entries with `Entry.tied` that are not complete
    int32_t* ready_jobs       # heap of the positions of ready jobs, the lowest first; a perturbed run orders them by `rank`
    int32_t n_ready_jobs      # number of ready jobs
    int32_t* ready_control    # heap of the positions of ready control entries, the lowest first
    int32_t n_ready_control   # number of ready control entries
    int32_t* later            # entries that became ready before the cursor; the next pass handles them
    int32_t n_later           # number of these entries
    int32_t* rank             # perturbed runs: the rank of each position in the order of P2; else NULL
    int32_t* ranked           # perturbed runs: the position that has each rank
    int32_t cursor            # position of the entry that the current pass handles
    int32_t* finished         # engine entries that have ended since the last P2
    int32_t n_finished        # number of these entries
    int32_t in_flight         # number of engine jobs issued and not ended
    int64_t submitted         # number of engine jobs issued since the start: the submission number
    Mmio* mmio                # the host that writes entries; NULL: every entry is in the queue from cycle 0 on
    cycle_t mmio_at           # the next cycle in which P2 must run for the host; NEVER: none is known
    bint limited              # whether ready jobs were not issued because of the issue width: P2 runs again in the next cycle

# Called for each issued entry: for a job, `seq` is its number; for a control entry, -1; ARRIVED: the entry arrives in the
# queue.
cdef enum:
    ARRIVED = -2
ctypedef void (*submit_fn)(void* sim, int32_t entry, int64_t seq) noexcept nogil

cdef void control_open(Control* q) noexcept nogil
cdef void control_release(Control* q, int32_t first) noexcept nogil
cdef int32_t control_take(Control* q, cycle_t now) noexcept nogil
cdef void control_settle(Control* q, cycle_t before) noexcept nogil
cdef int32_t control_issue(Control* q, cycle_t now, submit_fn submit, void* sim) noexcept nogil
