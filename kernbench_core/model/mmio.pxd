"""The host that writes entries into the command queue by MMIO (docs/model/control.md, Enqueue by MMIO)."""
from kernbench_core.model.heap cimport Timer, TimerHeap
from kernbench_core.types cimport cycle_t, int8_t, int32_t

cdef struct Mmio:
    cycle_t write             # cycles that the host takes to write one entry
    cycle_t latency           # cycles from the end of the write to the arrival
    cycle_t interrupt         # cycles from the end of an entry until the host knows the interrupt
    int8_t* raises            # [n] whether the entry raises an interrupt when it ends
    int8_t* written           # [n] whether the host writes the entry
    int32_t* unknown  # [n] for an entry that the host writes: number of its dependencies whose interrupts are not yet raised
    cycle_t* known            # [n] for such an entry: the last cycle in which the host knows one of its raised interrupts
    cycle_t* arrival          # [n] NEVER: the host has not begun to write the entry; 0 for other entries
    TimerHeap coming          # entries whose interrupts are all raised, by the cycle in which the host knows them
    int32_t* waiting          # heap of the positions of known entries that the host has not begun to write
    int32_t n_waiting         # number of these entries
    int32_t* in_transit       # entries that have not arrived, in the order of their writes: from `first` to `last`
    int32_t first             # index in `in_transit` of the next entry to arrive
    int32_t last              # index in `in_transit` after the last of these entries
    cycle_t free              # the first cycle in which the host is free to write

cdef void mmio_open(Mmio* h, int32_t n) noexcept nogil
cdef void mmio_raised(Mmio* h, const int32_t* dependents, int32_t n, cycle_t end) noexcept nogil
cdef int32_t mmio_arrived(Mmio* h, cycle_t now) noexcept nogil
cdef void mmio_begin(Mmio* h, cycle_t now) noexcept nogil
cdef cycle_t mmio_next(Mmio* h) noexcept nogil
