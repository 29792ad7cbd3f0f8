"""`kbsim sweep merge`: the stores of shards as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json


def merge(
    store: Annotated[
        Path,
        typer.Argument(metavar="STORE", help="The store to write. The store is created if it does not exist.",
            show_default=False),
    ],
    sources: Annotated[list[Path], typer.Argument(metavar="FROM...", help="The stores to merge.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Merge the results of several stores into one store. If two stores have results of the same point, the results must
    be equal."""
    from kernbench.common.json_shapes import counted
    from kernbench.sweep.store.merge import merge_into

    found = merge_into(store, sources)
    if as_json:
        counts = {"store": str(store), "stores": found.stores, "results": found.results, "new": found.new}
        output.show_json({**counts, "sweeps": list(found.sweeps)})
    else:
        took = f"{counted(found.stores, 'store')}, {counted(found.new, 'new result')}"
        output.write(f"{store}: {counted(found.results, 'result')}, from {took}; sweeps: {', '.join(found.sweeps) or 'none'}\n")
    return output.OK
