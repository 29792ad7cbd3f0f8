"""Draws what `kbsim llm` says of Llama-3-8B on the mobile preset, for the tutorial."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path

from quick import QUICK, shown_model

from kernbench.cli.main import exit_code
from kernbench.common.look.palette import THEMES

QUESTION = ["llm", "--model", shown_model("llama3-8b"), "--config", "npu_mobile", "--phase", "decode", "--tokens", "1"]
COMMANDS = {
    "llm_context": ["--prompt", "8192", "--compare", "prompt=1024,4096,8192,16384", "--plot"],
    "llm_batch": ["--prompt", "2048", "--compare", "batch=1,2,4,8", "--plot"],
    "llm_compare": ["--prompt", "8192", "--compare", "w=4,2", "--compare", "kv=8,4,2", "--plot"],
    "llm_live_map": ["--prompt", "8192", "--live-map"],
}


def llm_pictures() -> dict[str, str]:
    """File name: SVG. In a quick build the light pictures stand in both places."""
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
