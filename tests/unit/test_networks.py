"""Layers of known networks against their published multiply-adds, and their times on chips."""

from __future__ import annotations

import pytest

from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.ops.networks import Network, network_of
from kernbench.workloads.ops.operation import Product, Vector
from kernbench.workloads.ops.step import network_ns
from kernbench.workloads.ops.timing import OperationTimer

#: Multiply-adds of a sample in billions, and parameters in millions, as the models' cards give them.
PUBLISHED = {
    "MobileNet v2 1.0 224 int8": (0.3008, 3.5), "ResNet-50": (4.1, 25.5), "resnet18": (1.8, 11.7), "yolov5n": (2.25, 1.87),
    "yolov5s": (8.2, 7.2), "yolov5m": (24.5, 21.2), "yolov8n": (4.35, 3.2), "yolov8s": (14.3, 11.2), "yolo11n": (3.25, 2.6),
    "yolo11m": (34.0, 20.1), "vww": (0.0075, 0.22), "ic": (0.0125, 0.078), "kws": (0.00266, 0.022), "ad": (0.000264, 0.264),
}  # fmt: skip


def known(name: str) -> Network:
    found = network_of(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", PUBLISHED)
def test_layers_have_the_published_work_and_weights(name: str) -> None:
    net, (macs, weights) = known(name), PUBLISHED[name]
    assert net.macs / 1e9 == pytest.approx(macs, rel=0.015)
    assert sum(layer.weights for layer in net.layers) / 1e6 == pytest.approx(weights, rel=0.06)


def test_names_of_tables_are_understood_and_others_are_not() -> None:
    assert known("mobilenetv2-12").macs == known("MobileNet v2").macs
    assert known("YOLOv4 640").macs > known("yolov5m").macs
    assert network_of("an unknown network") is None and network_of("") is None


def test_a_convolution_reads_its_input_once() -> None:
    op = known("ic").layers[0].operation(2, 0.0, 1.0, 1.0)
    assert isinstance(op, Product)
    assert (op.m, op.n, op.k) == (2 * 32 * 32, 16, 27)
    assert op.parts == pytest.approx((2 * 32 * 32 * 3, 16 * 27, 2 * 32 * 32 * 16))


def test_maps_that_fit_stay_in_the_chip() -> None:
    layer = known("ic").layers[0]
    bytes_of_maps = 32 * 32 * (3 + 16)
    near, far = (layer.operation(1, room, 1.0, 1.0) for room in (bytes_of_maps, bytes_of_maps - 1))
    assert isinstance(near, Product) and isinstance(far, Product)
    assert near.nbytes == 16 * 27 and far.nbytes == bytes_of_maps + 16 * 27
    add = next(one for one in known("ic").layers if not one.depth)
    stream = add.operation(1, 1e6, 1.0, 1.0)
    assert isinstance(stream, Vector) and stream.nbytes == 0 and stream.flops == add.written


def test_an_ethos_u55_takes_the_cycles_that_its_model_takes() -> None:
    """7.35 million cycles on the FVP with 128 multipliers (ml-embedded-evaluation-kit): nothing was fitted to them."""
    chip = {"te.macs_per_cycle": "128", "chip.core_macs": "{8: 128, 16: 64}"}
    timer = OperationTimer(load_config("ethos_u55", chip), load_runtime("none"), simulate=False)
    assert network_ns(timer, known("mobilenetv2"), 1) * timer.view.freq == pytest.approx(7_346_172, rel=0.2)


def test_one_core_has_all_of_the_memory_and_a_share_of_the_rest() -> None:
    three = OperationTimer(load_config("rk3588"), load_runtime("rknn"), simulate=False)
    one = three.one_core()
    assert one.one_core() is one and three.one_core() is one
    assert one.view.memory_rate == three.view.memory_rate and one.view.chip.cores == 1
    assert one.machine.te.macs_per_cycle * 3 == three.machine.te.macs_per_cycle
    assert network_ns(three, known("yolov5m"), 1) < network_ns(one, known("yolov5m"), 1)


def test_results_cost_the_host_time_by_their_bytes() -> None:
    net = known("yolov5n")
    assert net.results == 255 * (80 * 80 + 40 * 40 + 20 * 20)
    timers = [OperationTimer(load_config("rk3588"), load_runtime(name), simulate=False) for name in ("rknn", "none")]
    with_host, without = (network_ns(timer, net, 2) for timer in timers)
    assert with_host - without == pytest.approx(3 * 2 * net.results)
