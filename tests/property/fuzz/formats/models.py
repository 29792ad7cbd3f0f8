"""Language models (`config.json`), bits of their matrices (`--policy`), and lists of collectives (`--ccl`)."""

from __future__ import annotations

import importlib.resources
from random import Random
from typing import Any

import yaml

from tests.property.fuzz.bases import CYCLES
from tests.property.fuzz.case import Case
from tests.property.fuzz.trees import as_json, as_yaml, changed, text_of

LIMIT = ("--set", f"max_cycles={CYCLES}")
RUN = ("--config", "npu_mobile", *LIMIT, "--prompt", "5", "--tokens", "1", "--layers", "1")

#: Small models of every kind that is read, with the keys that published files have.
TINY: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 64,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "head_dim": 16},
    "mistral": {"sliding_window": 8},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen2": {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1, "layer_types": ["full_attention"] * 2},
    "gemma": {"head_dim": 32, "hidden_act": "gelu_pytorch_tanh"},
    "gemma2": {"head_dim": 32, "sliding_window": 8, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
               "hidden_activation": "gelu_pytorch_tanh", "layer_types": ["sliding_attention", "full_attention"]},
    "phi3": {"sliding_window": 8, "partial_rotary_factor": 0.5},
    "gpt2": {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 64, "activation_function": "gelu_new"},
    "opt": {"ffn_dim": 96, "do_layer_norm_before": True, "activation_function": "relu"},
}  # fmt: skip
QUANTIZED = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}}

PRESETS = ("gemma2-9b", "llama2-7b", "llama3-70b", "llama3-8b", "mistral-7b", "mixtral-8x7b", "qwen2.5-7b")


class ModelFormat:
    """`config.json` of language models."""

    name = "model"

    def __init__(self, number: int, count: int) -> None:
        self.bases = [{"model_type": kind, **TINY, **more} for kind, more in KINDS.items()]
        self.bases += [{**self.bases[0], **QUANTIZED}]
        for name in PRESETS:
            path = importlib.resources.files("kernbench.configs") / "models" / f"{name}.yaml"
            self.bases.append(yaml.safe_load(path.read_text(encoding="utf-8")))
        self.keys = sorted(set().union(*self.bases))
        self.kinds = [base for base in self.bases if base["model_type"] not in ("gpt2", "opt", "gemma", "phi3")]

    def sound(self) -> list[Case]:
        """The models of kinds that are read: small ones run, others by bytes alone."""
        small = [base for base in self.kinds if base["hidden_size"] == 64]
        return [Case(("llm", "--model", "m.json", *RUN), {"m.json": as_json(base)}) for base in small]

    def mutated(self, rng: Random) -> Case:
        """A changed model."""
        base = rng.choice((*self.bases[:10], *self.bases))
        end = rng.choice((".json", ".json", ".yaml"))
        more: tuple[str, ...] = rng.choice(
            ((), (), ("--json",), ("--emit", "p.json"), ("--page", "4"), ("--batch", "2"), ("--phase", "decode"))
        )
        if base.get("hidden_size", 0) > 64:  # emitting or running one of these takes long; it is refused sooner
            more = ("--phase", "decode", "--tokens", "1")
        made = changed(rng, base, self.keys)
        return Case(("llm", "--model", f"m{end}", *RUN, *more), {f"m{end}": text_of(rng, made, end)})

    def readers(self) -> list[tuple[Case, str]]:
        """The one reader."""
        return [(self.sound()[0], "m.json")]


class PolicyFormat:
    """Bits by role, layer and head."""

    name = "policy"
    BASE: dict[str, Any] = {
        "w": 4,
        "a": 8,
        "kv": 4,
        "roles": {"lm_head": 8, "w_down": 8},
        "layers": [
            {"layers": [0], "w": 8, "kv": 8},
            {"layers": [1], "roles": {"wq": 8}, "heads": [{"kv_head": 1, "w": 8, "kv": 8}]},
        ],
    }

    def __init__(self, number: int, count: int) -> None:
        self.model = as_json({"model_type": "llama", **TINY})

    def _case(self, name: str, data: bytes, *more: str) -> Case:
        arguments = ("llm", "--model", "m.json", *RUN[:-2], "--policy", name, *more)
        return Case(arguments, {"m.json": self.model, name: data})

    def sound(self) -> list[Case]:
        """The one policy."""
        return [self._case("b.yaml", as_yaml(self.BASE))]

    def mutated(self, rng: Random) -> Case:
        """Other bits."""
        end = rng.choice((".yaml", ".yaml", ".json"))
        keys = ("wq", "wk", "wv", "wo", "router", "w_gate", "w_up", "embedding", "kv_head", "layers", "heads")
        made = changed(rng, self.BASE, keys)
        return self._case(f"b{end}", text_of(rng, made, end), *rng.choice(((), ("--json",), ("--phase", "decode"))))

    def readers(self) -> list[tuple[Case, str]]:
        """The one reader."""
        return [(self.sound()[0], "b.yaml")]


class CclFormat:
    """Lists of collectives' algorithms."""

    name = "ccl"
    BASE: dict[str, Any] = {
        "schema": "kernbench/ccl/1",
        "defaults": {"slots": 4, "slot_bytes": "4 KiB", "tier": "tcm"},
        "algorithms": {
            "all_reduce": {
                "ring": {
                    "module": "kernbench.ccl.algorithms.all_reduce_ring",
                    "topologies": ["ring", "torus", "mesh"],
                    "slots": 8,
                    "slot_bytes": 1024,
                }
            },
            "barrier": {"dissemination": {"module": "kernbench.ccl.algorithms.barrier_dissemination", "topologies": ["ring"]}},
        },
    }

    def __init__(self, number: int, count: int) -> None:
        pass

    def _case(self, name: str, data: bytes, what: str) -> Case:
        if what == "list":
            return Case(("ccl", "list", "--ccl", name), {name: data})
        which = ("--algo", "dissemination") if what == "barrier" else ("--algo", "ring", "--begin", "64")
        return Case(("ccl", "run", what, *which, "--ranks", "2", *LIMIT, "--ccl", name), {name: data})

    def sound(self) -> list[Case]:
        """Listed and run. The queues of `all_reduce` are those of the entry."""
        data = as_yaml({key: value for key, value in self.BASE.items() if key != "defaults"})
        return [self._case("c.yaml", data, what) for what in ("list", "all_reduce", "barrier")]

    def mutated(self, rng: Random) -> Case:
        """A changed list."""
        end = rng.choice((".yaml", ".yaml", ".json"))
        base = self.BASE if rng.random() < 0.3 else {key: value for key, value in self.BASE.items() if key != "defaults"}
        made = changed(rng, base, ("defaults", "all_gather", "tier", "slots", "ring"))
        return self._case(f"c{end}", text_of(rng, made, end), rng.choice(("list", "all_reduce", "all_reduce", "barrier")))

    def readers(self) -> list[tuple[Case, str]]:
        """`list` and `run`."""
        listed, run, _ = self.sound()
        return [(listed, "c.yaml"), (run, "c.yaml")]
