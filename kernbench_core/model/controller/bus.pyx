"""When a command is allowed: its bus is free, no time forbids it, and it may begin in this phase of the device's clock."""
from kernbench_core.model.controller.timing cimport ACT2, PRE, PREA, PSEUDO, REF, bank_ready, rank_ready
from kernbench_core.types cimport NONE, int32_t


cdef clock_t allowed_at(Controllers* d, Channel* c, int32_t bank, int32_t command, clock_t now) noexcept nogil:
    """The first clock from `now` on in which the command is allowed, if nothing else is given before."""
    cdef Timing* t = &d.timing
    cdef clock_t at = max(now, c.bus_free[bus_of(t, command)])
    if command != ACT2:
        at = max(at, rank_ready(&c.device, bank, command) if command == PREA or command == REF else bank_ready(&c.device, bank, command))
    if t.phases == 1:
        return at
    if command != PRE and command != PREA:
        return at + (at & 1)
    if (at & 1 and at == c.pair_at and c.device.bank[bank].node[<int>PSEUDO] == c.pair_pseudo
            and (command == PREA or c.pair_bank == NONE or c.pair_bank == bank)):
        return at + 1
    return at


cdef void hold_bus(Controllers* d, Channel* c, int32_t bank, int32_t command, clock_t now) noexcept nogil:
    """The command takes its bus."""
    c.bus_free[bus_of(&d.timing, command)] = now + d.timing.clocks[command]
    if d.timing.phases == 2 and not now & 1 and not of_columns(command):
        c.pair_at = now + d.timing.clocks[command]
        c.pair_pseudo = c.device.bank[bank].node[<int>PSEUDO]
        c.pair_bank = NONE if command == PREA or command == REF else bank
