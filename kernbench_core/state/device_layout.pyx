"""Builds the tables of row_buffer_v1 from the data that `kernbench.cmdq.dram_timing` makes of a machine; times are core cycles."""
from kernbench_core.state.arrays cimport int64_rows
from kernbench_core.model.dram.devices cimport Burst, Controller, Devices, Fetch, IssuedBurst
from kernbench_core.model.dram.device cimport COMMANDS, WINDOW, Bank, Device, DeviceTiming
from kernbench_core.types cimport NEVER, NONE, cycle_t, int32_t, int64_t

cdef enum:
    IN_BANK = 0               # scopes of timing rules
    IN_GROUP = 1


cdef int fill_timing(DeviceTiming* t, dict spec) except -1:
    cdef int32_t n = len(spec["rules"]), _k, after, before
    cdef const int64_t* rule = int64_rows(spec["rules"], n, 4)
    cdef cycle_t* place
    t.banks, t.groups, t.period, t.burst = spec["banks"], spec["groups"], spec["period"], spec["burst_cycles"]
    t.to_read, t.to_write, t.faw, t.refi = spec["to_read"], spec["to_write"], spec["faw"], spec["refi"]
    for _k in range(n):
        after = <int32_t>rule[1]
        before = <int32_t>rule[2]
        if rule[0] == IN_BANK:
            place = &t.in_bank[after][before]
        elif rule[0] == IN_GROUP:
            place = &t.in_group[after][before]
        else:
            place = &t.in_channel[after][before]
        place[0] = max(place[0], rule[3])
        rule += 4
    return 0


cdef int lay_out_device(Device* d, Arena a, DeviceTiming* t) except -1:
    cdef int32_t k
    a.own(<void**>&d.bank, t.banks, sizeof(Bank))
    a.own(<void**>&d.group, t.groups * COMMANDS, sizeof(cycle_t))
    for k in range(t.banks):
        d.bank[k].row = NONE
    for k in range(WINDOW):
        d.opened[k] = -(<cycle_t>1 << 40)       # long ago
    return 0


cdef int lay_out_devices(Sim* s, Arena a, dict spec) except -1:
    """`spec`: None without `dram.row_buffer`. The memories and shares must be laid out before."""
    cdef Devices* d
    cdef Controller* c
    cdef int32_t k
    if spec is None:
        return 0
    a.own(&s.share.devices, 1, sizeof(Devices))
    d = <Devices*>s.share.devices
    fill_timing(&d.timing, spec)
    d.n = s.share.channels
    d.depth, d.room, d.batch = spec["depth"], spec["room"], spec["batch"]
    d.columns, d.burst = spec["columns"], spec["burst"]
    d.scheduler, d.page, d.map = spec["scheduler"], spec["page"], spec["map"]
    a.alias(<void**>&d.memory, s.memory)
    a.own(<void**>&d.fetch, s.n_flows, sizeof(Fetch))
    a.own(<void**>&d.channel, d.n, sizeof(Controller))
    for k in range(d.n):
        c = &d.channel[k]
        a.own(<void**>&c.queue, d.depth, sizeof(Burst))
        a.own(<void**>&c.issued, d.room, sizeof(IssuedBurst))
        lay_out_device(&c.device, a, &d.timing)
        c.refresh = d.timing.refi
        c.turn_started = -1
        c.look_at = NEVER
        c.done = -1
        c.serving = NONE
    return 0
