"""Builds the tables of row_buffer_v2 from the data that `kernbench.cmdq.controller_timing` makes of a machine."""
from kernbench_core.model.controller.requests cimport MAX_FIELDS, AddressFields, Channel, BurstSlot, Port, Request
from kernbench_core.model.controller.timing cimport COMMANDS, LEVELS, RANK, WINDOW, BankState, DeviceState, Timing, clock_t
from kernbench_core.state.arrays cimport int64_rows
from kernbench_core.types cimport NONE, int32_t, int64_t


cdef int fill_times(Timing* t, dict spec) except -1:
    cdef int32_t n = len(spec["rules"]), _k
    cdef const int64_t* rule = int64_rows(spec["rules"], n, 5)
    cdef clock_t* place
    for _k in range(LEVELS):
        t.nodes[_k] = spec["nodes"][_k]
    for _k in range(COMMANDS):
        t.clocks[_k] = spec["clocks"][_k]
    t.banks = t.nodes[LEVELS - 1]
    t.rank_banks = t.banks // t.nodes[<int>RANK]
    t.buses, t.phases = spec["buses"], spec["phases"]
    t.burst, t.to_read, t.to_write, t.to_drain = spec["burst"], spec["to_read"], spec["to_write"], spec["to_drain"]
    t.faw, t.refi, t.two_part, t.running = spec["faw"], spec["refi"], spec["two_part"], spec["running"]
    for _k in range(n):
        place = &t.other[rule[0]][rule[2]][rule[3]] if rule[1] else &t.gap[rule[0]][rule[2]][rule[3]]
        place[0] = max(place[0], rule[4])
        rule += 5
    return 0


cdef int fill_map(AddressFields* m, dict spec) except -1:
    cdef int32_t k
    cdef const int64_t* row = int64_rows(spec["map"], len(spec["map"]), 3)
    m.n, m.pairs, m.rows = len(spec["map"]), len(spec["hash"]), spec["rows"]
    if m.n > MAX_FIELDS or m.pairs > MAX_FIELDS:
        raise ValueError(f"an address map of {m.n} fields and {m.pairs} pairs: {MAX_FIELDS} at most")
    for k in range(m.n):
        m.field[k], m.size[k], m.factor[k] = row[3 * k], row[3 * k + 1], row[3 * k + 2]
    row = int64_rows(spec["hash"], m.pairs, 4)
    for k in range(m.pairs):
        m.left[k], m.right[k], m.shift[k], m.mask[k] = row[4 * k], row[4 * k + 1], row[4 * k + 2], row[4 * k + 3]
    return 0


cdef int lay_out_state(DeviceState* d, Arena a, Timing* t) except -1:
    cdef int32_t k, i
    a.own(<void**>&d.bank, t.banks, sizeof(BankState))
    for k in range(LEVELS):
        a.own(<void**>&d.ready[k], t.nodes[k] * COMMANDS, sizeof(clock_t))
        for i in range(t.banks):
            d.bank[i].node[k] = i // (t.banks // t.nodes[k])
    a.own(<void**>&d.opened, t.nodes[<int>RANK] * WINDOW, sizeof(clock_t))
    for k in range(t.nodes[<int>RANK] * WINDOW):
        d.opened[k] = -(<clock_t>1 << 40)       # long ago
    for k in range(t.banks):
        d.bank[k].row = NONE
    return 0


cdef int lay_out_controllers(Controllers* d, Arena a, dict spec, int32_t channels, int32_t flows) except -1:
    """`spec`: the timing of all channels; `flows`: slots, each with a buffer."""
    cdef Channel* c
    cdef int32_t k, i
    fill_times(&d.timing, spec)
    fill_map(&d.map, spec)
    d.n = channels
    d.depth[0], d.depth[1], d.slots = spec["read_queue"], spec["write_queue"], spec["places"]
    d.high, d.low, d.scheduler, d.cap = spec["high"], spec["low"], spec["scheduler"], spec["cap"]
    d.page, d.idle, d.per_bank, d.postpone = spec["page"], spec["idle"], spec["per_bank"], spec["postpone"]
    d.burst, d.num, d.den = spec["burst_bytes"], spec["num"], spec["den"]
    d.peak_num, d.peak_den = spec["peak_num"], spec["peak_den"]
    a.own(<void**>&d.port, flows, sizeof(Port))
    for k in range(flows):
        a.own(<void**>&d.port[k].ring, d.slots, sizeof(BurstSlot))
    a.own(<void**>&d.channel, channels, sizeof(Channel))
    for k in range(channels):
        c = &d.channel[k]
        for i in range(2):
            a.own(<void**>&c.queue[i], d.depth[i], sizeof(Request))
            c.turn[i].started = -1
        a.own(<void**>&c.active, d.timing.banks, sizeof(Request))
        lay_out_state(&c.device, a, &d.timing)
        c.refreshing = NONE
        c.pair_at = -1
        c.done = -1
    return 0
