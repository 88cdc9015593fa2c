"""Products, triangular systems, reductions and slices of one head's matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.recurrence import placing
from maxkernel.engineers.builtin.recurrence.placing import Layout
from maxkernel.types import Node

if TYPE_CHECKING:
    from maxkernel.engineers.builtin.recurrence.writer import Writer

PRODUCT = '''def product(a, b, i, j, precision=None):
    """Matrix product: sums run over dimension i of a and j of b, in float32."""
    return jax.lax.dot_general(
        a,
        b,
        (((i,), (j,)), ((), ())),
        precision=precision,
        preferred_element_type=jnp.float32,
    )
'''
SOLVE = '''def solve(pairs):
    """x with system x = right for pairs of systems, lower triangular with ones on their
    diagonals, and right sides. Chains of products of different pairs overlap.

    Blocks on the diagonal are inverted, larger ones from those of half their size:
    [[A, 0], [B, C]] has the inverse [[A', 0], [-C' B A', C']]. No large powers are
    added up. What the matrix unit rounds away is found and solved for once more.
    """
    systems, rights = zip(*pairs, strict=True)
    row = jax.lax.broadcasted_iota(jnp.int32, systems[0].shape, 0)
    column = jax.lax.broadcasted_iota(jnp.int32, systems[0].shape, 1)
    below = [jnp.where(row > column, system, 0.0) for system in systems]
    inverses = [jnp.where(row == column, 1.0, 0.0) for _ in systems]
    size = 1
    while size < row.shape[0]:
        apart = row ^ column
        inside = (apart >= size) & (apart < 2 * size)
        blocks = [jnp.where(inside, part, 0.0) for part in below]
        if size > 1:
            blocks = products(blocks, inverses)
            blocks = products(inverses, blocks)
        inverses = [a - b for a, b in zip(inverses, blocks, strict=True)]
        size *= 2
    found = products(inverses, rights)
    seen = products(below, found, jax.lax.Precision.HIGHEST)
    rests = [b - x - y for b, x, y in zip(rights, found, seen, strict=True)]
    changes = products(inverses, rests)
    return [x + dx for x, dx in zip(found, changes, strict=True)]
'''
PRODUCTS = '''def products(left, right, precision=None):
    """The products of pairs of matrices."""
    return [product(a, b, 1, 0, precision) for a, b in zip(left, right, strict=True)]
'''
_TURNED_LEFT, _TURNED_RIGHT, _AGAINST, _SWAPPED = 1.0, 0.3, 0.2, 0.1
"""Costs of an operand whose sums run along the other dimension than the matrix unit's, of a result
with positions along lanes, and of one in another order than in the reference."""


@dataclass(frozen=True)
class Solve:
    """The texts of one head's system and right side; all heads' are solved together."""

    system: str
    right: str


def write(w: Writer, node: Node) -> tuple[Code, Layout]:
    """The expression for a node's result, and how it lies."""
    if node.op == "dot_general":
        return _dot(w, node)
    if node.op.startswith("reduce_"):
        return _reduce(w, node)
    if node.op == "slice":
        return _slice(w, node)
    raise Unsupported(f"`{node.op}` of matrices in a loop's body")


def write_solve(w: Writer, node: Node) -> Solve:
    """A triangular system."""
    w.helpers |= {PRODUCT, PRODUCTS, SOLVE}
    if not w.per_head(node.outputs[0]):
        raise Unsupported("a triangular system that all heads share")
    system, right = (w.whole(v, (0, 1)).text for v in node.inputs)
    return Solve(system, right)


def _dot(w: Writer, node: Node) -> tuple[Code, Layout]:
    w.helpers.add(PRODUCT)
    (out,) = node.outputs
    sides = list(zip(node.inputs, (node.params["left"], node.params["right"]), strict=True))
    orders = [(sides, (0, 1)), (sides[::-1], (1, 0))]
    (first, second), layout = min(orders, key=lambda order: _cost(w, out, *order))
    texts: list[str] = []
    for (value, over), ideal in ((first, 1), (second, 0)):
        lies = _lies(w, value) or ((over, 1 - over) if ideal == 0 else (1 - over, over))
        texts.append(w.whole(value, lies).text)
        texts.append(str(lies.index(over)))
    a, i, b, j = texts
    if "HIGH" in node.params["precision"].upper():
        j = f"{j}, jax.lax.Precision.HIGHEST"
    return Code(f"product({a}, {b}, {i}, {j})"), layout


def _cost(w: Writer, out: int, sides: list[tuple[int, int]], layout: Layout) -> float:
    cost = _SWAPPED if layout == (1, 0) else 0.0
    for position, (value, over) in enumerate(sides):
        lies = _lies(w, value)
        if lies is not None and lies.index(over) != 1 - position:
            cost += _TURNED_RIGHT if position else _TURNED_LEFT
    rows, cols = (w.is_position(out, d) for d in layout if d is not None)
    against = rows and not cols if w.across else cols and not rows
    return cost + (_AGAINST if against else 0.0)


def _lies(w: Writer, value: int) -> Layout | None:
    """How a matrix lies by itself; None where it may lie in any way."""
    lies = w.native(value)
    return None if lies is None else (0, 1) if None in lies else lies


def _reduce(w: Writer, node: Node) -> tuple[Code, Layout]:
    (value,) = node.inputs
    lies = w.native(value) or placing.default(w.shape(value))
    gone = [int(d) for d in node.params["axes"]]
    if len(gone) != 1:
        raise Unsupported("a sum over a whole matrix in a loop's body")
    code = w.whole(value, lies)
    name = f"jnp.{node.op.removeprefix('reduce_')}"
    first, second = (None if d is None or d in gone else d - (d > gone[0]) for d in lies)
    return Code(f"{name}({code.text}, axis={lies.index(gone[0])}, keepdims=True)"), (first, second)


def _slice(w: Writer, node: Node) -> tuple[Code, Layout]:
    (value,), (out,) = node.inputs, node.outputs
    lies = w.native(value) or placing.default(w.shape(value))
    parts: list[str] = []
    for d in lies:
        start = 0 if d is None else node.params["starts"][d]
        whole = d is None or w.shape(out)[d] == w.shape(value)[d]
        parts.append(":" if whole or d is None else f"{start} : {start + w.shape(out)[d]}")
    code = w.whole(value, lies)
    return Code(f"{code.at(100)}[{', '.join(parts)}]"), lies
