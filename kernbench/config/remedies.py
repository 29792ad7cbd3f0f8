"""Suggestions for a refused value or key of a machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import isfinite
from typing import Any

from kernbench.common.spelling import meant
from kernbench.common.units import SIZE_UNITS, parse_rational, plain_number

MAX_GHZ = 100  #: limit of a clock: a higher number is probably in MHz or Hz
_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?)\s*([A-Za-z/]*)"
_SCALES = {"ghz": Fraction(1), "mhz": Fraction(1, 10**3), "khz": Fraction(1, 10**6), "hz": Fraction(1, 10**9)}


def number_meant(value: Any) -> str:
    """The whole number that a text probably means: `16` of `fp16`, `1000000` of `1,000,000`, `1_000_000` or `1e6`, and
    `4096` of `4k` or `4KiB`; also `2` of the number 2.0.
    """
    if isinstance(value, float) and not isfinite(value):
        return ""
    if isinstance(value, (float, Fraction)) and value == int(value):
        return str(int(value))
    if not isinstance(value, str) or len(value) > 40 or value.strip().startswith("-"):
        return ""  # what a long text or a number below 0 means is not clear
    size = re.fullmatch(r"([0-9]{1,18})\s*([kKMGT])(i?B)?", value.strip())
    if size is not None:
        return str(int(size[1]) * SIZE_UNITS[size[2]])
    found = re.findall(r"[0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,2})?", re.sub(r"(?<=[0-9])[_,'](?=[0-9]{3})", "", value))
    exact = Fraction(found[0]) if len(found) == 1 else None
    return str(exact.numerator) if exact is not None and exact.denominator == 1 and exact < 2**63 else ""


def as_written(value: Any) -> Any:
    """A refused number in the form of its file: a reader of files makes the fraction 2 of the text `2.0`."""
    return float(value) if isinstance(value, Fraction) and value.denominator == 1 and abs(value) < 2**53 else value


def clock_meant(value: Any) -> str:
    """The clock in GHz that a number in Hz or MHz, or a number with its unit, probably means; empty for others."""
    match = re.fullmatch(_NUMBER, value.strip()) if isinstance(value, str) else None
    unit = match[2].lower() if match else ""
    try:
        number = Fraction(match[1]) if match else parse_rational(value)
    except (ValueError, ZeroDivisionError):
        return ""
    if number <= 0 or unit not in ("", *_SCALES):
        return ""
    scale = _SCALES[unit] if unit else _SCALES["hz" if number >= 10**6 else "mhz" if number > MAX_GHZ else "ghz"]
    return f"{plain_number(number * scale)}"


def value_meant(path: str, rule: str, value: Any, data: Any) -> str:
    """The remedy for a value that violates a rule about numbers, guessed from its form; empty if there is no guess."""
    name = path.rpartition(".")[2]
    if name == "freq_ghz":
        clock = clock_meant(value)
        return f"freq_ghz is in GHz: write {clock}" if clock else ""
    rate = re.fullmatch(r"([0-9.]+)\s*GB/s", value.strip()) if isinstance(value, str) else None
    if rate is not None and name.endswith("bytes_per_cycle"):
        try:
            ghz = parse_rational(data.get("freq_ghz", 1) if isinstance(data, Mapping) else 1)
            return f"{name} is in bytes per cycle: at {float(ghz):g} GHz write {plain_number(Fraction(rate[1]) / ghz)}"
        except (ValueError, ZeroDivisionError):
            return ""
    number = number_meant(value) if rule.startswith(("it must be an integer", "it must be a decimal number")) else ""
    return f"write {number}" if number else ""


def section_meant(value: Any) -> str:
    """The remedy for a text in place of a section: `channels:4` lacks a space."""
    match = re.fullmatch(r"([A-Za-z_]+):(\S+)", value) if isinstance(value, str) else None
    return f"write {match[1]}: {match[2]}, with a space after the colon" if match else ""


#: Common other names of a key: the keys that they mean, of which the first that the section has is suggested.
KEY_SYNONYMS = {
    "bandwidth": ("peak_bw_bytes_per_cycle", "bw_bytes_per_cycle", "bytes_per_cycle"),
    "bw": ("peak_bw_bytes_per_cycle", "bw_bytes_per_cycle", "bytes_per_cycle"),
    "clock": ("freq_ghz",),
    "latency": ("t_setup_cycles", "latency_cycles", "hop_latency_cycles", "cycles"),
}


def key_meant(path: tuple[Any, ...], wanted: tuple[Any, ...], siblings: Iterable[str], paths: Iterable[str]) -> str:
    """The remedy for an unknown key at a path, with its full path: the nearest key in the same section, or keys elsewhere.

    `wanted`: the path that the user gave, which may continue below the key; `paths`: the paths of all keys.
    """
    if not isinstance(path[-1], str):
        return ""
    asked = ".".join(str(step) for step in wanted)
    every = list(paths)
    elsewhere = [one for one in every if one.endswith(f".{asked}")] or [one for one in every if one.endswith(f".{path[-1]}")]
    prefix = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path[:-1]).lstrip(".")
    there = list(siblings)
    synonym = next((one for one in KEY_SYNONYMS.get(path[-1].lower(), ()) if one in there), "")
    near = f"did you mean {synonym}?" if synonym else meant(f"{path[-1]}", there, cutoff=0.75 if elsewhere else 0.6)
    if near or not elsewhere:
        return near.replace("did you mean ", f"did you mean {prefix}.") if near and prefix else near
    some = ", ".join(elsewhere[:-1])
    return "" if len(elsewhere) > 5 else f"did you mean {some}{' or ' if some else ''}{elsewhere[-1]}?"
