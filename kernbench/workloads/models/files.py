"""Models by name, or from a Hugging Face `config.json` as published.

It reads the keys of a `config.json` that determine bytes or MACs, and notes keys that could do so but are not used.
`model_type` stands for facts that the keys do not give: the location of norms, the matrices with biases, and the layers with a
window.
"""

from __future__ import annotations

import importlib.resources
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.config.document import Document, read_document
from kernbench.config.file_kinds import check_file, check_kind
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.fallback import row_of_keys
from kernbench.workloads.models.keys import Keys
from kernbench.workloads.models.parts import Attention, Block, Description, Experts, LatentAttention, Mlp
from kernbench.workloads.models.stated import stated_bits
from kernbench.workloads.models.types import LAYER, RMS, ROWS, described

MODEL_BYTES = 1 << 20
SUFFIXES = (".json", ".yaml", ".yml")
CONFIG = "config.json"  #: the file of a model in its folder
#: types that contain several models, with the type of the model that generates text
_INSIDE = {"gemma3": "gemma3_text", "llama4": "llama4_text"}


def preset_models() -> list[str]:
    """The model names that `load_model` accepts, in addition to files."""
    return [path.name.removesuffix(".yaml") for path in _presets()]


def is_model_file(path: str) -> bool:
    """Whether a file is a model's `config.json`, not a program: it names the size of its hidden state."""
    try:
        data = read_document(path, MODEL_BYTES).data
    except InputError:  # the reader of programs reports the error in the file
        return False
    sizes = ("hidden_size", "n_embd", "n_embed", "d_model", "text_config")
    return isinstance(data, dict) and "cmdq" not in data and ("model_type" in data or any(size in data for size in sizes))


def is_model_folder(name: str) -> bool:
    """Whether a folder has a `config.json`, as a model from the Hugging Face hub."""
    try:
        return bool(name) and (Path(name) / CONFIG).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def load_model(name: str) -> Model:
    """The model of a preset's name, of a `config.json`, or of a folder with a `config.json`.

    The InputError names the key that is missing or not supported."""
    if is_model_folder(name):
        name = str(Path(name) / CONFIG)
    if name.lower().endswith(SUFFIXES):
        path = Path(name)
        called = path.parent.resolve().name if path.stem.lower() == "config" else path.stem
        return model_of(read_document(name, MODEL_BYTES), _plain(called) or "model")
    for path in _presets():
        if _plain(path.name.removesuffix(".yaml")) == _plain(name):
            return model_of(read_document(path, MODEL_BYTES), path.name.removesuffix(".yaml"))
    names = preset_models()
    check_file(name, "model")
    near = meant(name.rpartition("/")[2], names, cutoff=0.5)
    rule = "there is no model with this name" + ("" if near else f"; the models are {', '.join(names)}")
    raise InputError(Problem(name, rule, remedy=near or "or name a .json or .yaml file, or a folder with a config.json"))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _presets() -> list[Path]:
    folder = importlib.resources.files("kernbench.configs") / "models"
    return sorted(Path(str(file)) for file in folder.iterdir() if file.name.endswith(".yaml"))


def model_of(document: Document, name: str) -> Model:
    """The model that a `config.json` describes."""
    check_kind(document.source, document.data, "model")
    document = _text_model(document)
    keys = Keys(document)
    row = ROWS.get(keys.text("model_type"))
    found = described(keys, row if row is not None else row_of_keys(keys))
    stated = stated_bits(keys)
    positions = next((keys.get(name) for name in _POSITIONS if type(keys.get(name)) is int), 0)
    keys.unused()
    shape = planned_shape(name, found)
    window = max((b.mixer.window for b in found.blocks if isinstance(b.mixer, Attention)), default=0)
    windowed = tuple(i for i, b in enumerate(found.blocks) if isinstance(b.mixer, Attention) and b.mixer.window)
    return Model(
        name=name, layers=len(found.blocks), shape=shape or nearest_shape(name, found), vocab=found.vocab, tied=found.tied,
        window=window, windowed=windowed, final_softcap=found.head_softcap, positions=positions, stated=stated,
        description=found, planned=shape is not None, notes=tuple(keys.notes),
    )  # fmt: skip


_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions")


def _text_model(document: Document) -> Document:
    """For a file of several models, the part that describes the model that generates text."""
    data = document.data
    section = data.get("text_config") if isinstance(data, dict) else None
    if not isinstance(section, dict) or data.get("model_type") in ROWS:
        return document
    kind = section.get("model_type", data.get("model_type"))
    common = {key: data[key] for key in ("torch_dtype", "dtype", "quantization_config") if key in data}
    return msgspec.structs.replace(document, data={**common, **section, "model_type": _INSIDE.get(kind, kind)}, text=None)


def planned_shape(name: str, found: Description) -> ModelShape | None:
    """The layer for the planner of layers; None if the model has parts that the planner does not support."""
    first = found.blocks[0]
    mixer, ffn, stack = first.mixer, first.ffn, found.decoder
    if not isinstance(mixer, Attention) or any(_without_window(block) != _without_window(first) for block in found.blocks):
        return None
    expert = ffn.expert if isinstance(ffn, Experts) else ffn
    if not isinstance(expert, Mlp) or first.norm not in (RMS, LAYER) or first.norms not in (2, 4):
        return None
    plain = not (mixer.qk_norm or mixer.sinks or mixer.gated or mixer.chunk or mixer.buckets or first.parallel or first.cross)
    plain = plain and mixer.q_bias == mixer.k_bias == mixer.v_bias and expert.up_bias == expert.down_bias
    plain = plain and expert.activation in ("silu", "gelu") and mixer.heads % mixer.kv_heads == 0
    if isinstance(ffn, Experts):
        plain = plain and not (ffn.router_bias or ffn.shared or expert.up_bias or first.norms == 4)
    ends = stack.positions == 0 and stack.embedding_norm is None and stack.final_norm == first.norm and found.encoder is None
    if not plain or not ends or found.head_bias or found.word_dim:
        return None
    return _shape(name, found, mixer, expert, ffn if isinstance(ffn, Experts) else None)


def _shape(name: str, found: Description, mixer: Attention, expert: Mlp, experts: Experts | None) -> ModelShape:
    first = found.blocks[0]
    return ModelShape(
        name=name, layers=len(found.blocks), hidden=found.hidden, heads=mixer.heads, kv_heads=mixer.kv_heads,
        head_dim=mixer.head_dim, ffn=expert.width, norm=first.norm.kind,
        activation="gelu" if expert.activation == "gelu" else "silu", gated=expert.gated, rope=mixer.rope,
        post_norms=first.norms == 4, qkv_bias=mixer.q_bias, out_bias=mixer.out_bias, mlp_bias=expert.up_bias,
        softcap=mixer.softcap, experts=experts.count if experts else 0, experts_per_token=experts.top_k if experts else 0,
    )  # fmt: skip


def nearest_shape(name: str, found: Description) -> ModelShape:
    """The sizes of a model whose layers are lowered part by part."""
    mixers = [block.mixer for block in found.blocks]
    mixer: Any = next((one for one in mixers if isinstance(one, Attention | LatentAttention)), None)
    ffn = next((block.ffn for block in found.blocks if block.ffn is not None), None)
    expert = ffn.expert if isinstance(ffn, Experts) else ffn
    heads, kv_heads, dim = 1, 1, 64
    if isinstance(mixer, Attention):
        heads, kv_heads, dim = mixer.heads, mixer.kv_heads, mixer.head_dim
    elif isinstance(mixer, LatentAttention):
        heads, dim = mixer.heads, mixer.token_elements
    if heads % kv_heads:
        heads = kv_heads = 1
    return ModelShape(
        name=name, layers=len(found.blocks), hidden=found.hidden, heads=heads, kv_heads=kv_heads, head_dim=dim,
        ffn=expert.width if expert else 1, norm=found.blocks[0].norm.kind,
    )  # fmt: skip


def _without_window(block: Block) -> Block:
    mixer = block.mixer
    return replace(block, mixer=replace(mixer, window=0)) if isinstance(mixer, Attention) else block
