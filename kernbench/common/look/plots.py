"""Pictures made with matplotlib in the look of the pages: settings, a figure as bytes, bars of waits."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from kernbench.common.look.palette import Theme, colour, mixed, slots, tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINT = 72 / 96  #: [pt] of a CSS pixel
_FACE = "DejaVu Sans"  #: the font with which matplotlib measures text; it is always installed


def size(use: str) -> float:
    """[pt] The size of text by its use: `label`, `dense`, `body`, ..."""
    return float(tokens()["type"][use]) * POINT


def settings(theme: Theme = "light") -> Any:
    """Settings for `matplotlib.rc_context`: colours of the theme, sizes of text, and label colours in the order of the
    slots."""
    from cycler import cycler

    ink, soft, line, card = (colour(name, theme) for name in ("ink", "soft", "line", "card"))
    return {
        "svg.hashsalt": "kernbench", "svg.fonttype": "none", "text.parse_math": False, "text.usetex": False,
        "font.family": "sans-serif", "font.sans-serif": [_FACE], "font.size": size("dense"), "axes.titlesize": size("body"),
        "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.labelsize": size("dense"), "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "axes.prop_cycle": cycler(color=slots(theme)),
        "xtick.labelsize": size("label"), "ytick.labelsize": size("label"), "legend.fontsize": size("label"),
        "legend.frameon": False, "figure.facecolor": card, "savefig.facecolor": card, "axes.facecolor": card,
        "axes.edgecolor": colour("edge", theme), "axes.labelcolor": soft, "text.color": ink, "xtick.color": soft,
        "ytick.color": soft, "grid.color": line, "hatch.linewidth": float(tokens()["hatch"]["stripe"]) * POINT,
        "path.simplify": False,
    }  # fmt: skip


def saved(figure: Figure, form: str) -> bytes:
    """The figure as `svg` or `png`; the same figure and version of matplotlib give the same bytes. The text of an SVG has the
    font of the pages."""
    data = io.BytesIO()
    metadata = {"Date": None, "Creator": "kernbench"} if form == "svg" else {"Software": "kernbench"}
    figure.savefig(data, format=form, metadata=metadata, dpi=144)
    stack = str(tokens()["font"]["sans"]).replace('"', "'")
    return data.getvalue().replace(f"'{_FACE}', sans-serif".encode(), stack.encode())


def waiting(hue: str, theme: Theme = "light") -> dict[str, Any]:
    """Arguments for a bar of waits: stripes in a hue, over the same hue at reduced strength."""
    ground = mixed(colour("card", theme), hue, tokens()["hatch"]["ground"])
    return {"color": ground, "edgecolor": hue, "hatch": "////", "linewidth": 0}
