"""NCCL's topology XML (`NCCL_TOPO_DUMP_FILE`): the GPUs of a node and the links between them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from kernbench.config.node_description import GIGA, NodeDescription
from kernbench.config.xml_text import Element, read_xml

#: [GB/s] bandwidth of an NVLink in each direction by compute capability, from NVIDIA's data sheets: 25 for NVLink 2, 3 and 4;
#: 20 for the first; 50 for 5.
NVLINK = {60: 20, 61: 20, 70: 25, 72: 25, 75: 25, 80: 25, 86: 14, 90: 25, 100: 50, 103: 50}
BOARDS = {80: "a100_8x", 90: "h100_8x"}  #: base machines, by compute capability
SWITCH_CLASS = "0x068000"  #: the class of the PCI device of an NVSwitch
MAX_GPUS, MAX_LINKS, MAX_WIDTH = 64, 1024, 64
MAX_SPEED = 10**8  #: [Mbit/s] of a NIC
SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) GT/s(?: PCIe)?")


@dataclass
class Gpu:
    """One GPU and its NVLinks."""

    element: Element
    busid: str
    number: int
    sm: int
    pcie: Fraction | None  #: [B/s] of the slowest PCIe link to its CPU
    cpu: int
    above: tuple[int, ...]  #: the CPU and the PCI devices above it, by their lines in the file
    to_switch: int = 0
    to: Counter[str] = field(default_factory=Counter)  #: number of links, by the bus id of the other GPU


@dataclass(frozen=True)
class Nic:
    """A network interface, with the PCI devices above it."""

    name: str
    bytes_per_second: Fraction
    above: tuple[int, ...]


def read_nccl_topology(path: str | os.PathLike[str], nodes: int = 1) -> NodeDescription:
    """The node of a file, or several such nodes with rails. InputError with line and rule for another kind of file, and for
    links that no arrangement represents.
    """
    root = read_xml(path)
    if root.tag != "system":
        raise root.problem("the first element of a topology of NCCL is <system>")
    gpus = sorted(_gpus(root), key=lambda one: one.number)
    if len(gpus) < 2:
        raise root.problem(f"a node has at least two <gpu>, but this one has {len(gpus)}")
    if len(gpus) > MAX_GPUS:
        raise gpus[MAX_GPUS].element.problem(f"the file may have at most {MAX_GPUS} GPUs")
    for name, values in (("dev", [one.number for one in gpus]), ("the bus id", [one.busid for one in gpus])):
        twice = next((gpu for k, gpu in enumerate(gpus) if values[k] in values[:k]), None)
        if twice is not None:
            raise twice.element.problem(f"two GPUs have the same {name}")
    for gpu in gpus:
        if gpu.sm != gpus[0].sm:
            raise gpu.element.problem(f"all GPUs must be alike, and dev {gpus[0].number} has {gpus[0].sm}", "sm", str(gpu.sm))
    _nvlinks(gpus)
    if nodes > 1:
        return _with_rails(root, gpus, nodes)
    nets = [net.attributes.get("name", "?") for net in _all(root, "net")]
    notes = [f"network interfaces are left out, as the machine is one node: {', '.join(nets[:8])}"] if nets else []
    kind, each, links, more = _arranged(root, gpus)
    return NodeDescription(len(gpus), kind, each, links=links, start=BOARDS.get(gpus[0].sm), notes=[*notes, *more])


def _with_rails(root: Element, gpus: list[Gpu], nodes: int) -> NodeDescription:
    """Several nodes like the node of the file. Each GPU uses a NIC that is nearest to it: the two share the largest number of
    PCI devices above them."""
    nics = list(_nics(root))
    if not nics:
        raise root.problem("several nodes need NICs, but the file has no <net> with a speed", remedy="leave out --nodes")
    if len({one.bytes_per_second for one in nics}) > 1:
        raise root.problem("all NICs (<net>) must have one speed")
    kind, each, _, more = _arranged(root, gpus)
    if kind != "switch":
        raise root.problem(f"several nodes need GPUs that are connected by switches, but these GPUs are connected as {kind}")
    users: Counter[int] = Counter()
    chosen = []
    for gpu in gpus:
        near = [sum(a == b for a, b in zip(gpu.above, nic.above, strict=False)) for nic in nics]
        best = min(range(len(nics)), key=lambda k: (-near[k], users[k], k))
        users[best] += 1
        chosen.append(best)
    number = {nic: rail for rail, nic in enumerate(sorted(users))}
    named = ", ".join(f"{nics[nic].name} (rail {rail})" for nic, rail in number.items())
    return NodeDescription(
        nodes * len(gpus), kind, each, rows=nodes, start=BOARDS.get(gpus[0].sm), nics=tuple(number[one] for one in chosen),
        nic_bytes_per_second=nics[0].bytes_per_second, notes=[f"NICs: {named}", *more],
    )  # fmt: skip


def _nics(element: Element, above: tuple[int, ...] = ()) -> Iterator[Nic]:
    """The <net> elements with a speed in Mbit/s, in the order of the file."""
    for child in element.children:
        if child.tag == "net":
            speed = child.integer("speed", 0, MAX_SPEED, 0)
            if speed:
                yield Nic(child.attributes.get("name", "?"), Fraction(speed * 10**6, 8), above)
        else:
            yield from _nics(child, (*above, child.line) if child.tag in ("cpu", "pci") else above)


def _all(element: Element, tag: str) -> Iterator[Element]:
    for child in element.children:
        if child.tag == tag:
            yield child
        yield from _all(child, tag)


def _gpus(root: Element) -> Iterator[Gpu]:
    cpus = list(root.of("cpu"))
    if not cpus:
        raise root.problem("a <system> has <cpu> elements, and the GPUs are in them")
    for number, cpu in enumerate(cpus):
        yield from _below(cpu, "", None, number, (cpu.line,))


def _below(element: Element, busid: str, rate: Fraction | None, cpu: int, above: tuple[int, ...]) -> Iterator[Gpu]:
    for child in element.children:
        if child.tag == "pci":
            own = _pcie(child)
            slowest = own if rate is None or (own is not None and own < rate) else rate
            yield from _below(child, child.text("busid").lower(), slowest, cpu, (*above, child.line))
        elif child.tag == "gpu":
            if not busid:
                raise child.problem("a <gpu> is in the <pci> element of its device")
            if "gcn" in child.attributes:
                rule = "this GPU is of AMD, and only files of NCCL are supported, not those of RCCL"
                raise child.problem(rule, "gcn", child.attributes["gcn"])
            yield Gpu(child, busid, child.integer("dev", 0, MAX_LINKS), child.integer("sm", 10, 999), rate, cpu, above)


def _pcie(pci: Element) -> Fraction | None:
    """[B/s] The bandwidth of a link: lanes times transfer rate, times 8/10 up to 5 GT/s and 128/130 above; None if the file has
    none."""
    speed, width = pci.attributes.get("link_speed", ""), pci.integer("link_width", 0, MAX_WIDTH, 0)
    if not speed or not width:
        return None
    found = SPEED.fullmatch(speed.strip())
    if found is None:
        raise pci.problem("it must be like 16.0 GT/s PCIe", "link_speed", speed)
    transfers = Fraction(found.group(1))
    code = Fraction(8, 10) if transfers <= 5 else Fraction(128, 130)
    return transfers * GIGA * width * code / 8


def _nvlinks(gpus: list[Gpu]) -> None:
    there = {one.busid for one in gpus}
    for gpu in gpus:
        for link in gpu.element.of("nvlink"):
            count, target = link.integer("count", 1, MAX_LINKS), link.text("target").lower()
            if target in there and target != gpu.busid:
                gpu.to[target] += count
            elif link.attributes.get("tclass", "") == SWITCH_CLASS:
                gpu.to_switch += count
            else:
                rule = f"an NVLink ends at another <gpu> of the file or at an NVSwitch (tclass {SWITCH_CLASS})"
                raise link.problem(rule, "target", link.text("target"))


def _arranged(root: Element, gpus: list[Gpu]) -> tuple[str, Fraction, int, list[str]]:
    """The arrangement of the GPUs, the bandwidth of a link [B/s], and the links of a GPU. InputError for any other
    arrangement."""
    first = gpus[0]
    alike = all(one.to_switch == first.to_switch for one in gpus)
    if any(one.to_switch for one in gpus):
        odd = next((one for one in gpus if one.to or one.to_switch != first.to_switch), None)
        if odd is not None or not alike:
            raise (odd or first).element.problem("every GPU must have as many NVLinks to switches, and none to another GPU")
        return "switch", _nvlink(first) * first.to_switch, 1, []
    if not any(one.to for one in gpus):
        return _over_pcie(root, gpus)
    counts = {count for one in gpus for count in one.to.values()}
    one_sided = next((one for one in gpus for other in gpus if one.to[other.busid] != other.to[one.busid]), None)
    if one_sided is not None:
        raise one_sided.element.problem("an NVLink of this GPU is not there at its other end")
    if len(counts) == 1 and all(len(+one.to) == len(gpus) - 1 for one in gpus):
        return "all_to_all", _nvlink(first) * counts.pop(), len(gpus) - 1, []
    order = _circle(gpus)
    if len(counts) == 1 and order is not None:
        names = ", ".join(map(str, order))
        notes = [] if order == sorted(order) else [f"SIPs are numbered round the ring: dev {names}"]
        return "ring", _nvlink(first) * counts.pop(), 2, notes
    rule = "NVLinks between GPUs must be as many between every two, or form one ring; a switch is an NVSwitch"
    raise first.element.problem(f"{rule}; this GPU has {', '.join(f'{many} to {to}' for to, many in sorted(first.to.items()))}")


def _circle(gpus: list[Gpu]) -> list[int] | None:
    """The numbers of the GPUs along the ring, if each has two neighbours and all are on one ring."""
    by_id = {one.busid: one for one in gpus}
    if any(len(+one.to) != 2 for one in gpus):
        return None
    order = [gpus[0]]
    while True:
        before = order[-2].busid if len(order) > 1 else ""
        after = next(one for one in sorted(order[-1].to) if one != before)
        if after == gpus[0].busid:
            return [one.number for one in order] if len(order) == len(gpus) else None
        order.append(by_id[after])


def _nvlink(gpu: Gpu) -> Fraction:
    if gpu.sm not in NVLINK:
        raise gpu.element.problem(f"the bandwidth of an NVLink is known of {', '.join(map(str, NVLINK))}", "sm", str(gpu.sm))
    return Fraction(NVLINK[gpu.sm]) * GIGA


def _over_pcie(root: Element, gpus: list[Gpu]) -> tuple[str, Fraction, int, list[str]]:
    """Without NVLinks: the PCIe switches and the CPU form one switch, to which each GPU has its PCIe link."""
    if len({one.cpu for one in gpus}) > 1:
        raise root.problem("GPUs without NVLinks must be below one <cpu>: a link between CPUs has no bandwidth in the file")
    rates = {one.pcie for one in gpus}
    if len(rates) > 1 or None in rates:
        raise gpus[0].element.problem("GPUs without NVLinks must have equal PCIe links (link_speed and link_width of <pci>)")
    rate = rates.pop()
    assert rate is not None
    return "switch", rate, 1, ["PCIe switches and the CPU are one switch"]
