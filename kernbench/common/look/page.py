"""The frame of the HTML reports: the head with the content security policy, templates, scripts and JSON. A page loads no other
files."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

_TOP = """\
<!doctype html>
<html lang="en"@ATTRIBUTES@>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src @SCRIPTS@; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="generator" content="kernbench">
<title>@TITLE@</title>
<link rel="icon" href="data:,">
<style>
@STYLE@</style>
</head>
<body>
"""  # noqa: E501


def page_html(
    body: str, values: dict[str, str], *, title: str, style: str, scripts: Sequence[str], attributes: str = ""
) -> bytes:
    """The whole page, UTF-8. `body`: a template from the first element to the end of the file; `values` are filled in.

    `title`: as HTML. `scripts`: the only scripts that the content security policy of the page allows. `attributes`: the
    attributes of the root element.
    """
    known = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    top = filled(_TOP, {"ATTRIBUTES": attributes, "SCRIPTS": known, "TITLE": title, "STYLE": style})
    return (top + filled(body, values)).encode()


def filled(template: str, values: dict[str, str]) -> str:
    """The template with each `@NAME@` replaced once; the inserted text is not searched again."""
    pieces = template.split("@")
    return "".join(values[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def page_json(value: Any) -> str:
    """JSON for a page: no text in it can end a script or begin a comment, and all characters are ASCII."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
