"""The trace schema: every event type, its number, level, phase and fields, once.

Writer, reader, validation, the JSON Schema and `docs/reference/trace.md` are all made from `EVENTS`. The schema is
append-only: a released number, field or code is never removed and never changes its meaning. A new field is added at the end, with
the version that introduced it, and is always optional.
"""

from __future__ import annotations

from typing import Literal

import msgspec

VERSION = "1.2"  #: the version of this schema, `major.minor`: a new field or event raises the minor number

Level = Literal["summary", "full", "access"]
LEVELS: tuple[str, ...] = ("off", "summary", "full", "access")  #: each holds all events of those before it
Kind = Literal["int", "text", "number", "flag", "label", "ints", "texts", "object", "objects"]

#: The phases of a cycle, P1 to P7 of docs/model/time_and_phases.md. Phase 0 is the first phase: an event at the end of work has
#: the first cycle after the work, and comes before all other events of this cycle.
PHASES: tuple[str, ...] = ("end", "wake", "issue", "start", "share", "bank", "move", "complete", "sample")


class Field(msgspec.Struct, frozen=True):
    """One field of an event."""

    name: str
    kind: Kind
    doc: str
    unit: str = ""  #: cycle, B, pJ, ...; empty for names and counts
    required: bool = True  #: always written; other fields are omitted if they have no value
    since: str = "1.0"  #: version of the schema that brought it
    choices: tuple[str, ...] = ()


class Event(msgspec.Struct, frozen=True):
    """One event type."""

    number: int  #: last tie-break of the order in the file
    name: str
    level: Level
    phase: int  #: index into PHASES
    component: str  #: CPU, TE, VE, DMA, DRAM, SRAM, NOC, or "" where `unit` says it
    doc: str
    fields: tuple[Field, ...]
    since: str = "1.0"


def _id(name: str, doc: str, required: bool = True) -> Field:
    return Field(name, "int", doc, required=required)


def _cycles(name: str, doc: str) -> Field:
    return Field(name, "int", doc, "cycle")


def _bytes(name: str, doc: str) -> Field:
    return Field(name, "int", doc, "B")


def _optional(field: Field) -> Field:
    return Field(field.name, field.kind, field.doc, field.unit, False, field.since, field.choices)


UNIT = Field("unit", "text", "track of the event: the name of an engine, channel, link or scratchpad, as `TRACE_META.units` lists it")
CMD = _id("cmd_id", "id of the command queue's entry")
JOB = _id("job_id", "number of the job, in the order in which jobs are issued")
TX = _id("tx_id", "number of the transfer: its `job_id`")
CHANNEL = _id("channel", "DRAM channel")
PHASE_OF = Field("phase", "text", "phase of the model, as the entry gives it", required=False)
STATUS = Field("status", "text", "how the command ended", choices=("OK", "ERROR", "TIMEOUT", "DEADLOCK", "CANCELLED"))
ACCESS = Field("access_type", "text", "direction, seen from the scratchpad", choices=("READ", "WRITE"))

#: The fields by which a command refers to the language model (seed 003 section 5). Written on CMD_ENQUEUE alone; readers join by `cmd_id`.
LLM_FIELDS: tuple[Field, ...] = (
    Field("layer_id", "int", "layer of the model", required=False),
    Field("block_id", "int", "block of the layer", required=False),
    PHASE_OF,
    Field("head_id", "int", "attention head", required=False),
    Field("token_idx", "int", "position of the token", required=False),
    Field("seq_len", "int", "length of the sequence", "token", required=False),
    Field("model_name", "text", "name of the model", required=False),
    Field("precision", "text", "number format, as `W4A8`", required=False),
)

#: Allowed on any event; omitted if they equal `TRACE_META.defaults`.
COMMON_FIELDS: tuple[Field, ...] = (
    Field("t_cycle", "int", "cycle of the event", "cycle"),
    Field("t_ns", "number", "time of the event, `t_cycle / freq_ghz`; exports and data frames have this field, the trace of a run does not", "ns", required=False),
    Field("sim_id", "text", "id of the run", required=False),
    Field("core_id", "int", "core that queued the command", required=False),
    Field("npu_id", "int", "NPU that ran the command", required=False),
    Field("tenant_id", "int", "tenant of the command", required=False),
    Field("thread_id", "int", "thread that queued the command", required=False),
)

STALL_REASONS: tuple[str, ...] = ("queue_full", "priority_deferred", "backpressure", "bank_conflict")
WARN_CODES: dict[str, str] = {
    "OVERLAP": "with `spm.check_overlap: warn`, a starting job and a running job use the same scratchpad range, and at least one of them writes it",
    "LOW_UTIL": "a TE or VE worked in a window of `window_cycles`, but in less than half of its cycles",
    "HIGH_CONFLICT": "a window had at least one bank request per cycle, and more than a quarter of its requests were denied",
    "CHANNEL_SATURATED": "a DRAM channel moved at least 95% of its capacity in each of eight consecutive windows; not written again before a window is below 95%",
}
ERROR_CODES: dict[str, str] = {
    "OVERLAP": "with `spm.check_overlap: error`, an overlap ends the run as failed",
    "DEADLOCK": "nothing can ever happen again",
    "MAX_CYCLES": "the run was stopped at `max_cycles`",
    "COMPONENT": "a plugged-in component failed",
}

EVENTS: tuple[Event, ...] = (
    Event(0, "TRACE_META", "summary", 0, "", "The first line: the program and the machine of the run. `t_cycle` is the first cycle of the file.", (
        Field("version", "text", "version of the trace schema"),
        Field("sim_version", "text", "version of kernbench"),
        Field("model_version", "int", "version of the timing model"),
        Field("sim_id", "text", "digest of program, machine, model version and package version: the same run has the same id"),
        Field("level", "text", "level of the trace", choices=LEVELS[1:]),
        Field("freq_ghz", "text", "core clock, as an exact decimal or fraction", "GHz"),
        Field("window_cycles", "int", "length of a sample window", "cycle"),
        Field("program", "text", "name of the program"),
        Field("program_hash", "text", "SHA-256 of the program"),
        Field("config_hash", "text", "SHA-256 of the machine"),
        Field("sim_config", "object", "the whole machine, including default values"),
        Field("units", "objects", "every track, with `unit`, `component`, `index`, `parent`, and its rates (`capacity` in B/cycle as text, "
              "`weight`s, `macs_per_cycle`, ...)"),
        Field("defaults", "object", "values of common fields; an event omits a common field with this value"),
        Field("filter", "object", "the cycles [from, to) and the patterns of units (`only`) that the trace is limited to", required=False),
        Field("commands", "int", "number of entries of the queue; components may submit more commands during the run"),
    )),
    Event(1, "TRACE_END", "summary", 8, "", "The last line: how the run ended. A file without this line is truncated.", (
        Field("status", "text", "status of the run", choices=("done", "aborted", "deadlock", "failed", "interrupted")),
        Field("cycles", "int", "number of cycles that the run executed", "cycle"),
        Field("events", "int", "number of events between the first and the last line"),
        Field("counters", "object", "counters of the result, as in the output of `--json`"),
        Field("energy_pj", "object", "energy of each part of the machine", "pJ", required=False),
    )),
    Event(10, "CMD_ENQUEUE", "summary", 2, "CPU", "A command is in the queue. Commands of a program are in the queue before cycle 0, unless a host writes them. Commands of components enter the queue during the run. Only this event has the fixed properties of a command.", (
        CMD,
        Field("cmd_type", "text", "opcode"),
        Field("unit", "text", "engine that will run the command; `control` for NOP, BARRIER and END"),
        Field("source", "text", "how the command was queued", required=False, choices=("ISA", "MMIO")),
        Field("token", "int", "completion token", required=False),
        Field("desc_addr", "int", "address of the command's descriptor", required=False),
        *LLM_FIELDS,
        Field("tile_id", "int", "tile inside the block", required=False),
        Field("deps", "ints", "commands that must be complete first: those in `deps_before` and `wait_for`, and those whose `deps_after` names this command", required=False),
        Field("bytes", "int", "number of aligned bytes of a transfer", "B", required=False),
        Field("work", "int", "MACs of a TE command, operations of a VE command", required=False),
        Field("tensor", "text", "tensor of a DMA command, or `kv`; only on machines with `energy.by_cause`", required=False, since="1.2"),
        Field("qbits", "int", "bits of the weights of a TE command; only on machines with `energy.by_cause`", required=False, since="1.2"),
        Field("position", "int", "position of the entry in the program, from 0; only on machines with `control.mmio`", required=False, since="1.2"),
        Field("visible", "int", "if the command waited for a message: the cycle from which the message could be used; only with protocols that have `cycles`", "cycle", required=False, since="1.2"),
    )),
    Event(11, "CMD_START", "summary", 3, "CPU", "The engine begins the command. A control command starts in phase 2, when it is issued.", (CMD, UNIT)),
    Event(12, "CMD_END", "summary", 0, "CPU", "The command has ended. If a run ends without the status `done`, each open command gets a CMD_END at the end of the run.", (CMD, UNIT, STATUS)),
    Event(20, "JOB_ISSUE", "summary", 2, "CPU", "The control unit puts a job into the queue of its engine.", (
        JOB, CMD, UNIT,
        Field("job_type", "text", "TE_GEMM, VE_SOFTMAX, DMA_READ, DMA_WRITE, ..."),
        Field("tile_id", "int", "tile of a DMA or TE job", required=False),
        Field("vec_chunk_id", "int", "tile of a VE job", required=False),
        PHASE_OF,
    )),
    Event(21, "JOB_DONE", "summary", 0, "CPU", "The job is complete.", (
        JOB, CMD, UNIT,
        Field("job_type", "text", "the same as in JOB_ISSUE"),
        _cycles("latency_cycles", "time from issue to end"),
    )),
    Event(30, "DMA_START", "summary", 3, "DMA", "A transfer starts with its head latency. Its bytes move afterwards.", (
        TX, UNIT,
        Field("channel", "int", "DMA channel: 0 act_weight, 1 kv_load, 2 kv_store, 3 comm"),
        Field("direction", "text", "direction of the bytes", choices=("DRAM_TO_SRAM", "SRAM_TO_DRAM", "SRAM_TO_SRAM")),
        Field("src_addr", "int", "address of the first aligned byte at the source; a scratchpad address is flat, and the address at the host is 0"),
        Field("dst_addr", "int", "address of the first aligned byte at the destination"),
        _bytes("size_bytes", "number of aligned bytes, which are the bytes that move"),
        CMD, JOB, PHASE_OF,
        _cycles("head_cycles", "head latency: the time until the transfer is a member of its resources"),
        Field("weight", "int", "weight of the transfer's flows in shared bandwidth"),
        Field("peer", "text", "for a transfer between scratchpads: the track of the other scratchpad", required=False, since="1.1"),
    )),
    Event(31, "DMA_END", "summary", 0, "DMA", "The last byte of the transfer has moved.", (
        TX, UNIT, Field("channel", "int", "the same as in DMA_START"), CMD, JOB, _cycles("latency_cycles", "time from start to end"),
    )),
    Event(32, "CACHE_LOOKUP", "summary", 3, "DMA", "A starting transfer has looked up its lines in the last-level cache.", (
        TX, UNIT, CMD, JOB,
        Field("hits", "int", "lines that were in the cache"), Field("misses", "int", "lines that were not in the cache"),
        _bytes("hit_bytes", "bytes of the transfer on lines that hit"), _bytes("miss_bytes", "bytes of the transfer on lines that missed"),
        Field("evictions", "int", "lines that were evicted"), Field("write_backs", "int", "evicted lines that were dirty, and are written to DRAM"),
    ), since="1.2"),
    Event(40, "TE_START", "summary", 3, "TE", "A tensor engine starts a job.", (
        JOB, CMD, UNIT,
        *(Field(n, "int", "size of the command's product") for n in ("m", "n", "k")),
        *(Field(n, "int", "size of the job, which is one tile of the product") for n in ("tile_m", "tile_n", "tile_k")),
        PHASE_OF,
        _cycles("body_cycles", "cycles of the body, without init, finalize and waits"),
        _cycles("total_cycles", "init, body and finalize, without waits"),
    )),
    Event(41, "TE_END", "summary", 0, "TE", "The job has ended.", (
        JOB, CMD, UNIT,
        Field("mac_count", "int", "multiply-accumulates", "MAC"),
        _cycles("latency_cycles", "time from start to end"),
        _cycles("stall_cycles", "cycles of `latency_cycles` in which a bank conflict held the job"),
    )),
    Event(50, "VE_START", "summary", 3, "VE", "A vector engine starts a job.", (
        JOB, CMD, UNIT,
        Field("op_type", "text", "LAYERNORM, SOFTMAX, ..."),
        Field("len", "int", "elements of a row"),
        Field("batch", "int", "number of rows"),
        PHASE_OF,
        _cycles("body_cycles", "cycles of the body, without init, finalize and waits"),
        _cycles("total_cycles", "init, body and finalize, without waits"),
    )),
    Event(51, "VE_END", "summary", 0, "VE", "The job has ended.", (
        JOB, CMD, UNIT,
        Field("op_count", "int", "number of operations"),
        _cycles("latency_cycles", "time from start to end"),
        _cycles("stall_cycles", "cycles of `latency_cycles` in which a bank conflict held the job"),
    )),
    Event(60, "SRAM_ACCESS", "full", 6, "SRAM", "Bytes of a scratchpad were read or written. A transfer between scratchpads has events of both. At level `full`, there is one event "
          "for each operand region of a TE or VE job, and one for each address run of a flow, written in the cycle in which the region or "
          "run is complete. At level `access`, there is one event for each served request and contiguous range of lines.", (
        Field("addr", "int", "flat scratchpad address"),
        _bytes("size_bytes", "size of the range"),
        Field("bank_id", "int", "bank of the first byte"),
        ACCESS,
        Field("by", "text", "kind of requester", choices=("TE", "VE", "DMA")),
        Field("conflict", "flag", "whether a bank denied one of the requests"),
        CMD, JOB, UNIT,
        _cycles("cycles", "time from the cycle in which the first request is made until the last request is served"),
    )),
    Event(61, "SRAM_CONFLICT", "full", 5, "SRAM", "A bank denied a request for the first time.", (
        UNIT,
        Field("bank_id", "int", "bank"),
        ACCESS,
        Field("num_requests", "int", "number of requests for a port of this kind"),
        Field("allowed", "int", "number of ports of this kind"),
        Field("stalled_clients", "texts", "kinds of the denied requesters, each kind once: DMA, TE, VE"),
        Field("cmd_id", "int", "command of the first denied request", required=False),
    )),
    Event(70, "DRAM_TX_START", "full", 4, "DRAM", "The head latency of a flow has ended, and the flow enters its resources. A flow is the bytes of a transfer on one channel. "
          "A flow without a DRAM channel (from or to an SRAM or another scratchpad) has only the events of its links.", (
        TX, CHANNEL, UNIT, _bytes("size_bytes", "bytes of the flow"), CMD, JOB, Field("weight", "int", "weight of the flow in shared bandwidth"),
    )),
    Event(71, "DRAM_TX_END", "full", 0, "DRAM", "The flow's last byte has moved.", (TX, CHANNEL, UNIT, CMD, JOB, _bytes("size_bytes", "bytes of the flow"))),
    Event(72, "DRAM_TX_SUSPEND", "full", 4, "DRAM", "From this cycle on, the flow is not a member of its channel and links.", (
        TX, CHANNEL, UNIT, CMD, JOB, Field("reason", "text", "reason of the suspension", choices=("backpressure", "fifo", "flits")),
    )),
    Event(73, "DRAM_TX_RESUME", "full", 4, "DRAM", "From this cycle on, the flow is a member of its resources again.", (TX, CHANNEL, UNIT, CMD, JOB)),
    Event(74, "WRITE_BACK_START", "full", 4, "DRAM", "From this cycle on, the write-back queue of a last-level cache is a member of the channel and of the cache.", (
        CHANNEL, UNIT,
    ), since="1.2"),
    Event(75, "WRITE_BACK_END", "full", 4, "DRAM", "From this cycle on, the write-back queue is not a member: it is empty, or another flow has the channel under `fifo_v1`.", (CHANNEL, UNIT), since="1.2"),
    Event(80, "NOC_TX_START", "full", 4, "NOC", "The flow enters a link, in the cycle in which it enters its channel. For a flow without a channel, `channel` is 0.", (
        TX, CHANNEL, Field("link_id", "int", "index of the link among the links of TRACE_META.units"), UNIT, _bytes("size_bytes", "bytes of the flow"), CMD, JOB,
    )),
    Event(81, "NOC_TX_END", "full", 0, "NOC", "The flow's last byte has moved.", (TX, CHANNEL, Field("link_id", "int", "link"), UNIT, CMD, JOB)),
    Event(82, "NOC_FLITS", "full", 0, "NOC", "A flow that moved over routers has ended. The fields are sums over the packets of the flow.", (
        TX, CHANNEL, UNIT, CMD, JOB,
        Field("packets", "int", "number of packets; a packet counts once for each cube that it crossed"),
        _cycles("travel_cycles", "time from the queue of the terminal to the ejection"),
        _cycles("alone_cycles", "time that the packets would take without any wait"),
        _cycles("no_credit_cycles", "time in which flits waited for a free place behind the link"),
        _cycles("no_channel_cycles", "time in which packets waited for a virtual channel"),
        _cycles("lost_cycles", "time in which flits waited for a link that another flit used"),
    ), since="1.2"),
    Event(90, "IRQ_EMIT", "summary", 0, "CPU", "The command's `irq_line` is raised at its end.", (
        CMD, Field("token", "int", "completion token of the command", required=False), Field("irq_line", "int", "interrupt line"),
    )),
    Event(91, "TOKEN_COMPLETE", "summary", 0, "CPU", "The command's `token` is complete.", (Field("token", "int", "completion token"), CMD, STATUS)),
    Event(92, "MARKER", "summary", 0, "CPU", "A command with a `marker` has ended.", (Field("marker", "label", "value of the entry's field `marker`"), CMD)),
    Event(93, "TOKEN", "summary", 0, "CPU", "The last command of a `token_idx` has ended.", (
        Field("token_idx", "int", "position of the token"),
        _cycles("start_cycle", "start of the first command with this `token_idx`"),
        _cycles("latency_cycles", "time from `start_cycle` to this event"),
        PHASE_OF,
    )),
    Event(100, "ERROR", "summary", 7, "", "Something ended the run.", (
        Field("component", "text", "DMA, TE, VE, SRAM, CPU, ..."),
        Field("code", "text", "kind of the error", choices=tuple(ERROR_CODES)),
        Field("msg", "text", "the error message"),
        _optional(CMD), _optional(JOB),
    )),
    Event(101, "WARN", "summary", 7, "", "A rule of the table of warnings applies.", (
        Field("component", "text", "DMA, TE, VE, SRAM, DRAM, ..."),
        Field("code", "text", "kind of the warning", choices=tuple(WARN_CODES)),
        Field("msg", "text", "the warning, with value and threshold"),
        _optional(UNIT), _optional(CMD), _optional(JOB),
        Field("layer_id", "int", "layer of the command", required=False),
    )),
    Event(110, "ENGINE_EVENT", "summary", 0, "", "A job has ended. The event has its start, its end and its bytes.", (
        UNIT, JOB, CMD, _cycles("start_cycle", "start of the job"), _cycles("end_cycle", "end of the job"), Field("bytes", "int", "bytes that a transfer moved", "B", required=False),
    )),
    Event(111, "MEM_ACCESS_EVENT", "full", 6, "DMA", "A flow has moved an address run between memory and its PE's scratchpad. The event is written in the cycle in which the last byte of the run moves.", (
        UNIT, TX, CHANNEL, CMD, JOB,
        Field("source_engine", "text", "always DMA in this version", choices=("DMA",)),
        Field("dram_addr", "int", "DRAM address of the first byte"),
        Field("spm_addr", "int", "flat scratchpad address of the first byte"),
        _bytes("size_bytes", "size of the run"),
        Field("direction", "text", "direction of the bytes", choices=("DRAM_TO_SRAM", "SRAM_TO_DRAM")),
        _cycles("cycles", "time from the cycle in which the first request is made until the last request is served"),
    )),
    Event(112, "STALL_EVENT", "summary", 3, "", "A job begins to wait. Every level has the reasons `queue_full`, `priority_deferred` (phase 3) and `backpressure` (phase 7). "
          "Only the levels `full` and `access` have the reason `bank_conflict` (phase 5: a request is held).", (
        UNIT, JOB, CMD,
        Field("reason", "text", "reason of the wait", choices=STALL_REASONS),
        Field("channel", "int", "for a queued job the DMA channel, for a flow the DRAM channel", required=False),
        Field("bank_id", "int", "first bank that denied the request", required=False),
        Field("by_job", "int", "blocking job: the job that took the port of the bank, the job that started instead, or the oldest transfer of the full queue", required=False),
        Field("scratchpad", "text", "for a transfer between scratchpads: the track of the other scratchpad, if the bank is there", required=False, since="1.1"),
    )),
    Event(113, "RESUME_EVENT", "summary", 3, "", "A wait has ended: the job starts (phase 3), or the request is served (phase 6).", (
        UNIT, JOB, CMD, Field("reason", "text", "reason of the wait", choices=STALL_REASONS), _cycles("duration_cycles", "length of the wait"),
        Field("channel", "int", "the same as in STALL_EVENT", required=False),
    )),
    Event(120, "BANDWIDTH_SAMPLE", "summary", 8, "", "What a channel or link did in the window that ends in this cycle. The event is omitted if nothing used the channel or link.", (
        UNIT, _cycles("window_cycles", "length of the window; the last window of a run may be shorter"),
        _bytes("read_bytes", "bytes towards the scratchpad"), _bytes("write_bytes", "bytes towards DRAM"),
        _cycles("busy_cycles", "cycles with at least one member"), _cycles("member_cycles", "number of members, summed over the cycles"),
    )),
    Event(121, "QUEUE_SAMPLE", "summary", 8, "", "Depth of an engine's queue at the end of a window. The event is omitted if all numbers are 0.", (
        UNIT, Field("queued", "ints", "waiting jobs: for a DMA engine one number for each channel, otherwise one number"),
        Field("active", "ints", "running jobs, in the same form as `queued`"),
    )),
    Event(122, "ENGINE_SAMPLE", "summary", 8, "", "What an engine did in a window. The event is omitted if the engine was idle.", (
        UNIT, _cycles("window_cycles", "length of the window"), _cycles("busy_cycles", "busy cycles, as in the counter `busy`"),
        _cycles("backpressure_cycles", "cycles stalled by backpressure"), _cycles("bank_conflict_cycles", "cycles stalled by bank conflicts"),
    )),
    Event(123, "BANK_SAMPLE", "full", 8, "SRAM", "The banks of a scratchpad in a window. The event is omitted if there was no request.", (
        UNIT, _cycles("window_cycles", "length of the window"),
        Field("requests", "ints", "requests of each bank"), Field("grants", "ints", "grants of each bank"), Field("denials", "ints", "denials of each bank"),
    )),
    Event(124, "NOC_QUEUE_DEPTH", "full", 8, "NOC", "The buffer of a router's input in a window. The event is omitted if the buffer was empty. `unit` is the link that fills the buffer. "
          "In a machine without links between routers and their components, `unit` is the DMA engine or DRAM channel that fills it.", (
        UNIT, _cycles("window_cycles", "length of the window"),
        Field("depth", "ints", "flits of each virtual channel at the end of the window"),
        Field("flit_cycles", "int", "flits in the buffer, summed over the cycles of the window"),
        Field("packets", "int", "packets that wait for the buffer at the end of the window; only if a component, not a router, fills the buffer", required=False),
    ), since="1.2"),
    Event(130, "ENERGY_SAMPLE", "summary", 8, "", "Energy of a window, at the prices of the machine's section `energy`.", (
        Field("window_cycles", "int", "length of the window", "cycle"),
        *(Field(f"{part}_pj", "number", f"energy of {what}", "pJ") for part, what in (
            ("dram", "DRAM bytes"), ("noc", "bytes on links, counted once per hop"),
            ("spm", "scratchpad bytes: bytes that transfers moved, and operand regions of jobs that ended"),
            ("mac", "MACs of jobs that ended"), ("ve", "vector operations of jobs that ended"), ("static", "static power in the window"))),
    )),
    Event(131, "POWER_STATE", "full", 8, "", "The power state of an engine has changed: the engine was idle in a whole window (IDLE), or has worked again (ACTIVE). "
          "At first, every engine is ACTIVE.", (UNIT, Field("state", "text", "state from this window on", choices=("ACTIVE", "IDLE")))),
    Event(140, "HW_COUNTER", "summary", 8, "", "A measured value of a hardware counter. Only `kbsim trace align` writes this event.", (
        Field("counter", "text", "name of the counter"), Field("value", "number", "measured value"), Field("unit", "text", "track of the counter", required=False),
        Field("source", "text", "file with the measured values", required=False),
    )),
)  # fmt: skip

BY_NAME: dict[str, Event] = {event.name: event for event in EVENTS}

#: Changes of fields by version, newest first: (version, what).
CHANGES: tuple[tuple[str, str], ...] = (
    ("1.2", "for last-level caches: CACHE_LOOKUP, WRITE_BACK_START, WRITE_BACK_END, and DRAM_TX events of flows that use only a cache; for `energy.by_cause`: `tensor` and "
     "`qbits` of CMD_ENQUEUE; for routers: NOC_FLITS, NOC_QUEUE_DEPTH, and the reason `flits` of DRAM_TX_SUSPEND; for `control.mmio`: `position` of CMD_ENQUEUE; "
     "for protocols with `cycles`: `visible` of CMD_ENQUEUE"),
    ("1.1", "for transfers between scratchpads: `peer` of DMA_START, `scratchpad` of STALL_EVENT"),
    ("1.0", "first version"),
)
