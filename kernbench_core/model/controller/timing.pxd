"""A DRAM device under row_buffer_v2: banks, open rows, and the clock from which each command is allowed (C6).

All times in this file are DRAM clocks.

The caller that issues a command to a bank or a rank must have tested that the command is allowed.
"""
from kernbench_core.types cimport NONE, int8_t, int32_t, int64_t

ctypedef int64_t clock_t      # DRAM clocks since reset

cdef enum:                    # commands, in the order of kernbench/cmdq/controller_timing.py
    ACT = 0                   # opens a row
    PRE = 1                   # closes the row of a bank
    RD = 2                    # reads a burst from the open row
    WR = 3                    # writes a burst to the open row
    PREA = 4                  # closes all rows of a rank
    REF = 5                   # refreshes a rank
    REFB = 6                  # refreshes a bank
    ACT2 = 7                  # the second part of an activation
    CAS = 8                   # starts the data clock
    COMMANDS = 9
    WINDOW = 4                # activations that t_faw limits

cdef enum:                    # scopes of timing parameters, in the order of SCOPES there
    PSEUDO = 0
    RANK = 1
    STACK = 2
    GROUP = 3
    BANK = 4
    LEVELS = 5

cdef struct Timing:           # of all channels; state/controller_layout.pyx writes the struct, and nothing changes it later
    int32_t banks             # number of banks of a channel
    int32_t rank_banks        # number of banks of a rank
    int32_t nodes[LEVELS]     # number of nodes of each scope in a channel
    int32_t clocks[COMMANDS]  # clocks for which a command occupies its bus
    int32_t buses             # 1: one command at a time; 2: separate buses for row and column commands
    int32_t phases            # 2: only PRE may begin in an odd clock
    clock_t burst             # clocks for which a burst occupies the data bus
    clock_t to_read           # clocks from RD to the first data
    clock_t to_write          # clocks from WR to the first data
    clock_t to_drain          # clocks from the first data of a burst until it may be drained
    clock_t faw               # clocks from an ACT to the fourth ACT after it, at least
    clock_t refi              # clocks from one refresh to the next, of all banks or of one; 0: no refresh
    clock_t two_part          # largest number of clocks from ACT1 to ACT2; 0: ACT is a single command
    clock_t running           # clocks for which the data clock continues after the last data; 0: it never stops
    clock_t gap[LEVELS][COMMANDS][COMMANDS]  # smallest number of clocks from the first command to the second at the same node; 0: no limit
    clock_t other[LEVELS][COMMANDS][COMMANDS]  # smallest number of clocks to a command at another node with the same parent; 0: no limit

cdef struct BankState:
    int64_t row               # @row? the open row, or NONE
    int32_t node[LEVELS]      # the numbers of its pseudo-channel, rank, stack, group and bank
    int32_t active            # number of requests for which ACT was issued, and no column command yet
    bint opening              # @flag whether it waits for ACT2
    clock_t act2_by           # @later the last clock in which ACT2 may be issued
    int32_t passed            # @count bursts of the open row that passed the oldest burst of the bank
    clock_t used              # @later the clock of the last column command
    int64_t scan              # the run of `mark_queue` that wrote the fields below
    int64_t oldest_row        # the row of the oldest burst in the served queue
    int32_t hits              # bursts of the served queue that need the open row
    clock_t hit_queued_at     # the clock in which the oldest of these bursts came

cdef struct DeviceState:      # of one channel
    BankState* bank           # [banks] the state of each bank
    clock_t* ready[LEVELS]    # [nodes][COMMANDS] the clock from which each command is allowed
    clock_t* opened           # [ranks][WINDOW] the clocks of the last activations of each rank, the oldest first

cdef inline clock_t bank_ready(DeviceState* d, int32_t bank, int32_t command) noexcept nogil:
    """The clock from which no timing parameter forbids a command to a bank."""
    cdef BankState* b = &d.bank[bank]
    cdef clock_t at = d.ready[0][b.node[0] * COMMANDS + command]
    cdef int32_t k
    for k in range(1, LEVELS):
        at = max(at, d.ready[k][b.node[k] * COMMANDS + command])
    return at

cdef inline clock_t rank_ready(DeviceState* d, int32_t bank, int32_t command) noexcept nogil:
    """The same for a command to the rank of a bank."""
    cdef BankState* b = &d.bank[bank]
    return max(d.ready[<int>PSEUDO][b.node[<int>PSEUDO] * COMMANDS + command], d.ready[<int>RANK][b.node[<int>RANK] * COMMANDS + command])

cdef inline void later(clock_t* ready, clock_t* gaps, clock_t now) noexcept nogil:
    """Update which commands may follow a command of clock `now`, and when."""
    cdef int32_t k
    for k in range(COMMANDS):
        if gaps[k]:
            ready[k] = max(ready[k], now + gaps[k])

cdef inline void follow(DeviceState* d, Timing* t, BankState* b, int32_t levels, int32_t command, clock_t now) noexcept nogil:
    """Update the first `levels` scopes of a bank, and the nodes with the same parents."""
    cdef int32_t k, node, first, beside
    for k in range(levels):
        later(d.ready[k] + b.node[k] * COMMANDS, t.gap[k][command], now)
        if k == 0 or t.nodes[k] == t.nodes[k - 1]:
            continue
        beside = t.nodes[k] // t.nodes[k - 1]
        first = b.node[k] // beside * beside
        for node in range(first, first + beside):
            if node != b.node[k]:
                later(d.ready[k] + node * COMMANDS, t.other[k][command], now)

cdef inline void command_to_bank(DeviceState* d, Timing* t, int32_t bank, int32_t command, clock_t now) noexcept nogil:
    """ACT, PRE, RD, WR or REFB; the caller sets the row that ACT opens."""
    cdef BankState* b = &d.bank[bank]
    cdef int32_t rank = b.node[<int>RANK], k
    cdef clock_t* ring = d.opened + rank * WINDOW
    follow(d, t, b, LEVELS, command, now)
    if command == PRE:
        b.row = NONE
    elif command == ACT:
        for k in range(WINDOW - 1):
            ring[k] = ring[k + 1]
        ring[WINDOW - 1] = now
        d.ready[<int>RANK][rank * COMMANDS + <int>ACT] = max(d.ready[<int>RANK][rank * COMMANDS + <int>ACT], ring[0] + t.faw)

cdef inline void command_to_rank(DeviceState* d, Timing* t, int32_t bank, int32_t command, clock_t now) noexcept nogil:
    """PREA or REF to the rank of a bank."""
    cdef int32_t rank = d.bank[bank].node[<int>RANK], k
    follow(d, t, &d.bank[bank], STACK, command, now)
    if command == PREA:
        for k in range(rank * t.rank_banks, (rank + 1) * t.rank_banks):
            d.bank[k].row = NONE
