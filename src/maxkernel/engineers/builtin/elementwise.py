"""Elementwise operations of an operator graph as jnp expressions."""

from __future__ import annotations

from collections.abc import Sequence

from maxkernel.engineers.builtin.expr import BINARY, CALLS, Code
from maxkernel.types import Node


def elementwise(node: Node, codes: Sequence[Code], dtype: str) -> Code | None:
    """The operation on the expressions of its operands; None for one without a rule. `dtype`: of
    its result."""
    texts = [c.text for c in codes]
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
    op = "add" if node.op == "add_any" else node.op
    if op in BINARY and len(codes) == 2:
        if op == "div" and "int" in dtype:
            return Code(f"jax.lax.div({texts[0]}, {texts[1]})")
        sign, level = BINARY[op]
        tight = level + 1 if level == 5 else level
        return Code(f"{codes[0].at(tight)} {sign} {codes[1].at(level + 1)}", level)
    if op in CALLS:
        return Code(f"{CALLS[op]}({', '.join(texts)})")
    return None
