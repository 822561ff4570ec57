# SPDX-License-Identifier: Apache-2.0
"""Lines as SVG, in the style of tools/plot-bench; both axes are logarithmic."""

import math

LEFT, TOP, WIDTH, HEIGHT, BOTTOM, RIGHT = 70, 40, 420, 220, 44, 60
COLOUR = "#0072b2"
STYLE = "font: 12px system-ui, sans-serif; fill: #222"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def decades(values):
    """The powers of ten around the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def draw_lines(title, x_name, unit, xs, ys):
    """One line through the points, each labelled with its value."""
    ys = [max(y, 1e-3) for y in ys]
    (x_low, x_high), (y_low, y_high) = decades(xs), decades(ys)

    def at(x, y):
        return LEFT + (math.log10(x) - x_low) / (x_high - x_low) * WIDTH, TOP + HEIGHT - (math.log10(y) - y_low) / (y_high - y_low) * HEIGHT

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{TOP + HEIGHT + BOTTOM}" role="img">',
        f"<title>{title}</title>",
        f'<rect width="100%" height="100%" fill="#fff"/><g style="{STYLE}">',
        f'<text x="8" y="20" font-weight="600">{title}</text>',
        f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 36}" text-anchor="middle">{x_name}</text>',
    ]
    for power in range(y_low, y_high + 1):
        _, y = at(10**x_low, 10.0**power)
        lines.append(f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#ddd"/><text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} {unit}</text>')
    for power in range(x_low, x_high + 1):
        x, _ = at(10.0**power, 10.0**y_low)
        lines.append(f'<path d="M{x:.1f} {TOP}v{HEIGHT}" stroke="#ddd"/><text x="{x:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{10**power:,}</text>')
    points = [at(x, y) for x, y in zip(xs, ys)]
    lines.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" stroke="{COLOUR}" stroke-width="2"/>')
    for (x, y), value in zip(points, ys):
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOUR}"/><text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{number(value)}</text>')
    return "\n".join([*lines, "</g></svg>", ""])
