"""Units of the figures of whole models: rates and times, of all sequences or of one, of all chips or of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kernbench.analysis.chips.cells import UNITS
from kernbench.analysis.chips.columns import UNIT_NAMES

#: Units of one word, in words.
SHORT = {"fps": "frames/s", "ips": "inferences/s", "qps": "queries/s", "rps": "requests/s", "tps": "tokens/s"}
_RATE = re.compile(r"(.*?)\s*(?:/|\bper\b)\s*(?:s|secs?|seconds?)\b")
_TIME = re.compile(r"([a-zµμ]+)\b")
_CHIP = re.compile(r"(?:/|\bper\b|\ba\b)\s*(?:gpu|chip|device|accelerator|tpu|npu|card|core)\b")
_USER = re.compile(r"(?:/|\bper\b|\ba\b)\s*(?:user|u|sequence|stream|request)\b")
_MANY = re.compile(r"(?:(k|kilo|thousands?)|m|mega|millions?)(?: of)?\s*(?=tok|req|quer|prompt|sample|frame|im|inf|sen)")
_WHAT: tuple[tuple[str, Literal["tokens", "requests", "samples"]], ...] = (
    (r"tok|^(?:output )?t$", "tokens"), (r"req|quer|prompt", "requests"), (r"sample|frame|image|inf|sentence", "samples"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    """What a unit says about a figure."""

    rate: bool
    what: Literal["tokens", "requests", "samples"] = "tokens"  #: of a rate: what is counted
    many: float = 1.0  #: of a rate: how many of them are counted as one, such as 1000 for ktok/s
    per_us: float = 1.0  #: of a time: how many of its units a microsecond has
    user: bool = False  #: whether a rate is that of one sequence
    chip: bool = False  #: whether a rate is that of one chip
    token: bool = False  #: whether a time is that of one token

    def value(self, ns: float, *, made: float = 1.0, sequences: int = 1, chips: int = 1) -> float:
        """The figure of `chips` chips that take `ns` for `sequences` sequences (or samples), with `made` tokens of each."""
        if not self.rate:
            return ns / (made if self.token else 1.0) / 1e3 * self.per_us
        count = sequences * (made if self.what == "tokens" else 1.0)
        return count / self.many * 1e9 / ns / (sequences if self.user else 1) / (chips if self.chip else 1)


def figure_of(unit: str) -> Figure | None:
    """The figure of a unit such as `tok/s per user`, `output tokens/s/GPU`, `ms per output token` or `FPS`; None for another
    one, such as `FPS/W`.

    >>> figure_of("tok/s/GPU").chip, figure_of("t/s/u").user, figure_of("ms").rate, figure_of("cycles")
    (True, True, False, None)
    """
    text = unit.strip().lower()
    first = re.match(r"[a-z]+", text)
    if first and first[0] in SHORT:
        text = SHORT[first[0]] + text[first.end() :]
    if rate := _RATE.match(text):
        counted = rate[1].strip()
        what = next((name for words, name in _WHAT if re.search(words, counted)), None)
        if what is None or re.search(r"/|\bper\b", _USER.sub("", _CHIP.sub("", text[rate.end() :]))):
            return None
        many = 1.0 if (found := _MANY.match(counted)) is None else 1e3 if found[1] else 1e6
        return Figure(True, what, many, user=bool(_USER.search(text)), chip=bool(_CHIP.search(text)))
    time = _TIME.match(text)
    if time is None or time[1] not in UNIT_NAMES:
        return None
    return Figure(False, per_us=UNITS[UNIT_NAMES[time[1]]], token=bool(re.search(r"(?:/|per|each)[a-z ]*tok|tpot|itl", text)))


#: Ways in which tables write the bits of weights, with the bits; methods of quantisation have 4.
_BITS = re.compile(r"w(\d+)(?:a\d+)?|(?:u?int|b?fp|nvfp|mxfp|bfloat|float|fp|bf|f|i|q)(\d+)|(\d+)\s*-?bits?|(\d+)")
_METHODS = re.compile(r"awq|gptq|gguf|bnb|nf4")


def weight_bits(text: str, *, name: bool = False) -> int:
    """The bits of weights by a type such as `w4a16`, `FP8`, `int4`, `bfloat16`, or 0 if the text has none.

    `name`: the text is the name of a model, such as `Llama-2-13B-w4` or `llama-3-8b-awq`, in which other numbers are sizes.

    >>> weight_bits("w4a16"), weight_bits("FP8"), weight_bits("Llama-2-13B-w4", name=True), weight_bits("phi-4", name=True)
    (4, 8, 4, 0)
    """
    if re.search("e4m3|e5m2", text.lower()):
        return 8
    words = re.split(r"[^a-z0-9]+", text.lower()) if name else [text.lower()]
    for word in words:  # methods come second: `GPTQ-Int8` has 8 bits
        found = _BITS.fullmatch(word) if name else _BITS.search(word)
        bits = next((int(one) for one in found.groups() if one), 0) if found and not (name and found[4]) else 0
        if bits in (4, 8, 16, 32):
            return bits
    return 4 if any(_METHODS.fullmatch(word) if name else _METHODS.search(word) for word in words) else 0
