"""Matplotlib figures as parts of a web page: inline SVG that takes its colours and its font from the page."""

from __future__ import annotations

import io
import re
import warnings

from markupsafe import Markup, escape
from matplotlib.figure import Figure

from mercer.plot import FAINT, INK, MUTED, SERIES, house_style

VARIABLES = {INK: "--ink", MUTED: "--muted", FAINT: "--faint"} | {
    color: f"--series-{number}" for number, color in enumerate(SERIES[:-1])
}
"""The page's custom property that stands for each colour of the pictures."""


def inline_svg(figure: Figure, name: str, description: str) -> Markup:
    """The figure as an <svg> element.

    Parameters
    ----------
    figure : Figure
    name : str
        Distinguishes the ids of this picture from those of others on the page.
    description : str
        What the picture shows, for those who cannot see it.
    """
    buffer = io.StringIO()
    with house_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the browser has its own fonts
        figure.savefig(
            buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font-family: [^;\"]*; ?", "", text)
    text = re.sub(r"font: ([^;\"]*?)([\d.]+px)[^;\"]*", _font, text)  # what older releases write
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    viewbox = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert viewbox is not None, "matplotlib always writes a viewBox"
    width = float(viewbox[1]) * 4 / 3  # points to pixels
    opening = (
        f'<svg role="img" aria-label="{escape(description)}" viewBox="{viewbox[0].split(chr(34))[1]}" '
        f'style="max-width:{width:.0f}px" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return Markup(opening + text[text.index(">") + 1 :])


def _font(match: re.Match[str]) -> str:
    """The size and weight of a text; the family is the page's."""
    weight = "font-weight: 600; " if "bold" in match[1] or "700" in match[1] else ""
    return f"{weight}font-size: {match[2]}"
