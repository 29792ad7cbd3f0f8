"""PyTorch modules as graphs: every core operator of ATen has a rule or is refused by name, and counts equal PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from kernbench.common.errors import InputError  # noqa: E402
from kernbench.config import load_config  # noqa: E402
from kernbench.workloads.graphs.graph import Graph, Product  # noqa: E402
from kernbench.workloads.graphs.lowering import lower_graph  # noqa: E402
from kernbench.workloads.graphs.planner import macs_of  # noqa: E402
from kernbench.workloads.graphs.run import GraphProgram  # noqa: E402
from kernbench.workloads.graphs.torch.aten import REFUSED, refusal_of, rule_of  # noqa: E402
from kernbench.workloads.graphs.torch.program import read_module  # noqa: E402


def core_operators() -> list[str]:
    """By torch's own tags, without those that are always written out in others when a model is exported."""
    found = []
    # `torch.ops.aten` itself lists only the operators that were used in this process.
    schemas = [schema.name.split("::") for schema in torch._C._jit_get_all_schemas()]
    names = {name for library, name in schemas if library == "aten" and hasattr(torch.ops.aten, name)}
    for packet in (getattr(torch.ops.aten, name) for name in names):
        for overload in packet.overloads():
            operator = getattr(packet, overload)
            if torch.Tag.core in operator.tags and not operator.has_kernel_for_dispatch_key("CompositeImplicitAutograd"):
                found.append(str(operator))
    return sorted(found)


def test_every_core_operator_is_lowered_or_refused_by_name() -> None:
    operators = core_operators()
    assert len(operators) > 150
    sizes = {"aten.sym_size.int", "aten.sym_numel.default", "aten.sym_is_contiguous.default"}  # the export has fixed them
    missing = [name for name in operators if rule_of(name) is None and not refusal_of(name) and name not in sizes]
    assert missing == []
    both = [name for name in operators if rule_of(name) is not None and refusal_of(name)]
    assert both == []


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


X, Y = torch.rand(4, 6) + 0.1, torch.rand(4, 6) + 0.1
SIGNAL, IMAGE, VOLUME = torch.rand(2, 4, 8), torch.rand(2, 4, 8, 8), torch.rand(1, 2, 4, 4, 4)
WHERE = torch.tensor([[0, 1, 2, 3, 0, 1]])
MASK = X > 0.5
WHOLE = torch.randint(1, 9, (4, 6))
ONE_INPUT = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "isinf",
    "isnan", "log", "log10", "log1p", "log2", "logical_not", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip
TWO_INPUTS = [
    "add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "pow", "fmod", "remainder", "atan2",
    "logical_and", "logical_or", "logical_xor",
]  # fmt: skip
SAMPLES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{name: (getattr(torch, name), (X,)) for name in ONE_INPUT},
    **{name: (getattr(torch, name), (X, Y)) for name in TWO_INPUTS},
    **{f"bitwise_{name}": (getattr(torch, f"bitwise_{name}"), (WHOLE, WHOLE)) for name in ("and", "or", "xor")},
    **{f"{name}_scalar": (lambda x, name=name: getattr(torch, name)(x, 2), (X,)) for name in ("add", "sub", "mul", "pow")},
    "bitwise_not": (torch.bitwise_not, (WHOLE,)),
    "pow_scalar_base": (lambda x: 2**x, (X,)),
    "sub_alpha": (lambda x, y: torch.sub(x, y, alpha=3), (X, Y)),
    "div_floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, Y)),
    "div_trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (X, Y)),
    "gelu": (functional.gelu, (X,)),
    "elu": (functional.elu, (X,)),
    "selu": (functional.selu, (X,)),
    "leaky_relu": (functional.leaky_relu, (X,)),
    "hardtanh": (functional.hardtanh, (X,)),
    "clamp": (lambda x: x.clamp(0.2, 0.7), (X,)),
    "clamp_tensor": (lambda x, y: x.clamp(min=y), (X, Y)),
    "where": (torch.where, (MASK, X, Y)),
    "sum": (lambda x: x.sum(0), (X,)),
    "mean": (torch.mean, (X,)),
    "prod": (lambda x: x.prod(1), (X,)),
    "amax": (lambda x: x.amax(1), (X,)),
    "amin": (lambda x: x.amin((0, 1)), (X,)),
    "any": (lambda x: (x > 0.5).any(1), (X,)),
    "var": (lambda x: x.var(1), (X,)),
    "argmax": (lambda x: x.argmax(1), (X,)),
    "argmin": (torch.argmin, (X,)),
    "max_dim": (lambda x: torch.max(x, 1), (X,)),
    "min_dim": (lambda x: torch.min(x, 1), (X,)),
    "cumsum": (lambda x: x.cumsum(1), (X,)),
    "topk": (lambda x: x.topk(3), (X,)),
    "sort": (lambda x: x.sort(1), (X,)),
    "softmax": (lambda x: x.softmax(0), (X,)),
    "log_softmax": (lambda x: x.log_softmax(1), (X,)),
    "mm": (lambda x, y: x @ y.T, (X, Y)),
    "bmm": (torch.bmm, (torch.rand(2, 3, 4), torch.rand(2, 4, 5))),
    "addmm": (lambda x, y: torch.addmm(x[:, :4], x, y.T, beta=0.5, alpha=2), (X, Y)),
    "attention": (functional.scaled_dot_product_attention, (torch.rand(2, 4, 8),) * 3),
    "max_pool3d": (lambda x: functional.max_pool3d(x, 2), (VOLUME,)),
    "avg_pool1d": (lambda x: functional.avg_pool1d(x, 2, padding=1), (SIGNAL,)),
    "avg_pool3d": (lambda x: functional.avg_pool3d(x, 2), (VOLUME,)),
    "max_pool2d": (lambda x: functional.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    "max_pool_indices": (lambda x: functional.max_pool2d(x, 2, return_indices=True), (IMAGE,)),
    "adaptive": (lambda x: functional.adaptive_avg_pool2d(x, 2), (IMAGE,)),
    "adaptive_uneven": (lambda x: functional.adaptive_avg_pool2d(x, 3), (IMAGE,)),
    "adaptive_1d": (lambda x: functional.adaptive_avg_pool1d(x, 3), (SIGNAL,)),
    "adaptive_3d": (lambda x: functional.adaptive_avg_pool3d(x, 2), (VOLUME,)),
    "bilinear": (lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), (IMAGE,)),
    "nearest": (lambda x: functional.interpolate(x, scale_factor=2), (IMAGE,)),
    "grid": (lambda x, g: functional.grid_sample(x, g, align_corners=False), (IMAGE, torch.rand(2, 5, 5, 2))),
    "col2im": (lambda x: functional.fold(x, 4, 2), (torch.rand(1, 8, 9),)),
    "views": (lambda x: x.view(2, 12).unsqueeze(1).squeeze(1).permute(1, 0).expand(3, 12, 2), (X,)),
    "parts": (lambda x: torch.cat([x[1:3, ::2], x[:2].select(0, 1)[None, :3]]), (X,)),
    "split": (lambda x: x.split([2, 4], 1), (X,)),
    "repeat": (lambda x: x.repeat(2, 3, 1), (X,)),
    "pad": (lambda x: functional.pad(x, (1, 2)), (X,)),
    "reflect": (lambda x: functional.pad(x, (1, 2, 1, 1), mode="reflect"), (IMAGE,)),
    "replicate": (lambda x: functional.pad(x, (1, 2, 1, 1), mode="replicate"), (IMAGE,)),
    "flip": (lambda x: x.flip(0), (X,)),
    "diagonal": (torch.diagonal, (X,)),
    "as_strided": (lambda x: x.as_strided((3, 2), (2, 1)), (X,)),
    "index_select": (lambda x, i: x.index_select(0, i), (X, torch.tensor([1, 3]))),
    "gather": (lambda x, i: x.gather(0, i), (X, WHERE)),
    "index": (lambda x, i, j: x[i, j], (X, torch.tensor([1, 3]), torch.tensor([0, 5]))),
    "index_put": (lambda x, i: x.index_put((i,), x[:2]), (X, torch.tensor([1, 3]))),
    "index_put_mask": (lambda x: x.masked_fill(x > 0.5, 0), (X,)),
    "scatter": (lambda x, i, y: x.scatter(0, i, y), (X, WHERE, Y)),
    "scatter_value": (lambda x, i: x.scatter(0, i, 1.5), (X, WHERE)),
    "scatter_add": (lambda x, i, y: x.scatter_add(0, i, y), (X, WHERE, Y)),
    "scatter_reduce": (lambda x, i, y: x.scatter_reduce(0, i, y, "amax"), (X, WHERE, Y)),
    "select_scatter": (lambda x, y: x.select_scatter(y[0], 0, 1), (X, Y)),
    "slice_scatter": (lambda x, y: x.slice_scatter(y[:2], 0, 1, 3), (X, Y)),
    "filled": (lambda x: x + torch.arange(6) + torch.full_like(x, 2), (X,)),
    "cast": (lambda x: x.to(torch.int64) + 1, (X,)),
    "embedding": (lambda i: functional.embedding(i, torch.ones(10, 4)), (torch.tensor([[1, 2], [3, 4]]),)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_operators_make_programs(name: str) -> None:
    """A tiny use of each; what planner and emitter refuse, or trip over, fails here."""
    function, args = SAMPLES[name]
    graph = read_module(Calls(function), args, name=name)
    made = GraphProgram(graph, load_config("npu_mobile"), 8)
    assert not made.lowered.missing and made.run().cycles > 0


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv": (lambda: nn.Sequential(nn.Conv2d(4, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU()), (2, 4, 9, 9)),
    "grouped": (lambda: nn.Conv2d(8, 8, 3, groups=4), (1, 8, 6, 6)),
    "conv1d": (lambda: nn.Conv1d(4, 8, 3), (2, 4, 20)),
    "conv3d": (lambda: nn.Conv3d(2, 4, 3, padding=1), (1, 2, 5, 6, 7)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, 2), (1, 4, 5, 5)),
    "transposed_groups": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, groups=2), (1, 4, 5, 5)),
    "norms": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.BatchNorm2d(4)), (2, 4, 6, 6)),
    "rms_norm": (lambda: nn.Sequential(nn.RMSNorm(16), nn.LayerNorm(16), nn.Linear(16, 4)), (3, 16)),
    "batch_statistics": (lambda: nn.BatchNorm2d(4, track_running_stats=False), (2, 4, 6, 6)),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (2, 8, 32)),
    "mlp": (lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)), (3, 16)),
}


def macs(graph: Graph) -> int:
    lowered = lower_graph(graph, 8)
    assert lowered.missing == {}
    return sum(macs_of(work) for _, work in lowered.jobs if isinstance(work, Product))


@pytest.mark.parametrize("name", MODULES)
def test_macs_are_those_that_torch_counts(name: str) -> None:
    torch.backends.mha.set_fastpath_enabled(False)  # which hides the operators of an encoder
    make, shape = MODULES[name]
    model, x = make().eval(), torch.rand(shape)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        make().eval().to("meta")(x.to("meta"))  # on the CPU torch does not count attention
    graph = read_module(model, (x,))
    assert macs(graph) == counter.get_total_flops() // 2
    assert GraphProgram(graph, load_config("npu_mobile"), 8).run().macs == counter.get_total_flops() // 2


def test_what_is_refused_is_named() -> None:
    def positions(x: Any) -> Any:
        return torch.nonzero(x) * 2

    class Inner(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.rand(4, 6) + x

    with pytest.raises(InputError, match=r"rand \(aten\.rand\.default\): it makes random numbers, and no engine has"):
        GraphProgram(read_module(Inner(), (X,)), load_config("npu_mobile"), 8)
    with pytest.raises(InputError, match=r"nonzero \(aten\.nonzero\.default\): the size of its result depends on values"):
        GraphProgram(read_module(Calls(positions), (X,)), load_config("npu_mobile"), 8)
    assert all(not text.endswith(".") for text in REFUSED.values())


def test_a_batch_norm_in_training_has_the_statistics_of_the_batch() -> None:
    """The outputs are PyTorch's, and the running statistics are part of the work."""
    from kernbench.workloads.graphs.torch.check import verify_module

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), torch.rand(2, 4, 6, 6)
    assert verify_module(model, (x,), None, load_config("npu_mobile"), "norm", w=8, a=8).passed
    graph = read_module(nn.BatchNorm2d(4), (x,))
    means = [node for node in graph.nodes if node.op == "ReduceMean"]
    assert len(means) == 2 and [node.op for node in graph.nodes].count("Sqrt") == 1
    kept = {node.outputs[0].rpartition(".")[2] for node in graph.nodes if node.op == "Add"} & {"3", "4"}
    assert kept == {"3", "4"}  # of the mean and of the variance


def test_branches_that_depend_on_values_are_refused_by_name() -> None:
    def branch(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    with pytest.raises(InputError, match=r"cond \(cond\): which branch or how many iterations run depends on values"):
        GraphProgram(read_module(Calls(branch), (X,)), load_config("npu_mobile"), 8)


def test_a_module_that_raises_is_a_mistake_of_the_user() -> None:
    def wrong(x: Any) -> Any:
        return x @ x

    with pytest.raises(InputError, match=r"torch\.export cannot export the model: "):
        read_module(Calls(wrong), (X,))


def test_shapes_are_those_of_the_example() -> None:
    model = nn.Linear(16, 4)
    graphs = [read_module(model, (torch.rand(rows, 16),)) for rows in (3, 30)]
    assert macs(graphs[1]) == 10 * macs(graphs[0])


def test_compiled_modules_compute_by_torch_and_are_timed_beside_it() -> None:
    import kernbench.torch as kt

    kt.timings().clear()
    model, x = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.BatchNorm1d(8)).eval(), torch.rand(4, 16)
    compiled = torch.compile(model, backend="kernbench", options={"machine": "npu_mobile"})
    with torch.no_grad():
        for given in (x, x, x[:2]):
            assert torch.equal(compiled(given), model(given))
    timed = kt.timings()
    assert [(one.shapes, one.calls) for one in timed] == [(((4, 16),), 2), (((2, 16),), 1)]
    assert all(one.cycles > 0 for one in timed) and timed[0].run.macs == 4 * 16 * 8
    assert kt.time(model, (x,), machine="npu_mobile").cycles == timed[0].cycles


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def make():\n    return 3\n", 'model.py:make: returned = "int", but it must return (model, args)'),
        ("def make():\n    return 1 // 0\n", "model.py:2: "),
        ("def other():\n    pass\n", "there is no function of that name in it; it has other"),
    ],
)
def test_factories_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    from kernbench.workloads.graphs.torch.factory import load_factory

    file = tmp_path / "model.py"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        load_factory(f"{file}:make")
    assert said.partition(", but")[0] in str(error.value)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "published"),
    [("resnet50", 4_089_184_256), ("mobilenet_v2", 300_774_272), ("convnext_tiny", 4_455_531_264),
     ("vit_b_16", 17_563_828_224), ("swin_t", 4_490_566_656)],
)  # fmt: skip
def test_macs_of_torchvision_are_the_published_ones(name: str, published: int) -> None:
    """torchvision states 4.09, 0.30, 4.46, 17.56 and 4.49 GFLOPS (it counts a multiply-add as one) beside its weights."""
    models = pytest.importorskip("torchvision", reason="torchvision is not installed").models
    with torch.device("meta"):
        model, x = getattr(models, name)().eval(), torch.zeros(1, 3, 224, 224)
    stated = models.get_model_weights(name).DEFAULT.meta["_ops"]
    found = macs(read_module(model, (x,), name=name))
    assert found == published and (name == "swin_t" or abs(found / 1e9 - stated) < 0.006)
