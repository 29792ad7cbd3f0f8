"""Draws what `kbsim llm` says of Llama-3-8B on the mobile preset, for the tutorial."""

from __future__ import annotations

import os
import tempfile
from itertools import product
from pathlib import Path

from kernbench.cli.main import exit_code
from kernbench.common.look.palette import THEMES

#: With KERNBENCH_DOCS_QUICK=1, a test of the build itself, the light pictures stand in both places.
QUICK = os.environ.get("KERNBENCH_DOCS_QUICK") == "1"
QUESTION = ["llm", "--model", "llama3-8b", "--config", "npu_mobile", "--phase", "decode", "--tokens", "1"]
COMMANDS = {
    "llm_context": ["--prompt", "8192", "--compare", "prompt=1024,4096,8192,16384", "--plot"],
    "llm_batch": ["--prompt", "2048", "--compare", "batch=1,2,4,8", "--plot"],
    "llm_compare": ["--prompt", "8192", "--compare", "w=4,2", "--compare", "kv=8,4,2", "--plot"],
    "llm_live_map": ["--prompt", "8192", "--live-map"],
}


def llm_pictures() -> dict[str, str]:
    """File name: SVG."""
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, str] = {}
        for (name, options), theme in product(COMMANDS.items(), ("light",) if QUICK else THEMES):
            path = Path(folder) / f"{name}_{theme}.svg"
            code = exit_code([*QUESTION, *options, str(path), "--quiet", *(["--dark"] if theme == "dark" else [])])
            if code != 0:
                raise RuntimeError(f"kbsim llm ended with exit code {code}")
            text = path.read_text(encoding="utf-8")
            found |= {f"{name}_{shown}.svg": text for shown in (THEMES if QUICK else (theme,))}
    return found
