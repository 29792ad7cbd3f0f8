"""Bytes and MACs of models with an encoder, written from the keys of `config.json`. Nothing of the package takes part.

Weights have 4 bits, gains and biases 8, activations 8, the cache 4. All numbers are of one layer, but for `front`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SQUARE = 128  #: [token] queries whose scores are computed together


@dataclass(frozen=True)
class Sizes:
    """What the formulas need of a file."""

    hidden: int
    inner: int  #: of all heads
    encoder_ffn: int
    decoder_ffn: int
    gated: bool
    projection_biases: int  #: elements of one attention's
    network_biases: tuple[int, int]  #: of the encoder's and the decoder's
    norm: int  #: elements of one norm


def sizes_of(config: dict[str, Any]) -> Sizes:
    """By model type: T5 has neither biases nor shifts, whisper no bias of keys, BART all of them."""
    kind, d = config["model_type"], config["d_model"]
    if kind == "t5":
        gated = config["feed_forward_proj"].startswith("gated")
        return Sizes(d, config["num_heads"] * config["d_kv"], config["d_ff"], config["d_ff"], gated, 0, (0, 0), d)
    encoder, decoder = config["encoder_ffn_dim"], config["decoder_ffn_dim"]
    biases = (4 if kind == "bart" else 3) * d
    return Sizes(d, d, encoder, decoder, False, biases, (encoder + d, decoder + d), 2 * d)


def encoder_layer(config: dict[str, Any], tokens: int, batch: int, *, last: bool) -> tuple[int, int, int]:
    """Bytes of weights and of keys and values (stored once, loaded once), and MACs."""
    s = sizes_of(config)
    matrices = 4 * s.hidden * s.inner + (3 if s.gated else 2) * s.hidden * s.encoder_ffn
    closing = s.norm if last and config["model_type"] != "bart" else 0
    vectors = s.projection_biases + s.network_biases[0] + 2 * s.norm + closing
    rows = tokens * batch
    return matrices // 2 + vectors, 2 * rows * s.inner, rows * matrices + 2 * batch * tokens * tokens * s.inner


def decoder_layer(config: dict[str, Any], source: int, tokens: int, context: int, batch: int) -> tuple[int, int, int]:
    """Of `tokens` new tokens after `context`, none of which makes it a beginning; MACs with masked scores of squares."""
    s = sizes_of(config)
    begins = context == 0
    of_source = 2 * s.hidden * s.inner  # keys and values of the encoder's output
    matrices = 6 * s.hidden * s.inner + (3 if s.gated else 2) * s.hidden * s.decoder_ffn
    vectors = 2 * s.projection_biases + s.network_biases[1] + 3 * s.norm
    weights = (matrices + of_source * begins) // 2 + vectors
    kv = batch * s.inner * (context + tokens) + batch * s.inner * source * (2 if begins else 1)
    scores = 0
    for first in range(0, tokens, SQUARE):
        some = min(SQUARE, tokens - first)
        scores += some * (context + first + some)
    macs = batch * (tokens * matrices + source * of_source * begins + 2 * s.inner * (scores + tokens * source))
    return weights, kv, macs


def front(config: dict[str, Any], batch: int, source: int) -> int:
    """MACs before the encoder: whisper's two convolutions of three taps, the second with a stride of 2."""
    if config["model_type"] != "whisper":
        return 0
    d = config["d_model"]
    return batch * (2 * source * 3 * config["num_mel_bins"] * d + source * 3 * d * d)
