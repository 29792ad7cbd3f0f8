"""Convolutional networks and encoders as layers: products, depthwise products and streams, in the order in which they run.

A convolution is a product of the pixels of its result with the weights of its window. Its input is read once, not once for each
element of the window. Layer lists follow the published architectures; activations and normalisations are part of the layer
before them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import ceil

from kernbench.workloads.ops.operation import Product, Vector


@dataclass(frozen=True, slots=True)
class Map:
    """A feature map."""

    height: int
    width: int
    channels: int

    @property
    def pixels(self) -> int:
        """Positions of all channels."""
        return self.height * self.width

    @property
    def elements(self) -> int:
        """Elements of all channels."""
        return self.pixels * self.channels


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: `groups` products of `pixels` x `depth` by `depth` x `columns`, or a stream if `depth` is 0."""

    pixels: int
    columns: int
    depth: int
    groups: int
    read: int  #: elements of its inputs
    written: int  #: elements of its result

    @property
    def macs(self) -> int:
        """Multiply-adds of one sample."""
        return self.pixels * self.columns * self.depth * self.groups

    @property
    def weights(self) -> int:
        """Elements of the weights."""
        return self.columns * self.depth * self.groups

    def operation(self, batch: int, on_chip: float, element: float, weight: float) -> Product | Vector:
        """The layer over a batch. Its input and output are on the chip if both together fit into `on_chip` bytes."""
        near = (self.read + self.written) * batch * element <= on_chip
        if not self.depth:
            moved = 0.0 if near else (self.read + self.written) * batch * element
            return Vector("add", "elementwise", batch, self.written, moved, float(self.written * batch))
        rows = self.pixels * batch
        left = self.read * batch * element / (rows * self.depth * self.groups)
        return Product(
            rows, self.columns, self.depth, left, weight, element, 8 if element <= 1.0 else 16, self.groups, name="convolution",
            kind="matmul", near=(near, False, near),
        )  # fmt: skip


@dataclass(slots=True)
class Network:
    """The layers of a network, collected while its architecture is followed."""

    layers: list[Layer] = field(default_factory=list)
    results: int = 0  #: elements that the host gets of one sample

    @property
    def macs(self) -> int:
        """Multiply-adds of one sample."""
        return sum(layer.macs for layer in self.layers)

    def result(self, of: Map) -> None:
        """A map that the host gets."""
        self.results += of.elements

    def conv(self, of: Map, channels: int, side: int | tuple[int, int] = 1, stride: int = 1, groups: int = 1) -> Map:
        """A convolution with padding that keeps the size."""
        tall, wide = side if isinstance(side, tuple) else (side, side)
        made = Map(ceil(of.height / stride), ceil(of.width / stride), channels)
        depth = tall * wide * of.channels // groups
        self.layers.append(Layer(made.pixels, channels // groups, depth, groups, of.elements, made.elements))
        return made

    def depthwise(self, of: Map, side: int = 3, stride: int = 1) -> Map:
        """A window for each channel."""
        return self.conv(of, of.channels, side, stride, of.channels)

    def dense(self, width: int, made: int, rows: int = 1) -> None:
        """A product of some rows with a matrix."""
        self.layers.append(Layer(rows, made, width, 1, rows * width, rows * made))

    def stream(self, of: Map, inputs: int = 2) -> Map:
        """A sum, a pooling or another operation without products."""
        self.layers.append(Layer(of.pixels, of.channels, 0, 1, inputs * of.elements, of.elements))
        return of


def _joined(*maps: Map) -> Map:
    return Map(maps[0].height, maps[0].width, sum(one.channels for one in maps))


def _doubled(of: Map) -> Map:
    return Map(2 * of.height, 2 * of.width, of.channels)


def _mobilenet_v1(net: Network, share: float = 1.0, side: int = 224, classes: int = 1000) -> None:
    def wide(channels: int) -> int:
        return int(channels * share)

    at = net.conv(Map(side, side, 3), wide(32), 3, 2)
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        at = net.conv(net.depthwise(at, 3, stride), wide(channels))
    net.dense(at.channels, classes)


def _mobilenet_v2(net: Network, share: float = 1.0, side: int = 224) -> None:
    """Channels are multiples of 8, and the last layer is not made narrower."""

    def made(channels: int) -> int:
        near = max(8, int(channels * share + 4) // 8 * 8)
        return near + 8 if near < 0.9 * channels * share else near

    at = net.conv(Map(side, side, 3), made(32), 3, 2)
    for factor, channels, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ):  # fmt: skip
        for index in range(count):
            before, stride = at, first if index == 0 else 1
            wide = net.conv(at, factor * at.channels) if factor > 1 else at
            at = net.conv(net.depthwise(wide, 3, stride), made(channels))
            if before == at:
                net.stream(at)
    at = net.conv(at, max(1280, made(1280)))
    net.dense(at.channels, 1000)


def _resnet(net: Network, counts: tuple[int, ...], *, bottleneck: bool = True) -> None:
    at = net.stream(Map(56, 56, net.conv(Map(224, 224, 3), 64, 7, 2).channels), 4)
    for stage, count in enumerate(counts):
        wide = 64 << stage
        for index in range(count):
            stride = 2 if stage and not index else 1
            made = wide * 4 if bottleneck else wide
            if at.channels != made or stride > 1:
                net.conv(at, made, 1, stride)
            if bottleneck:
                at = net.conv(net.conv(net.conv(at, wide), wide, 3, stride), made)
            else:
                at = net.conv(net.conv(at, wide, 3, stride), wide, 3)
            net.stream(at)
    net.dense(at.channels, 1000)


def _resnet8(net: Network) -> None:
    at = net.conv(Map(32, 32, 3), 16, 3)
    for wide, stride in ((16, 1), (32, 2), (64, 2)):
        if stride > 1:
            net.conv(at, wide, 1, stride)
        at = net.stream(net.conv(net.conv(at, wide, 3, stride), wide, 3))
    net.dense(64, 10)


def _ds_cnn(net: Network) -> None:
    at = net.conv(Map(49, 10, 1), 64, (10, 4), 2)
    for _ in range(4):
        at = net.conv(net.depthwise(at), 64)
    net.dense(64, 12)


def _autoencoder(net: Network) -> None:
    widths = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
    for width, made in pairwise(widths):
        net.dense(width, made)


def _bottlenecks(
    net: Network, at: Map, count: int, sides: tuple[int, int] = (1, 3), share: float = 1.0, add: bool = True
) -> Map:
    for _ in range(count):
        at = net.conv(net.conv(at, int(at.channels * share), sides[0]), at.channels, sides[1])
        if add:
            net.stream(at)
    return at


def _c3(net: Network, at: Map, made: int, count: int, sides: tuple[int, int] = (1, 3), add: bool = True) -> Map:
    half = made // 2
    left, right = net.conv(at, half), net.conv(at, half)
    return net.conv(_joined(_bottlenecks(net, left, count, sides, add=add), right), made)


def _c2f(
    net: Network, at: Map, made: int, count: int, *, share: float = 0.5, inner: Callable[[Map], Map], extra: int = 2
) -> Map:
    """Two halves, `count` blocks in a row on one of them, and all of them joined."""
    part = int(made * share)
    one = Map(at.height, at.width, part)
    net.conv(at, 2 * part)
    for _ in range(count):
        one = inner(one)
    return net.conv(Map(one.height, one.width, (extra + count) * part), made)


def _sppf(net: Network, at: Map) -> Map:
    half = net.conv(at, at.channels // 2)
    for _ in range(3):
        net.stream(half, 1)
    return net.conv(_joined(half, half, half, half), at.channels)


@dataclass(frozen=True, slots=True)
class Scale:
    """Depth, width and widest layer of a member of a family."""

    depth: float
    width: float
    widest: int = 1024

    def wide(self, channels: int) -> int:
        """Channels, in multiples of 8."""
        return ceil(min(channels, self.widest) * self.width / 8) * 8

    def deep(self, count: int) -> int:
        """Repetitions of a block."""
        return max(1, round(count * self.depth))


Block = Callable[[Map, int, int, bool, float], Map]  #: of a map, channels, repetitions, shortcut, share


def _pyramid(
    net: Network, scale: Scale, block: Block, stem: int, counts: tuple[int, ...], neck: int, *, late: bool = False,
    lateral: bool = False,
) -> list[Map]:  # fmt: skip
    """The backbone and the two ways of a path aggregation network.

    `late`: stages widen in the block, not in the convolution. `lateral`: channels are halved before the size is doubled.
    """
    at = net.conv(net.conv(Map(640, 640, 3), scale.wide(64), stem, 2), scale.wide(128), 3, 2)
    shares = (0.25, 0.25, 0.5, 0.5) if late else (0.5,) * 4
    outs = (256, 512, 512, 1024) if late else (128, 256, 512, 1024)
    kept: list[Map] = []
    for stage, (count, share, made) in enumerate(zip(counts, shares, outs, strict=True)):
        if stage:
            at = net.conv(at, scale.wide((256, 512, 1024)[stage - 1]), 3, 2)
        at = block(at, scale.wide(made), scale.deep(count), True, share)
        kept.append(at)
    at = _sppf(net, at)
    if late:  # attention over positions of half of the channels
        half = at.channels // 2
        net.conv(at, at.channels)
        for _ in range(scale.deep(2)):
            net.conv(Map(at.height, at.width, half), 2 * half)
            net.layers.append(Layer(at.pixels, at.pixels, half // 2, 1, 2 * at.pixels * half, at.pixels**2))
            net.layers.append(Layer(at.pixels, half, at.pixels, 1, at.pixels**2 + at.pixels * half, at.pixels * half))
            net.conv(net.conv(Map(at.height, at.width, half), 2 * half), half)
        net.conv(at, at.channels)
    top = net.conv(at, scale.wide(512)) if lateral else at
    middle = block(_joined(_doubled(top), kept[2]), scale.wide(512), scale.deep(neck), False, 0.5)
    side = net.conv(middle, scale.wide(256)) if lateral else middle
    low = block(_joined(_doubled(side), kept[1]), scale.wide(256), scale.deep(neck), False, 0.5)
    mid = block(_joined(net.conv(low, scale.wide(256), 3, 2), side), scale.wide(512), scale.deep(neck), False, 0.5)
    high = block(_joined(net.conv(mid, scale.wide(512), 3, 2), top), scale.wide(1024), scale.deep(neck), late, 0.5)
    return [low, mid, high]


def _yolov5(net: Network, scale: Scale) -> None:
    def block(at: Map, made: int, count: int, add: bool, _share: float) -> Map:
        return _c3(net, at, made, count, add=add)

    for one in _pyramid(net, scale, block, 6, (3, 6, 9, 3), 3, lateral=True):
        net.result(net.conv(one, 255))


def _heads(net: Network, maps: list[Map], *, light: bool) -> None:
    """Boxes and classes in branches of their own; `light`: classes by depthwise convolutions."""
    box, kind = max(16, maps[0].channels // 4, 64), max(maps[0].channels, 80)
    for one in maps:
        net.result(net.conv(net.conv(net.conv(one, box, 3), box, 3), 64))
        if light:
            at = net.conv(net.depthwise(net.conv(net.depthwise(one), kind)), kind)
        else:
            at = net.conv(net.conv(one, kind, 3), kind, 3)
        net.result(net.conv(at, 80))


def _yolov8(net: Network, scale: Scale) -> None:
    def block(at: Map, made: int, count: int, add: bool, share: float) -> Map:
        inner = partial(_bottlenecks, net, count=1, sides=(3, 3), add=add)
        return _c2f(net, at, made, count, share=share, inner=inner)

    _heads(net, _pyramid(net, scale, block, 3, (3, 6, 6, 3), 3), light=False)


def _yolo11(net: Network, scale: Scale, *, deep: bool) -> None:
    """`deep`: every block has an inner C3, as in the larger members."""

    def block(at: Map, made: int, count: int, add: bool, share: float) -> Map:
        def inner(one: Map) -> Map:
            if deep or (share == 0.5 and add):
                return _c3(net, one, one.channels, 2, (3, 3))
            return _bottlenecks(net, one, 1, (3, 3), 0.5)

        return _c2f(net, at, made, count, share=share, inner=inner)

    _heads(net, _pyramid(net, scale, block, 3, (2, 2, 2, 2), 2, late=True), light=True)


def _yolov4(net: Network, side: int = 640) -> None:
    at = net.conv(Map(side, side, 3), 32, 3)
    kept = []
    for wide, count in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        at = net.conv(at, wide, 3, 2)
        half = wide if count == 1 else wide // 2
        right, left = net.conv(at, half), net.conv(at, half)
        left = net.conv(_bottlenecks(net, left, count, share=0.5 if count == 1 else 1.0), half)
        at = net.conv(_joined(left, right), wide)
        kept.append(at)
    at = net.conv(net.conv(net.conv(at, 512), 1024, 3), 512)
    at = net.conv(net.conv(net.conv(_joined(at, at, at, at), 512), 1024, 3), 512)

    def five(of: Map, wide: int) -> Map:
        for _ in range(2):
            of = net.conv(net.conv(of, wide), 2 * wide, 3)
        return net.conv(of, wide)

    middle = five(_joined(net.conv(kept[3], 256), _doubled(net.conv(at, 256))), 256)
    low = five(_joined(net.conv(kept[2], 128), _doubled(net.conv(middle, 128))), 128)
    mid = five(_joined(net.conv(low, 256, 3, 2), middle), 256)
    high = five(_joined(net.conv(mid, 512, 3, 2), at), 512)
    for one in (low, mid, high):
        net.result(net.conv(net.conv(one, 2 * one.channels, 3), 255))


def _bert(net: Network, layers: int, hidden: int, heads: int, tokens: int = 384) -> None:
    words = Map(tokens, 1, hidden)
    for _ in range(layers):
        net.dense(hidden, 3 * hidden, tokens)
        scores = heads * tokens * tokens
        net.layers.append(Layer(tokens, tokens, hidden // heads, heads, 2 * words.elements, scores))
        net.layers.append(Layer(tokens, heads * tokens, 0, 1, scores, scores))
        net.layers.append(Layer(tokens, hidden // heads, tokens, heads, scores + words.elements, words.elements))
        net.dense(hidden, hidden, tokens)
        net.stream(words)
        net.dense(hidden, 4 * hidden, tokens)
        net.dense(4 * hidden, hidden, tokens)
        net.stream(words)


_NETWORKS: dict[str, Callable[[Network], None]] = {
    "vww": partial(_mobilenet_v1, share=0.25, side=96, classes=2),
    "ic": _resnet8,
    "kws": _ds_cnn,
    "ad": _autoencoder,
    "mobilenetv1": _mobilenet_v1,
    "mobilenetv2": _mobilenet_v2,
    "resnet18": partial(_resnet, counts=(2, 2, 2, 2), bottleneck=False),
    "resnet34": partial(_resnet, counts=(3, 4, 6, 3), bottleneck=False),
    "resnet50": partial(_resnet, counts=(3, 4, 6, 3)),
    "resnet101": partial(_resnet, counts=(3, 4, 23, 3)),
    "yolov4": _yolov4,
    "bertbase": partial(_bert, layers=12, hidden=768, heads=12),
    "bertlarge": partial(_bert, layers=24, hidden=1024, heads=16),
    **{
        f"yolov5{name}": partial(_yolov5, scale=scale)
        for name, scale in {
            "n": Scale(0.33, 0.25), "s": Scale(0.33, 0.5), "m": Scale(0.67, 0.75), "l": Scale(1, 1), "x": Scale(1.33, 1.25)
        }.items()
    },
    **{
        f"yolov8{name}": partial(_yolov8, scale=scale)
        for name, scale in {
            "n": Scale(0.33, 0.25), "s": Scale(0.33, 0.5), "m": Scale(0.67, 0.75, 768), "l": Scale(1, 1, 512),
            "x": Scale(1, 1.25, 512),
        }.items()
    },
    **{
        f"yolo11{name}": partial(_yolo11, scale=scale, deep=name in "mlx")
        for name, scale in {
            "n": Scale(0.5, 0.25), "s": Scale(0.5, 0.5), "m": Scale(0.5, 1, 512), "l": Scale(1, 1, 512), "x": Scale(1, 1.5, 512)
        }.items()
    },
}  # fmt: skip


def network_of(name: str) -> Network | None:
    """The network that a table calls by this name, or None: `MobileNet v2 1.0 224 int8` is mobilenetv2."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    found = max((key for key in _NETWORKS if plain.startswith(key)), key=len, default=None)
    return None if found is None else _followed(found, _scales(name) if found.startswith("mobilenet") else {})


#: Tasks of MLPerf Tiny and its networks, by words in their names.
TASKS = (
    ("ad", "anomal|toycar|autoencoder|fcae"),
    ("ic", "image|cifar|resnet"),
    ("kws", "keyword|dscnn"),
    ("vww", "wake|person|visual"),
)


def task_network(name: str) -> Network | None:
    """The network of a task of MLPerf Tiny: `vww`, `Visual Wake Words`, `Keyword Spotting (DS-CNN)`; None for another task."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    found = next((key for key, words in TASKS if plain == key or re.search(words, plain)), None)
    return None if found is None else _followed(found, {})


def _followed(key: str, scales: Mapping[str, float]) -> Network:
    net = Network()
    _NETWORKS[key](net, **scales)
    return net


def _scales(name: str) -> dict[str, float]:
    """The width and the side of the input in a name of MobileNet: 0.25 and 128 in `mobilenet_v1_0.25_128`."""
    found: dict[str, float] = {}
    for word in re.findall(r"(?<![0-9.v])[0-9]+(?:\.[0-9]+)?", name.lower()):
        if "." in word and 0.1 <= float(word) <= 2:
            found["share"] = float(word)
        elif word in ("96", "128", "160", "192", "224", "256"):
            found["side"] = int(word)
    return found
