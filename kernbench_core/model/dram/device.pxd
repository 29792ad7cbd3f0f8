"""A DRAM device from the view of a channel: its banks, open rows, and the cycle from which each command is allowed
(docs/model/dram_rows.md, R2).

A command is issued in a cycle that is a multiple of the DRAM's period; all times in this file are core cycles.

The caller that issues a command must have tested that the command is allowed (`device_ready`).
"""
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t

cdef enum:                    # commands, in the order of kernbench/cmdq/dram_timing.py
    ACT = 0                   # opens a row
    PRE = 1                   # closes the open row
    RD = 2                    # reads a burst from the open row
    WR = 3                    # writes a burst to the open row
    REF = 4                   # refreshes all banks
    COMMANDS = 5
    WINDOW = 4                # activations that t_faw limits

cdef struct DeviceTiming:     # of all channels; state/device_layout.pyx writes the struct, and nothing changes it later
    int32_t banks             # banks of a channel
    int32_t groups            # bank groups of a channel
    cycle_t period            # [cycle] one DRAM clock
    cycle_t burst             # [cycle] time for which a burst occupies the data bus
    cycle_t to_read           # [cycle] time from RD to the first byte (t_cl)
    cycle_t to_write          # [cycle] time from WR to the first byte (t_cwl)
    cycle_t faw               # [cycle] smallest time from an ACT to the fourth ACT after it
    cycle_t refi              # [cycle] time from one refresh to the next; 0: no refresh
    cycle_t in_bank[COMMANDS][COMMANDS]  # [cycle] smallest time from the first command to the second in the same bank; 0: no limit
    cycle_t in_group[COMMANDS][COMMANDS]    # [cycle] smallest time from the first command to the second in the same bank group; 0: no limit
    cycle_t in_channel[COMMANDS][COMMANDS]  # [cycle] smallest time from the first command to the second in the same channel; 0: no limit

cdef struct Bank:
    int64_t row               # @row? the open row, or NONE; the controller writes it with ACT, device_give with PRE
    cycle_t ready[COMMANDS]  # @later the cycle from which each command is allowed by earlier commands to this bank; device_give writes it
    int32_t passed            # @count bursts of the open row that passed an older burst of another row; controller.pyx counts
    int32_t candidates        # number of queued bursts of the bank that are candidates; the scheduler counts them
    int64_t oldest_row        # the row of the oldest queued burst of the bank; the scheduler writes it
    int64_t marked            # number of the scan (Devices.scans) in which the scheduler wrote `candidates` and `oldest_row`
    int64_t open_row_scan     # number of the scan in which the page policy found a queued burst for the open row

cdef struct Device:           # the device of one channel
    Bank* bank                # [banks] the state of each bank; the banks of one group are adjacent
    cycle_t* group            # [groups][COMMANDS] the cycle from which each command is allowed by earlier commands to the group
    cycle_t ready[COMMANDS]   # @later the cycle from which each command is allowed by earlier commands to the channel
    cycle_t opened[WINDOW]    # @later cycles of the last activations, as a ring buffer; device_give writes it
    int32_t oldest            # @window position of the oldest activation in the ring buffer

cdef inline cycle_t device_ready(Device* d, DeviceTiming* t, int32_t bank, int32_t command) noexcept nogil:
    """The cycle from which no timing rule forbids the command."""
    return max(d.bank[bank].ready[command],
               max(d.ready[command], d.group[bank // (t.banks // t.groups) * COMMANDS + command]))

cdef inline void later(cycle_t* ready, cycle_t* gaps, cycle_t now) noexcept nogil:
    """Update which commands may follow a command of cycle `now`, and when."""
    cdef int32_t k
    for k in range(COMMANDS):
        if gaps[k]:
            ready[k] = max(ready[k], now + gaps[k])

cdef inline void device_issue(Device* d, DeviceTiming* t, int32_t bank, int32_t command, cycle_t now) noexcept nogil:
    """ACT, PRE, RD or WR to one bank; the caller sets the row that ACT opens."""
    later(d.bank[bank].ready, t.in_bank[command], now)
    later(d.group + bank // (t.banks // t.groups) * COMMANDS, t.in_group[command], now)
    later(d.ready, t.in_channel[command], now)
    if command == PRE:
        d.bank[bank].row = NONE
    elif command == ACT:
        d.opened[d.oldest] = now
        d.oldest = (d.oldest + 1) % WINDOW
        d.ready[ACT] = max(d.ready[ACT], d.opened[d.oldest] + t.faw)

cdef inline cycle_t device_closable(Device* d, DeviceTiming* t, bint* closed) noexcept nogil:
    """The cycle from which all banks can be closed with one command; `closed`: whether all are closed."""
    cdef int32_t k
    cdef cycle_t at = 0
    closed[0] = True
    for k in range(t.banks):
        if d.bank[k].row != NONE:
            closed[0] = False
            at = max(at, device_ready(d, t, k, PRE))
    return at

cdef inline void device_close(Device* d, DeviceTiming* t, cycle_t now) noexcept nogil:
    """PRE to all open banks, as one command."""
    cdef int32_t k
    for k in range(t.banks):
        if d.bank[k].row != NONE:
            device_issue(d, t, k, PRE, now)

cdef inline void device_refresh(Device* d, DeviceTiming* t, cycle_t now) noexcept nogil:
    """REF; all banks must be closed."""
    later(d.ready, t.in_channel[REF], now)
