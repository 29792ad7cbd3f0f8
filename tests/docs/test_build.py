"""The documentation builds without a warning, and its generated tables leave nothing out."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernbench.cmdq.opcodes import ENTRY_FIELDS, META_FIELDS, OPCODES
from kernbench.config import NpuConfig, load_config
from kernbench.config.cache import NpuLlc
from kernbench.config.chip import Chip
from kernbench.config.codecs import Codec
from kernbench.config.dram_controller import DramController
from kernbench.config.dram_device import RowBuffer
from kernbench.config.mma import Mma, MmaShape
from kernbench.config.routers import Routers
from kernbench.config.schema import Cost, MicroScheduler, Mmio

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DRAWN = DOCS / "_generated"  #: what a build makes before it reads the pages
pytestmark = pytest.mark.skipif(not (DOCS / "conf.py").exists(), reason="the documentation is not in this source tree")


def part(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"kernbench_docs_{name}", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def first_cells(table: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


@pytest.mark.parametrize("quick", ["1", pytest.param("0", marks=pytest.mark.nightly)], ids=["subsets", "whole"])
def test_build_without_a_warning(quick: str, tmp_path: Path) -> None:
    """With subsets of the suites of validation, and nightly with those of `make docs`. README shows a picture of the build."""
    for name in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(name)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    command += [str(DOCS), str(tmp_path / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, "KERNBENCH_DOCS_QUICK": quick})  # fmt: skip
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "html" / "model" / "by_example.html").read_text(encoding="utf-8")
    assert html.count('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720') == 2
    landing = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert 'href="llama2-7b-decode.html"' in landing and (tmp_path / "html" / "llama2-7b-decode.html").is_file()
    assert all(f'href="{kind}/index.html"' in landing for kind in ("tutorials", "how-to", "reference", "explanation"))
    assert "\u2013" not in (tmp_path / "html" / "reference" / "cli.html").read_text(encoding="utf-8")  # `--cycles` in prose
    the_readme_shows_what_was_drawn()


def the_readme_shows_what_was_drawn() -> None:
    """The picture of a run is byte for byte that of the build, and so is its text; `KB_REGOLD=1` stores what was drawn."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    landing = (DRAWN / "landing.md").read_text(encoding="utf-8")
    told = re.search(r'alt="(.*) Open the report of this run\."', landing)
    assert told is not None and f'alt="{told[1]}"' in readme
    for name in ("run_light.svg", "run_dark.svg", "run_narrow_light.svg", "run_narrow_dark.svg"):
        text, stored = (DRAWN / "site" / name).read_text(encoding="utf-8"), DOCS / "_static" / name
        ElementTree.fromstring(text)
        if os.environ.get("KB_REGOLD"):
            stored.write_text(text, encoding="utf-8")
        assert text == stored.read_text(encoding="utf-8"), f"{name} is old: python docs/run_picture.py"
        assert f'srcset="docs/_static/{name}"' in readme or f'src="docs/_static/{name}"' in readme
        assert f'srcset="{name}"' in landing or f'src="{name}"' in landing


def test_every_opcode_and_field_is_in_the_reference() -> None:
    text = part("reference").program_tables()
    for name in OPCODES:
        assert f"- `{name}`: " in text
    cells = set(first_cells(text))
    fields = {field.name for spec in OPCODES.values() for field in spec.fields}
    fields |= {field.name for field in (*ENTRY_FIELDS, *META_FIELDS)}
    fields |= {f"kv_range.{inner.name}" for spec in OPCODES.values() for field in spec.fields for inner in field.fields}
    assert cells == fields


def paths_of(value: Any, path: str = "") -> set[str]:
    """The keys of a machine; a table's own keys are not keys of the machine."""
    if isinstance(value, dict) and path.rpartition(".")[2] not in ("f_w", "f_a", "sfu", "mac_pj"):
        return {inner for key, item in value.items() for inner in paths_of(item, f"{path}.{key}" if path else key)}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return paths_of(value[0], path)
    return {path}


#: Keys of engines that a machine's `to_dict()` has only where they do not have their defaults.
YOUNGER = {"te.fill", "te.drain", "te.operand_bytes_per_cycle", "te.clock_ratio"}
YOUNGER |= {"dma.arbiter", "ve.clock_ratio", "ve.op_cost", "ve.reduction_trees"}
YOUNGER |= {f"te.mma.{name}" for name in Mma.model_fields if name != "shapes"}
YOUNGER |= {f"dma.codecs.{name}" for name in Codec.model_fields}
YOUNGER |= {f"te.mma.shapes.{name}" for name in MmaShape.model_fields}


def test_every_key_is_in_the_reference_with_its_default() -> None:
    text = part("reference").machine_tables()
    found = set()
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name = section.split("\n")[0].split(" ")[0]
        found |= {key if name == "Top" else f"{name}.{key}" for key in first_cells(section)}
    given = load_config({"noc": {}, "te": {"timing": "systolic", "rows": 4, "cols": 4, "dataflow": "os"}}).to_dict()
    wanted = paths_of(given) | {"spm.read_ports", "spm.write_ports"}
    wanted |= {f"dram.row_buffer.{name}" for name in RowBuffer.model_fields}
    wanted |= {f"dram.controller.{name}" for name in DramController.model_fields}
    wanted |= {f"llc.{name}" for name in NpuLlc.model_fields}
    wanted |= {f"control.mmio.{name}" for name in Mmio.model_fields}
    wanted |= {f"control.micro_scheduler.{name}" for name in MicroScheduler.model_fields}
    wanted |= {f"noc.flit.{name}" for name in Routers.model_fields}
    wanted |= {f"chip.{name}" for name in Chip.model_fields}
    wanted |= {f"cost.{name}" for name in Cost.model_fields}
    wanted -= {"dram.row_buffer"}
    # These are not in machines without them.
    wanted |= {"spm.arbiter", "dram.device", "dram.policy", "energy.by_cause", "noc.model", *YOUNGER}
    assert found == wanted
    assert f"`{NpuConfig().max_cycles}`" in text


def test_every_command_and_public_name_is_in_the_reference() -> None:
    reference = part("reference")
    commands = set(re.findall(r"^## (kbsim.*)$", reference.cli_tables(), re.MULTILINE))
    assert {"kbsim", "kbsim run", "kbsim step", "kbsim program check", "kbsim config show"} <= commands
    tables = reference.cli_tables()
    assert "| `--trace-level` `LEVEL` | summary |" in tables  # defaults that are words, too
    assert "| `--check, --no-check` | `--check` |" in tables and "| `--view` `system\\|sip\\|cube\\|pe` | required |" in tables
    names = set(re.findall(r"^### (?:class )?(\w+)$", reference.python_tables(), re.MULTILINE))
    assert names == set(reference.API)


def test_pictures_are_sound_and_show_what_the_machine_does() -> None:
    pictures = part("pictures")
    for text in pictures.all_pictures().values():
        ElementTree.fromstring(text)
    assert [(p.start, p.end, p.first, p.second) for p in pictures.shared_rates()] == [
        (0, 64, 16.0, 0.0),
        (64, 128, 8.0, 8.0),
        (128, 160, 16.0, 0.0),
    ]
