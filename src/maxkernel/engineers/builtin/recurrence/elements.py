"""Elementwise operations of a kernel's body as jnp expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.elementwise import elementwise
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.layouts import PASS_THROUGH
from maxkernel.engineers.builtin.text import number
from maxkernel.types import Node

if TYPE_CHECKING:
    from maxkernel.engineers.builtin.recurrence.writer import Writer

_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}
"""Right operands that change nothing."""


def literal_value(w: Writer, value: int) -> float | int | bool | None:
    """The number that a value is everywhere, if it is one."""
    known = w.loop.one.values[value].literal
    node = w.made.get(value)
    if known is not None or node is None or len(node.inputs) != 1:
        return known
    if node.op not in ("place", "convert_element_type"):
        return None
    inner = literal_value(w, node.inputs[0])
    if inner is None:
        return None
    dtype = w.loop.one.values[value].dtype
    return bool(inner) if dtype == "bool" else float(inner) if "float" in dtype else int(inner)


def literal_of(w: Writer, value: int) -> Code | None:
    """The same as text."""
    known = literal_value(w, value)
    if known is None:
        return None
    text = number(known)
    return Code(text, 30 if text.startswith("-") else 100)


def same_as(w: Writer, node: Node) -> int | None:
    """The operand that a node's result equals, if it does nothing else."""
    one = w.loop.one
    if node.op in PASS_THROUGH:
        return node.inputs[0]
    if node.op == "convert_element_type":
        (source,), (out,) = node.inputs, node.outputs
        return source if one.values[source].dtype == one.values[out].dtype else None
    if node.op in _NEUTRAL:
        left, right = node.inputs
        neutral = literal_value(w, right) == _NEUTRAL[node.op]
        return left if neutral and one.values[left].shape == _shape(w, node) else None
    if node.op == "select_n" and len(node.inputs) == 3:
        condition, no, yes = node.inputs
        plain = (literal_value(w, no), literal_value(w, yes)) == (False, True)
        boolean = one.values[node.outputs[0]].dtype == "bool"
        whole = one.values[condition].shape == _shape(w, node)
        return condition if plain and boolean and whole else None
    return None


def _shape(w: Writer, node: Node) -> tuple[int, ...]:
    return w.loop.one.values[node.outputs[0]].shape


def operation(w: Writer, node: Node, codes: list[Code]) -> Code:
    """An elementwise operation on expressions; raises Unsupported for one without a rule."""
    dtype = w.loop.one.values[node.outputs[0]].dtype
    if node.op == "convert_element_type":
        if w.loop.one.values[node.inputs[0]].dtype != "bool":
            return Code(f"{codes[0].at(100)}.astype(jnp.{dtype})")
        chosen = f"jnp.where({codes[0].text}, 1.0, 0.0)"
        return Code(chosen if dtype == "float32" else f"{chosen}.astype(jnp.{dtype})")
    found = elementwise(node, codes, dtype)
    if found is None:
        raise Unsupported(f"`{node.op}` in a loop's body")
    return found
