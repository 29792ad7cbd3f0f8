"""The trace schema: every event type, its number, level, phase and fields, once.

Writer, reader, validation, the JSON Schema and `docs/reference/trace.md` are all made from `EVENTS`. It is append-only: a number,
a field or a code that has been released is never taken away and never means something else; a new field stands at the end, with the
version that brought it, and is optional for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VERSION = "1.2"  #: of this schema, `major.minor`: a new field or event raises the minor number

Level = Literal["summary", "full", "access"]
LEVELS: tuple[str, ...] = ("off", "summary", "full", "access")  #: each holds all events of those before it
Kind = Literal["int", "text", "number", "flag", "label", "ints", "texts", "object", "objects"]

#: What happens in a phase of a cycle, P1 to P7 of docs/model/time_and_phases.md. Phase 0 comes first in a cycle: an event at the
#: end of work carries the first cycle after it, and stands before all that this cycle does.
PHASES: tuple[str, ...] = ("end", "wake", "issue", "start", "share", "bank", "move", "complete", "sample")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an event."""

    name: str
    kind: Kind
    doc: str
    unit: str = ""  #: cycle, B, pJ, ...; empty for names and counts
    required: bool = True  #: always written; others are left out where there is nothing to say
    since: str = "1.0"  #: version of the schema that brought it
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
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
STATUS = Field("status", "text", "how it ended", choices=("OK", "ERROR", "TIMEOUT", "DEADLOCK", "CANCELLED"))
ACCESS = Field("access_type", "text", "direction, seen from the scratchpad", choices=("READ", "WRITE"))

#: Seed 003 section 5: what a command may say of the model it works for. Written on CMD_ENQUEUE alone; readers join by `cmd_id`.
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

#: May stand on any event; left out where they equal `TRACE_META.defaults`.
COMMON_FIELDS: tuple[Field, ...] = (
    Field("t_cycle", "int", "when", "cycle"),
    Field("t_ns", "number", "the same in nanoseconds, `t_cycle / freq_ghz`; a run leaves it out, exports and data frames have it", "ns", required=False),
    Field("sim_id", "text", "the run", required=False),
    Field("core_id", "int", "core that queued the command", required=False),
    Field("npu_id", "int", "NPU that ran it", required=False),
    Field("tenant_id", "int", "tenant that it belongs to", required=False),
    Field("thread_id", "int", "thread that queued it", required=False),
)

STALL_REASONS: tuple[str, ...] = ("queue_full", "priority_deferred", "backpressure", "bank_conflict")
WARN_CODES: dict[str, str] = {
    "OVERLAP": "`spm.check_overlap: warn`: a job starts whose scratchpad range overlaps that of one that runs, where one writes",
    "LOW_UTIL": "a TE or VE did work in a window of `window_cycles`, but in less than half of its cycles",
    "HIGH_CONFLICT": "more than a quarter of the bank requests of a window were denied, out of at least one a cycle",
    "CHANNEL_SATURATED": "a DRAM channel moved at least 95% of what it can in each of eight windows in a row; once a run of windows",
}
ERROR_CODES: dict[str, str] = {
    "OVERLAP": "`spm.check_overlap: error`: the run ends as failed",
    "DEADLOCK": "nothing can ever happen again",
    "MAX_CYCLES": "the run was stopped at `max_cycles`",
    "COMPONENT": "a plugged-in component failed",
}

EVENTS: tuple[Event, ...] = (
    Event(0, "TRACE_META", "summary", 0, "", "First line: what was run on what. `t_cycle` is the first cycle of the file.", (
        Field("version", "text", "of this schema"),
        Field("sim_version", "text", "of the package"),
        Field("model_version", "int", "of the timing model"),
        Field("sim_id", "text", "digest of program, machine, model version and package version: the same run has the same id"),
        Field("level", "text", "how much is written", choices=LEVELS[1:]),
        Field("freq_ghz", "text", "clock, an exact decimal or fraction", "GHz"),
        Field("window_cycles", "int", "length of a window of samples", "cycle"),
        Field("program", "text", "name of the program"),
        Field("program_hash", "text", "SHA-256 of the program"),
        Field("config_hash", "text", "SHA-256 of the machine"),
        Field("sim_config", "object", "the whole machine, every default filled in"),
        Field("units", "objects", "every track: `unit`, `component`, `index`, `parent`, and what it can do (`capacity` in B/cycle as text, "
              "`weight`s, `macs_per_cycle`, ...)"),
        Field("defaults", "object", "values of common fields that events leave out"),
        Field("filter", "object", "what was left out: `cycles` [from, to), `only` patterns", required=False),
        Field("commands", "int", "entries of the queue; components may submit more while it runs"),
    )),
    Event(1, "TRACE_END", "summary", 8, "", "Last line: how the run ended. A file without it was cut off.", (
        Field("status", "text", "status of the run", choices=("done", "aborted", "deadlock", "failed", "interrupted")),
        Field("cycles", "int", "cycles run", "cycle"),
        Field("events", "int", "events between first and last line"),
        Field("counters", "object", "counters of the result, as `--json` gives them"),
        Field("energy_pj", "object", "energy by part", "pJ", required=False),
    )),
    Event(10, "CMD_ENQUEUE", "summary", 2, "CPU", "A command is in the queue; all are before cycle 0 but those that a host writes or components submit. Constant values of a command are only in this event.", (
        CMD,
        Field("cmd_type", "text", "opcode"),
        Field("unit", "text", "engine that will run it; `control` for NOP, BARRIER and END"),
        Field("source", "text", "how it was queued", required=False, choices=("ISA", "MMIO")),
        Field("token", "int", "completion token", required=False),
        Field("desc_addr", "int", "address of its descriptor", required=False),
        *LLM_FIELDS,
        Field("tile_id", "int", "tile inside the block", required=False),
        Field("deps", "ints", "commands that must be complete first: `deps_before`, others' `deps_after`, `wait_for`", required=False),
        Field("bytes", "int", "of a transfer, aligned", "B", required=False),
        Field("work", "int", "MACs of a TE command, operations of a VE command", required=False),
        Field("tensor", "text", "tensor of a DMA command, or `kv`; of machines with `energy.by_cause`", required=False, since="1.2"),
        Field("qbits", "int", "bits of the weights of a TE command; of machines with `energy.by_cause`", required=False, since="1.2"),
        Field("position", "int", "position of the entry in the program, from 0; of machines with `control.mmio`", required=False, since="1.2"),
        Field("visible", "int", "of a command that waited for a message: the cycle from which the message could be used; of protocols with `cycles`", "cycle", required=False, since="1.2"),
    )),
    Event(11, "CMD_START", "summary", 3, "CPU", "Its engine begins; a control command starts in phase 2, when it is issued.", (CMD, UNIT)),
    Event(12, "CMD_END", "summary", 0, "CPU", "It is over. At the end of a run that is not done every open command gets one.", (CMD, UNIT, STATUS)),
    Event(20, "JOB_ISSUE", "summary", 2, "CPU", "Control hands a job to its engine's queue.", (
        JOB, CMD, UNIT,
        Field("job_type", "text", "TE_GEMM, VE_SOFTMAX, DMA_READ, DMA_WRITE, ..."),
        Field("tile_id", "int", "tile of a DMA or TE job", required=False),
        Field("vec_chunk_id", "int", "tile of a VE job", required=False),
        PHASE_OF,
    )),
    Event(21, "JOB_DONE", "summary", 0, "CPU", "The job is complete.", (
        JOB, CMD, UNIT,
        Field("job_type", "text", "as in JOB_ISSUE"),
        _cycles("latency_cycles", "from issue to end"),
    )),
    Event(30, "DMA_START", "summary", 3, "DMA", "A transfer starts: head latency first, then its bytes.", (
        TX, UNIT,
        Field("channel", "int", "DMA channel: 0 act_weight, 1 kv_load, 2 kv_store, 3 comm"),
        Field("direction", "text", "of the bytes", choices=("DRAM_TO_SRAM", "SRAM_TO_DRAM", "SRAM_TO_SRAM")),
        Field("src_addr", "int", "first byte, aligned; a scratchpad address is flat, the host's end of a host copy 0"),
        Field("dst_addr", "int", "first byte"),
        _bytes("size_bytes", "aligned: what travels"),
        CMD, JOB, PHASE_OF,
        _cycles("head_cycles", "before it is a member of its resources"),
        Field("weight", "int", "of its flows in shared bandwidth"),
        Field("peer", "text", "track of the other scratchpad, of a transfer between two", required=False, since="1.1"),
    )),
    Event(31, "DMA_END", "summary", 0, "DMA", "Its last byte has moved.", (
        TX, UNIT, Field("channel", "int", "as in DMA_START"), CMD, JOB, _cycles("latency_cycles", "from start to end"),
    )),
    Event(32, "CACHE_LOOKUP", "summary", 3, "DMA", "A transfer has looked up its lines in the last-level cache, which it does when it starts.", (
        TX, UNIT, CMD, JOB,
        Field("hits", "int", "lines that were there"), Field("misses", "int", "lines that were not"),
        _bytes("hit_bytes", "of the transfer, on lines that were there"), _bytes("miss_bytes", "on the others"),
        Field("evictions", "int", "lines that made room"), Field("write_backs", "int", "of these, dirty ones: they are written to DRAM"),
    ), since="1.2"),
    Event(40, "TE_START", "summary", 3, "TE", "A tensor engine starts a job.", (
        JOB, CMD, UNIT,
        *(Field(n, "int", "of the product") for n in ("m", "n", "k")),
        *(Field(n, "int", "of the tile: the job is one") for n in ("tile_m", "tile_n", "tile_k")),
        PHASE_OF,
        _cycles("body_cycles", "of work, without init, finalize and waits"),
        _cycles("total_cycles", "init, body and finalize: its length alone"),
    )),
    Event(41, "TE_END", "summary", 0, "TE", "It ends.", (
        JOB, CMD, UNIT,
        Field("mac_count", "int", "multiply-accumulates", "MAC"),
        _cycles("latency_cycles", "from start to end"),
        _cycles("stall_cycles", "of those, held by a bank conflict"),
    )),
    Event(50, "VE_START", "summary", 3, "VE", "A vector engine starts a job.", (
        JOB, CMD, UNIT,
        Field("op_type", "text", "LAYERNORM, SOFTMAX, ..."),
        Field("len", "int", "elements of a row"),
        Field("batch", "int", "rows"),
        PHASE_OF,
        _cycles("body_cycles", "of work, without init, finalize and waits"),
        _cycles("total_cycles", "init, body and finalize: its length alone"),
    )),
    Event(51, "VE_END", "summary", 0, "VE", "It ends.", (
        JOB, CMD, UNIT,
        Field("op_count", "int", "operations"),
        _cycles("latency_cycles", "from start to end"),
        _cycles("stall_cycles", "of those, held by a bank conflict"),
    )),
    Event(60, "SRAM_ACCESS", "full", 6, "SRAM", "Bytes of a scratchpad were read or written; a transfer between two has events of both. At `full` one event a range, written in the cycle "
          "that completes it: a region of a TE or VE job, or what a flow moved of one contiguous run. At `access` one a served request "
          "and contiguous range of lines.", (
        Field("addr", "int", "flat scratchpad address"),
        _bytes("size_bytes", "of the range"),
        Field("bank_id", "int", "bank of the first byte"),
        ACCESS,
        Field("by", "text", "kind of requester", choices=("TE", "VE", "DMA")),
        Field("conflict", "flag", "one of its requests was denied a bank"),
        CMD, JOB, UNIT,
        _cycles("cycles", "from the first request's first asking to the last one's service"),
    )),
    Event(61, "SRAM_CONFLICT", "full", 5, "SRAM", "In this cycle a bank denied a request for the first time.", (
        UNIT,
        Field("bank_id", "int", "bank"),
        ACCESS,
        Field("num_requests", "int", "how many asked for a port of this kind"),
        Field("allowed", "int", "ports of this kind"),
        Field("stalled_clients", "texts", "kinds of those denied, each once: DMA, TE, VE"),
        Field("cmd_id", "int", "command of the first that was denied", required=False),
    )),
    Event(70, "DRAM_TX_START", "full", 4, "DRAM", "A flow, the bytes of a transfer on one channel, enters its resources: its head latency is over. "
          "A flow without a DRAM channel, from or to an SRAM or another scratchpad, has the events of its links alone.", (
        TX, CHANNEL, UNIT, _bytes("size_bytes", "of the flow"), CMD, JOB, Field("weight", "int", "in shared bandwidth"),
    )),
    Event(71, "DRAM_TX_END", "full", 0, "DRAM", "The flow's last byte has moved.", (TX, CHANNEL, UNIT, CMD, JOB, _bytes("size_bytes", "of the flow"))),
    Event(72, "DRAM_TX_SUSPEND", "full", 4, "DRAM", "From this cycle on the flow is not a member of its resources, of the channel as of the links.", (
        TX, CHANNEL, UNIT, CMD, JOB, Field("reason", "text", "why", choices=("backpressure", "fifo", "flits")),
    )),
    Event(73, "DRAM_TX_RESUME", "full", 4, "DRAM", "From this cycle on it is a member again.", (TX, CHANNEL, UNIT, CMD, JOB)),
    Event(74, "WRITE_BACK_START", "full", 4, "DRAM", "From this cycle on what a last-level cache writes back is a member of the channel and of the cache.", (
        CHANNEL, UNIT,
    ), since="1.2"),
    Event(75, "WRITE_BACK_END", "full", 4, "DRAM", "From this cycle on it is none: no bytes are left, or others have the channel under `fifo_v1`.", (CHANNEL, UNIT), since="1.2"),
    Event(80, "NOC_TX_START", "full", 4, "NOC", "The flow enters a link, when it enters its channel. One without a channel has 0 for it.", (
        TX, CHANNEL, Field("link_id", "int", "index of the link among the links of TRACE_META.units"), UNIT, _bytes("size_bytes", "of the flow"), CMD, JOB,
    )),
    Event(81, "NOC_TX_END", "full", 0, "NOC", "The flow's last byte has moved.", (TX, CHANNEL, Field("link_id", "int", "link"), UNIT, CMD, JOB)),
    Event(82, "NOC_FLITS", "full", 0, "NOC", "A flow that moved over routers has ended: what its packets did there, summed over packets.", (
        TX, CHANNEL, UNIT, CMD, JOB,
        Field("packets", "int", "each counts once in each cube that it crossed"),
        _cycles("travel_cycles", "from the queue of the terminal to the ejection"),
        _cycles("alone_cycles", "of these, with nothing in the way"),
        _cycles("no_credit_cycles", "of flits that waited for a place behind the link"),
        _cycles("no_channel_cycles", "of packets that waited for a virtual channel"),
        _cycles("lost_cycles", "of flits that waited for a link that another one had"),
    ), since="1.2"),
    Event(90, "IRQ_EMIT", "summary", 0, "CPU", "The command's `irq_line` is raised at its end.", (
        CMD, Field("token", "int", "its token", required=False), Field("irq_line", "int", "line"),
    )),
    Event(91, "TOKEN_COMPLETE", "summary", 0, "CPU", "The command's `token` is complete.", (Field("token", "int", "token"), CMD, STATUS)),
    Event(92, "MARKER", "summary", 0, "CPU", "The command's `marker`, at its end.", (Field("marker", "label", "as the entry gives it"), CMD)),
    Event(93, "TOKEN", "summary", 0, "CPU", "The last command of a `token_idx` has ended.", (
        Field("token_idx", "int", "position of the token"),
        _cycles("start_cycle", "of the first command with it"),
        _cycles("latency_cycles", "from that to here"),
        PHASE_OF,
    )),
    Event(100, "ERROR", "summary", 7, "", "Something ended the run.", (
        Field("component", "text", "DMA, TE, VE, SRAM, CPU, ..."),
        Field("code", "text", "which", choices=tuple(ERROR_CODES)),
        Field("msg", "text", "the whole sentence"),
        _optional(CMD), _optional(JOB),
    )),
    Event(101, "WARN", "summary", 7, "", "A rule of the table of warnings applies.", (
        Field("component", "text", "DMA, TE, VE, SRAM, DRAM, ..."),
        Field("code", "text", "which", choices=tuple(WARN_CODES)),
        Field("msg", "text", "the whole sentence, with value and threshold"),
        _optional(UNIT), _optional(CMD), _optional(JOB),
        Field("layer_id", "int", "layer of that command", required=False),
    )),
    Event(110, "ENGINE_EVENT", "summary", 0, "", "A job in one line, when it is over.", (
        UNIT, JOB, CMD, _cycles("start_cycle", "begin"), _cycles("end_cycle", "end"), Field("bytes", "int", "moved, by a transfer", "B", required=False),
    )),
    Event(111, "MEM_ACCESS_EVENT", "full", 6, "DMA", "A flow has moved one contiguous run of bytes between memory and the own scratchpad; written in the cycle of its last byte.", (
        UNIT, TX, CHANNEL, CMD, JOB,
        Field("source_engine", "text", "always DMA in this version", choices=("DMA",)),
        Field("dram_addr", "int", "first byte"),
        Field("spm_addr", "int", "first byte, flat"),
        _bytes("size_bytes", "of the run"),
        Field("direction", "text", "of the bytes", choices=("DRAM_TO_SRAM", "SRAM_TO_DRAM")),
        _cycles("cycles", "from its first request's first asking to its last one's service"),
    )),
    Event(112, "STALL_EVENT", "summary", 3, "", "A job begins to wait. `queue_full`, `priority_deferred` (phase 3) and `backpressure` (phase 7) are written "
          "from `summary` on, `bank_conflict` (phase 5: a request is held) from `full` on.", (
        UNIT, JOB, CMD,
        Field("reason", "text", "why", choices=STALL_REASONS),
        Field("channel", "int", "DMA channel, of a job that is queued; DRAM channel of a flow", required=False),
        Field("bank_id", "int", "first bank that was denied", required=False),
        Field("by_job", "int", "blocking job: the one that took the port of the bank, the one that overtook, or the oldest of the full queue", required=False),
        Field("scratchpad", "text", "track with that bank, where it is the other scratchpad of a transfer between two", required=False, since="1.1"),
    )),
    Event(113, "RESUME_EVENT", "summary", 3, "", "That wait is over: the job starts (phase 3), or the request is served (phase 6).", (
        UNIT, JOB, CMD, Field("reason", "text", "which wait", choices=STALL_REASONS), _cycles("duration_cycles", "of the wait"),
        Field("channel", "int", "as in STALL_EVENT", required=False),
    )),
    Event(120, "BANDWIDTH_SAMPLE", "summary", 8, "", "One channel or link over one window that ends here; left out where nothing used it.", (
        UNIT, _cycles("window_cycles", "length; the last window of a run may be shorter"),
        _bytes("read_bytes", "towards the scratchpad"), _bytes("write_bytes", "towards DRAM"),
        _cycles("busy_cycles", "with a member"), _cycles("member_cycles", "members times cycles"),
    )),
    Event(121, "QUEUE_SAMPLE", "summary", 8, "", "Depth of an engine's queue at the end of a window; left out where all are 0.", (
        UNIT, Field("queued", "ints", "waiting jobs: a DMA engine's by channel, else one number"),
        Field("active", "ints", "running jobs, likewise"),
    )),
    Event(122, "ENGINE_SAMPLE", "summary", 8, "", "An engine over one window; left out if it was idle.", (
        UNIT, _cycles("window_cycles", "length"), _cycles("busy_cycles", "as the counter"),
        _cycles("backpressure_cycles", "stalled so"), _cycles("bank_conflict_cycles", "stalled so"),
    )),
    Event(123, "BANK_SAMPLE", "full", 8, "SRAM", "The banks of a scratchpad over one window; left out if there was no request.", (
        UNIT, _cycles("window_cycles", "length"),
        Field("requests", "ints", "by bank"), Field("grants", "ints", "by bank"), Field("denials", "ints", "by bank"),
    )),
    Event(124, "NOC_QUEUE_DEPTH", "full", 8, "NOC", "The buffer of a router's input over one window; left out if it was empty. `unit` is the link that fills the buffer. "
          "In a machine without links between routers and their components, `unit` is the DMA engine or DRAM channel that fills it.", (
        UNIT, _cycles("window_cycles", "length"),
        Field("depth", "ints", "flits at the end of the window, by virtual channel"),
        Field("flit_cycles", "int", "flits in the buffer, summed over the cycles of the window"),
        Field("packets", "int", "packets at the end of the window that wait for the buffer; only of components, not of routers", required=False),
    ), since="1.2"),
    Event(130, "ENERGY_SAMPLE", "summary", 8, "", "Energy of one window, by the machine's `energy` section.", (
        Field("window_cycles", "int", "length", "cycle"),
        *(Field(f"{part}_pj", "number", what, "pJ") for part, what in (
            ("dram", "bytes of DRAM"), ("noc", "bytes times hops"),
            ("spm", "bytes that transfers moved, and operand regions of jobs that ended"),
            ("mac", "MACs of jobs that ended"), ("ve", "operations of jobs that ended"), ("static", "static power over the window"))),
    )),
    Event(131, "POWER_STATE", "full", 8, "", "An engine was idle for a whole window (IDLE), or did something again (ACTIVE); written where it changes. "
          "Engines begin ACTIVE.", (UNIT, Field("state", "text", "from this window on", choices=("ACTIVE", "IDLE")))),
    Event(140, "HW_COUNTER", "summary", 8, "", "A value read from hardware, put beside the simulated ones by `kbsim trace align`; the core never writes it.", (
        Field("counter", "text", "name"), Field("value", "number", "reading"), Field("unit", "text", "track that it belongs to", required=False),
        Field("source", "text", "file that it was read from", required=False),
    )),
)  # fmt: skip

BY_NAME: dict[str, Event] = {event.name: event for event in EVENTS}

#: Changes of fields by version, newest first: (version, what).
CHANGES: tuple[tuple[str, str], ...] = (
    ("1.2", "last-level caches: CACHE_LOOKUP, WRITE_BACK_START, WRITE_BACK_END; DRAM_TX events of flows over a cache alone; `tensor` and "
     "`qbits` of CMD_ENQUEUE, of machines with `energy.by_cause`; NOC_FLITS, and `flits` as the reason of DRAM_TX_SUSPEND; NOC_QUEUE_DEPTH; `position` of CMD_ENQUEUE, of machines with "
     "`control.mmio`; `visible` of CMD_ENQUEUE, of queues between PEs whose protocol has `cycles`"),
    ("1.1", "transfers between scratchpads: `peer` of DMA_START, `scratchpad` of STALL_EVENT"),
    ("1.0", "first version"),
)
