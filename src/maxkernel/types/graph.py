"""The operator graph of a reference: its jaxpr, flattened, as plain data.

Calls (jit, custom_jvp, remat ...) are inlined; loops and branches keep their bodies as nested
graphs. Engineers recognise families on it, so names of functions and variables never matter.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Value(msgspec.Struct, frozen=True):
    """One array in the graph. `literal` is set for scalar constants."""

    shape: tuple[int, ...]
    dtype: str
    literal: float | int | bool | None = None
    weak: bool = False


class Node(msgspec.Struct, frozen=True):
    """One primitive application; operands and results are indices into `Graph.values`.

    `params` keeps the primitive's parameters in JSON form (`axes`, `dimension_numbers`,
    `new_dtype`, ...); `bodies` the nested graphs of `scan`, `while` and `cond` by parameter name.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: dict[str, Any] = {}
    bodies: dict[str, Graph] = {}


class Graph(msgspec.Struct, frozen=True):
    """Nodes in topological order. `inputs` and `outputs` are indices into `values`.

    `constants` maps a value that is an array constant of the reference to its data as nested
    lists when it has at most 4096 elements, else to None.
    """

    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    nodes: tuple[Node, ...]
    constants: dict[int, Any] = {}
