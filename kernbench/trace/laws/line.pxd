cdef class Line:
    cdef public object event, component, t_cycle, unit, cmd_id, job_id, channel, size_bytes, latency_cycles, stall_cycles, mac_count
    cdef public object op_count, head_cycles, total_cycles, start_cycle, end_cycle, bytes, duration_cycles, num_requests
    cdef public object allowed, bank_id, window_cycles, busy_cycles, member_cycles, read_bytes, write_bytes
    cdef public object backpressure_cycles, bank_conflict_cycles, job_type, status, reason, direction, by, requests
    cdef public object grants, denials, dram_pj, noc_pj, spm_pj, mac_pj, ve_pj, static_pj, depth, flit_cycles
    cdef public int number
    cdef public long long now

    cdef void put(self, int place, object value) noexcept
