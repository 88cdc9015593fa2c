"""The page: the template with the graph's data inside."""

from __future__ import annotations

from importlib import resources

import msgspec

from maxkernel.report.graph_html.model import GraphView, NodeView

PLACE = "/*DATA*/null"


def render_page(view: GraphView) -> str:
    """One HTML document that loads nothing from anywhere."""
    template = resources.files("maxkernel.report.graph_html").joinpath("page.html")
    rows = _rows(view.nodes)
    data = msgspec.to_builtins(view)
    for node in data["nodes"]:
        node["row"] = rows[node["id"]]
    text = msgspec.json.encode(data).decode()
    return template.read_text(encoding="utf-8").replace(PLACE, text.replace("<", "\\u003c"))


def _rows(nodes: tuple[NodeView, ...]) -> dict[int, float]:
    """A row for every node: leaves one below the other, parents in the middle of their children."""
    known = {n.id for n in nodes}
    children: dict[int, list[int]] = {}
    tops: list[int] = []
    for node in nodes:
        first = next((p for p in node.parents if p in known), None)
        if first is None:
            tops.append(node.id)
        else:
            children.setdefault(first, []).append(node.id)
    rows: dict[int, float] = {}
    stack = [(top, False) for top in reversed(tops)]
    free = 0.0
    while stack:
        id, ready = stack.pop()
        below = children.get(id, [])
        if ready:
            rows[id] = sum(rows[c] for c in below) / len(below)
        elif below:
            stack.append((id, True))
            stack += [(c, False) for c in reversed(below)]
        else:
            rows[id] = free
            free += 1
    return rows
