"""Speculative decoding: the number of tokens that are proposed, and the number that the model accepts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import mul
from typing import Any, Literal

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant

Method = Literal["draft_model", "ngram"]
METHODS: tuple[Method, ...] = ("draft_model", "ngram")
_WHERE = "speculative_config"
_ACCEPTANCE = ("synthetic_acceptance_rates", "synthetic_acceptance_length", "acceptance_rate")
_LIMIT = 64  #: limit of the drafts of a step
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """The drafts of a step, and their acceptance. There are no real tokens, so acceptance is random.

    `rates`: for each position, the share of steps in which all drafts up to this position are accepted, as in vLLM's
    `synthetic_acceptance_rates`; the values must not increase. `model`: the model of the drafts, for `draft_model`.
    `match_rate`: the share of steps in which `ngram` finds drafts. A draw depends only on `seed`, the request and its output so
    far, so the schedule does not change which drafts are accepted.

    >>> from kernbench.serving import Speculation
    >>> spec = Speculation(method="ngram", rates=(1.0, 0.5))
    >>> [spec.accepted(request, 1) for request in range(8)]
    [2, 2, 1, 2, 1, 1, 2, 1]
    """

    method: Method
    rates: tuple[float, ...]
    model: str | None = None
    match_rate: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            rule = f"it must be one of {', '.join(METHODS)}"
            raise InputError(Problem(_WHERE, rule, "method", self.method, meant(str(self.method), METHODS)))
        if (self.method == "draft_model") == (self.model is None):
            rule = "draft_model needs the model of the drafts" if self.model is None else "ngram has no model"
            raise InputError(Problem(_WHERE, rule, "model", self.model))
        falls = all(after <= before for before, after in zip((1.0, *self.rates), (*self.rates, 0.0), strict=True))
        if not self.rates or not falls or len(self.rates) > _LIMIT:
            rule = f"it must be a list of 1 to {_LIMIT} numbers from 0 to 1 that do not increase"
            raise InputError(Problem(_WHERE, rule, "synthetic_acceptance_rates", list(self.rates)))
        if not 0 <= self.match_rate <= 1 or (self.method != "ngram" and self.match_rate != 1):
            rule = "it must be from 0 to 1, and is for ngram only"
            raise InputError(Problem(_WHERE, rule, "match_rate", self.match_rate))
        if type(self.seed) is not int or self.seed < 0:
            raise InputError(Problem(_WHERE, "it must be an integer of at least 0", "seed", self.seed))

    @property
    def tokens(self) -> int:
        """The largest number of drafts of a step."""
        return len(self.rates)

    @property
    def lookahead(self) -> int:
        """[token] for which a running request needs space in the KV cache, because the draft model writes there."""
        return self.tokens if self.method == "draft_model" else 0

    def drafts(self, request: int, outputs: int) -> int:
        """The number of tokens that are proposed after this many output tokens of a request."""
        return self.tokens if self.match_rate == 1 or _uniform(self.seed, request, outputs, 1) < self.match_rate else 0

    def accepted(self, request: int, outputs: int) -> int:
        """The number of accepted drafts, of `tokens` drafts, after this many output tokens of a request."""
        drawn = _uniform(self.seed, request, outputs, 0)
        return sum(drawn < rate for rate in self.rates)


def parse_speculation(text: str | Mapping[str, Any]) -> Speculation:
    """Speculation in the format of `vllm serve --speculative-config`: a JSON object. InputError for a text that is not valid.

    Acceptance is given by one of `synthetic_acceptance_rates`, `synthetic_acceptance_length` (the mean number of tokens of a
    step; as in vLLM, with the smallest variance) and `acceptance_rate` (of each draft after accepted drafts).

    >>> from kernbench.serving import parse_speculation
    >>> parse_speculation('{"method": "ngram", "num_speculative_tokens": 3, "synthetic_acceptance_length": 2.5}').rates
    (1.0, 0.5, 0.0)
    """
    plain: Any = text
    if isinstance(text, str):
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            remedy = """write '{"method": "ngram", "num_speculative_tokens": 3, "acceptance_rate": 0.7}'"""
            raise InputError(Problem(_WHERE, f"it must be a JSON object: {error}", remedy=remedy)) from None
    if not isinstance(plain, Mapping):
        raise InputError(Problem(_WHERE, "it must be a JSON object"))
    known = ("method", "model", "num_speculative_tokens", "match_rate", "seed", *_ACCEPTANCE)
    for name in plain:
        if name not in known:
            rule = f"there is no such key; there are {', '.join(known)}"
            raise InputError(Problem(_WHERE, rule, name, plain[name], meant(str(name), known)))
    count, model = plain.get("num_speculative_tokens"), plain.get("model")
    if type(count) is not int or not 1 <= count <= _LIMIT:
        raise InputError(Problem(_WHERE, f"it must be an integer from 1 to {_LIMIT}", "num_speculative_tokens", count))
    if model is not None and not isinstance(model, str):
        raise InputError(Problem(_WHERE, "it must be the name or file of a model", "model", model))
    rates = _rates(plain, count)
    match = _number(plain, "match_rate") if "match_rate" in plain else 1.0
    method = plain.get("method", "draft_model" if model is not None else "ngram")
    return Speculation(method=method, model=model, rates=rates, match_rate=match, seed=plain.get("seed", 0))


def _rates(plain: Mapping[str, Any], count: int) -> tuple[float, ...]:
    given = [name for name in _ACCEPTANCE if name in plain]
    if len(given) != 1:
        rule = f"acceptance must be given once, by one of {', '.join(_ACCEPTANCE)}"
        raise InputError(Problem(_WHERE, rule, "acceptance", ", ".join(given) or None))
    if given[0] == "synthetic_acceptance_rates":
        values = plain[given[0]]
        if not isinstance(values, (list, tuple)) or len(values) != count:
            raise InputError(Problem(_WHERE, f"it must be a list of {count} numbers, one a draft", given[0], values))
        return tuple(_number({given[0]: value}, given[0]) for value in values)
    value = _number(plain, given[0])
    if given[0] == "acceptance_rate":
        if not 0 <= value <= 1:
            raise InputError(Problem(_WHERE, "it must be from 0 to 1", given[0], value))
        return tuple(accumulate(repeat(value, count), mul))  # powers of the C library differ between machines
    if not 1 <= value <= count + 1:
        raise InputError(Problem(_WHERE, f"it must be from 1 to {count + 1}", given[0], value))
    return tuple(min(1.0, max(0.0, value - 1 - place)) for place in range(count))


def _number(plain: Mapping[str, Any], name: str) -> float:
    value = plain[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(Problem(_WHERE, "it must be a number", name, value))
    return float(value)


def _uniform(*words: int) -> float:
    """A number of at least 0 and less than 1 that depends only on these numbers (SplitMix64)."""
    state = 0
    for word in words:
        state = (state + word + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return (state >> 11) / (1 << 53)
