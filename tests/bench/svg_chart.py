"""Draws line charts as SVG, with nothing but text."""

import math
from html import escape

COLORS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#b5651d", "#4d4d4d")
DASHES = ("", "6 3", "2 3")
WIDTH, HEIGHT = 400, 300
TICKS = 6
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 44


def _panel(title, lines, x_ticks, y_max, target, x_label, y_label, left):
    """One coordinate system at `left`; lines are {name: [(x, y)]}."""
    x_min, x_max = min(x_ticks), max(x_ticks)

    def at(x, y):
        return (left + LEFT + (x - x_min) / max(1, x_max - x_min) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM))

    out = [f'<text x="{left + WIDTH / 2:.0f}" y="20" text-anchor="middle" font-weight="bold">{escape(title)}</text>']
    for tick in x_ticks:
        x, y = at(tick, 0)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>'
                   f'<text x="{x:.1f}" y="{y + 15:.1f}" text-anchor="middle">{tick}</text>')
    for step in range(TICKS + 1):
        value = round(y_max * step / TICKS, 3)
        x, y = at(x_min, value)
        out.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{left + WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e4e4e4"/>'
                   f'<text x="{x - 5:.1f}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    if target is not None:
        x, y = at(x_min, target)
        out.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{left + WIDTH - RIGHT}" y2="{y:.1f}" stroke="#777" '
                   'stroke-dasharray="1 3"/>')
    for index, points in enumerate(lines.values()):
        style = f'stroke="{COLORS[index % len(COLORS)]}" stroke-dasharray="{DASHES[index % len(DASHES)]}"'
        path = " ".join("{:.1f},{:.1f}".format(*at(x, min(y, y_max))) for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke-width="1.8" {style}/>')
        out += ['<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="{}"/>'.format(*at(x, min(y, y_max)),
                                                                             COLORS[index % len(COLORS)])
                for x, y in points]
    out.append(f'<text x="{left + LEFT + (WIDTH - LEFT - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" '
               f'text-anchor="middle">{escape(x_label)}</text>')
    out.append(f'<text transform="translate({left + 14},{HEIGHT / 2:.0f}) rotate(-90)" '
               f'text-anchor="middle">{escape(y_label)}</text>')
    return out


def draw(panels, x_ticks, x_label, y_label, target=None):
    """SVG text. panels: {title: {name of the line: [(x, y)]}}; the lines of all panels have the same names, in the same
    order, and one legend."""
    highest = max((y for lines in panels.values() for points in lines.values() for _, y in points), default=1)
    y_max = 0.3 * max(1, math.ceil(highest / 0.3))
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    width, height = WIDTH * max(1, len(panels)), HEIGHT + 18 * ((len(names) + 2) // 3) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for number, (title, lines) in enumerate(panels.items()):
        ordered = {name: lines.get(name, []) for name in names}
        out += _panel(title, ordered, x_ticks, y_max, target, x_label, y_label, number * WIDTH)
    for index, name in enumerate(names):
        x, y = LEFT + index % 3 * 130, HEIGHT + 8 + index // 3 * 18
        out.append(f'<line x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" stroke-width="1.8" '
                   f'stroke="{COLORS[index % len(COLORS)]}" stroke-dasharray="{DASHES[index % len(DASHES)]}"/>'
                   f'<text x="{x + 30}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"
