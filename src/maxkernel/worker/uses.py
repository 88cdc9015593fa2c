"""What a reference does with each of its inputs, as far as other inputs may be tried on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from maxkernel.types.graph import Graph, Node

_INDEXED = frozenset({"gather", "dynamic_slice", "dynamic_update_slice"})
_WRITTEN = frozenset({"scatter", "dynamic_update_slice"})
"""Operators that may write one place twice, in an order that nobody promises."""
_COMPARED = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_MOVED = frozenset(
    "reshape transpose broadcast_in_dim squeeze slice rev copy pad concatenate expand_dims "
    "dynamic_slice gather select_n convert_element_type reduce_precision stop_gradient".split()
)
"""Operators whose results are values of their operands."""
_SIGNED = _MOVED | frozenset(
    "mul div neg add cumsum reduce_sum reduce_max reduce_min cummax max min".split()
)
"""Operators that keep a float's sign, or its size, meaningful."""
_SIZED = _MOVED | frozenset(
    "add sub mul div rem neg floor max min clamp cumsum reduce_sum reduce_max sort "
    "shift_right_logical shift_right_arithmetic shift_left and or".split()
)
"""Operators that make another index or length of one."""
_DOMAIN = frozenset(
    "log log1p sqrt rsqrt pow exp exp2 expm1 div cumprod acos asin atanh acosh lgamma digamma "
    "cumlogsumexp erf_inv".split()
)
"""Functions that are undefined somewhere, or grow without bound, of one float."""


@dataclass
class Use:
    """What becomes of one input."""

    indexes: bool = False
    """Its integers say where to read or write."""
    writes: bool = False
    """They say where to write; two equal ones may be a race."""
    bounds: bool = False
    """They are compared: lengths, positions, labels."""
    ranged: bool = False
    """Its floats reach a function that need not be defined, or bounded, outside their range."""


@dataclass
class _Carried:
    """Inputs that a value still stands for: as an index or length, and as a plain float."""

    whole: set[int] = field(default_factory=set[int])
    plain: set[int] = field(default_factory=set[int])


def uses(graph: Graph) -> list[Use]:
    """What becomes of every input of a graph, loops and branches included."""
    found = [Use() for _ in graph.inputs]
    start = {index: _Carried({k}, {k}) for k, index in enumerate(graph.inputs)}
    _walk(graph, start, found)
    return found


def _walk(graph: Graph, carried: dict[int, _Carried], found: list[Use]) -> None:
    for node in graph.nodes:
        operands = [carried.get(i) or _Carried() for i in node.inputs]
        if not any(c.whole or c.plain for c in operands):
            continue
        _note(graph, node, operands, found)
        for body, places in _bodies(node):
            pairs = zip(body.inputs, places, strict=False)
            _walk(body, {inside: operands[place] for inside, place in pairs}, found)
        passed = _Carried(
            {k for c in operands for k in c.whole} if node.op in _SIZED else set(),
            {k for c in operands for k in c.plain} if _keeps_sign(node) else set(),
        )
        carried.update(dict.fromkeys(node.outputs, passed))


def _keeps_sign(node: Node) -> bool:
    """False for a square, which is defined and positive everywhere."""
    return node.op in _SIGNED and not (node.op == "mul" and len(set(node.inputs)) == 1)


def _note(graph: Graph, node: Node, operands: list[_Carried], found: list[Use]) -> None:
    scatters = node.op.startswith("scatter")
    literal = any(graph.values[i].literal is not None for i in node.inputs)
    for place, carried in enumerate(operands):
        whole = graph.values[node.inputs[place]].dtype.startswith(("int", "uint"))
        for k in carried.whole if whole else ():
            at = place == 1 if scatters else place >= 1 and node.op in _INDEXED
            found[k].indexes |= at
            found[k].writes |= at and (node.op in _WRITTEN)
            found[k].bounds |= node.op in _COMPARED and not literal
            found[k].bounds |= node.op.startswith("ragged_dot")
        if node.op in _DOMAIN or node.bodies:
            inside = place == 1 or node.op != "div"
            for k in carried.plain if inside else ():
                found[k].ranged = True


def _bodies(node: Node) -> Iterator[tuple[Graph, list[int]]]:
    """The graphs inside a node, each with the places of the operands that it takes."""
    places = list(range(len(node.inputs)))
    for name, body in node.bodies.items():
        if node.op == "cond":
            yield body, places[1:]
        elif node.op == "while":
            ahead, own = (int(node.params.get(f"{k}_nconsts", 0)) for k in ("cond", "body"))
            consts = places[:ahead] if name.startswith("cond") else places[ahead : ahead + own]
            yield body, consts + places[ahead + own :]
        else:
            yield body, places
