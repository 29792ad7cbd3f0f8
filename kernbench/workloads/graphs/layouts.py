"""Transposes between images and rows of channels: no byte moves, because images are stored with the channels last."""

from __future__ import annotations

from collections.abc import Mapping

from kernbench.workloads.graphs.graph import Graph, Node

_TO_ROWS = ((0, 2, 3, 1), (0, 2, 1))  # the nodes that make the channels the last dimension
_TO_IMAGE = ((0, 3, 1, 2), (0, 2, 1))  # and the nodes that turn rows of channels into an image
_WINDOWS = frozenset(("Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization", "Resize"))
_ELEMENTWISE = frozenset((
    "Add", "Sub", "Mul", "Div", "Relu", "Clip", "Sigmoid", "Tanh", "Gelu", "Erf", "Silu", "Swish", "HardSwish", "LeakyRelu",
))  # fmt: skip
_PASSES_ON = _ELEMENTWISE | {"Reshape", "Identity"}  # their results are images if their inputs are


def kept_transposes(graph: Graph, users: Mapping[str, list[int]]) -> set[int]:
    """The numbers of the transposes that move no byte.

    Each transpose that could make an image is taken to make one, until a reader of it does not take an image.
    """
    refused = set[int]()
    while True:
        found = _Images(graph, users, refused)
        for number, node in enumerate(graph.nodes):
            found.look_at(number, node)
        wrong = {number for number in found.made if not found.only_images(graph.nodes[number].outputs[0])}
        if not wrong:
            return found.kept
        refused |= wrong


class _Images:
    """Which tensors are stored with their second dimension last, node after node."""

    def __init__(self, graph: Graph, users: Mapping[str, list[int]], refused: set[int]) -> None:
        self.graph, self.users, self.refused = graph, users, refused
        self.images = set[str]()
        self.kept = set[int]()
        self.made = set[int]()  # the transposes that make images

    def look_at(self, number: int, node: Node) -> None:
        """Whether the outputs of a node are images, from its operator and its inputs."""
        if node.domain or not node.outputs or node.outputs[0] not in self.graph.tensors:
            return
        out, x = node.outputs[0], node.input(0)
        if node.op == "Transpose":
            self._transpose(number, node)
        elif node.op in _WINDOWS:
            self.images.add(out)
        elif node.op in ("Reshape", "Identity"):
            if x in self.images and self._same_channels(x, out):
                self.images.add(out)
        elif node.op in _ELEMENTWISE:
            inputs = [name for name in node.inputs if name]
            if any(name in self.images for name in inputs) and all(self._fits(name, out) for name in inputs):
                self.images.add(out)

    def _transpose(self, number: int, node: Node) -> None:
        x, out = node.inputs[0], node.outputs[0]
        perm = tuple(node.attributes.get("perm", ()))
        if x in self.images:
            if perm in _TO_ROWS:
                self.kept.add(number)
            return
        tensor = self.graph.tensors.get(x)
        if perm in _TO_IMAGE and tensor is not None and tensor.source != "weight" and number not in self.refused:
            self.kept.add(number)
            self.made.add(number)
            self.images.add(out)

    def only_images(self, name: str) -> bool:
        """Whether all readers of a tensor take it as an image, and all that read the images they make."""
        left, seen = [name], {name}
        while left:
            name = left.pop()
            readers = [self.graph.nodes[number] for number in self.users.get(name, [])]
            if not readers or name in self.graph.outputs or not all(self._takes_image(node, name) for node in readers):
                return False
            passed_on = {node.outputs[0] for node in readers if node.op in _PASSES_ON} - seen
            left += sorted(passed_on)
            seen |= passed_on
        return True

    def _takes_image(self, node: Node, name: str) -> bool:
        out = node.outputs[0]
        if node.domain or out not in self.graph.tensors:
            return False
        if node.op in _WINDOWS:
            return node.inputs[0] == name and name not in node.inputs[1:]
        if node.op == "Transpose":
            return tuple(node.attributes.get("perm", ())) in _TO_ROWS
        if node.op in ("Reshape", "Identity"):
            return node.inputs[0] == name and self._same_channels(name, out)
        if node.op in _ELEMENTWISE:
            others = [other for other in node.inputs if other and other != name]
            fits = all(other in self.images or self._is_parameter(other, out) for other in others)
            return fits and self._same_shape(name, out)
        return False

    def _fits(self, name: str, out: str) -> bool:
        return (name in self.images and self._same_shape(name, out)) or self._is_parameter(name, out)

    def _is_parameter(self, name: str, out: str) -> bool:
        """Numbers for each channel, or one for all."""
        tensor = self.graph.tensors.get(name)
        return tensor is not None and tensor.source == "weight" and tensor.elements < self.graph.tensors[out].elements

    def _same_shape(self, name: str, out: str) -> bool:
        return name in self.graph.tensors and self.graph.tensors[name].shape == self.graph.tensors[out].shape

    def _same_channels(self, name: str, out: str) -> bool:
        """Whether only the places of an image are counted otherwise."""
        a, b = self.graph.tensors[name].shape, self.graph.tensors[out].shape
        return len(a) > 2 and len(b) > 2 and a[:2] == b[:2]
