"""Recognises [a cos - b sin, b cos + a sin], with a and b the halves of an array's columns."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.cuts import producers
from maxkernel.types import Graph, Node

_SAME = ("convert_element_type", "copy", "stop_gradient")


@dataclass(frozen=True)
class Rotation:
    """One rotation: values of the graph. `nodes` make `output` from the others.

    `x` is (..., heads, width); `cos` and `sin` are (..., 1, width / 2) with the same dimensions
    before, or 1 for those that share their angles.
    """

    x: int
    cos: int
    sin: int
    output: int
    nodes: tuple[Node, ...]


def rotations(graph: Graph) -> list[Rotation]:
    """Every rotation in a graph, in order."""
    made = producers(graph)
    found = (_rotation(graph, made, node) for node in graph.nodes if node.op == "concatenate")
    return [r for r in found if r is not None]


def _rotation(graph: Graph, made: dict[int, Node], node: Node) -> Rotation | None:
    shape = graph.values[node.outputs[0]].shape
    if len(node.inputs) != 2 or len(shape) < 3 or int(node.params["dimension"]) != len(shape) - 1:
        return None
    minus, plus = (made.get(v) for v in node.inputs)
    if minus is None or plus is None or (minus.op, plus.op) != ("sub", "add"):
        return None
    products = [made.get(v) for v in (*minus.inputs, *plus.inputs)]
    if any(p is None or p.op != "mul" for p in products):
        return None
    muls = [p for p in products if p is not None]
    for one, two in (muls[2:], muls[:1:-1]):
        read = _operands(made, (muls[0], muls[1], one, two))
        if read is None:
            continue
        first, second, cos, sin = read
        source = _halves(graph, made, first, second)
        if source is not None and _angles(graph, shape, (cos, sin)):
            nodes = [node, minus, plus, *muls, made[first], made[second]]
            return _with_conversions(graph, made, source, cos, sin, nodes)
    return None


def _operands(
    made: dict[int, Node], muls: tuple[Node, Node, Node, Node]
) -> tuple[int, int, int, int] | None:
    """(a, b, cos, sin) of the products a cos, b sin, b cos and a sin."""
    a_cos, b_sin, b_cos, a_sin = (m.inputs for m in muls)
    for a in a_cos:
        cos = a_cos[1] if a == a_cos[0] else a_cos[0]
        for b in b_sin:
            sin = b_sin[1] if b == b_sin[0] else b_sin[0]
            if sorted(b_cos) == sorted((b, cos)) and sorted(a_sin) == sorted((a, sin)):
                return a, b, cos, sin
    return None


def _halves(graph: Graph, made: dict[int, Node], first: int, second: int) -> int | None:
    """The array whose first and second half along the last dimension these are."""
    one, two = made.get(first), made.get(second)
    if one is None or two is None or one.inputs[:1] != two.inputs[:1]:
        return None
    source = one.inputs[0]
    shape = graph.values[source].shape
    half = shape[-1] // 2
    if one.op == two.op == "split":
        whole = one is two and int(one.params["axis"]) == len(shape) - 1
        return source if whole and one.outputs == (first, second) else None
    if one.op == two.op == "slice":
        begins = [[int(i) for i in n.params["start_indices"]] for n in (one, two)]
        sizes = [graph.values[v].shape for v in (first, second)]
        fits = begins == [[0] * len(shape), [0] * (len(shape) - 1) + [half]]
        return source if fits and sizes == [(*shape[:-1], half)] * 2 else None
    return None


def _angles(graph: Graph, shape: tuple[int, ...], tables: tuple[int, int]) -> bool:
    """Whether tables have one angle per position and column, whatever the head."""
    shapes = {tuple(graph.values[v].shape) for v in tables}
    wanted = (1, shape[-1] // 2)
    return len(shapes) == 1 and all(
        len(s) == len(shape)
        and s[-2:] == wanted
        and all(n in (1, m) for n, m in zip(s[:-2], shape[:-2], strict=True))
        for s in shapes
    )


def _with_conversions(
    graph: Graph, made: dict[int, Node], x: int, cos: int, sin: int, nodes: list[Node]
) -> Rotation:
    """The rotation, with conversions of x before it and of the result after it inside."""
    before = made.get(x)
    if before is not None and before.op in _SAME:
        nodes.append(before)
        x = before.inputs[0]
    output = nodes[0].outputs[0]
    readers = [n for n in graph.nodes if output in n.inputs]
    if len(readers) == 1 and readers[0].op in _SAME and output not in graph.outputs:
        nodes.append(readers[0])
        output = readers[0].outputs[0]
    once = {id(n): n for n in nodes}
    return Rotation(x, cos, sin, output, tuple(n for n in graph.nodes if id(n) in once))
