"""Style sheets, and the token table of the scripts, made from the design tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources

from kernbench.common.look.palette import THEMES, Theme, colour, slots, text_on, tokens


def theme_css() -> str:
    """Custom properties of both themes; the dark theme applies if the system prefers it or `data-theme` selects it."""
    light, dark = ("".join(_theme(theme)) for theme in THEMES)
    return (
        f":root {{ color-scheme: light dark; {''.join(_sizes())}{light}}}\n"
        f':root[data-theme="light"] {{ color-scheme: light; }}\n'
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark}}} }}\n'
        f':root[data-theme="dark"] {{ color-scheme: dark; {dark}}}\n'
    )


def page_css() -> str:
    """The properties and the elements that all pages share: header, card, table, control, chip, tooltip."""
    return theme_css() + _part("page.css")


def _part(name: str) -> str:
    return (resources.files("kernbench.common") / "look" / name).read_text(encoding="utf-8")


def docs_css() -> str:
    """The style sheet of the documentation (Furo, which marks `body` with `data-theme`): `--kb-ink`, `--kb-dram`, ..., light
    and dark."""
    light, dark = ("".join(_theme(theme, "kb-")) for theme in THEMES)
    return (
        f"body {{ {''.join(_sizes('kb-'))}{light}}}\n"
        f'body[data-theme="dark"] {{ {dark}}}\n'
        f'@media (prefers-color-scheme: dark) {{ body:not([data-theme="light"]) {{ {dark}}} }}\n'
    )


def scoped_css(selectors: str, dark_roots: str, prefix: str) -> str:
    """The properties on some selectors of a page that is not from kernbench; `dark_roots`: the ancestors that mark the dark
    theme."""
    light, dark = ("".join(_theme(theme, prefix)) for theme in THEMES)
    inside = ", ".join(f":is({dark_roots}) {one.strip()}" for one in selectors.split(","))
    return f"{selectors} {{ {''.join(_sizes(prefix))}{light}}}\n{inside} {{ {dark}}}\n"


def hatch(hue: str) -> str:
    """The background of a wait: stripes of a hue, for a style sheet. `hue`: `#rrggbb` or a property, `var(--dram)`."""
    hatch = tokens()["hatch"]
    stripe, period, ground = hatch["stripe"], hatch["period"], round(100 * hatch["ground"])
    pale = f"color-mix(in srgb, {hue} {ground}%, transparent)"
    return f"repeating-linear-gradient(-45deg, {hue} 0 {stripe}px, {pale} {stripe}px {period}px)"


def _sizes(prefix: str = "") -> Iterator[str]:
    values = tokens()
    yield from (f"--{prefix}{name}: {value}; " for name, value in values["font"].items())
    yield from (f"--{prefix}text-{name}: {value}px; " for name, value in values["type"].items())
    yield from (f"--{prefix}space-{name}: {value}px; " for name, value in values["space"].items())
    yield from (f"--{prefix}{name}: {value}px; " for name, value in values["size"].items())
    yield from (f"--{prefix}{name}: {value}; " for name, value in values["weight"].items())


def _theme(theme: Theme, prefix: str = "") -> Iterator[str]:
    yield from (f"--{prefix}{name}: {value}; " for name, value in tokens()[theme].items())
    for name in tokens()["resource"]:
        fill = colour(name, theme)
        yield f"--{prefix}{name}: {fill}; --{prefix}on-{name}: {text_on(fill)}; "
    yield from (f"--{prefix}slot-{place}: {fill}; " for place, fill in enumerate(slots(theme), 1))
    yield f"--{prefix}on-soft: {text_on(colour('soft', theme))}; "


def look_js() -> str:
    """The tokens for the scripts of pages as the constant `LOOK`, and the code that all these scripts share."""
    values = tokens()
    themes = {
        theme: {
            **values[theme],
            "resource": {name: one[theme] for name, one in values["resource"].items()},
            "slots": slots(theme),
            "ramp": values["ramp"][theme],
        }
        for theme in THEMES
    }
    shared = {name: values[name] for name in ("text", "type", "weight", "font", "hatch", "cause", "phase")}
    made = f"const LOOK = {json.dumps(themes | shared, separators=(',', ':'))};\n"
    return made + _part("page.js")
