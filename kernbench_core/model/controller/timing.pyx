"""What follows from a command to a bank or a rank. Who gives one has seen that nothing forbids it."""
from kernbench_core.types cimport NONE, int32_t


cdef inline void later(clock_t* ready, clock_t* gaps, clock_t now) noexcept nogil:
    """What may follow a command of clock `now`, and when."""
    cdef int32_t k
    for k in range(COMMANDS):
        if gaps[k]:
            ready[k] = max(ready[k], now + gaps[k])


cdef void follow(DeviceState* d, Timing* t, BankState* b, int32_t levels, int32_t command, clock_t now) noexcept nogil:
    """In the first `levels` scopes of a bank, and in what lies beside them below the same parent."""
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


cdef void command_to_bank(DeviceState* d, Timing* t, int32_t bank, int32_t command, clock_t now) noexcept nogil:
    """ACT, PRE, RD, WR or REFB; the caller says which row ACT opens."""
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


cdef void command_to_rank(DeviceState* d, Timing* t, int32_t bank, int32_t command, clock_t now) noexcept nogil:
    """PREA or REF to the rank of a bank."""
    cdef int32_t rank = d.bank[bank].node[<int>RANK], k
    follow(d, t, &d.bank[bank], STACK, command, now)
    if command == PREA:
        for k in range(rank * t.rank_banks, (rank + 1) * t.rank_banks):
            d.bank[k].row = NONE
