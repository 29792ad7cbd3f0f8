"""Writes `parameters.json`: configurations by `transformers`' own classes, and the parameters of its models on the meta device.

    pip install transformers==5.24.0 torch==2.13.0        # CPU; outside of the environment of this project
    python -m tests.model_types.record tests/model_types/parameters.json

The tests need neither: they read the file.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

#: What is changed of the defaults, case by case.
CASES: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
AUTO = {"whisper": "AutoModelForSpeechSeq2Seq", "t5": "AutoModelForSeq2SeqLM", "bart": "AutoModelForSeq2SeqLM"}
#: Keys that say nothing of sizes.
LEFT_OUT = {
    "transformers_version", "dtype", "id2label", "label2id", "_name_or_path", "architectures", "output_attentions",
    "output_hidden_states", "return_dict", "problem_type", "chunk_size_feed_forward", "initializer_range", "use_cache",
    "bos_token_id", "eos_token_id", "pad_token_id", "rope_parameters", "attention_dropout", "suppress_tokens",
    "begin_suppress_tokens", "time_step_limit",
}  # fmt: skip
ATTENTION_KEYS = ("attn_type", "alibi", "qk_ln", "clip_qkv")


def layers_of(model: Any) -> dict[str, dict[str, int]]:
    """Elements of the tensors of each layer that differs from the ones before it, by its number."""
    layers: dict[int, dict[str, int]] = {}
    for name, tensor in model.named_parameters():
        at = re.search(r"\.(?:layers|h|blocks)\.(\d+)\.(.*)", name)
        if at is None or "encoder." in name:
            continue
        inside, shape = at.group(2), tuple(tensor.shape)
        if "experts" in inside and "shared_experts" not in inside:
            kind = "experts" if len(shape) == 3 else "expert_vectors"
        else:
            flat = len(shape) != 2 or "norm" in inside or "A_log" in inside
            kind = "vectors" if flat else "matrices"
        sizes = layers.setdefault(int(at.group(1)), {"matrices": 0, "experts": 0, "vectors": 0, "expert_vectors": 0})
        sizes[kind] += tensor.numel()
    distinct: list[dict[str, int]] = []
    return {str(n): sizes for n, sizes in sorted(layers.items()) if _new(sizes, distinct)}


def _new(sizes: dict[str, int], seen: list[dict[str, int]]) -> bool:
    """Whether these are not among those seen; now they are."""
    if sizes in seen:
        return False
    seen.append(sizes)
    return True


def main(target: str) -> None:
    """Write all cases."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    rows = []
    for kind, cases in CASES.items():
        found = []
        for changes in cases:
            config = transformers.CONFIG_MAPPING[kind](**changes)
            with torch.device("meta"):
                model = getattr(transformers, AUTO.get(kind, "AutoModelForCausalLM")).from_config(config)
            model.tie_weights()
            plain = json.loads(config.to_json_string(use_diff=False))
            kept = {key: value for key, value in plain.items() if key not in LEFT_OUT}
            if "attn_config" in kept:
                kept["attn_config"] = {key: kept["attn_config"].get(key) for key in ATTENTION_KEYS}
            total = sum(one.numel() for one in model.parameters())
            found.append({"parameters": total, "layers": layers_of(model), "config": kept})
        lines = ",\n".join("  " + json.dumps(one) for one in found)
        rows.append(f" {json.dumps(kind)}: [\n{lines}\n ]")
    Path(target).write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
