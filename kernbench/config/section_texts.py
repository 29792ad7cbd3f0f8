"""Sections of an NPU as text, for keys of data that depend only on these sections. A text is made once for each object."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

from kernbench.config.machine import plain_value
from kernbench.config.schema import NpuConfig

MAX_TEXTS = 4096  #: limit of the sections whose texts are kept

_TEXTS: OrderedDict[tuple[int, tuple[str, ...]], tuple[Any, str]] = OrderedDict()


def section_text(section: Any, without: tuple[str, ...] = ()) -> str:
    """A section of a machine as text, without some of its fields; computed once for each object."""
    key = id(section), without
    known = _TEXTS.get(key)
    if known is None or known[0] is not section:
        plain = plain_value(section)
        if isinstance(plain, dict):
            plain = {name: value for name, value in plain.items() if name not in without}
        known = _TEXTS[key] = section, json.dumps(plain, sort_keys=True)
        if len(_TEXTS) > MAX_TEXTS:
            _TEXTS.popitem(last=False)
    return known[1]


def texts_of(config: NpuConfig, names: Collection[str], spm: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Sections of a machine as text. `spm`: fields of the scratchpad that are left out.

    Of the DRAM, the bandwidth of a channel is included, but not a peak bandwidth above that of the channel's bus.
    """
    without = {"spm": spm, "dram": ("peak_bw_bytes_per_cycle",)}
    texts = [section_text(getattr(config, name), without.get(name, ())) for name in names]
    return (*texts, str(config.dram.capacity)) if "dram" in names else tuple(texts)
