"""Facts about each `model_type` of a `config.json` that its keys do not give: one row for each type, and a row for all other
types.

Defaults are those of the type's configuration class in `transformers` 5.24, which older files leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from kernbench.common.errors import ABSENT
from kernbench.workloads.models.keys import Keys
from kernbench.workloads.models.parts import (
    Attention,
    Block,
    Convolution,
    Description,
    Experts,
    LatentAttention,
    LinearAttention,
    Mixer,
    Mlp,
    Norm,
    Stack,
    StateSpace,
)

RMS, LAYER, LAYER_BARE = Norm(), Norm("layernorm", shift=True), Norm("layernorm")
LINEAR, SLIDES, CHUNKED, FULL = "linear_attention", "sliding_attention", "chunked_attention", "full_attention"
LAYER_TYPES = (FULL, SLIDES, CHUNKED, LINEAR)
Flag = bool | str | tuple[str, bool]  #: a fact, or the key that states the fact with its default


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a type of models."""

    tokens: int  #: [token] length of the window; 0 if no layer has one
    slides: Callable[[int], bool] = lambda layer: True  #: whether a layer has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """The keys of a mixture of experts."""

    count: tuple[str, ...] = ("num_local_experts", "num_experts")
    top_k: int = 2  #: default of `num_experts_per_tok`
    width: str = "intermediate_size"
    shared: Callable[[Keys], int] = lambda keys: 0  #: width of the network that all tokens use
    shared_gate: bool = False
    router_bias: bool = False
    bias: bool = False
    sparse: Callable[[Keys], Callable[[int], bool]] = lambda keys: lambda layer: True  #: which layers have experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A model type. Keys have their usual names unless `names` has another one."""

    names: Mapping[str, str] = field(default_factory=dict)
    act: str = "silu"  #: default of the activation
    q_bias: Flag = False
    k_bias: Flag | None = None  #: None: the same as `q_bias`
    out_bias: Flag = False
    mlp_bias: Flag = False
    norm: Norm = RMS
    norms: int = 2
    qk_norm: Literal["", "shared", "heads"] = ""
    qk_norm_key: str = ""  #: the key that turns the norm on
    qk_shift: bool = False
    gated: bool = True
    parallel: Flag = False
    window: Callable[[Keys], Window | None] = lambda keys: None
    rope: Callable[[Keys], Callable[[int], bool]] = lambda keys: lambda layer: True
    softcap: str = ""
    sinks: bool = False
    gate: bool = False  #: whether the attention's output is multiplied by a gate
    tied: bool = False
    head_bias: Flag = False
    positions: int | None = None  #: additional rows of a learned table of positions; None if there is no table
    embedding_norm: Norm | None = None
    mixture: Mixture | None = None
    experts_required: bool = True
    ffn_times: int = 0  #: width of the network as a multiple of the hidden width, if no key states it
    mixer: Callable[[Keys, int, str], Mixer | None] = lambda keys, layer, kind: None  #: the mixer that replaces attention
    kv_heads: Callable[[Keys, int], int] | None = None
    finish: Callable[[Keys, Description], Description] = lambda keys, found: found
    idle: tuple[str, ...] = ()  #: keys that change neither bytes nor MACs, or whose meaning other keys have
    exact: bool = True  #: False for the row of types without a row of their own


def flag(keys: Keys, fact: Flag) -> bool:
    """The truth value of a fact."""
    if isinstance(fact, bool):
        return fact
    name, default = (fact, False) if isinstance(fact, str) else fact
    return keys.flag(name, default)


def described(keys: Keys, row: Row) -> Description:
    """The description of a file according to a row. Raises InputError for a key that is missing or wrong."""

    def named(what: str) -> str:
        alike = row.names.get(what, what).split("|")
        return next((name for name in alike if keys.given(name)), alike[0])

    layers, hidden = keys.count(named("num_hidden_layers")), keys.count(named("hidden_size"))
    heads = keys.count(named("num_attention_heads")) if row.names.get("num_attention_heads") != "" else 1
    kv_heads = row.kv_heads(keys, heads) if row.kv_heads else keys.count(named("num_key_value_heads"), heads)
    head_dim = keys.count("head_dim", hidden // heads)
    if heads % kv_heads:
        keys.note((named("num_key_value_heads"),), f"it does not divide the number of heads, {heads}", kv_heads)
    if hidden % heads and not keys.given("head_dim") and row.names.get("num_attention_heads") != "":
        rule = f"it does not divide hidden_size, {hidden}, and head_dim is not given: a head has {head_dim} elements"
        keys.note((named("num_attention_heads"),), rule, heads)
    activation = keys.activation(named("hidden_act"), row.act)
    bias, mlp_bias = flag(keys, row.q_bias), flag(keys, row.mlp_bias)
    kinds, tokens = layer_kinds(keys, layers, row.window(keys))
    ropes, chunk = row.rope(keys), keys.count("attention_chunk_size", 0) if CHUNKED in kinds else 0
    sparse = row.mixture.sparse(keys) if row.mixture else (lambda layer: False)
    normed = row.qk_norm if not row.qk_norm_key or keys.flag(row.qk_norm_key, False) else ""
    attention = Attention(
        heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        q_bias=bias, k_bias=bias if row.k_bias is None else flag(keys, row.k_bias), v_bias=bias,
        out_bias=flag(keys, row.out_bias), qk_norm=normed, qk_shift=row.qk_shift and bool(normed),
        softcap=bool(row.softcap) and keys.given(row.softcap), sinks=row.sinks, gated=row.gate,
    )  # fmt: skip
    dense = _dense(keys, row, named("intermediate_size"), hidden, activation, mlp_bias)
    experts = _experts(keys, row.mixture, activation, row.gated) if row.mixture else None
    parallel = flag(keys, row.parallel)
    blocks = []
    for layer, kind in enumerate(kinds):
        mixer: Mixer | None = row.mixer(keys, layer, kind)
        if mixer is None and kind == LINEAR:
            rule = f"it must be one of {', '.join(LAYER_TYPES[:-1])}: models of this type have no linear attention"
            raise keys.refuse(("layer_types", layer), rule, kind)
        if mixer is None:
            window, within = tokens if kind == SLIDES else 0, chunk if kind == CHUNKED else 0
            mixer = replace(attention, rope=ropes(layer), window=window, chunk=within)
        ffn = experts if experts is not None and sparse(layer) else dense()
        blocks.append(Block(mixer=mixer, ffn=ffn, norm=row.norm, norms=row.norms, parallel=parallel))
    positions = 0 if row.positions is None else keys.count(named("max_position_embeddings")) + row.positions
    stack = Stack(
        hidden=hidden, blocks=tuple(blocks), positions=positions, embedding_norm=row.embedding_norm, final_norm=row.norm
    )
    found = Description(
        decoder=stack, vocab=keys.count("vocab_size"), tied=keys.flag("tie_word_embeddings", row.tied),
        head_bias=flag(keys, row.head_bias), head_softcap=keys.given("final_logit_softcapping"),
    )  # fmt: skip
    for name in row.idle:
        keys.get(name)
    return row.finish(keys, found)


def _dense(
    keys: Keys, row: Row, name: str, hidden: int, activation: str, bias: bool
) -> Callable[[], Mlp | None]:
    """The dense network, which is read only if a layer has it: a file with experts only may state no width for it."""
    def made() -> Mlp | None:
        if row.names.get("intermediate_size") == "":
            return None
        width = keys.count(name, row.ffn_times * hidden if row.ffn_times else ABSENT)
        return Mlp(width=width, gated=row.gated, activation=activation, up_bias=bias, down_bias=bias)

    return made


def _experts(keys: Keys, mixture: Mixture, activation: str, gated: bool) -> Experts | None:
    """The mixture of a file; None if it has none."""
    name = next((name for name in mixture.count if keys.given(name)), mixture.count[0])
    count = keys.count(name, others=mixture.count)
    expert = Mlp(
        width=keys.count(mixture.width), gated=gated, activation=activation, up_bias=mixture.bias, down_bias=mixture.bias
    )
    wide = mixture.shared(keys)
    shared = Mlp(width=wide, gated=gated, activation=activation) if wide else None
    top_k = keys.count("num_experts_per_tok", mixture.top_k)
    if top_k > count:
        raise keys.refuse(("num_experts_per_tok",), f"it must be from 1 to {name} = {count}", top_k)
    return Experts(
        count=count, top_k=top_k, expert=expert, router_bias=mixture.router_bias, shared=shared, shared_gate=mixture.shared_gate
    )


def layer_kinds(keys: Keys, layers: int, window: Window | None) -> tuple[list[str], int]:
    """The kind of each layer, and [token] of the window of those that slide.

    The kinds come from `layer_types`, else from `sliding_window_pattern`, else from the rule of the model type.
    """
    types = keys.get("layer_types")
    every = keys.get("sliding_window_pattern")
    if types is None:
        if window is None or not keys.flag("use_sliding_window", True) or not window.tokens:
            keys.count("sliding_window_pattern", 0) if window is not None and every is not None else None
            return [FULL] * layers, 0
        pattern = keys.count("sliding_window_pattern", 0) if not isinstance(every, str) else 0
        slides = (lambda i: bool((i + 1) % pattern)) if pattern else window.slides
        return [SLIDES if slides(i) else FULL for i in range(layers)], window.tokens
    if not isinstance(types, list) or len(types) != layers:
        raise keys.refuse(("layer_types",), f"it must be a list of {layers}, one of each layer", types)
    for i, kind in enumerate(types):
        if kind not in LAYER_TYPES:
            raise keys.refuse(("layer_types", i), f"it must be one of {', '.join(LAYER_TYPES)}", kind)
    if SLIDES not in types:
        return types, 0
    if not keys.flag("use_sliding_window", True):
        keys.note(("use_sliding_window",), "layer_types has layers with a window, and they have it", False)
    tokens = keys.count("sliding_window", 0 if window is None else window.tokens)
    if not tokens:
        raise keys.refuse(("layer_types",), "sliding_attention needs the key sliding_window")
    return types, tokens


def _number(keys: Keys, name: str, default: int) -> int:
    """A count that may be 0."""
    return 0 if keys.get(name) == 0 else keys.count(name, default)


def _slides(default: int = 0, slides: Callable[[int], bool] = lambda layer: True) -> Callable[[Keys], Window]:
    return lambda keys: Window(0 if keys.get("sliding_window", default) == 0 else keys.count("sliding_window", default), slides)


def _qwen_window(keys: Keys) -> Window:
    """The first `max_window_layers` layers have no window, and none has unless `use_sliding_window` is true."""
    tokens = _number(keys, "sliding_window", 4096)
    first = _number(keys, "max_window_layers", 28)
    if not keys.flag("use_sliding_window", keys.given("layer_types")):
        return Window(tokens, lambda layer: False)
    return Window(tokens, lambda layer: layer >= first)


def _every(count: int, default: int) -> Callable[[Keys], Window]:
    """Every `count`-th layer has no window."""
    return _slides(default, lambda layer: bool((layer + 1) % count))


def _qwen_sparse(keys: Keys) -> Callable[[int], bool]:
    step, dense = keys.count("decoder_sparse_step", 1), keys.get("mlp_only_layers", [])
    return lambda layer: layer not in dense and (layer + 1) % step == 0


def _deepseek_sparse(keys: Keys) -> Callable[[int], bool]:
    first = _number(keys, "first_k_dense_replace", 0)
    return lambda layer: layer >= first


def _deepseek(keys: Keys, layer: int, kind: str) -> LatentAttention:
    return LatentAttention(
        heads=keys.count("num_attention_heads"),
        kv_rank=keys.count("kv_lora_rank", 512),
        nope_dim=keys.count("qk_nope_head_dim", 128),
        rope_dim=keys.count("qk_rope_head_dim", 64),
        value_dim=keys.count("v_head_dim", 128),
        q_rank=keys.count("q_lora_rank") if keys.given("q_lora_rank") else 0,
        bias=keys.flag("attention_bias", False),
    )


def _deepseek_finish(keys: Keys, found: Description) -> Description:
    return replace(found, predicting=_number(keys, "num_nextn_predict_layers", 0))


def _qwen3_next(keys: Keys, layer: int, kind: str) -> Mixer | None:
    every = keys.count("full_attention_interval", 4)
    linear = kind == LINEAR if keys.given("layer_types") else bool((layer + 1) % every)
    if not linear:
        return None
    return LinearAttention(
        kind="delta",
        key_heads=keys.count("linear_num_key_heads", 16),
        value_heads=keys.count("linear_num_value_heads", 32),
        key_dim=keys.count("linear_key_head_dim", 128),
        value_dim=keys.count("linear_value_head_dim", 128),
        conv=keys.count("linear_conv_kernel_dim", 4),
    )


def _minimax(keys: Keys, layer: int, kind: str) -> Mixer | None:
    linear = kind == LINEAR if keys.given("layer_types") else layer % 2 == 1
    if not linear:
        return None
    heads, hidden = keys.count("num_attention_heads"), keys.count("hidden_size")
    dim = keys.count("head_dim", hidden // heads)
    return LinearAttention(kind="lightning", key_heads=heads, value_heads=heads, key_dim=dim, value_dim=dim)


def _mamba2(keys: Keys, layer: int, kind: str) -> StateSpace:
    hidden = keys.count("hidden_size")
    return StateSpace(
        inner=keys.count("expand", 2) * hidden,
        state=keys.count("state_size", 128),
        conv=keys.count("conv_kernel", 4),
        conv_bias=keys.flag("use_conv_bias", True),
        bias=keys.flag("use_bias", False),
        groups=keys.count("n_groups", 8),
        heads=keys.count("num_heads", 128),
    )


def _jamba(keys: Keys, layer: int, kind: str) -> Mixer | None:
    hidden, dim = keys.count("hidden_size"), keys.count("mamba_expand", 2)
    if layer % keys.count("attn_layer_period", 8) == _number(keys, "attn_layer_offset", 4):
        return None
    rank = keys.get("mamba_dt_rank", "auto")
    return StateSpace(
        inner=dim * hidden,
        state=keys.count("mamba_d_state", 16),
        conv=keys.count("mamba_d_conv", 4),
        conv_bias=keys.flag("mamba_conv_bias", True),
        bias=keys.flag("mamba_proj_bias", False),
        rank=-(-hidden // 16) if rank == "auto" else keys.count("mamba_dt_rank"),
        inner_norms=True,
    )


def _jamba_sparse(keys: Keys) -> Callable[[int], bool]:
    period, offset = keys.count("expert_layer_period", 2), _number(keys, "expert_layer_offset", 1)
    return lambda layer: layer % period == offset and keys.count("num_experts", 16) > 1


def _llama4_rope(keys: Keys) -> Callable[[int], bool]:
    """`no_rope_layers` has 0 for a layer without RoPE; without this key, every fourth layer has none."""
    stated, every = keys.get("no_rope_layers"), keys.count("no_rope_layer_interval", 4)
    if isinstance(stated, list) and stated:
        return lambda layer: bool(stated[layer]) if layer < len(stated) else True
    return lambda layer: bool((layer + 1) % every)


def _llama4(keys: Keys, found: Description) -> Description:
    """Layers without experts have a network with its own width; layers with RoPE attend within chunks."""
    step, stated = keys.count("interleave_moe_layer_step", 1), keys.get("moe_layers")
    wide, chunk = keys.count("intermediate_size_mlp", 16384), keys.count("attention_chunk_size", 8192)
    blocks = []
    for layer, block in enumerate(found.blocks):
        sparse = layer in stated if isinstance(stated, list) else (layer + 1) % step == 0
        ffn = block.ffn
        if not sparse and isinstance(ffn, Experts):
            ffn = replace(ffn.expert, width=wide)
        mixer = block.mixer
        if isinstance(mixer, Attention) and not keys.given("layer_types"):
            mixer = replace(mixer, chunk=chunk if mixer.rope else 0)
        blocks.append(replace(block, ffn=ffn, mixer=mixer))
    return replace(found, decoder=replace(found.decoder, blocks=tuple(blocks)))


def _falcon_kv_heads(keys: Keys, heads: int) -> int:
    if keys.flag("new_decoder_architecture", False):
        return keys.count("num_kv_heads", heads)
    keys.get("num_kv_heads")
    return 1 if keys.flag("multi_query", True) else heads


def _falcon(keys: Keys, found: Description) -> Description:
    """The new architecture has two parallel norms; in other parallel blocks there is only the first one."""
    new = keys.flag("new_decoder_architecture", False)
    parallel = new or keys.flag("parallel_attn", True)
    norms = keys.count("num_ln_in_parallel_attn", 2) if new else 1 if parallel else 2
    rope = not keys.flag("alibi", False)

    def changed(block: Block) -> Block:
        assert isinstance(block.mixer, Attention)
        return replace(block, parallel=parallel, norms=norms, mixer=replace(block.mixer, rope=rope))

    return _each(found, changed)


def _each(found: Description, change: Callable[[Block], Block]) -> Description:
    blocks = tuple(change(block) for block in found.blocks)
    return replace(found, decoder=replace(found.decoder, blocks=blocks))


def _no_rope(keys: Keys) -> Callable[[int], bool]:
    return lambda layer: False


def _opt(keys: Keys, found: Description) -> Description:
    """The embedding may be narrower than the hidden state; without norms before the parts, the last norm is missing."""
    width = keys.count("word_embed_proj_dim", found.hidden)
    before = keys.flag("do_layer_norm_before", True) and not keys.flag("_remove_final_layer_norm", False)
    affine = keys.flag("layer_norm_elementwise_affine", True)
    norm = LAYER if affine else Norm("layernorm", gain=False)
    found = _each(found, lambda block: replace(block, norm=norm))
    found = replace(found, decoder=replace(found.decoder, final_norm=norm if before else None))
    return replace(found, word_dim=width if width != found.hidden else 0)


def _mpt(keys: Keys, found: Description) -> Description:
    wide = keys.count("expansion_ratio", 4) * found.hidden
    section = keys.get("attn_config", {})
    for name in ("clip_qkv", "qk_ln"):
        if isinstance(section, dict) and section.get(name):
            keys.note(("attn_config", name), "it is not used, though it may change the work", section[name])
    grouped = section.get("kv_n_heads") if isinstance(section, dict) else None
    if grouped:
        keys.note(("attn_config", "kv_n_heads"), "it is not used, though it may change the work", grouped)

    def changed(block: Block) -> Block:
        assert isinstance(block.ffn, Mlp)
        return replace(block, ffn=replace(block.ffn, width=wide))

    return _each(found, changed)


def _stablelm(keys: Keys, found: Description) -> Description:
    """A parallel block has no second norm."""
    return _each(found, lambda block: replace(block, norms=1 if block.parallel else 2))


def _whisper(keys: Keys, found: Description) -> Description:
    hidden, mels = found.hidden, keys.count("num_mel_bins", 80)
    front = (
        Convolution(inputs=mels, outputs=hidden, taps=3, stride=1),
        Convolution(inputs=hidden, outputs=hidden, taps=3, stride=2),
    )
    sources = keys.count("max_source_positions", 1500)
    return _with_encoder(keys, found, Stack(hidden=hidden, blocks=(), positions=sources, convolutions=front, final_norm=LAYER))


def _bart(keys: Keys, found: Description) -> Description:
    positions = found.decoder.positions
    stack = Stack(hidden=found.hidden, blocks=(), positions=positions, embedding_norm=LAYER, final_norm=None)
    found = replace(found, decoder=replace(found.decoder, final_norm=None))
    return _with_encoder(keys, found, stack)


def _with_encoder(keys: Keys, found: Description, stack: Stack) -> Description:
    """An encoder with blocks like those of the decoder, and attention to the encoder in each block of the decoder."""
    first = found.blocks[0]
    assert isinstance(first.mixer, Attention) and isinstance(first.ffn, Mlp)
    heads = keys.count("encoder_attention_heads", first.mixer.heads)
    mixer = replace(first.mixer, heads=heads, kv_heads=heads, head_dim=found.hidden // heads)
    ffn = replace(first.ffn, width=keys.count("encoder_ffn_dim", first.ffn.width))
    blocks = (replace(first, mixer=mixer, ffn=ffn),) * keys.count("encoder_layers", len(found.blocks))
    return replace(_each(found, _crossed), encoder=replace(stack, blocks=blocks))


def _crossed(block: Block) -> Block:
    """The same block with attention to an encoder."""
    assert isinstance(block.mixer, Attention)
    return replace(block, norms=3, cross=replace(block.mixer, cross=True, buckets=0))


def _t5(keys: Keys, found: Description) -> Description:
    """Heads have their own width, and biases by distance replace positions."""
    dim, form = keys.count("d_kv", 64), keys.get("feed_forward_proj", "relu")
    gated = isinstance(form, str) and form.startswith("gated-")
    act = {"gelu": "gelu", "silu": "silu"}.get(str(form).removeprefix("gated-"), "relu")
    buckets = keys.count("relative_attention_num_buckets", 32)

    def changed(block: Block) -> Block:
        assert isinstance(block.mixer, Attention) and isinstance(block.ffn, Mlp)
        mixer = replace(block.mixer, head_dim=dim, buckets=buckets)
        return replace(block, mixer=mixer, ffn=replace(block.ffn, gated=gated, activation=act))

    found = _each(found, changed)
    first = found.blocks[0]
    assert isinstance(first.mixer, Attention)
    table = buckets * first.mixer.heads
    blocks = tuple(_crossed(block) for block in found.blocks)
    encoder = Stack(hidden=found.hidden, blocks=(first,) * keys.count("num_layers"), buckets=table)
    return replace(found, decoder=replace(found.decoder, blocks=blocks, buckets=table), encoder=encoder)


_GPT = {
    "num_hidden_layers": "n_layer", "hidden_size": "n_embd", "num_attention_heads": "n_head",
    "hidden_act": "activation_function", "max_position_embeddings": "n_positions", "intermediate_size": "n_inner",
}  # fmt: skip
_BART = {
    "num_hidden_layers": "decoder_layers", "hidden_size": "d_model", "num_attention_heads": "decoder_attention_heads",
    "intermediate_size": "decoder_ffn_dim", "hidden_act": "activation_function",
}  # fmt: skip
_ATTENTION: Flag = "attention_bias"
_QWEN_MIXTURE = Mixture(
    top_k=4, width="moe_intermediate_size", shared=lambda keys: keys.count("shared_expert_intermediate_size", 5632),
    shared_gate=True, sparse=_qwen_sparse,
)  # fmt: skip
_DEEPSEEK = Row(
    mixer=_deepseek, finish=_deepseek_finish,
    idle=("head_dim", "num_key_value_heads", "rope_interleave", "qk_head_dim", "n_group", "moe_layer_freq", "mlp_bias"),
    mixture=Mixture(
        count=("n_routed_experts", "num_local_experts", "num_experts"), top_k=8, width="moe_intermediate_size",
        shared=lambda keys: _number(keys, "n_shared_experts", 1) * keys.count("moe_intermediate_size"), sparse=_deepseek_sparse,
    ),
)  # fmt: skip
_GPT2 = Row(
    names=_GPT, act="gelu_new", q_bias=True, out_bias=True, mlp_bias=True, norm=LAYER, gated=False, rope=_no_rope, tied=True,
    positions=0, ffn_times=4,
)  # fmt: skip
_LLAMA = Row(q_bias=_ATTENTION, out_bias=_ATTENTION, mlp_bias="mlp_bias")
_GEMMA = Row(
    names={"hidden_act": "hidden_activation"}, act="gelu_pytorch_tanh", q_bias=_ATTENTION, out_bias=_ATTENTION, tied=True,
    idle=("hidden_act",),  # older files have both keys; the newer key is used
)  # fmt: skip
_GEMMA2 = replace(_GEMMA, norms=4, softcap="attn_logit_softcapping", window=_slides(4096, lambda layer: layer % 2 == 0))
_COHERE = Row(
    q_bias=_ATTENTION, out_bias=_ATTENTION, norm=LAYER_BARE, norms=1, parallel=True, tied=True,
    qk_norm="heads", qk_norm_key="use_qk_norm",
)  # fmt: skip

#: The row of each model type.
ROWS: Mapping[str, Row] = MappingProxyType({
    "bart": Row(
        names=_BART, act="gelu", q_bias=True, out_bias=True, mlp_bias=True, norm=LAYER, gated=False, rope=_no_rope, tied=True,
        positions=2, embedding_norm=LAYER, finish=_bart, idle=("is_encoder_decoder",),
    ),
    "bloom": Row(
        names={
            "num_hidden_layers": "n_layer|num_hidden_layers", "num_attention_heads": "n_head|num_attention_heads",
            "intermediate_size": "n_inner", "hidden_size": "hidden_size|n_embed",
        }, act="gelu",
        q_bias=True, out_bias=True, mlp_bias=True, norm=LAYER, gated=False, rope=_no_rope, tied=True, embedding_norm=LAYER,
        ffn_times=4,
    ),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, qk_norm="", qk_norm_key="", window=_every(4, 4096)),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "ernie4_5": Row(q_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", tied=True),
    "exaone4": Row(qk_norm="shared", window=_every(4, 4096)),
    "falcon": Row(
        names={"intermediate_size": "ffn_hidden_size", "hidden_act": "activation"}, act="gelu", q_bias="bias", out_bias="bias",
        mlp_bias="bias", norm=LAYER, gated=False, tied=True, ffn_times=4, kv_heads=_falcon_kv_heads, finish=_falcon,
        idle=("multi_query", "parallel_attn"),
    ),
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": replace(_GEMMA2, softcap="", qk_norm="shared", window=_every(6, 4096)),
    "glm4": Row(q_bias=("attention_bias", True), norms=4),
    "gpt2": _GPT2,
    "gpt_neox": Row(
        act="gelu", q_bias=("attention_bias", True), out_bias=("attention_bias", True), mlp_bias=True, norm=LAYER, gated=False,
        parallel=("use_parallel_residual", True),
    ),
    "gpt_oss": Row(
        q_bias=("attention_bias", True), out_bias=("attention_bias", True), sinks=True,
        window=_slides(128, lambda layer: layer % 2 == 0), mixture=Mixture(top_k=4, router_bias=True, bias=True),
    ),
    "gptj": replace(
        _GPT2, q_bias=False, out_bias=False, norms=1, parallel=True, rope=lambda keys: lambda layer: True, tied=False,
        positions=None, head_bias=True, idle=("rotary_dim",),
    ),
    "granite": _LLAMA,
    "granitemoe": Row(q_bias=_ATTENTION, out_bias=_ATTENTION, mixture=Mixture()),
    "jamba": Row(mixer=_jamba, rope=_no_rope, mixture=Mixture(count=("num_experts",), sparse=_jamba_sparse)),
    "llama": _LLAMA,
    "llama4_text": Row(
        q_bias=_ATTENTION, out_bias=_ATTENTION, rope=_llama4_rope, finish=_llama4,
        idle=("use_qk_norm", "attn_temperature_tuning", "attn_scale"),  # that norm has no gains
        mixture=Mixture(top_k=1, shared=lambda keys: keys.count("intermediate_size")),
    ),
    "mamba2": Row(
        names={"num_attention_heads": "", "intermediate_size": ""}, norms=1, mixer=_mamba2,
        idle=("chunk_size", "time_step_rank", "head_dim"),
    ),
    "minimax": Row(
        mixer=_minimax, mixture=Mixture(), idle=("block_size", "mlp_alpha_factor", "mlp_beta_factor", "sliding_window")
    ),
    "mistral": Row(window=_slides()),
    "mixtral": Row(window=_slides(), mixture=Mixture()),
    "mpt": Row(
        names={"num_hidden_layers": "n_layers", "hidden_size": "d_model", "num_attention_heads": "n_heads"}, act="gelu",
        norm=LAYER_BARE, gated=False, rope=_no_rope, tied=True, ffn_times=4, finish=_mpt,
        idle=("norm_type", "attn_config"),
    ),
    "nemotron": Row(
        act="relu2", q_bias=_ATTENTION, out_bias=_ATTENTION, mlp_bias="mlp_bias", norm=LAYER, gated=False
    ),
    "olmo": Row(q_bias=_ATTENTION, out_bias=_ATTENTION, norm=Norm("layernorm", gain=False), idle=("clip_qkv",)),
    "olmo2": Row(q_bias=_ATTENTION, out_bias=_ATTENTION, qk_norm="heads"),
    "olmoe": Row(
        q_bias=_ATTENTION, out_bias=_ATTENTION, qk_norm="heads", mixture=Mixture(top_k=8), idle=("clip_qkv",)
    ),
    "opt": Row(
        names={"intermediate_size": "ffn_dim", "hidden_act": "activation_function"}, act="relu", q_bias=("enable_bias", True),
        out_bias=("enable_bias", True), mlp_bias=("enable_bias", True), norm=LAYER, gated=False, rope=_no_rope, tied=True,
        positions=2, finish=_opt,
    ),
    "phi": Row(
        act="gelu_new", q_bias=True, out_bias=True, mlp_bias=True, norm=LAYER, norms=1, qk_norm="shared",
        qk_norm_key="qk_layernorm", qk_shift=True, gated=False, parallel=True, head_bias=True,
    ),
    "phi3": Row(window=_slides()),
    "phimoe": Row(
        q_bias=_ATTENTION, out_bias=_ATTENTION, norm=LAYER, head_bias="lm_head_bias", window=_slides(), mixture=Mixture()
    ),
    "qwen2": Row(q_bias=True, window=_qwen_window),
    "qwen2_moe": Row(q_bias=("qkv_bias", True), window=_qwen_window, mixture=_QWEN_MIXTURE),
    "qwen3": Row(q_bias=_ATTENTION, out_bias=_ATTENTION, qk_norm="shared", window=_qwen_window),
    "qwen3_moe": Row(
        q_bias=_ATTENTION, out_bias=_ATTENTION, qk_norm="shared", window=_qwen_window,
        mixture=Mixture(top_k=8, width="moe_intermediate_size", sparse=_qwen_sparse),
    ),
    "qwen3_next": Row(
        q_bias=_ATTENTION, out_bias=_ATTENTION, qk_norm="shared", gate=True, mixer=_qwen3_next,
        mixture=replace(_QWEN_MIXTURE, top_k=10, shared=lambda keys: keys.count("shared_expert_intermediate_size", 512)),
    ),
    "smollm3": replace(_LLAMA, rope=_llama4_rope, window=_qwen_window, tied=True),
    "stablelm": Row(
        q_bias="use_qkv_bias", norm=LAYER, parallel="use_parallel_residual", qk_norm="heads", qk_norm_key="qk_layernorm",
        finish=_stablelm,
    ),
    "starcoder2": Row(
        act="gelu_pytorch_tanh", q_bias=("use_bias", True), out_bias=("use_bias", True), mlp_bias=("use_bias", True),
        norm=LAYER, gated=False, tied=True, window=_slides(),
    ),
    "t5": Row(
        names={"num_hidden_layers": "num_decoder_layers", "hidden_size": "d_model", "num_attention_heads": "num_heads",
               "intermediate_size": "d_ff", "hidden_act": "dense_act_fn"},
        act="relu", gated=False, rope=_no_rope, tied=True, finish=_t5,
        idle=("is_encoder_decoder", "is_gated_act", "dense_act_fn", "feed_forward_proj"),
    ),
    "whisper": Row(
        names={**_BART, "max_position_embeddings": "max_target_positions"}, act="gelu", q_bias=True, k_bias=False,
        out_bias=True, mlp_bias=True, norm=LAYER, gated=False, rope=_no_rope, tied=True, positions=0, finish=_whisper,
        idle=("is_encoder_decoder", "classifier_proj_size"),
    ),
})  # fmt: skip
