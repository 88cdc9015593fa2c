"""What stays with XLA: parts of an operator graph as jnp statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from maxkernel.engineers.builtin import indexing
from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.cuts import producers
from maxkernel.engineers.builtin.elementwise import elementwise
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.layouts import PASS_THROUGH
from maxkernel.engineers.builtin.lines import fitted
from maxkernel.engineers.builtin.sizes import Sizes
from maxkernel.engineers.builtin.text import Names, number
from maxkernel.types import Graph, Node

_INLINE = 45
"""Longest expression that is written inside another one."""
_LINE = 60
"""Longest operands of one operation together."""
_NAMES = {
    "dot_general": "product",
    "top_k": "picked",
    "sort": "order",
    "gather": "gathered",
    "reduce_sum": "total",
    "reduce_max": "top",
    "exp": "exps",
    "reshape": "reshaped",
    "select_n": "chosen",
    "logistic": "gate",
    "concatenate": "joined",
    "slice": "part",
    "cos": "cosine",
    "sin": "sine",
    "transpose": "turned",
}
_REDUCE = {"reduce_sum": "jnp.sum", "reduce_max": "jnp.max", "reduce_min": "jnp.min"}
_SHAPING = ("reshape", "squeeze", "expand_dims")


class Writer:
    """Statements in order; `known` holds the text of values that are there already.

    Dimensions that a broadcast repeats stay of size 1 until something needs them in full.
    """

    def __init__(
        self, graph: Graph, arrays: Sequence[str], names: Names, constants: Mapping[str, Any]
    ) -> None:
        self.graph = graph
        self.names = names
        self.known: dict[int, str] = dict(zip(graph.inputs, arrays, strict=True))
        self.lines: list[str] = []
        self.sizes = Sizes(graph, arrays, constants)
        self.made = producers(graph)
        self._codes: dict[int, Code] = {}
        self.thin: set[int] = set()
        self._uses = Counter(v for node in graph.nodes for v in node.inputs)
        self._uses.update(graph.outputs)

    def value(self, value: int) -> str:
        """The name of a value, computed before; raises Unsupported."""
        return self.named(value, self.full(value))

    def result(self, value: int) -> str:
        """The expression for a value that is returned."""
        return self.full(value).text

    def named(self, value: int, code: Code) -> str:
        """The name of a value, which gets one where it has none."""
        if code.text.isidentifier():
            return code.text
        node = self.made.get(value)
        if node is None:
            return code.text
        name = self.names.new(_NAMES.get(node.op, "value"))
        self.lines.append(fitted(f"{name} = {code.text}", 4))
        self._codes.pop(value, None)
        self.known[value] = name
        return name

    def code(self, value: int) -> Code:
        """The expression of a value, perhaps of size 1 where it is repeated."""
        if value in self.known:
            return Code(self.known[value])
        if value in self._codes:
            return self._codes[value]
        info = self.graph.values[value]
        if info.literal is not None:
            return self._literal(info.literal)
        node = self.made.get(value)
        if node is None:
            raise Unsupported(f"an array constant of shape {info.shape} in the reference")
        code = self._apply(node, value)
        if value in self.known:
            return Code(self.known[value])
        alone = self._uses[value] == 1 and value in self.graph.outputs
        if alone or not any(c.isalpha() for c in code.text):
            return code
        if self._uses[value] > 1 or len(code.text) > _INLINE:
            return Code(self.named(value, code))
        self._codes[value] = code
        return code

    def full(self, value: int) -> Code:
        """The expression of a value in its whole shape."""
        code = self.code(value)
        if value not in self.thin:
            return code
        dims, added = self.sizes.dims[value], self._leading(value)
        self.thin.discard(value)
        if value not in self.known:
            code = Code(self.named(value, code))
        shape = self._shape(dims)
        if added:
            inner = ", ".join(self.sizes.text(d) for d in dims[:added])
            shape = f"({inner}, *{code.text}.shape)"
        name = self.names.new("whole")
        self.lines.append(f"{name} = jnp.broadcast_to({code.text}, {shape})")
        self.known[value] = name
        return Code(name)

    def _leading(self, value: int) -> int:
        """How many dimensions a broadcast puts before the others, where it leaves those alone."""
        node = self.made[value]
        before, shape = self.graph.values[node.inputs[0]].shape, self.graph.values[value].shape
        if node.op != "broadcast_in_dim" or node.inputs[0] in self.thin or not before:
            return 0
        added = len(shape) - len(before)
        places = [int(i) for i in node.params["broadcast_dimensions"]]
        last = places == list(range(added, len(shape)))
        return added if last and shape[added:] == before else 0

    def _shape(self, dims: Sequence[Dim]) -> str:
        inner = ", ".join(self.sizes.text(d) for d in dims)
        return f"({inner}{',' if len(dims) == 1 else ''})"

    def _literal(self, literal: float | int | bool) -> Code:
        if isinstance(literal, int) and not isinstance(literal, bool):
            return Code(self.sizes.integer(literal), 30 if literal < 0 else 100)
        text = number(literal)
        return Code(text, 30 if text.startswith("-") else 100)

    def _apply(self, node: Node, value: int) -> Code:
        whole = self._whole_division(node)
        if whole is not None:
            left, right = (self.code(v) for v in whole)
            return Code(f"{left.at(20)} // {right.at(21)}", 20)
        source = node.inputs[0] if node.inputs else -1
        if node.op in PASS_THROUGH:
            return self._same(source, value)
        if node.op == "convert_element_type":
            return self._convert(source, value)
        if node.op == "broadcast_in_dim":
            return self._broadcast(node, value)
        if node.op in _SHAPING:
            return self._reshape(source, value)
        if node.op in _REDUCE:
            axes = [int(i) for i in node.params["axes"]]
            axis = str(axes[0]) if len(axes) == 1 else str(tuple(axes))
            return Code(f"{_REDUCE[node.op]}({self.full(source).text}, axis={axis})")
        if node.op == "iota":
            return indexing.iota(self, node, value)
        if node.op == "sort":
            return indexing.sort(self, node, value)
        if node.op == "top_k":
            return indexing.top_k(self, node, value)
        if node.op == "gather":
            return indexing.gather(self, node)
        if node.op == "dot_general":
            return indexing.dot(self, node, value)
        if node.op == "slice":
            return indexing.slice_of(self, node)
        if node.op == "conv_general_dilated":
            return indexing.convolution(self, node)
        if node.op == "rev":
            return Code(f"jnp.flip({self.full(source).text}, {tuple(node.params['dimensions'])})")
        if node.op == "split":
            return indexing.split(self, node, value)
        if node.op in ("concatenate", "stack"):
            return indexing.joined(self, node)
        if node.op == "transpose":
            order = ", ".join(str(int(i)) for i in node.params["permutation"])
            return Code(f"{self.full(source).at(100)}.transpose({order})")
        return self._elementwise(node, value)

    def _same(self, source: int, value: int) -> Code:
        if source in self.thin:
            self.thin.add(value)
        return self.code(source)

    def _convert(self, source: int, value: int) -> Code:
        if self.graph.values[source].literal is not None:
            return self.code(source)
        code = self._same(source, value)
        dtype = self.graph.values[value].dtype
        if self.graph.values[source].dtype == dtype:
            return code
        return Code(f"{code.at(100)}.astype(jnp.{'bool_' if dtype == 'bool' else dtype})")

    def _broadcast(self, node: Node, value: int) -> Code:
        source = node.inputs[0]
        places = [int(i) for i in node.params["broadcast_dimensions"]]
        shape, before = self.graph.values[value].shape, self.graph.values[source].shape
        grows = any(
            n != 1 and (i not in places or before[places.index(i)] == 1)
            for i, n in enumerate(shape)
        )
        if grows or source in self.thin:
            self.thin.add(value)
        code = self.code(source)
        if not places or (len(places) == len(shape)):
            return code
        if places == list(range(len(shape) - len(places), len(shape))):
            return code
        index = ", ".join(":" if i in places else "None" for i in range(len(shape)))
        return Code(f"{code.at(100)}[{index}]")

    def _reshape(self, source: int, value: int) -> Code:
        dims = self.sizes.dims[value]
        sizes = [self.sizes.text(d) for d in dims]
        if sizes:
            widest = max(range(len(sizes)), key=lambda i: (len(sizes[i]), i))
            sizes[widest] = "-1"
        return Code(f"{self.full(source).at(100)}.reshape({', '.join(sizes)})")

    def _elementwise(self, node: Node, value: int) -> Code:
        """One operation; operands get names of their own until it fits on a line."""
        codes = [self.code(v) for v in node.inputs]
        while sum(len(c.text) for c in codes) > _LINE:
            longest = max(range(len(codes)), key=lambda i: len(codes[i].text))
            if codes[longest].text.isidentifier():
                break
            codes[longest] = Code(self.named(node.inputs[longest], codes[longest]))
        return self._operation(node, value, codes)

    def _operation(self, node: Node, value: int, codes: list[Code]) -> Code:
        shape = self.graph.values[value].shape
        arrays = [v for v in node.inputs if self.graph.values[v].shape]
        full = [v for v in arrays if self.graph.values[v].shape == shape and v not in self.thin]
        if shape and not full and (self.thin.intersection(arrays) or len(arrays) < 2):
            self.thin.add(value)
        found = elementwise(node, codes, self.graph.values[value].dtype)
        if found is not None:
            return found
        if node.op.startswith("shift_"):
            return indexing.shift(self, node, codes)
        raise Unsupported(f"`{node.op}` beside the kernels")

    def _whole_division(self, node: Node) -> tuple[int, int] | None:
        """(a, b) when the node rounds a / b down, as `a // b` is written out."""
        if node.op != "select_n" or len(node.inputs) != 3:
            return None
        _, plain, less = node.inputs
        quotient, lower = self.made.get(plain), self.made.get(less)
        if quotient is None or lower is None or (quotient.op, lower.op) != ("div", "sub"):
            return None
        if "int" not in self.graph.values[plain].dtype or lower.inputs[0] != plain:
            return None
        if self.graph.values[lower.inputs[1]].literal != 1:
            return None
        return quotient.inputs[0], quotient.inputs[1]
