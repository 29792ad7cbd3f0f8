"""Commands to the banks of a DRAM channel. Who gives one has seen that no rule forbids it (`device_ready`)."""
from kernbench_core.types cimport NONE, cycle_t, int32_t


cdef inline void later(cycle_t* ready, cycle_t* gaps, cycle_t now) noexcept nogil:
    """What may follow a command of cycle `now`, and when."""
    cdef int32_t k
    for k in range(COMMANDS):
        if gaps[k]:
            ready[k] = max(ready[k], now + gaps[k])


cdef void device_give(Device* d, DeviceTiming* t, int32_t bank, int32_t command, cycle_t now) noexcept nogil:
    """ACT, PRE, RD or WR to one bank; the caller says which row ACT opens."""
    later(d.bank[bank].ready, t.in_bank[command], now)
    later(d.group + bank // (t.banks // t.groups) * COMMANDS, t.in_group[command], now)
    later(d.ready, t.in_channel[command], now)
    if command == PRE:
        d.bank[bank].row = NONE
    elif command == ACT:
        d.opened[d.oldest] = now
        d.oldest = (d.oldest + 1) % WINDOW
        d.ready[ACT] = max(d.ready[ACT], d.opened[d.oldest] + t.faw)


cdef cycle_t device_closable(Device* d, DeviceTiming* t, bint* closed) noexcept nogil:
    """From which cycle on all banks can be closed at once; `closed`: they are."""
    cdef int32_t k
    cdef cycle_t at = 0
    closed[0] = True
    for k in range(t.banks):
        if d.bank[k].row != NONE:
            closed[0] = False
            at = max(at, device_ready(d, t, k, PRE))
    return at


cdef void device_close(Device* d, DeviceTiming* t, cycle_t now) noexcept nogil:
    """PRE to all open banks, one command."""
    cdef int32_t k
    for k in range(t.banks):
        if d.bank[k].row != NONE:
            device_give(d, t, k, PRE, now)


cdef void device_refresh(Device* d, DeviceTiming* t, cycle_t now) noexcept nogil:
    """REF; all banks are closed."""
    later(d.ready, t.in_channel[REF], now)
