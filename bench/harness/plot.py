"""Draws the panels of growth.py side by side as an SVG, both axes logarithmic."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 330, 300, 46, 40, 26, 66
COLOURS = ("#0969da", "#9a6700")

STYLE = """
    .panel { fill: #ffffff; stroke: #d0d7de; }
    .title { fill: #1f2328; font-weight: 600; }
    .text { fill: #57606a; }
    .grid { stroke: #eaeef2; }
    .line { fill: none; stroke-width: 2; }
"""


def short(x):
    """1, 10, 100, 1k, 10k, 100k, 1M, 10M"""
    for unit, name in ((1_000_000, "M"), (1000, "k")):
        if x >= unit:
            return f"{x / unit:g}{name}"
    return f"{x:g}"


def decades(values):
    """The powers of ten around these values."""
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = math.ceil(math.log10(max(values)) - 1e-9)
    return low, max(high, low + 1)


def line(kind, x1, y1, x2, y2, more=""):
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{more}/>'


def text(x, y, words, kind="text", anchor="start"):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">' \
           f"{escape(words)}</text>"


def draw_panel(panel, left):
    xs = decades(panel.sizes)
    ys = decades([v for line in panel.lines.values() for v in line])
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(value):
        return left + LEFT + inner_width * (math.log10(value) - xs[0]) / (xs[1] - xs[0])

    def y_of(value):
        return TOP + inner_height * (ys[1] - math.log10(value)) / (ys[1] - ys[0])

    yield f'<rect class="panel" x="{left + 0.5}" y="0.5" width="{WIDTH - 8}" ' \
          f'height="{HEIGHT - 1}" rx="6"/>'
    yield text(left + 14, 24, panel.title, kind="title")
    for power in range(xs[0], xs[1] + 1):
        x = x_of(10.0**power)
        yield line("grid", x, TOP, x, HEIGHT - BOTTOM)
        yield text(x, HEIGHT - BOTTOM + 16, short(10.0**power), anchor="middle")
    for power in range(ys[0], ys[1] + 1):
        y = y_of(10.0**power)
        yield line("grid", left + LEFT, y, left + WIDTH - RIGHT, y)
        yield text(left + LEFT - 6, y + 4, short(10.0**power), anchor="end")
    for i, (name, values) in enumerate(panel.lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = [(x_of(x), y_of(y)) for x, y in zip(panel.sizes, values)]
        yield f'<polyline class="line" stroke="{colour}" points="' + \
              " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>'
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
        at = HEIGHT - 32 + 18 * i
        yield line("line", left + LEFT, at, left + LEFT + 22, at, f' stroke="{colour}"')
        yield text(left + LEFT + 28, at + 4, name)


def svg(panels):
    width = WIDTH * len(panels) - 7
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" ' \
          f'width="{width}" height="{HEIGHT}"'
    yield "     font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\""
    yield '     font-size="12" role="img" aria-labelledby="title description">'
    yield '  <title id="title">What one check costs as the work grows</title>'
    yield '  <desc id="description">'
    for panel in panels:
        for name, values in panel.lines.items():
            pairs = ", ".join(f"{x:,}: {y:.2f}" for x, y in zip(panel.sizes, values))
            yield f"    {escape(panel.title)}; {escape(name)}: {pairs}."
    yield "  </desc>"
    yield f"  <style>{STYLE}  </style>"
    for i, panel in enumerate(panels):
        for element in draw_panel(panel, i * WIDTH):
            yield "  " + element
    yield "</svg>"


def write(path, panels):
    with open(path, "w") as out:
        out.writelines(line + "\n" for line in svg(panels))
