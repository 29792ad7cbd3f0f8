"""The banks of a DRAM channel: open rows, and when each command may come (docs/model/dram_rows.md, R2).

A command is given in a cycle that is a multiple of the DRAM's period; all times here are core cycles.
"""
from kernbench_core.types cimport NONE, cycle_t, int32_t, int64_t

cdef enum:
    ACT = 0                   # open a row: the order of kernbench/cmdq/dram_timing.py
    PRE = 1                   # close it
    RD = 2                    # a burst from the open row
    WR = 3
    REF = 4                   # refresh all banks
    COMMANDS = 5
    WINDOW = 4                # activations in t_faw

cdef struct DeviceTiming:
    int32_t banks             # of a channel
    int32_t groups
    cycle_t period            # a DRAM clock
    cycle_t burst             # a burst is on the data bus for so long
    cycle_t to_read           # from RD to its first byte (t_cl), from WR (t_cwl)
    cycle_t to_write
    cycle_t faw               # WINDOW + 1 activations take longer than that
    cycle_t refi              # from refresh to refresh; 0: there is none
    cycle_t in_bank[COMMANDS][COMMANDS]     # [after][before] at least, 0: any time
    cycle_t in_group[COMMANDS][COMMANDS]
    cycle_t in_channel[COMMANDS][COMMANDS]

cdef struct Bank:
    int64_t row               # @row? the open one, or NONE
    cycle_t ready[COMMANDS]   # @later no earlier, for what was given to this bank
    int32_t passed            # @count bursts of the open row that went before an older one of another row
    int32_t hits              # model/dram/queue.pyx: bursts in the queue that may be next,
    int64_t wanted            # the row of the oldest,
    int64_t seen              # and in which look that was found

cdef struct Device:
    Bank* bank                # [banks], those of a group together
    cycle_t* group            # [groups][COMMANDS] no earlier, for what was given to that group
    cycle_t ready[COMMANDS]   # @later for what was given to the channel
    cycle_t opened[WINDOW]    # @later the last activations
    int32_t oldest            # @window of them

cdef void device_give(Device* d, DeviceTiming* t, int32_t bank, int32_t command, cycle_t now) noexcept nogil
cdef void device_close(Device* d, DeviceTiming* t, cycle_t now) noexcept nogil
cdef void device_refresh(Device* d, DeviceTiming* t, cycle_t now) noexcept nogil
cdef cycle_t device_closable(Device* d, DeviceTiming* t, bint* closed) noexcept nogil

cdef inline cycle_t device_ready(Device* d, DeviceTiming* t, int32_t bank, int32_t command) noexcept nogil:
    """No rule forbids the command from this cycle on."""
    return max(d.bank[bank].ready[command],
               max(d.ready[command], d.group[bank // (t.banks // t.groups) * COMMANDS + command]))
