"""Writes `field_table.pxi`: the fields of a run that a snapshot contains, as the structs declare them.

A field of a struct in a `.pxd` is in snapshots if its comment begins with `@` and a range:

    cycle_t issue             # @past? NEVER: not yet

`state/fields.pxd` lists the ranges and what they mean. Code that packs, checks and shows a snapshot iterates over this table,
so a field is declared only once, beside its type. The build runs this before Cython (setup.py).
"""
import re
from pathlib import Path

STRUCT = re.compile(r"^cdef struct (\w+):")
FIELD = re.compile(r"^    ([\w ]+?) +(\w+)(?:\[(\w+)\])? +# @(\w+\??)(?: |$)")
HEAD = '"""Made by field_table.py from the comments of the `.pxd` files: do not edit."""\n'


def declared_fields(source: str) -> dict[str, list[tuple[str, str, str]]]:
    """`{struct: [(field, length, range)]}` from the text of a `.pxd`; the length is "1" for a field that is not an array."""
    structs: dict[str, list[tuple[str, str, str]]] = {}
    struct = ""
    for number, line in enumerate(source.splitlines(), 1):
        opened = STRUCT.match(line)
        if opened:
            struct = opened[1]
        elif line and not line.startswith(" "):
            struct = ""
        if " # @" not in line:
            continue
        field = FIELD.match(line)
        if not struct or field is None:
            raise ValueError(f"line {number}: `# @range` belongs behind one field of a struct: {line.strip()}")
        structs.setdefault(struct, []).append((field[2], field[3] or "1", field[4]))
    return structs


def range_name(name: str) -> str:
    """The constant of state/fields.pxd for a range as comments write it: `past?` is RANGE_PAST_Q."""
    return "RANGE_" + name.upper().replace("?", "_Q")


def table_of(folder: Path) -> str:
    """The text of `field_table.pxi`."""
    imports, lines = [], []
    for path in sorted(folder.rglob("*.pxd")):
        try:
            structs = declared_fields(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path.relative_to(folder)}, {error}") from None
        for struct, fields in structs.items():
            counts = sorted({length for _, length, _ in fields if not length.isdigit()})
            module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            imports.append(f"from {module} cimport {', '.join([struct, *counts])}\n")
            name, model = f"fields_of_{struct.lower()}", f"a_{struct.lower()}"
            lines += [f"\ncdef {struct} {model}", f"cdef Field[{len(fields)}] {name}"]
            for k, (field, length, span) in enumerate(fields):
                first = f"{model}.{field}" + ("[0]" if length != "1" else "")
                lines.append(f'set_field(&{name}[{k}], b"{field}", <char*>&{first} - <char*>&{model},')
                lines.append(f"          sizeof({first}), {length}, {range_name(span)})")
            lines.append(f'set_record(&{struct.upper()}, b"{struct}", {name}, {len(fields)})')
    return HEAD + "".join(imports) + "\n".join(lines) + "\n"


def write_table(folder: Path) -> None:
    """Write the table of the `.pxd` files below a folder. A file that is up to date keeps its timestamp, because the timestamp
    decides what is rebuilt.
    """
    target, text = folder / "state" / "field_table.pxi", table_of(folder)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


if __name__ == "__main__":
    write_table(Path(__file__).parents[1])
