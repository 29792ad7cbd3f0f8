"""The quick build of the documentation, a test of the build itself: pictures of language models show a small model."""

from __future__ import annotations

import json
import os
from pathlib import Path

QUICK = os.environ.get("KERNBENCH_DOCS_QUICK") == "1"
SMALL = Path(__file__).parent / "_generated" / "small_model.json"
#: A `config.json` with the keys of Llama models.
KEYS = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8,
    "num_key_value_heads": 4, "hidden_act": "silu", "vocab_size": 2048, "max_position_embeddings": 16384,
}  # fmt: skip


def shown_model(name: str) -> str:
    """The model that pictures show: that of this name, or in a quick build the file of the small model."""
    if not QUICK:
        return name
    SMALL.parent.mkdir(exist_ok=True)
    SMALL.write_text(json.dumps(KEYS), encoding="utf-8")
    return str(SMALL)
