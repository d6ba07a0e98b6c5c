"""Wait-for graphs as DOT and as SVG, by a layout of our own: nodes on a circle, in the order of PEs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Node:
    """A PE in a picture."""

    number: int
    title: str
    note: str
    is_grey: bool = False


@dataclass(frozen=True)
class Arrow:
    """An arrow from a PE to one that it waits for."""

    source: int
    target: int
    is_dashed: bool
    is_red: bool


@dataclass(frozen=True)
class Picture:
    """What is drawn."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]


_RADIUS = 24.0
_LINE = 34
"""Characters of a note that stand beside a node; its title has them all."""
_LEAST, _APART = 110.0, 64.0
_MARGIN_X, _MARGIN_Y = 250.0, 70.0
_RED, _BLACK, _GREY = "#c0201f", "#333333", "#9a9a9a"


def to_dot(picture: Picture) -> str:
    """Return a picture in DOT."""
    lines = ["digraph deadlock {", "  node [shape=box, style=rounded];"]
    for node in sorted(picture.nodes, key=lambda n: n.number):
        label = _quoted(node.title + ("\\n" + _escaped(node.note) if node.note else ""))
        grey = ", color=gray, fontcolor=gray" if node.is_grey else ""
        lines.append(f"  pe{node.number} [label={label}{grey}];")
    for arrow in picture.arrows:
        style = ["style=dashed"] * arrow.is_dashed + ["color=red, penwidth=2"] * arrow.is_red
        end = f" [{', '.join(style)}]" if style else ""
        lines.append(f"  pe{arrow.source} -> pe{arrow.target}{end};")
    return "\n".join([*lines, "}", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _quoted(text: str) -> str:
    return f'"{text}"'


def to_svg(picture: Picture) -> str:
    """Return a picture in SVG."""
    nodes = sorted(picture.nodes, key=lambda n: n.number)
    ring = max(_LEAST, _APART * len(nodes) / (2 * math.pi))
    width, height = 2 * (ring + _MARGIN_X), 2 * (ring + _MARGIN_Y)
    places = {
        node.number: _place(index, len(nodes), ring, width / 2, height / 2)
        for index, node in enumerate(nodes)
    }
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    look = 'font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {look}>',
        "<title>wait-for graph</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f"<defs>{_head('black', _BLACK)}{_head('red', _RED)}</defs>",
    ]
    both = {(arrow.source, arrow.target) for arrow in picture.arrows}
    for arrow in sorted(picture.arrows, key=lambda a: a.is_red):
        bent = (arrow.target, arrow.source) in both
        parts.append(_arrow(arrow, places[arrow.source], places[arrow.target], bent))
    parts += [_node(node, places[node.number], width / 2) for node in nodes]
    return "\n".join([*parts, "</svg>", ""])


def _place(index: int, count: int, ring: float, x: float, y: float) -> tuple[float, float]:
    if count == 1:
        return x, y
    angle = 2 * math.pi * index / count - math.pi / 2
    return x + ring * math.cos(angle), y + ring * math.sin(angle)


def _head(name: str, color: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0L10 5L0 10z" fill="{color}"/></marker>'
    )


def _arrow(arrow: Arrow, start: tuple[float, float], end: tuple[float, float], bent: bool) -> str:
    color, head = (_RED, "red") if arrow.is_red else (_BLACK, "black")
    look = f'fill="none" stroke="{color}" stroke-width="{2 if arrow.is_red else 1.2}"'
    if arrow.is_dashed:
        look += ' stroke-dasharray="5 4"'
    if arrow.source == arrow.target:
        x, y = start[0], start[1] - _RADIUS
        path = f"M{x - 8:.1f} {y:.1f}C{x - 40:.1f} {y - 48:.1f} {x + 40:.1f} {y - 48:.1f} {x + 8:.1f} {y:.1f}"
        return f'<path d="{path}" {look} marker-end="url(#{head})"/>'
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy)
    ux, uy = dx / length, dy / length
    side = 26.0 if bent else 0.0
    mx, my = (start[0] + end[0]) / 2 - uy * side, (start[1] + end[1]) / 2 + ux * side
    x1, y1 = start[0] + ux * _RADIUS, start[1] + uy * _RADIUS
    x2, y2 = end[0] - ux * (_RADIUS + 2), end[1] - uy * (_RADIUS + 2)
    path = f"M{x1:.1f} {y1:.1f}Q{mx:.1f} {my:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="{path}" {look} marker-end="url(#{head})"/>'


def _node(node: Node, place: tuple[float, float], middle: float) -> str:
    x, y = place
    fill, color = ("#eeeeee", _GREY) if node.is_grey else ("white", _BLACK)
    note = node.note if len(node.note) <= _LINE else node.note[: _LINE - 1] + "…"
    beside = ""
    if note:
        if abs(x - middle) < 1 or x > middle:  # at the top, at the bottom
            anchor, tx, ty = "start", x + _RADIUS + 8, y
        else:
            anchor, tx, ty = "end", x - _RADIUS - 8, y
        beside = (
            f'<text x="{tx:.1f}" y="{ty + 4:.1f}" text-anchor="{anchor}" fill="{color}">'
            f"{escape(note)}</text>"
        )
    return (
        f"<g><title>{escape(f'{node.title}: {node.note}' if node.note else node.title)}</title>"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}" fill="{fill}" stroke="{color}"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="{color}">'
        f"{escape(node.title)}</text>{beside}</g>"
    )
