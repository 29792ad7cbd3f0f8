/* The plug-in ABI of kernbench's core: what a component gives (kb_engine_ops), and what it may call (kb_core_api); what an
 * arbiter of scratchpad banks gives (kb_arbiter_ops).
 *
 * A component is handed over as a PyCapsule named KB_CAPSULE that points to a kb_engine_ops, an arbiter as one named
 * KB_ARBITER_CAPSULE that points to a kb_arbiter_ops; both must outlive the run. Everything is
 * called by the thread that runs the core, without the GIL. Nothing here raises: numbers below 0 are a kb_status.
 * docs/reference/components.md is the contract.
 */
#ifndef KERNBENCH_ABI_H
#define KERNBENCH_ABI_H

#include <stdint.h>

#define KB_ABI_VERSION 1
#define KB_CAPSULE "kernbench_core.kb_engine"
#define KB_ARBITER_CAPSULE "kernbench_core.kb_arbiter"
#define KB_NEVER INT64_MAX /* a cycle that does not come: sleep */
#define KB_PARAMS 16
#define KB_REGIONS 4
#define KB_HOPS 64 /* resources on the path of a flow, at most */

typedef enum kb_status {
    KB_OK = 0,
    KB_BUSY = -1,    /* accept: not now; offered again after the component has run, and first when it has */
    KB_FULL = -2,    /* as many jobs, flows or asks are open as kb_engine_ops says */
    KB_REFUSED = -3, /* a mistake of the component: it ends the run as failed */
    KB_FAILED = -4   /* said by a callback: ends the run as failed */
} kb_status;

enum kb_engine_type { KB_DMA = 0, KB_TE = 1, KB_VE = 2, KB_COMPONENT = 6, KB_CPU = 7 }; /* whom `submit` names; CPU: an M_CPU */
enum kb_notice { KB_FLOW = 0, KB_BANKS = 1, KB_JOB = 2 };                   /* what has come to its end */

typedef struct kb_region { /* an operand in the scratchpad */
    int64_t addr;          /* flat address */
    int64_t nbytes;
    int64_t write;
} kb_region;

typedef struct kb_job {
    int64_t id;    /* unique in a run; set by the core */
    int32_t entry; /* position in the command queue, -1 where a component submitted it; set by the core */
    int32_t opcode;
    int32_t n_params;
    int32_t n_regions;
    int64_t params[KB_PARAMS]; /* in the order of docs/reference/components.md */
    kb_region region[KB_REGIONS];
} kb_job;

typedef struct kb_core_api {
    uint32_t abi_version;
    uint32_t struct_size;
    void *core; /* the first argument of all that follows */
    int64_t (*submit)(void *core, int32_t engine_type, int32_t engine, const kb_job *job); /* the job's id; in P3 it is seen */
    int64_t (*complete)(void *core, int64_t job); /* an accepted job ends: end = this cycle + 1 */
    int64_t (*open_flow)(void *core, int64_t nbytes, const int32_t *resources, int32_t n, int32_t weight); /* the flow's id */
    int64_t (*close_flow)(void *core, int64_t flow); /* early: the bytes that it moved */
    int64_t (*ask_banks)(void *core, int32_t spm, const uint64_t *reads, const uint64_t *writes, int32_t words); /* the ask's id */
    int64_t (*emit)(void *core, int64_t job, const char *name, int64_t value); /* a MARKER of an accepted job's command */
    int64_t (*started)(void *core, int64_t job); /* when a submitted job started, KB_BUSY before; up to and in the notice of its end */
} kb_core_api;

typedef struct kb_engine_ops {
    uint32_t abi_version; /* KB_ABI_VERSION */
    uint32_t struct_size; /* sizeof(kb_engine_ops) */
    void *self;           /* the first argument of all that follows */
    const char *name;
    int32_t jobs;  /* place is kept for so many submitted and not ended, */
    int32_t flows; /* flows open, */
    int32_t asks;  /* and bank requests not served, at a time */
    /* These return the next cycle to run in, above `now`, or KB_NEVER; the earliest that was said counts. */
    int64_t (*accept)(void *self, const kb_job *job, int64_t now); /* P3; it starts, or KB_BUSY. NULL: takes no jobs */
    int64_t (*advance)(void *self, int64_t now, const kb_core_api *core); /* P1, in cycle 0 and whenever it is due */
    int64_t (*notify)(void *self, int32_t notice, int64_t id, int64_t now); /* P7 of the cycle in which it came. NULL: not told */
    /* Bytes needed or written, at most `room` of them. NULL: a run with it cannot be saved. */
    int64_t (*snapshot)(void *self, void *buf, int64_t room);
    int64_t (*restore)(void *self, const void *buf, int64_t n); /* 0, or KB_FAILED */
} kb_engine_ops;

typedef struct kb_scratchpad { /* constant in a run */
    int32_t number;
    int32_t banks;
    int32_t words;    /* of 64 bits, in a mask of banks */
    int32_t split;    /* ports[0] are for reads, ports[1] for writes; else ports[0] are for both, and all banks stand in `reads` */
    int32_t ports[2]; /* of each bank */
    int32_t clients;  /* of the machine, numbered in tie-break order: DMA engines, tensor engines, vector engines, components */
} kb_scratchpad;

typedef struct kb_bank_request { /* of one cycle */
    int32_t client;
    int32_t channel;        /* DRAM channel of a flow, else 0 */
    int64_t submission;     /* of a client, requests that were submitted earlier have lower numbers */
    int64_t since;          /* the cycle in which it was denied first, KB_NEVER: it was not */
    const uint64_t *reads;  /* masks of banks that it still lacks */
    const uint64_t *writes; /* a bank in both needs a port of each kind */
    uint64_t *granted;      /* to be filled in: banks that it is given; 0 at first */
} kb_bank_request;

typedef struct kb_arbiter_ops {
    uint32_t abi_version; /* KB_ABI_VERSION */
    uint32_t struct_size; /* sizeof(kb_arbiter_ops) */
    void *self;           /* the first argument of all that follows */
    const char *name;
    /* P5 of cycle `now`, of a scratchpad that somebody asks; requests stand in tie-break order. 0, or KB_FAILED. */
    int64_t (*arbitrate)(void *self, const kb_scratchpad *spm, int64_t now, kb_bank_request *request, int32_t n);
    /* As of kb_engine_ops. */
    int64_t (*snapshot)(void *self, void *buf, int64_t room);
    int64_t (*restore)(void *self, const void *buf, int64_t n);
} kb_arbiter_ops;

#endif
