"""The reader of YAML and JSON: exact values, places, and every refusal with its place."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.config.document import MAX_DEPTH, path_text, read_document, text_document
from kernbench.config.places import KEY


def read(text: str, suffix: str = ".yaml") -> object:
    return text_document(text, f"f{suffix}", suffix).data


def refusal(text: str, suffix: str = ".yaml") -> str:
    with pytest.raises(InputError) as caught:
        read(text, suffix)
    return str(caught.value)


def test_yaml_values() -> None:
    text = "a: 1\nb: [1, 2.5, {c: x}]\nd: true\ne:\nf: ~\ng: 0x1F\nh: 1.0e+3\ni: 'on'\ny: n\nj: -.5\n8: 1\nk: |\n  012\n"
    assert read(text) == {
        "a": 1, "b": [1, Fraction(5, 2), {"c": "x"}], "d": True, "e": None, "f": None, "g": 31, "h": 1000,
        "i": "on", "y": "n", "j": Fraction(-1, 2), 8: 1, "k": "012\n",
    }  # fmt: skip


def test_json_values() -> None:
    assert read('{"a": 1, "b": [1, 2.5, {"c": "x"}], "d": 1e3, "e": "\\ud83d\\ude00"}', ".json") == {
        "a": 1, "b": [1, Fraction(5, 2), {"c": "x"}], "d": 1000, "e": "😀",
    }  # fmt: skip


def test_a_decimal_is_exact_and_no_float() -> None:
    for text, suffix in (("a: 0.1", ".yaml"), ('{"a": 0.1}', ".json")):
        data = read(text, suffix)
        assert data == {"a": Fraction(1, 10)}


YAML_REFUSALS = [
    ("a: on", "f.yaml:1:4: a: the value on is not allowed, because YAML 1.1 reads it as a boolean; write true or false, or quote it"),
    ("a: Yes", "f.yaml:1:4: a: the value Yes is not allowed, because YAML 1.1 reads it as a boolean; write true or false, or quote it"),
    ("a: 1e3", "f.yaml:1:4: a: the value 1e3 is not allowed, because YAML 1.1 reads it as text; write it without an exponent, or like 1.0e+3"),
    ("a: 1.5e3", "f.yaml:1:4: a: the value 1.5e3 is not allowed, because YAML 1.1 reads it as text; write it without an exponent, or like 1.0e+3"),
    ("a: 012", "f.yaml:1:4: a: the value 012 is not allowed, because YAML versions disagree whether it is octal; write it in decimal or as 0x.."),
    ("a: 0o12", "f.yaml:1:4: a: the value 0o12 is not allowed, because YAML versions disagree whether it is octal; write it in decimal or as 0x.."),
    ("a: 0b11", "f.yaml:1:4: a: the value 0b11 is not allowed, because YAML versions disagree whether it is binary; write it in decimal or as 0x.."),
    ("a: 12:30", "f.yaml:1:4: a: the value 12:30 is not allowed, because YAML 1.1 reads it as a number in base 60; quote it if it is text"),
    ("a: 1_000", "f.yaml:1:4: a: the value 1_000 is not allowed, because YAML versions disagree whether it is a number; write it without _"),
    ("a: 2024-01-01", "f.yaml:1:4: a: the value 2024-01-01 is not allowed, because YAML 1.1 reads it as a date; quote it if it is text"),
    ("a: .nan", "f.yaml:1:4: a: the value .nan is not allowed, because it is not a finite number"),
    ("a: -.INF", "f.yaml:1:4: a: the value -.INF is not allowed, because it is not a finite number"),
    ("a: {<<: {b: 1}}", "f.yaml:1:5: a: the value << is not allowed, because it has a special meaning in YAML 1.1; quote it if it is text"),
    ("a: 1\nb: 2\na: 3", "f.yaml:3:1: a: the key occurs twice at the same level; write the key once, with all its values below it"),
    ("t: {8: 1, '8': 2}", "f.yaml:1:11: t.8: the key occurs twice at the same level; write the key once, with all its values below it"),
    ("t: {'8': 1, 8: 2}", "f.yaml:1:13: t[8]: the key occurs twice at the same level; write the key once, with all its values below it"),
    ("a: &x 1", "f.yaml:1:4: the anchor &x is not read; leave it out"),
    ("a: *x", "f.yaml:1:4: the alias *x is not allowed, because YAML aliases are not supported; write the value out"),
    ("a: !!int 3", "f.yaml:1:4: the tag tag:yaml.org,2002:int is not read; leave it out"),
    ("a: !!python/object:os.system 3", "f.yaml:1:4: the tag tag:yaml.org,2002:python/object:os.system is not read; leave it out"),
    ("---\na: 1\n---\nb: 2", "f.yaml:3:1: a second document begins here; write one document per file"),
    ("[1]", "f.yaml:1:1: the file must contain a mapping of keys to values"),
    ("", "f.yaml: the file is empty"),
    (" \n\n", "f.yaml: the file is empty"),
    ("# only a comment", "f.yaml:1:1: the file is empty"),
    ("? [a]\n: 1", "f.yaml:1:3: a key must be text or an integer"),
    ("true: 1", "f.yaml:1:1: a key must be text or an integer"),
    ("1.5: 1", "f.yaml:1:1: a key must be text or an integer"),
    ("a: " + "9" * 5000, "f.yaml:1:4: a: a number must have at most 60 digits"),
    ("a: 1." + "9" * 5000, "f.yaml:1:4: a: a number must have at most 60 digits"),
    ("a:\n" + "\n".join("  " * i + " - b:" for i in range(80)), "f.yaml:33:66: a[0].b[0].b[0].b[0]: it is nested deeper than 64 levels"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), YAML_REFUSALS)
def test_yaml_refusals(text: str, line: str) -> None:
    assert refusal(text) == line


YAML = "this is not valid YAML: "


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: [1, 2", "f.yaml:2:1: this is not valid YAML: "),
        ("\ta: 1", "f.yaml:1:1: this is not valid YAML: "),
        ("a: 1\n b: 2", "f.yaml:2:3: this is not valid YAML: "),
        ("é: 1\nb: \x01", "f.yaml:2:4: this is not valid YAML: "),
        ("a: 'x", f"f.yaml:1:4: {YAML}found unexpected end of stream; close the quotation mark that begins here"),
        ("a:\n  b: 1\n   c: 2\n  d: 3", "f.yaml:3:5: this is not valid YAML: mapping values are not allowed"),
        ("a:\n    b: 1\n  c: 2", f"f.yaml:3:3: {YAML}did not find expected key; indent all keys of a mapping equally"),
        ("a: 1\nb 2\nc: 3", f"f.yaml:2:1: {YAML}could not find expected ':'; write a colon"),
    ],
)
def test_yaml_syntax_errors_have_a_place(text: str, start: str) -> None:
    assert refusal(text).startswith(start)


JSON_REFUSALS = [
    ('{"a": 1,\n "a": 2}', 'f.json:2:2: a: the key occurs twice at the same level; write the key once, with all its values below it'),
    ('{"b": {"x": 1}, "c": [{"y": 1}, {"y": 1, "z": 2, "y": 3}]}', "f.json:1:50: c[1].y: the key occurs twice at the same level; write the key once, with all its values below it"),
    ('{"\\u0061": 1, "a": 2}', "f.json:1:15: a: the key occurs twice at the same level; write the key once, with all its values below it"),
    ('{"a": NaN}', "f.json:1:7: a: NaN is not a number that is read"),
    ('{"a": [0, -Infinity]}', "f.json:1:11: a[1]: -Infinity is not a number that is read"),
    ('{"a": ' + "9" * 5000 + "}", "f.json:1:7: a: a number must have at most 60 digits and powers of ten"),
    ('{"a": 1e999}', "f.json:1:7: a: a number must have at most 60 digits and powers of ten"),
    ('{"a": "\\ud800"}', "f.json:1:7: a: the text contains half of a surrogate pair"),
    ('{"\\udfff": 1}', "f.json:1:2: \\udfff: the text contains half of a surrogate pair"),
    ('{"a": [1,', "f.json:1:10: this is not valid JSON: Expecting value"),
    ('{"a": 1} x', "f.json:1:10: this is not valid JSON: Extra data"),
    ('{"a": 01}', "f.json:1:8: this is not valid JSON: Expecting ',' delimiter"),
    ('{"a":\n"\x01"}', "f.json:2:2: this is not valid JSON: Invalid control character at"),
    ("{'a': 1}", "f.json:1:2: this is not valid JSON: Expecting property name enclosed in double quotes"),
    ("null", "f.json:1:1: the file must contain a mapping of keys to values"),
    ("[]", "f.json:1:1: the file must contain a mapping of keys to values"),
    ("", "f.json: the file is empty"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), JSON_REFUSALS)
def test_json_refusals(text: str, line: str) -> None:
    assert refusal(text, ".json") == line


@pytest.mark.parametrize("depth", [MAX_DEPTH, 900, 100_000])
def test_json_depth(depth: int) -> None:
    text = '{"a": ' + "[" * depth + "]" * depth + "}"
    assert refusal(text, ".json") == f"f.json:1:{6 + MAX_DEPTH}: a" + "[0]" * 7 + ": it is nested deeper than 64 levels"


def test_the_deepest_nesting_that_is_read() -> None:
    depth = MAX_DEPTH - 1  # the mapping around it is one level
    for text, suffix in ((f'{{"a": {"[" * depth}{"]" * depth}}}', ".json"), (f"a: {'[' * depth}{']' * depth}", ".yaml")):
        assert read(text, suffix) is not None


PLACED = [
    ('{"a": 1,\n "b": [1, {"c": 3, "d": {}}],\n "e": "x\\"y"}', ".json"),
    ('a: 1\nb:\n  - 1\n  - {c: 3, d: {}}\ne: x"y\n', ".yaml"),
]


@pytest.mark.parametrize(("text", "suffix"), PLACED)
def test_each_key_and_value_has_its_line_and_column(text: str, suffix: str) -> None:
    document = text_document(text, "f", suffix)
    paths = [("a",), ("b", 1, "c"), ("b", 1, "c", KEY), ("b", 1, "d"), ("e",), ("e", KEY), ("b", 1, "zz"), ("b", 9), ("zz",)]
    json_places = [(1, 7), (2, 17), (2, 12), (2, 25), (3, 7), (3, 2), (2, 11), (2, 7), (1, 1)]
    yaml_places = [(1, 4), (4, 9), (4, 6), (4, 15), (5, 4), (5, 1), (4, 5), (3, 3), (1, 1)]
    expected = json_places if suffix == ".json" else yaml_places
    assert document.find(paths) == dict(zip(paths, expected, strict=True))


def test_a_table_key_is_found_as_text_and_as_integer() -> None:
    document = text_document('{"t": {"8": 1}}', "f", ".json")
    assert document.find([("t", 8)]) == {("t", 8): (1, 13)}


def test_path_text() -> None:
    assert path_text(("kv_layouts", 0, "t_max")) == "kv_layouts[0].t_max"
    assert path_text(("dram", "x", KEY)) == "dram.x"


def reading_fails(path: Path, max_bytes: int = 1000) -> str:
    with pytest.raises(InputError) as caught:
        read_document(path, max_bytes)
    return str(caught.value).replace(str(path), path.name)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert reading_fails(tmp_path / "no.yaml") == "no.yaml: the file does not exist"
    (tmp_path / "d.yaml").mkdir()
    assert reading_fails(tmp_path / "d.yaml") == "d.yaml: the file cannot be read: Is a directory"
    assert reading_fails(tmp_path / "a.txt") == "a.txt: the file name must end in .json, .yaml or .yml"
    assert "cannot be read" in reading_fails(tmp_path / "a\0.yaml")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert reading_fails(file) == "a.json:1:1: it begins with a byte order mark; save it as UTF-8 without one"
    file.write_bytes(b'{"a": 1,\n "b": "\xff"}')
    assert reading_fails(file) == "a.json:2:8: byte 0xff is not valid UTF-8"
    file.write_bytes('{"a": 1}'.encode("utf-16"))
    assert reading_fails(file) == "a.json:1:1: byte 0xff is not valid UTF-8"


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "big.json"
    with file.open("wb") as sparse:
        sparse.truncate(2**40)  # a terabyte claimed, none written
    line = "big.json: the file is larger than the limit of 1000 bytes; raise max_bytes to read it"
    assert reading_fails(file) == line
    endless = tmp_path / "endless.json"
    endless.symlink_to("/dev/zero")
    assert reading_fails(endless) == line.replace("big", "endless")
    file.write_text('{"a": 1}')
    assert read_document(file, 8).data == {"a": 1}
    with pytest.raises(InputError):
        read_document(file, 7)
