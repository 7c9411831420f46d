"""Draw the logo and favicon of the site: two classes, and the line and strip of the machine with maximal margin.

python docs/pictures/logo.py    # writes docs/pictures/logo.svg
"""

from pathlib import Path

import numpy as np

from mercer import SVC

SIZE = 64  # of the square picture
BLUE, ORANGE, INK = "#0072b2", "#e69f00", "#555555"  # colours that the colour-blind can tell apart (Okabe and Ito)

rows = np.array(
    [[8, 22], [9, 45], [25, 36], [33, 52], [17, 57], [56, 40], [54, 17], [43, 31], [30, 13], [44, 7]], dtype=float
)
labels = np.repeat([0, 1], 5)


def ends(w, value):
    """Return the two points of the line <w, x> = value that are half the picture's diagonal from its middle."""
    along = np.array([-w[1], w[0]]) / np.linalg.norm(w)
    middle = np.full(2, SIZE / 2)
    foot = middle + (value - w @ middle) * w / (w @ w)
    return foot - SIZE * along, foot + SIZE * along


def line(w, value, style):
    (x1, y1), (x2, y2) = ends(w, value)
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{INK}" {style}/>'


def logo():
    """Return the picture as SVG."""
    machine = SVC(kernel="linear", C=float("inf")).fit(rows, labels)
    w, b = machine.coef_[0], machine.intercept_[0]
    lines = [line(w, -b, 'stroke-width="3"')]
    lines += [line(w, side - b, 'stroke-width="1.5" stroke-dasharray="4 3"') for side in (-1, 1)]
    dots = []
    for number, ((x, y), label) in enumerate(zip(rows, labels, strict=True)):
        ring = f' stroke="{INK}" stroke-width="2.5"' if number in machine.support_ else ""
        dots.append(f'<circle cx="{x:g}" cy="{y:g}" r="5.5" fill="{ORANGE if label else BLUE}"{ring}/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}">'
    return "\n".join([head, *lines, *dots, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(logo())
