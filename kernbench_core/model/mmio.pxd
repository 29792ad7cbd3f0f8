"""The host that writes entries into the command queue by MMIO (docs/model/control.md, Enqueue by MMIO)."""
from kernbench_core.model.heap cimport Timer, TimerHeap
from kernbench_core.types cimport cycle_t, int8_t, int32_t

cdef struct Mmio:
    cycle_t write             # cycles in which the host writes one entry
    cycle_t latency           # cycles from the end of the write to the arrival
    cycle_t interrupt         # cycles from the end of an entry to the interrupt that the host knows
    int8_t* raises            # [n] the entry raises an interrupt when it ends
    int8_t* written           # [n] the host writes the entry
    int32_t* unknown          # [n] of an entry that the host writes: interrupts of dependencies that are not raised
    cycle_t* known            # [n] of such an entry: the last of its interrupts that are raised
    cycle_t* arrival          # [n] NEVER: the host has not begun to write it; 0 of other entries
    TimerHeap coming          # entries whose interrupts are raised, by the cycle in which they are known
    int32_t* waiting          # heap of the positions of known entries that the host has not begun to write
    int32_t n_waiting         # how many these are
    int32_t* on_way           # entries that have not arrived, in the order of their writes: `first` up to `last`
    int32_t first             # place of the next entry to arrive
    int32_t last              # behind the place of the last one
    cycle_t free              # the host writes nothing from this cycle on

cdef void mmio_open(Mmio* h, int32_t n) noexcept nogil
cdef void mmio_raised(Mmio* h, const int32_t* dependents, int32_t n, cycle_t end) noexcept nogil
cdef int32_t mmio_arrived(Mmio* h, cycle_t now) noexcept nogil
cdef void mmio_begin(Mmio* h, cycle_t now) noexcept nogil
cdef cycle_t mmio_next(Mmio* h) noexcept nogil
