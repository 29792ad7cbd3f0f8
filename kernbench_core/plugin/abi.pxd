"""The plug-in ABI, as declared in `abi.h`."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef extern from "abi.h" nogil:
    enum:
        KB_ABI_VERSION
        KB_PARAMS
        KB_REGIONS
        KB_HOPS
    enum:
        KB_OK
        KB_BUSY
        KB_FULL
        KB_REFUSED
        KB_FAILED
    enum:
        KB_FLOW
        KB_BANKS
        KB_JOB
        KB_MEMBERS
    const char* KB_CAPSULE
    const char* KB_ARBITER_CAPSULE

    struct kb_region:
        int64_t addr
        int64_t nbytes
        int64_t write

    struct kb_job:
        int64_t id
        int32_t entry
        int32_t opcode
        int32_t n_params
        int32_t n_regions
        int64_t params[KB_PARAMS]
        kb_region region[KB_REGIONS]

    struct kb_member:
        int64_t id
        int32_t engine
        int32_t weight
        int64_t nbytes
        int64_t num
        int64_t den

    struct kb_core_api:
        uint32_t abi_version
        uint32_t struct_size
        void* core
        int64_t (*submit)(void* core, int32_t engine_type, int32_t engine, const kb_job* job) noexcept nogil
        int64_t (*complete)(void* core, int64_t job) noexcept nogil
        int64_t (*open_flow)(void* core, int64_t nbytes, const int32_t* resources, int32_t n, int32_t weight) noexcept nogil
        int64_t (*close_flow)(void* core, int64_t flow) noexcept nogil
        int64_t (*ask_banks)(void* core, int32_t spm, const uint64_t* reads, const uint64_t* writes, int32_t words) noexcept nogil
        int64_t (*emit)(void* core, int64_t job, const char* name, int64_t value) noexcept nogil
        int64_t (*started)(void* core, int64_t job) noexcept nogil
        int64_t (*watch)(void* core, int32_t resource) noexcept nogil
        int64_t (*set_capacity)(void* core, int32_t resource, int64_t num, int64_t den) noexcept nogil
        int64_t (*members)(void* core, int32_t resource, kb_member* out, int32_t room) noexcept nogil

    struct kb_engine_ops:
        uint32_t abi_version
        uint32_t struct_size
        void* self
        const char* name
        int32_t jobs
        int32_t flows
        int32_t asks
        int64_t (*accept)(void* self, const kb_job* job, int64_t now) noexcept nogil
        int64_t (*advance)(void* self, int64_t now, const kb_core_api* core) noexcept nogil
        int64_t (*notify)(void* self, int32_t notice, int64_t id, int64_t now) noexcept nogil
        int64_t (*snapshot)(void* self, void* buf, int64_t room) noexcept nogil
        int64_t (*restore)(void* self, const void* buf, int64_t n) noexcept nogil

    struct kb_scratchpad:
        int32_t number
        int32_t banks
        int32_t words
        int32_t split
        int32_t ports[2]
        int32_t clients

    struct kb_bank_request:
        int32_t client
        int32_t channel
        int64_t submission
        int64_t since
        const uint64_t* reads
        const uint64_t* writes
        uint64_t* granted

    struct kb_arbiter_ops:
        uint32_t abi_version
        uint32_t struct_size
        void* self
        const char* name
        int64_t (*arbitrate)(void* self, const kb_scratchpad* spm, int64_t now, kb_bank_request* request, int32_t n) noexcept nogil
        int64_t (*snapshot)(void* self, void* buf, int64_t room) noexcept nogil
        int64_t (*restore)(void* self, const void* buf, int64_t n) noexcept nogil
