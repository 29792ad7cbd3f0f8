"""Lays out a network of routers from the tables of kernbench/noc/network.py."""
import numpy as np

from kernbench_core.model.noc.routers cimport (
    ADAPTIVE_COLUMNS, MAX_CHANNELS, MAX_PORTS, Arrival, Behind, Flit, Hop, Input, InputVc, Network, Output, OutputVc, Packet, Request,
    Router, Terminal)
from kernbench_core.state.arena cimport Arena
from kernbench_core.state.arrays cimport int64_rows, int64s
from kernbench_core.types cimport NONE, int32_t, int64_t, uint64_t


cdef int lay_out_routers(Network* w, dict spec) except -1:
    """`inputs` and `outputs`: their numbers for each router."""
    cdef const int64_t* inputs = int64s(spec["inputs"], w.routers)
    cdef const int64_t* outputs = int64s(spec["outputs"], w.routers)
    cdef int32_t k, i, first_in = 0, first_out = 0
    for k in range(w.routers):
        w.router[k].input, w.router[k].inputs = first_in, <int32_t>inputs[k]
        w.router[k].output, w.router[k].outputs = first_out, <int32_t>outputs[k]
        for i in range(w.router[k].inputs):
            w.input[first_in + i].router = k
            w.input[first_in + i].after = <unsigned char>((i + 1) % inputs[k])
        for i in range(w.router[k].outputs):
            w.output[first_out + i].after = <unsigned char>((i + 1) % outputs[k])
        first_in += w.router[k].inputs
        first_out += w.router[k].outputs
    return 0


cdef int lay_out_links(Network* w, dict spec) except -1:
    """`links`: for each output, and then for each terminal: the input at its end (-1: none), the terminal at its end (-1: none), the clocks
    to the arrival, the clocks of a credit, and num and den of the flits that it accepts in a clock."""
    cdef int32_t k, n = w.outputs + w.terminals
    cdef const int64_t* row = int64_rows(spec["links"], n, 6)
    cdef Output* o
    for k in range(n):
        o = &w.output[k]
        o.input = <int32_t>row[6 * k]
        o.latency, o.credit = <int32_t>row[6 * k + 2], <int32_t>row[6 * k + 3]
        o.num, o.den = row[6 * k + 4], row[6 * k + 5]
        if k >= w.outputs:
            w.terminal[k - w.outputs].output = k
            w.terminal[k - w.outputs].first = w.terminal[k - w.outputs].last = NONE
            w.terminal[k - w.outputs].channel = w.channels - 1
        if o.input != NONE:
            w.input[o.input].output, w.input[o.input].credit = k, o.credit
        while w.horizon <= max(o.latency, o.credit):
            w.horizon *= 2
    for k in range(n << w.shift):
        w.out_vc[k].credits = w.depth
    return 0


cdef Hop hop_of(int32_t output, int32_t low, int32_t high) noexcept:
    """A hop that may take the channels from `low` to `high` of an output."""
    cdef Hop hop
    hop.output = output
    hop.low, hop.high = <unsigned char>low, <unsigned char>high
    return hop


cdef int lay_out_hops(Network* w, Arena a, dict spec) except -1:
    """`hops`: output, lowest and highest channel of each hop of all routes. `adaptive`: rows of the columns of AdaptiveRoute."""
    cdef int32_t k, n = len(spec["hops"]), m = len(spec["adaptive"])
    cdef const int64_t* row = int64_rows(spec["hops"], n, 3)
    cdef const int64_t* adaptive = int64_rows(spec["adaptive"], m, ADAPTIVE_COLUMNS)
    a.own(<void**>&w.hop, n, sizeof(Hop), False)
    a.own(<void**>&w.adaptive, <size_t>ADAPTIVE_COLUMNS * m, sizeof(int32_t), False)
    for k in range(n):
        w.hop[k] = hop_of(<int32_t>row[3 * k], <int32_t>row[3 * k + 1], <int32_t>row[3 * k + 2])
    for k in range(<int>ADAPTIVE_COLUMNS * m):
        w.adaptive[k] = <int32_t>adaptive[k]
    return 0


cdef int lay_out_calendar(Network* w, Arena a) except -1:
    """The latency of each output is constant, and so is that of its credits. In one clock, therefore, at most one flit from each output
    arrives, and at most one credit returns to each output."""
    w.max_due = w.max_credits_due = w.outputs + w.terminals
    a.own(<void**>&w.due, <size_t>w.horizon * w.max_due, sizeof(Arrival), False)
    a.own(<void**>&w.n_due, w.horizon, sizeof(int32_t), False)
    a.own(<void**>&w.back, <size_t>w.horizon * w.max_credits_due, sizeof(int32_t), False)
    a.own(<void**>&w.n_back, w.horizon, sizeof(int32_t), False)
    return 0


cdef int lay_out_network(Network* w, Arena a, dict spec, int32_t packets) except -1:
    """Fill `w`; the tables belong to `a`."""
    cdef int32_t ports
    w.channels, w.depth, w.escapes = spec["channels"], spec["depth"], spec["escapes"]
    w.routers, w.terminals = len(spec["inputs"]), spec["terminals"]
    w.inputs, w.outputs = int(np.sum(spec["inputs"])), int(np.sum(spec["outputs"]))
    ports = int(max(np.max(spec["inputs"]), np.max(spec["outputs"])))
    if w.channels > MAX_CHANNELS or ports > MAX_PORTS:
        raise ValueError(f"{w.channels} channels, {ports} ports: at most {MAX_CHANNELS} and {MAX_PORTS}")
    while 1 << w.shift < w.channels:
        w.shift += 1
    a.own(<void**>&w.router, w.routers, sizeof(Router), False)
    a.own(<void**>&w.input, w.inputs, sizeof(Input), False)
    a.own(<void**>&w.output, w.outputs + w.terminals, sizeof(Output), False)
    a.own(<void**>&w.terminal, w.terminals, sizeof(Terminal), False)
    a.own(<void**>&w.in_vc, <size_t>w.inputs << w.shift, sizeof(InputVc), False)
    a.own(<void**>&w.out_vc, <size_t>(w.outputs + w.terminals) << w.shift, sizeof(OutputVc), False)
    a.own(<void**>&w.behind, <size_t>w.inputs << w.shift, sizeof(Behind), False)
    a.own(<void**>&w.ring, (<size_t>w.inputs << w.shift) * w.depth, sizeof(Flit), False)
    a.own(<void**>&w.packet, packets, sizeof(Packet), False)
    a.own(<void**>&w.head, ports, sizeof(int32_t), False)
    a.own(<void**>&w.request, 3 * ports * w.channels, sizeof(Request), False)
    a.own(<void**>&w.waiting, <size_t>w.inputs << w.shift, sizeof(int32_t), False)
    a.own(<void**>&w.ready, <size_t>w.inputs << w.shift, sizeof(int32_t), False)
    a.own(<void**>&w.crowded, max(w.routers, w.outputs), sizeof(int32_t), False)
    a.own(<void**>&w.queued, (w.terminals + 63) // 64, sizeof(uint64_t), False)
    w.ended = NONE
    w.horizon = 1
    lay_out_routers(w, spec)
    lay_out_links(w, spec)
    lay_out_hops(w, a, spec)
    return lay_out_calendar(w, a)
