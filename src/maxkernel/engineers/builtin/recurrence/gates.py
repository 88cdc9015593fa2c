"""Gates as jax writes them out, recognised in an operator graph."""

from __future__ import annotations

from collections.abc import Mapping

from maxkernel.types import Graph, Node


def softplus_of(graph: Graph, made: Mapping[int, Node], node: Node) -> int | None:
    """x when a node is log(1 + exp(x)): max(x, 0) + log1p(exp(-|x - 0|)), but for NaNs."""
    if node.op != "select_n" or len(node.inputs) != 3:
        return None
    unlike, total = (made.get(v) for v in node.inputs[:2])
    if unlike is None or total is None or (unlike.op, total.op) != ("ne", "add"):
        return None
    makers = [made.get(v) for v in total.inputs]
    tops = [m for m in makers if m is not None and m.op == "max"]
    logs = [m for m in makers if m is not None and m.op == "log1p"]
    if len(tops) != 1 or len(logs) != 1 or len({*unlike.inputs}) != 1:
        return None
    x, zero = tops[0].inputs
    value = logs[0].inputs[0]
    for op in ("exp", "neg", "abs", "sub"):
        step = made.get(value)
        if step is None or step.op != op or (op == "sub" and value != unlike.inputs[0]):
            return None
        value = step.inputs[0]
    return x if value == x and graph.values[zero].literal == 0 else None
