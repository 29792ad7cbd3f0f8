"""Windows of cycles in which only open lanes make requests.

Until the first request of another kind (`first_other_request`), each lane requests one line after the other, whatever the other lanes do,
unless a request is denied. A window therefore handles eight lanes at a time, and all their lines, in any order: it only counts
how many lines ask for a bank in each cycle. If a bank has fewer ports, the window is run again, up to this cycle, and rolling handles this
cycle in tie-break order. Such cycles are rare, and the windows after one are short.
"""
from libc.string cimport memcpy, memset

from kernbench_core.fast.lane_table cimport BANKS, FAR, LANES, WINDOW, LaneTable, Lanes, next_line
from kernbench_core.fast.simd cimport vectors
from kernbench_core.model.requester cimport activity_phase
from kernbench_core.types cimport int8_t, int32_t, uint8_t


cdef enum:
    NUMBERS = sizeof(Lanes) // sizeof(int32_t)  # of a struct
    PART = 31                 # structs whose lanes are counted before ports are compared: a byte counts them and seven more


cdef inline int32_t least(int32_t* field, int32_t n) noexcept nogil:
    """The smallest value of a field, given by its place in the first of `n` structs."""
    cdef int32_t _k, j, found = FAR
    if vectors.level:
        return vectors.least(field, n, NUMBERS)
    for _k in range(n):
        for j in range(LANES):
            found = min(found, field[j])
        field += NUMBERS
    return found


cdef cycle_t first_request(Sim* s) noexcept nogil:
    """No requester makes a request in an earlier cycle."""
    return s.lanes.epoch + least(s.lane[0].at, s.lanes.blocks)


cdef cycle_t first_other_request(Sim* s) noexcept nogil:
    """No requester makes a request in an earlier cycle, except those of open lanes."""
    return s.lanes.epoch + least(s.lane[0].until, s.lanes.blocks)


cdef void find_due(Sim* s, cycle_t now) noexcept nogil:
    """Write the lanes that are due in this cycle into `LaneTable.due`."""
    cdef LaneTable* x = s.lanes
    cdef int32_t k, j, at = <int32_t>(now - x.epoch)
    cdef int8_t* due = <int8_t*>x.due
    x.due[(x.blocks - 1) // 8] = 0
    if vectors.level:
        vectors.due(s.lane[0].at, x.blocks, NUMBERS, at, due)
        return
    for k in range(x.blocks):
        due[k] = 0
        for j in range(LANES):
            due[k] |= (s.lane[k].at[j] <= at) << j


cdef int32_t run_lanes(Sim* s, int32_t first, int32_t n, int32_t begin, int32_t end) noexcept nogil:
    """Count the lines that the lanes of `n` structs request in the cycles from `begin` to before `end`. Return 1 if any of them is on
    side 1, plus 2 if any is on side 0."""
    cdef LaneTable* x = s.lanes
    cdef Lanes* g
    cdef int32_t k, j, sides = 0
    if vectors.level:
        return vectors.run_lanes(s.lane[first].num, n, NUMBERS, begin, end, x.hop, x.chunk, x.banks, x.asked[0][0])
    for k in range(first, first + n):
        g = &s.lane[k]
        for j in range(LANES):
            while g.at[j] < end:
                x.asked[g.side[j]][g.at[j] - begin][g.bank[j]] += 1
                sides |= 2 >> g.side[j]
                next_line(x, g, j)
    return sides


cdef uint8_t most_asked(uint8_t* asked, int32_t cycles) noexcept nogil:
    """The most lines that ask for a bank in one of the cycles."""
    cdef uint8_t[BANKS] most
    cdef uint8_t found = 0
    cdef int32_t _k, b
    memset(most, 0, sizeof(most))
    for _k in range(cycles):
        for b in range(BANKS):
            most[b] = max(most[b], asked[b])
        asked += BANKS
    for b in range(BANKS):
        found = max(found, most[b])
    return found


cdef int32_t granted_cycles(uint8_t* asked, int32_t cycles, int32_t ports) noexcept nogil:
    """The number of cycles before the first one in which a bank has fewer ports than are asked for, at most `cycles`."""
    cdef int32_t k
    if vectors.level:
        return vectors.granted_cycles(asked, cycles, ports)
    if most_asked(asked, cycles) <= ports:
        return cycles
    for k in range(cycles):
        if most_asked(asked + k * BANKS, 1) > ports:
            return k
    return cycles


cdef void count_grants(uint8_t* asked, int32_t cycles, Spm* p) noexcept nogil:
    """Count the ports that were taken in `cycles` cycles, and let nothing be asked for in these cycles any more."""
    cdef uint8_t[BANKS] grants
    cdef int32_t begin, _k, b
    for begin in range(0, cycles, 32):          # a byte can count seven ports in so many cycles
        if vectors.level:
            vectors.count_grants(asked + begin * BANKS, min(32, cycles - begin), p.grants.count, p.banks)
            continue
        memset(grants, 0, sizeof(grants))
        for _k in range(min(32, cycles - begin)):
            for b in range(BANKS):
                grants[b] += asked[b]
                asked[b] = 0
            asked += BANKS
        for b in range(p.banks):
            p.grants.count[b] += grants[b]


cdef inline void copy_lanes(Lanes* to, Lanes* lanes, int32_t n) noexcept nogil:
    """Copy the fields that a window changes."""
    cdef int32_t k
    if vectors.level:
        vectors.copy_lanes(to.num, lanes.num, n, NUMBERS)
        return
    for k in range(n):
        memcpy(to[k].at, lanes[k].at, 5 * LANES * sizeof(int32_t))


cdef bint run_window(Sim* s, Spm* p, cycle_t to) noexcept nogil:
    """Run cycles before `to` in which only open lanes make requests; false if one of these requests is denied in the next cycle."""
    cdef LaneTable* x = s.lanes
    cdef int32_t begin = <int32_t>(p.done - x.epoch), cycles = <int32_t>(min(to, p.done + x.window) - p.done)
    cdef int32_t granted = cycles, sides = 0, side, k
    cdef Lanes* before = s.lane + (s.n_flows + s.n_compute) // LANES + 1
    copy_lanes(before, s.lane, x.blocks)
    for k in range((x.blocks + PART - 1) // PART):
        sides |= run_lanes(s, PART * k, min(PART, x.blocks - PART * k), begin, begin + granted)
        for side in range(2):
            if sides & 2 >> side:
                granted = granted_cycles(x.asked[side][0], granted, p.ports[side])
    if granted < cycles:
        copy_lanes(s.lane, before, x.blocks)
        for side in range(2):
            memset(x.asked[side], 0, cycles * BANKS)
        run_lanes(s, 0, x.blocks, begin, begin + granted)
        x.window = granted
    else:
        x.window = min(2 * x.window, WINDOW)
    for side in range(2):
        if sides & 2 >> side:
            count_grants(x.asked[side][0], granted, p)
    if granted and p.n_watch:                   # no request of the window changes it
        activity_phase(s, p)
    p.done += granted
    return granted == cycles
