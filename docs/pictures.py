"""Draws the pictures of the documentation as SVG, with nothing but the standard library and kernbench itself.

They are put into the pages as they are, not as image files: so they take the page's colours, light or dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from kernbench import Machine, Program, load_config, simulate

INK, FAINT, PAPER, LINE = (f"var(--kb-{name})" for name in ("ink", "faint", "page", "strong"))  # of tokens.css
FIRST, SECOND = "dma", "te"  #: colours of two tiles

SIZES = {0: 2048, 2: 512}  # [B] of the tiles of `shared_program`

PHASES = (
    ("P1", "wake", "plugged-in components", "components that are due run"),
    ("P2", "issue", "control", "completions are seen, ready entries issued"),
    ("P3", "start", "DMA, TE, VE", "DMA engines admit jobs, idle TE and VE start"),
    ("P4", "share", "DRAM channels, links", "where members changed: new rates"),
    ("P5", "bank", "scratchpad banks", "requests are collected; each bank grants or denies"),
    ("P6", "move", "flows, TE, VE", "granted bytes move, granted bodies advance"),
    ("P7", "complete", "DMA, TE, VE", "what has reached zero ends, with end = c + 1"),
)


def all_pictures() -> dict[str, str]:
    """File name: SVG."""
    return {"cycle.svg": cycle_picture(), "shared.svg": shared_picture()}


def _svg(width: int, height: int, title: str, parts: Iterator[str]) -> str:
    body = "\n".join(parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
    style = f'font-size="14" fill="{INK}" style="width:100%;max-width:46em;height:auto">'
    return f"{head}{style}\n<title>{escape(title)}</title>\n{body}\n</svg>\n"


def _text(x: float, y: float, text: str, **style: str | float) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, **style: str | float) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{more}/>'


def _line(x1: float, y1: float, x2: float, y2: float, **style: str | float) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"{more}/>'


def cycle_picture() -> str:
    """The seven phases of one cycle, who acts in each, and what it does."""
    return _svg(720, 348, "One cycle: the phases P1 to P7, who acts, and what happens", _cycle_parts())


def _cycle_parts() -> Iterator[str]:
    step, top = 44, 28
    yield _text(14, 16, "cycle c", font_weight="bold")
    yield _text(180, 16, "who acts", fill=FAINT)
    yield _text(372, 16, "what happens", fill=FAINT)
    for i, (short, name, who, what) in enumerate(PHASES):
        y = top + i * step
        yield _box(10, y, 148, 32, rx=5, fill=PAPER, stroke=LINE, stroke_width=1.5)
        yield _text(22, y + 21, short, font_weight="bold")
        yield _text(56, y + 21, name)
        yield _text(180, y + 21, who)
        yield _text(372, y + 21, what, font_size=13)
        if i + 1 < len(PHASES):
            yield _line(84, y + 32, 84, y + step, stroke=FAINT, stroke_width=1.5)
    yield _text(14, top + 7 * step + 8, "then cycle c + 1", fill=FAINT)


def shared_program() -> Program:
    """Tile 0 moves 2048 B from cycle 0 on; tile 2, of 512 B, starts when the vector job has ended, in cycle 64."""
    program = Program("late_tile")
    tile = {"tensor_role": "weight", "qbits": 8}
    program.dma_load(**tile, dram_addr=0, num_elements=SIZES[0], spm_bank=0, spm_offset=0)
    job = program.ve_copy(length=3328, qbits_activation=8, in_bank=0, in_offset=4096, out_bank=0, out_offset=8192)
    program.dma_load(**tile, dram_addr=4096, num_elements=SIZES[2], spm_bank=8, spm_offset=1024, deps_before=job)
    return program


@dataclass(frozen=True)
class Rates:
    """Bytes per cycle of each tile over `[start, end)`."""

    start: int
    end: int
    first: float
    second: float


def shared_rates() -> list[Rates]:
    """What the machine really does with `shared_program`, between the cycles in which an entry starts or ends."""
    config, program = load_config({"ve": {"spm_traffic": False}}), shared_program()
    entries = simulate(program, config).entries
    cycles = sorted({cycle for entry in entries for cycle in (entry.start, entry.end) if cycle is not None})
    machine = Machine(config, program)
    moved = [_moved(machine)]
    for cycle in cycles[1:]:
        machine.run(cycles=cycle - machine.cycle)
        moved.append(_moved(machine))
    return [
        Rates(start, end, *((after[i] - before[i]) / (end - start) for i in (0, 2)))
        for start, end, before, after in zip(cycles, cycles[1:], moved, moved[1:], strict=False)
    ]


def _moved(machine: Machine) -> dict[int, int]:
    """Bytes of each tile that have moved, by its id."""
    running = {job.id: job.bytes - job.bytes_left for job in machine.peek().engines[0].jobs}
    ended = {entry.id for entry in machine.result().entries if entry.end is not None and entry.end <= machine.cycle}
    return {i: size if i in ended else running.get(i, 0) for i, size in SIZES.items()}


def shared_picture() -> str:
    """Bytes per cycle of two tiles on one channel, stacked."""
    return _svg(720, 300, "Two tiles share a channel of 16 bytes per cycle", _shared_parts(shared_rates()))


def _shared_parts(rates: Sequence[Rates]) -> Iterator[str]:
    left, right, top, bottom = 62, 700, 40, 240
    end, most = rates[-1].end, 16
    across, up = (right - left) / end, (bottom - top) / most
    for x, colour, name in ((left, FIRST, "tile 0, 2048 B"), (left + 180, SECOND, "tile 2, 512 B, from cycle 64 on")):
        yield _box(x, 10, 14, 14, fill=f"var(--kb-{colour})")
        yield _text(x + 20, 22, name)
    for piece in rates:
        x, width = left + piece.start * across, (piece.end - piece.start) * across
        yield _box(x, bottom - piece.first * up, width, piece.first * up, fill=f"var(--kb-{FIRST})")
        yield _box(x, bottom - (piece.first + piece.second) * up, width, piece.second * up, fill=f"var(--kb-{SECOND})")
        yield from _rate_labels(piece, x + width / 2, bottom, up)
    for level in (0, 8, 16):
        y = bottom - level * up
        yield _line(left, y, right, y, stroke=INK, stroke_width=1, stroke_dasharray="none" if level in (0, 16) else "3 4")
        yield _text(left - 8, y + 5, str(level), text_anchor="end")
    middle = (top + bottom) / 2
    yield _text(18, middle, "bytes per cycle", text_anchor="middle", transform=f"rotate(-90 18 {middle:g})")
    for cycle in sorted({0, *(piece.end for piece in rates)}):
        x = left + cycle * across
        yield _line(x, bottom, x, bottom + 6, stroke=INK, stroke_width=1)
        yield _text(x, bottom + 22, str(cycle), text_anchor="middle")
    yield _text((left + right) / 2, bottom + 46, "cycle", text_anchor="middle")


def _rate_labels(piece: Rates, x: float, bottom: float, up: float) -> Iterator[str]:
    """The number of bytes per cycle inside each block."""
    base = 0.0
    for rate, colour in ((piece.first, FIRST), (piece.second, SECOND)):
        if rate:
            y = bottom - (base + rate / 4) * up + 5
            yield _text(x, y, f"{rate:g}", text_anchor="middle", fill=f"var(--kb-on-{colour})", font_weight="bold")
        base += rate
