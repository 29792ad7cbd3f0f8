"""`kbsim config energy`: the energy section of a machine, from a table of components, and from and to Accelergy's files."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output
from kernbench.cli.options import Json, Overrides

if TYPE_CHECKING:
    from kernbench.config import NpuConfig, SystemConfig

WHERE = "kbsim config energy"


def energy(
    machine: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A preset's name, or a .yaml or .json file.", show_default=False)
    ],
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME|FILE", help="A table with the energy of components: 7nm, 45nm or a "
            "file.", show_default=False),
    ] = None,
    dram: Annotated[
        str | None,
        typer.Option(
            "--dram", metavar="KIND", help="With --table: the type of DRAM (ddr, gddr, hbm or "
            "lpddr).", show_default="that of the machine's device"
        ),
    ] = None,
    ert: Annotated[
        str | None,
        typer.Option("--ert", metavar="FILE", help="An energy reference table of Accelergy.", show_default=False),
    ] = None,
    art: Annotated[
        str | None,
        typer.Option("--art", metavar="FILE", help="An area reference table of Accelergy. From the table, the command prints "
            "the areas of the machine's parts.", show_default=False),
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--map", metavar="FILE", help="With --ert or --art: a YAML file that says which component (and action) of the "
                "table gives each printed value.", show_default=False
        ),
    ] = None,
    accelergy: Annotated[
        Path | None,
        typer.Option(
            "--accelergy",
            metavar="DIR",
            help="Write the machine as input files for Accelergy. With --table, the files contain the energies and "
            "areas of the table.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace", metavar="FILE", help="With --accelergy: also write the action counts of this trace.", show_default=False
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> int:
    """Print or export the energy section of a machine. The energies come from the machine, from a table, or from Accelergy."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.config import load_config

    for option, given in (("--ert", ert), ("--art", art)):
        if given is not None and (table is not None or accelergy is not None):
            raise InputError(Problem(WHERE, f"{option} cannot be used together with --table or --accelergy"))
    for option, value, needs, there in (("--dram", dram, "--table", table), ("--map", mapping, "--ert or --art", ert or art)):
        if value is not None and there is None:
            raise InputError(Problem(WHERE, f"it is only for {needs}", option, value))
    if trace is not None and accelergy is None:
        raise InputError(Problem(WHERE, "this option is only valid with --accelergy", "--trace", trace))
    config: NpuConfig | SystemConfig = load_config(machine, overrides or [])
    if accelergy is not None and table is None:
        return _export(config, accelergy, trace, {}, as_json=as_json)
    if table is not None:
        from kernbench.common.units import plain_number
        from kernbench.config.energy_table import areas, prices, read_table, section_yaml

        read = read_table(table)
        found, area = prices(read, config, dram), areas(read, config)
        if accelergy is not None:
            import yaml

            priced = yaml.safe_load(section_yaml(found, read.name))["energy"]
            config = load_config({**config.to_dict(), "energy": {**config.to_dict()["energy"], **priced}})
            return _export(config, accelergy, trace, {one.key: one.value for one in area}, as_json=as_json)
        if as_json:
            rows = [{"key": one.key, "value": plain_number(one.value), "source": one.why} for one in found]
            places = [{"part": one.key, "mm2": float(one.value), "source": one.why} for one in area]
            output.show_json({"table": read.name, "energy": rows, "area": places})
            return output.OK
        output.write(section_yaml(found, f"by the table {read.name}"))
        for one in area:
            output.write(f"# area of {one.key}: {float(one.value):.3f} mm2 ({one.why})\n")
        return output.OK
    return _import(config, ert, art, mapping, as_json=as_json)


def _import(
    config: NpuConfig | SystemConfig, ert: str | None, art: str | None, mapping: str | None, *, as_json: bool
) -> int:
    """Print what Accelergy's tables give; without tables, the energy section of the machine."""
    shown: dict[str, Any] = {}
    text = ""
    if ert is not None or art is None:
        import yaml

        section = config.to_dict()["energy"]
        if ert is not None:
            from kernbench.config.accelergy import read_reference_table
            from kernbench.config.accelergy_area import FIGURES

            section = read_reference_table(ert, config.freq_ghz, mapping, () if art is None else FIGURES)
        macs = {int(bits): pj for bits, pj in section.get("mac_pj", {}).items()}
        shown["energy"] = {**section, **({"mac_pj": {str(b): pj for b, pj in macs.items()}} if macs else {})}
        text = str(yaml.safe_dump({"energy": {**section, **({"mac_pj": macs} if macs else {})}}, sort_keys=False))
    if art is not None:
        from kernbench.config.accelergy import COMPONENTS
        from kernbench.config.accelergy_area import area_json, area_yaml, read_areas

        found = read_areas(art, config, mapping, () if ert is None else COMPONENTS)
        shown |= area_json(found)
        text += area_yaml(found, Path(art).name)
    if as_json:
        output.show_json(shown)
    else:
        output.write(text)
    return output.OK


def _export(
    config: NpuConfig | SystemConfig, folder: Path, trace: str | None, areas: Mapping[str, Fraction], *, as_json: bool
) -> int:
    """`areas`: [mm2] by component; empty without a table."""
    from kernbench.common.files import make_folder, write_whole
    from kernbench.config.accelergy import action_counts, architecture, area_table, reference_table

    attributes = {"spm": {"width_bits": 8}, "dram": {"width_bits": 8}, "noc": {"width_bits": 8}}
    texts = {"architecture.yaml": architecture(attributes), "ERT.yaml": reference_table(config.energy, config.freq_ghz)}
    if areas:
        texts["ART.yaml"] = area_table(areas)
    if trace is not None:
        from kernbench.trace.energy import ledger
        from kernbench.trace.reader import open_trace

        texts["action_counts.yaml"] = action_counts(ledger(open_trace(trace)).action_counts())
    make_folder(folder)
    for name, text in texts.items():
        write_whole(folder / name, text.encode())
    if as_json:
        output.show_json({"folder": str(folder), "files": sorted(texts)})
    else:
        output.note(f"{folder}: {', '.join(sorted(texts))}")
    return output.OK
