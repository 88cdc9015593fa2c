"""Elementwise operations of a kernel's body as jnp expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.expr import BINARY, CALLS, Code
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
    texts = [c.text for c in codes]
    dtype = w.loop.one.values[node.outputs[0]].dtype
    if node.op == "select_n" and len(codes) == 3:
        return Code(f"jnp.where({texts[0]}, {texts[2]}, {texts[1]})")
    if node.op == "clamp":
        return Code(f"jnp.clip({texts[1]}, {texts[0]}, {texts[2]})")
    if node.op == "logistic":
        return Code(f"jax.nn.sigmoid({texts[0]})")
    if node.op == "integer_pow":
        return Code(f"{codes[0].at(31)}**{node.params['y']}", 30)
    if node.op == "neg":
        return Code(f"-{codes[0].at(31)}", 30)
    if node.op == "not":
        return Code(f"~{codes[0].at(31)}", 30)
    if node.op == "convert_element_type":
        if w.loop.one.values[node.inputs[0]].dtype == "bool":
            return Code(f"jnp.where({texts[0]}, 1, 0).astype(jnp.{dtype})")
        return Code(f"{codes[0].at(100)}.astype(jnp.{dtype})")
    op = "add" if node.op == "add_any" else node.op
    if op in BINARY and len(codes) == 2:
        if op == "div" and "int" in dtype:
            return Code(f"jax.lax.div({texts[0]}, {texts[1]})")
        sign, level = BINARY[op]
        tight = level + 1 if level == 5 else level
        return Code(f"{codes[0].at(tight)} {sign} {codes[1].at(level + 1)}", level)
    if op in CALLS:
        return Code(f"{CALLS[op]}({', '.join(texts)})")
    raise Unsupported(f"`{node.op}` in a loop's body")
