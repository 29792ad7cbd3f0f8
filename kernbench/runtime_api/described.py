"""A bench as plain JSON: what `kbsim bench show --json` prints."""

from __future__ import annotations

from typing import Any

from kernbench.runtime_api.bench import Bench


def described(bench: Bench) -> dict[str, Any]:
    """Name, description, parameters with what they may be, and the file's name."""
    params = {
        name: {"default": param.default, "doc": param.doc, "choices": list(param.choices), "least": param.least}
        for name, param in bench.params.items()
    }
    return {
        "name": bench.name,
        "description": bench.description,
        "machine": bench.machine,
        "params": params,
        "reference": bench.reference is not None,
        "source": bench.source,
    }
