"""Reads XML files of other tools: elements with their attributes and lines. Texts between elements are not kept.

A file that declares a document type or entities is refused, because entities can grow without bound or name other files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from kernbench.common.errors import ABSENT, InputError, Problem, shown
from kernbench.common.files import read_bounded
from kernbench.common.spelling import meant

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64
MAX_ELEMENTS = 2_000_000
MAX_DIGITS = 18


@dataclass(slots=True)
class Element:
    """One element. `source` and `line` are where it begins."""

    tag: str
    attributes: dict[str, str]
    source: str
    line: int
    children: list[Element] = field(default_factory=list)

    def problem(self, rule: str, name: str = "", value: object = ABSENT, remedy: str = "") -> InputError:
        """An error with this element, or with one of its attributes."""
        what = f"{self.tag}.{name}" if name else self.tag
        return InputError(Problem(f"{self.source}:{self.line}", rule, what, value, remedy))

    def of(self, *tags: str) -> Iterator[Element]:
        """Its children of these tags."""
        return (child for child in self.children if child.tag in tags)

    def only(self, *tags: str) -> None:
        """InputError for a child of another tag."""
        for child in self.children:
            if child.tag not in tags:
                inside = ", ".join(f"<{tag}>" for tag in tags)
                rule = f"<{self.tag}> may contain {inside}" if tags else f"<{self.tag}> may contain no element"
                raise child.problem(rule, remedy=meant(child.tag, tags))

    def text(self, name: str, usual: str | None = None) -> str:
        """An attribute. InputError if it is missing and has no default."""
        found = self.attributes.get(name, usual)
        if found is None:
            raise self.problem(f"it must have the attribute {name}")
        return found

    def integer(self, name: str, least: int, most: int, usual: int | None = None) -> int:
        """An attribute that is an integer between two bounds. InputError for any other."""
        text = self.text(name, None if usual is None else str(usual)).strip()
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS and least <= int(text) <= most):
            raise self.problem(f"it must be an integer from {least} to {most}", name, text)
        return int(text)

    def choice(self, name: str, choices: tuple[str, ...], usual: str | None = None) -> str:
        """An attribute that is one of some words. InputError for any other."""
        text = self.text(name, usual)
        if text not in choices:
            raise self.problem(f"it must be one of {', '.join(choices)}", name, text, meant(text, choices))
        return text


def read_xml(path: str | os.PathLike[str]) -> Element:
    """The root element of a file. InputError with the line for a file that is not XML, is too large, or declares entities."""
    source = os.fspath(path)
    return parse_xml(read_bounded(source, MAX_BYTES), source)


def parse_xml(content: bytes, source: str) -> Element:
    """The same of bytes."""
    parser = expat.ParserCreate()
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.buffer_text = True
    open_: list[Element] = []
    roots: list[Element] = []
    count = 0

    def refuse(rule: str, remedy: str = "") -> None:
        raise InputError(Problem(f"{source}:{parser.CurrentLineNumber}", rule, remedy=remedy))

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MAX_ELEMENTS:
            refuse(f"a file may have at most {MAX_ELEMENTS:,} elements")
        if len(open_) >= MAX_DEPTH:
            refuse(f"elements may be nested at most {MAX_DEPTH} deep")
        made = Element(tag, attributes, source, parser.CurrentLineNumber)
        (open_[-1].children if open_ else roots).append(made)
        open_.append(made)

    def end(tag: str) -> None:
        open_.pop()

    def doctype(*_: object) -> None:
        refuse("it declares a document type, which can define entities", "remove <!DOCTYPE ...>")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = doctype
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        rule = f"it is not XML: {expat.ErrorString(error.code)}"
        raise InputError(Problem(f"{source}:{error.lineno}:{error.offset + 1}", rule)) from None
    except ValueError as error:  # an unknown encoding
        raise InputError(Problem(source, f"it is not XML: {shown(str(error))}")) from None
    return roots[0]
