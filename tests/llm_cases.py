"""Small language models of every kind, and jobs for them: for the tests of `kernbench.workloads.llm_*`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from kernbench.config import load_config
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.precision import Precision, uniform_precision
from tests.workload_programs import tiny_machine


def tiny_model(name: str, **changes: Any) -> Model:
    """Two layers of 192 elements, two query heads of 64 and one key and value head; `changes` of the layer or the model."""
    of_model = {key: changes.pop(key) for key in list(changes) if key in Model.__dataclass_fields__ and key != "layers"}
    shape = {"layers": 2, "hidden": 192, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 256, **changes}
    return Model(**{"name": name, "layers": shape["layers"], "shape": ModelShape(name=name, **shape), "vocab": 500, **of_model})


MODELS = {
    "plain": tiny_model("plain"),
    "mqa": tiny_model("mqa", kv_heads=1),
    "window": tiny_model("window", window=40, windowed=(0,)),
    "post": tiny_model("post", post_norms=True, softcap=True, activation="gelu", final_softcap=True, tied=True),
    "layernorm": tiny_model(
        "layernorm", norm="layernorm", gated=False, activation="gelu", qkv_bias=True, out_bias=True, mlp_bias=True
    ),
    "no_rope": tiny_model("no_rope", rope=False),
    "experts": tiny_model("experts", experts=4, experts_per_token=2),
}


UNIFORM = uniform_precision()


@dataclass(frozen=True)
class LlmCase:
    """A model, a machine and a job."""

    model: Model
    machine: Any
    job: Job
    precision: Precision = UNIFORM

    def programs(self) -> LlmPrograms:
        return LlmPrograms(self.model, self.precision, load_config(self.machine), self.job)


ROOMY, TIGHT = tiny_machine(128), tiny_machine(26)
SHORT = Job(prompt=37, tokens=1)
MIXED = Precision.model_validate(
    {"layers": [{"layers": [1], "roles": {"w_down": 8}, "heads": [{"kv_head": 1, "w": 8, "kv": 8}]}], "roles": {"lm_head": 8}}
)
CASES: dict[str, LlmCase] = {
    **{name: LlmCase(model, ROOMY, SHORT) for name, model in MODELS.items()},
    **{f"{name}_tight": LlmCase(MODELS[name], TIGHT, SHORT) for name in ("window", "post", "layernorm", "experts")},
    "batch": LlmCase(MODELS["plain"], ROOMY, Job(prompt=21, tokens=1, batch=3)),
    "batch_tight": LlmCase(MODELS["post"], tiny_machine(20), Job(prompt=21, tokens=1, batch=5)),
    "batch_experts": LlmCase(MODELS["experts"], TIGHT, Job(prompt=9, tokens=1, batch=3)),
    "long": LlmCase(MODELS["plain"], tiny_machine(256), Job(prompt=300, tokens=1)),
    "long_window": LlmCase(MODELS["window"], tiny_machine(256), Job(prompt=300, tokens=1)),
    "paged": LlmCase(MODELS["plain"], ROOMY, Job(prompt=37, tokens=1, batch=2, page_tokens=16)),
    "paged_window": LlmCase(MODELS["window"], TIGHT, Job(prompt=90, tokens=1, page_tokens=16)),
    "mixed": LlmCase(MODELS["plain"], ROOMY, SHORT, MIXED),
}


@cache
def programs_of(name: str) -> LlmPrograms:
    """The programs of one of CASES, planned once."""
    return CASES[name].programs()
