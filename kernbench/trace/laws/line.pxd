cdef class Line:
    cdef public object event, component, unit, job_type, status, reason, direction, by, requests, grants, denials, dram_pj
    cdef public object noc_pj, spm_pj, mac_pj, ve_pj, static_pj, depth
    cdef public long long t_cycle, cmd_id, job_id, channel, size_bytes, latency_cycles, stall_cycles, mac_count, op_count
    cdef public long long head_cycles, total_cycles, start_cycle, end_cycle, bytes, duration_cycles, num_requests, allowed
    cdef public long long bank_id, window_cycles, busy_cycles, member_cycles, read_bytes, write_bytes, backpressure_cycles
    cdef public long long bank_conflict_cycles, flit_cycles
    cdef public int number

    cdef void count(self, int index, long long value) noexcept

    cdef void set(self, int index, object value) noexcept
