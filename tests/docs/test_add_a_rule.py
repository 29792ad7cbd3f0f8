"""docs/how-to/add_a_rule.md: what it shows of the tree stands there, and is no more than four files.

Its code out of the tree is run by `test_examples.py` and, against drawn programs, by `tests/contract/test_arbiters.py`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest

from kernbench.config import dram_controller, dram_device
from kernbench.config.schema import ARBITERS, DMA_ARBITERS
from tests.contract.arbiters import PAGE, blocks, text_of
from tests.contract.compiled import compiler
from tests.docs.examples import ROOT
from tests.meta.source import needs_source

SHOWN = [(name, body) for mark, name, body in (blocks() if PAGE.exists() else []) if mark == "in"]
#: Files of rules of the same name: of DMA engines, and of the routers of served fleets.
OTHERS = {"dma.pxd", "dma_arbiter.pxd", "dma_arbiter.pyx", "serving", "serve", "serve.py"}
#: Enums of the core, each with its file, the names that machine files use, and the members without such a name.
NAMED: dict[str, tuple[str, Iterable[str], tuple[str, ...]]] = {
    "ArbiterRule": ("model/arbiter/rule.pxd", ARBITERS, ("plugged_in", "n_arbiters")),
    "SchedulerRule": ("model/dram/scheduler/scheduler.pxd", dram_device.SCHEDULERS, ("n_schedulers",)),
    "PageRule": ("model/dram/page/page.pxd", dram_device.PAGE_POLICIES, ("n_page_policies",)),
    "AddressMapRule": ("model/dram/map/address_map.pxd", dram_device.ADDRESS_MAPS, ("n_address_maps",)),
    "ControllerScheduler": ("model/controller/schedulers.pxd", dram_controller.SCHEDULERS, ("n_controller_schedulers",)),
    "DmaArbiterRule": ("model/dma_arbiter.pxd", DMA_ARBITERS, ("n_dma_arbiters",)),
    "ControllerPage": ("model/controller/pages.pxd", dram_controller.PAGES, ("n_controller_pages",)),
}


@needs_source
@pytest.mark.parametrize(("name", "body"), SHOWN, ids=[name for name, _ in SHOWN])
def test_what_the_page_shows_stands_in_the_tree(name: str, body: str) -> None:
    assert body in (ROOT / name).read_text(encoding="utf-8"), f"the page shows another text of {name}"


@needs_source
def test_a_rule_is_four_files() -> None:
    files = [name for name, body in SHOWN if "round_robin" in body.lower() and Path(name).name not in OTHERS]
    assert len(files) == len(set(files)) == 4
    rule = [ROOT / name for name in files if "round_robin" in name]
    assert [text_of(str(path.relative_to(ROOT))) == path.read_text(encoding="utf-8") for path in rule] == [True]


@needs_source
def test_a_rule_stands_nowhere_else() -> None:
    """Its name and its number are in the files that the page shows, and in no other of the product's sources."""
    found = set()
    for folder in ("kernbench", "kernbench_core"):
        for path in sorted((ROOT / folder).rglob("*")):
            source = path.suffix in (".py", ".pyx", ".pxd", ".h") and not OTHERS & set(path.parts)
            if source and "round_robin" in path.read_text(encoding="utf-8").lower():
                found.add(str(path.relative_to(ROOT)))
    assert found == {name for name, body in SHOWN if "round_robin" in body.lower() and Path(name).name not in OTHERS}


@needs_source
@pytest.mark.parametrize("enum", NAMED)
def test_numbers_and_names_are_in_one_order(enum: str) -> None:
    file, names, ends = NAMED[enum]
    source = (ROOT / "kernbench_core" / file).read_text(encoding="utf-8")
    (body,) = re.findall(rf"^c(?:p?)def enum {enum}:.*\n((?: .*\n)+)", source, re.MULTILINE)
    members = [member.lower() for member in re.findall(r"^    (\w+)", body, re.MULTILINE)]
    short = [re.sub(r"^controller_|^(?!n_)(.*)_pages?$", r"\1", member) for member in members]  # CLOSED_PAGE is `closed`
    assert short == [*names, *ends], f"the members of {enum} in kernbench_core/{file} differ from the names"


def test_the_commands_for_c_work(tmp_path: Path) -> None:
    """The block of the shell, with this Python's own tools."""
    cc = compiler()
    if cc is None or not sys.platform.startswith("linux"):
        pytest.skip("there is no C compiler")
    (shell,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for name in ("fair_c.c", "fair.yaml", "three.json"):
        (tmp_path / name).write_text(text_of(name), encoding="utf-8")
    tools = Path(sys.executable).parent
    config = {"--extension-suffix": sysconfig.get_config_var("EXT_SUFFIX"), "--includes": f"-I{sysconfig.get_path('include')}"}
    shell = re.sub(r"\$\(python3-config (\S+)\)", lambda found: config[found[1]], shell)
    shell = re.sub(r"^cc", cc, shell).replace("python -c", f"{tools}/python -c").replace("kbsim", f"{tools}/kbsim")
    ran = subprocess.run(["sh", "-ec", shell], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "12" in ran.stdout and "done" in ran.stdout
