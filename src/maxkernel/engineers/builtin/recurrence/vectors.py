"""Vectors and scalars of all heads of a kernel's body: rows of matrices (heads, size)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH
from maxkernel.engineers.builtin.recurrence import placing
from maxkernel.engineers.builtin.recurrence.elements import literal_of, operation, same_as
from maxkernel.types import Node

if TYPE_CHECKING:
    from maxkernel.engineers.builtin.recurrence.writer import Writer

RUNNING_SUM = '''def running_sum(x):
    """Sums of each row up to every column, by the matrix unit, as exact as float32."""
    shape = (x.shape[1], x.shape[1])
    source = jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    target = jax.lax.broadcasted_iota(jnp.int32, shape, 1)
    ones = jnp.where(source <= target, 1.0, 0.0)
    return jnp.dot(
        x, ones, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32
    )
'''
LONG = 44
"""Longest expression that is written inside another one."""
_OPS = ELEMENTWISE | PASS_THROUGH | {"cumsum", "slice", "place", "reduce_sum", "reduce_max"}


def is_stacked(w: Writer, node: Node) -> bool:
    """Whether a node's result is a vector or scalar per head that only such things make."""
    (out,) = node.outputs
    if not w.per_head(out) or len(w.shape(out)) > 1 or node.op not in _OPS:
        return False
    return all(v in w.rows or not w.per_head(v) for v in node.inputs)


def write(w: Writer, node: Node) -> None:
    """One operation for all heads at once."""
    (out,) = node.outputs
    same = same_as(w, node)
    codes = [_operand(w, v) for v in ((same,) if same is not None else node.inputs)]
    code = codes[0] if same is not None else _operation(w, node, codes)
    w.rows[out] = code
    if w.uses[out] > 1 or len(code.text) > LONG:
        w.row_name(out, code)


def _operand(w: Writer, value: int) -> Code:
    if value in w.rows:
        return w.rows[value]
    literal = literal_of(w, value)
    return literal or w.read(value, placing.default(w.shape(value)))


def _operation(w: Writer, node: Node, codes: list[Code]) -> Code:
    (out,) = node.outputs
    text = codes[0].at(100)
    if node.op == "place":
        return codes[0]
    if node.op == "cumsum":
        if node.params["reverse"]:
            raise Unsupported("a running sum from the end")
        w.helpers.add(RUNNING_SUM)
        return Code(f"running_sum({codes[0].text})")
    if node.op == "slice":
        (start,), (size,) = node.params["starts"], w.shape(out)
        whole = w.shape(node.inputs[0])[0]
        name = w.row_name(node.inputs[0], codes[0])
        first = f"{w.size(node.inputs[0], 0)} - {whole - start}" if start else ""
        last = "" if start + size == whole else str(start + size)
        return Code(f"{name}[:, {first}{' :' if first else ':'}{last}]")
    if node.op.startswith("reduce_"):
        return Code(f"jnp.{node.op.removeprefix('reduce_')}({text}, axis=1, keepdims=True)")
    return operation(w, node, codes)
