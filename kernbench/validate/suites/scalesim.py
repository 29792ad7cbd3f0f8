"""SCALE-Sim in its own environment, compared layer by layer."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded
from kernbench.common.units import ceil_div
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, Skipped, SuiteData
from kernbench.validate.suites.systolic import Array, Shape, systolic_cycles

WHY = "the same folds: two simulators of one array must agree to the cycle"
TOLD = "Total Cycles"  #: the column of SCALE-Sim's report that is compared: the cycles of the array, without the loads before
SET_UP = "python3 -m venv NEW; NEW/bin/pip install scalesim==3.0.0 'numpy<2'; kbsim validate scalesim --scalesim NEW/bin/python"
CONV_FIELDS = 7  #: height and width of the input and of the filter, channels, filters, stride
NEEDS = "it must be a Python with scalesim 3.0.0 and numpy 1.26"
MEMORY_KIB = 4096  #: size of each of SCALE-Sim's buffers; no compared cycle depends on it
LAYERS_BYTES = 16 << 20  #: most bytes of a file of layers, and of a report

_RUN = """
import sys
sys.path[:] = [place for place in sys.path if place]  # the current directory: Python before 3.11 knows no PYTHONSAFEPATH
from scalesim.scale_sim import scalesim
config, layers, layout, out, gemm = sys.argv[1:6]
files = {"config": config, "topology": layers, "layout": layout}
scalesim(save_disk_space=True, verbose=False, input_type_gemm=gemm == "True", **files).run_scale(top_path=out)
"""
_CONFIG = """\
[general]
run_name = run
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {cols}
IfmapSramSzkB = {kib}
FilterSramSzkB = {kib}
OfmapSramSzkB = {kib}
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = {dataflow}
Bandwidth = 10
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """A line of a topology: M, N and K, or the fields of CONV_FIELDS."""

    name: str
    fields: tuple[int, ...]

    @property
    def gemm(self) -> bool:
        """Given as a product."""
        return len(self.fields) == 3

    @property
    def shape(self) -> Shape:
        """As a product: pixels of the output, filters, and the size of a filter's window."""
        if self.gemm:
            m, n, k = self.fields
            return m, n, k
        height, width, down, across, channels, filters, stride = self.fields
        pixels = ceil_div(height - down + stride, stride) * ceil_div(width - across + stride, stride)
        return pixels, filters, down * across * channels


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Every layer on every array."""
    python = runner.options.scalesim
    if python is None:
        where = "where --scalesim PYTHON or KERNBENCH_SCALESIM names an environment that has it"
        raise Skipped(f"SCALE-Sim runs {where}: {SET_UP}")
    layers = _given(data) if runner.options.topologies is None else _read(runner.options.topologies)
    for case in data.cases:
        array, dataflow = (int(case["array"][0]), int(case["array"][1])), str(case["dataflow"])
        for gemm in (True, False):
            some = [layer for layer in layers if layer.gemm == gemm]
            for layer, cycles in zip(some, _theirs(python, some, array, dataflow) if some else [], strict=True):
                yield Row(
                    case=f"{layer.name}, {dataflow} on {array[0]}x{array[1]}",
                    source="scalesim",
                    expected=cycles,
                    ours=systolic_cycles(layer.shape, array, dataflow, runner),
                    unit="cycles",
                    allowed=0,
                    why=WHY,
                )


def _given(data: SuiteData) -> list[Layer]:
    return [Layer(str(name), tuple(map(int, fields))) for name, *fields in (*data.fact("gemm"), *data.fact("conv"))]


def _read(folder: Path) -> list[Layer]:
    """All layers of the files of a directory. InputError if there is none."""
    found = [layer for path in sorted(folder.rglob("*.csv")) for layer in _layers(path)]
    if not found:
        raise InputError(Problem(str(folder), "the folder has no .csv file of layers", "--topologies"))
    return found


def _layers(path: Path) -> Iterator[Layer]:
    """The layers of a file; InputError for a line that is none."""
    try:
        text = read_bounded(path, LAYERS_BYTES).decode("utf-8")
        table = csv.reader(StringIO(text, newline=""))
        lines = [(number, [cell.strip() for cell in line]) for number, line in enumerate(table, 1)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(Problem(str(path), f"the file is not a table of layers: {error}", "--topologies")) from None
    gemm = len(lines) > 0 and [cell.upper() for cell in lines[0][1][1:4]] == ["M", "N", "K"]
    count = 3 if gemm else CONV_FIELDS
    for number, (name, *cells) in ((number, line) for number, line in lines[1:] if any(line)):
        if len(cells) < count or not all(cell.isdecimal() and int(cell) for cell in cells[:count]):
            raise InputError(Problem(f"{path}:{number}", f"a layer has a name and {count} whole numbers above 0"))
        yield Layer(f"{path.stem} {name}", tuple(map(int, cells[:count])))


def _theirs(python: Path, layers: Sequence[Layer], array: Array, dataflow: str) -> list[int]:
    """The total cycles of each layer by SCALE-Sim."""
    with TemporaryDirectory(prefix="kernbench-") as name:
        folder = Path(name)
        config = _CONFIG.format(rows=array[0], cols=array[1], dataflow=dataflow, kib=MEMORY_KIB)
        (folder / "run.cfg").write_text(config, encoding="utf-8")
        lines = [",".join([f"L{i}", *map(str, layer.fields), ""]) for i, layer in enumerate(layers)]
        (folder / "layers.csv").write_text("\n".join(["Layer", *lines, ""]), encoding="utf-8")
        (folder / "layout.csv").write_text("Layer\n", encoding="utf-8")
        arguments = [*(str(folder / file) for file in ("run.cfg", "layers.csv", "layout.csv", "out")), str(layers[0].gemm)]
        _call([str(python), "-c", _RUN, *arguments])
        report = folder / "out" / "run" / "COMPUTE_REPORT.csv"
        found = report_cycles(read_bounded(report, LAYERS_BYTES).decode("utf-8", "replace")) if report.exists() else []
    if len(found) != len(layers):
        rule = f"SCALE-Sim reports {len(found)} of {len(layers)} layers"
        raise InputError(Problem(str(python), rule, "--scalesim", remedy=NEEDS))
    return found


def report_cycles(text: str) -> list[int]:
    """The cycles of each layer in a COMPUTE_REPORT.csv of SCALE-Sim; none in any other table."""
    table = [[cell.strip() for cell in line] for line in csv.reader(text.splitlines())]
    if not table or TOLD not in table[0]:
        return []
    column = table[0].index(TOLD)
    return [int(line[column].removesuffix(".0")) for line in table[1:] if any(line)]


def _call(command: list[str]) -> None:
    """InputError where SCALE-Sim is not there or does not end well."""
    try:
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise InputError(Problem(command[0], f"it cannot be run: {error.strerror}", "--scalesim")) from None
    if done.returncode:
        last = (done.stderr.strip() or "it says nothing").split("\n")[-1]
        rule = f"SCALE-Sim ended with exit code {done.returncode}: {last}"
        raise InputError(Problem(command[0], rule, "--scalesim", remedy=NEEDS))
