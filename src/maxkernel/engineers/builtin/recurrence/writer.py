"""Statements of a recurrence's body for a few heads of one chunk.

Vectors and scalars of all heads together are rows of one matrix; what they need is computed for
all heads at once. Matrices are worked on head by head, in an unrolled loop, so that the chains of
products of different heads overlap. What no head changes is computed before that loop.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.layouts import ELEMENTWISE, PASS_THROUGH
from maxkernel.engineers.builtin.recurrence import placing, products, vectors
from maxkernel.engineers.builtin.recurrence.elements import (
    literal_of,
    operation,
    same_as,
)
from maxkernel.engineers.builtin.recurrence.match import Recurrence
from maxkernel.engineers.builtin.recurrence.placing import Layout
from maxkernel.engineers.builtin.text import Names
from maxkernel.types import Node

Stage = Literal["vectors", "shared", "head"]
_NAMES = {
    "dot_general": "product",
    "cumsum": "running",
    "exp": "exps",
    "select_n": "chosen",
    "sub": "difference",
    "mul": "scaled",
    "add": "total",
    "slice": "part",
    "reduce_sum": "row_sum",
    "reduce_max": "top",
    "rsqrt": "inverse_root",
    "logistic": "gate",
    "ge": "seen",
    "gt": "below",
    "eq": "is_equal",
}


@dataclass
class Writer:
    """`rows` holds the texts of vectors of all heads; `known` names of matrices and their
    layouts."""

    loop: Recurrence
    names: Names
    chunk: int
    """Positions of a chunk, `CHUNK` in the source."""
    across: bool = False
    """Whether results rather have positions along lanes."""
    lines: dict[Stage, list[str]] = field(
        default_factory=lambda: {"vectors": [], "shared": [], "head": []}
    )
    rows: dict[int, Code] = field(default_factory=dict[int, Code])
    known: dict[int, tuple[str, Layout]] = field(default_factory=dict[int, tuple[str, Layout]])
    helpers: set[str] = field(default_factory=set[str])
    columns: dict[int, str] = field(default_factory=dict[int, str])
    """Names of the transposed `rows`."""
    indices: dict[str, str] = field(default_factory=dict[str, str])
    """Names of indices by their text."""
    solves: list[tuple[int, products.Solve]] = field(
        default_factory=list[tuple[int, products.Solve]]
    )
    """Systems, and how many of a head's lines come before each."""
    solved: list[str] = field(default_factory=list[str])
    """Names of what solves them."""

    def __post_init__(self) -> None:
        self.live = self.loop.live()
        self.made = {v: node for node in self.live for v in node.outputs}
        self.uses = Counter(self.loop.one.outputs)
        for node in reversed(self.live):
            (out,) = node.outputs
            transparent = node.op == "place" or same_as(self, node) is not None
            twice = len(node.inputs) > len({*node.inputs})
            count = self.uses[out] if transparent else 1 + twice
            self.uses.update(dict.fromkeys(node.inputs, count))
        rows = (v for v in self.loop.classes.values if len(self.shape(v)) == 1)
        self._positions = {self.loop.of(v, 0) for v in rows}

    def is_position(self, value: int, dimension: int) -> bool:
        """Whether a dimension is one that vectors run along: positions of a chunk."""
        return self.loop.of(value, dimension) in self._positions

    def run(self) -> None:
        """Writes all that the body computes; stores are the caller's."""
        for node in self.live:
            (out,) = node.outputs
            if vectors.is_stacked(self, node):
                vectors.write(self, node)
            elif node.op not in ("place", "iota") and same_as(self, node) is None:
                self._matrix(node, out)

    def shape(self, value: int) -> tuple[int, ...]:
        """Shape of a value, for one head."""
        return self.loop.one.values[value].shape

    def per_head(self, value: int) -> bool:
        """Whether a value differs between heads."""
        return value in self.loop.heads

    def size(self, value: int, dimension: int) -> str:
        """The size of a dimension."""
        n = self.shape(value)[dimension]
        return "CHUNK" if n == self.chunk else str(n)

    def _matrix(self, node: Node, out: int) -> None:
        if node.op in ELEMENTWISE or node.op in PASS_THROUGH:
            shared = not self.per_head(out)
            if self.uses[out] > 1 or shared:
                self.name(out, self.native(out) or placing.default(self.shape(out)))
            return
        if node.op == "triangular_solve":
            self._solve(node, out)
            return
        code, layout = products.write(self, node)
        self._assign(out, code, placing.plain(layout, self.shape(out)))

    def _solve(self, node: Node, out: int) -> None:
        solve = products.write_solve(self, node)
        self.solves.append((len(self.lines["head"]), solve))
        self.known[out] = self.names.new("solved"), (0, 1)
        self.solved.append(self.known[out][0])

    def name(self, value: int, layout: Layout) -> str:
        """Gives an elementwise value a name, in this layout."""
        code = self._elements(self.made[value], layout)
        return self._assign(value, code, placing.plain(layout, self.shape(value)))

    def _assign(self, value: int, code: Code, layout: Layout) -> str:
        stage: Stage = "head" if self.per_head(value) else "shared"
        name = self.names.new(_NAMES.get(self.made[value].op, "value"))
        self.lines[stage].append(f"{name} = {code.text}")
        self.known[value] = name, layout
        return name

    def native(self, value: int) -> Layout | None:
        """How a value lies by itself; None where it can be written in any way."""
        if value in self.known:
            return self.known[value][1]
        node = self.made.get(value)
        if node is None or value in self.rows:
            return None
        same = same_as(self, node)
        if same is not None:
            return self.native(same)
        if node.op == "place":
            inner = self.native(node.inputs[0])
            if inner is None:
                return None
            return placing.above(inner, node.params["origins"])
        if node.op not in ELEMENTWISE and node.op not in PASS_THROUGH:
            return None
        found = [self.native(v) for v in node.inputs if literal_of(self, v) is None]
        whole = [f for f in found if f is not None and None not in f]
        some = [f for f in found if f is not None]
        return (whole or some or [None])[0]

    def read(self, value: int, layout: Layout) -> Code:
        """An expression for a value that lies so."""
        literal = literal_of(self, value)
        if literal is not None:
            return literal
        wanted = placing.plain(layout, self.shape(value))
        if value in self.known:
            return self._known(value, wanted)
        if value in self.rows:
            return self._row(value, wanted)
        node = self.made[value]
        same = same_as(self, node)
        if same is not None:
            return self.read(same, layout)
        if node.op == "place":
            return self.read(node.inputs[0], placing.below(layout, node.params["origins"]))
        if node.op == "iota":
            return self._iota(node, value, wanted)
        code = self._elements(node, layout)
        long = len(code.text) > vectors.LONG and "\n" not in code.text
        return Code(self._assign(value, code, wanted)) if long else code

    def _known(self, value: int, wanted: Layout) -> Code:
        name, layout = self.known[value]
        if wanted == layout or set(wanted) != set(layout):
            return Code(name)
        stage: Stage = "head" if self.per_head(value) else "shared"
        line = next((t for t in self.lines[stage] if t.endswith(f" = {name}.T")), None)
        if line is None:
            line = f"{self.names.new(f'{name}_t')} = {name}.T"
            self.lines[stage].append(line)
        return Code(line.split(" = ")[0])

    def _row(self, value: int, wanted: Layout) -> Code:
        """One head's part of a vector of all heads."""
        code = self.rows[value]
        if wanted[0] is None:
            return Code(f"{self.row_name(value, code)}[h : h + 1]")
        if value not in self.columns:
            name = self.row_name(value, code)
            self.columns[value] = self.names.new(f"{name}_t")
            self.lines["vectors"].append(f"{self.columns[value]} = {name}.T")
        return Code(f"{self.columns[value]}[:, h : h + 1]")

    def row_name(self, value: int, code: Code) -> str:
        """The name of a vector of all heads, which gets one where it has none."""
        if not code.text.isidentifier():
            node = self.made.get(value)
            name = self.names.new(_NAMES.get(node.op, "value") if node else "value")
            self.lines["vectors"].append(f"{name} = {code.text}")
            self.rows[value] = Code(name)
        return self.rows[value].text

    def row_input(self, value: int, name: str) -> None:
        """Makes an operand, a vector per head, known by its name."""
        self.rows[value] = Code(name)

    def _iota(self, node: Node, value: int, wanted: Layout) -> Code:
        dimension = int(node.params["dimension"])
        if dimension not in wanted:
            raise Unsupported("an index along a dimension that is gone")
        position = wanted.index(dimension)
        sizes = ["1", "1"]
        sizes[position] = self.size(value, dimension)
        dtype = self.loop.one.values[value].dtype
        text = f"jax.lax.broadcasted_iota(jnp.{dtype}, ({', '.join(sizes)}), {position})"
        if text not in self.indices:
            self.indices[text] = self.names.new("column" if position else "row")
            self.lines["shared"].append(f"{self.indices[text]} = {text}")
        return Code(self.indices[text])

    def _elements(self, node: Node, layout: Layout) -> Code:
        return operation(self, node, [self.read(v, layout) for v in node.inputs])

    def whole(self, value: int, layout: Layout) -> Code:
        """A value in its full size, where it may repeat along a dimension."""
        code = self.read(value, layout)
        if not self._is_thin(value):
            return code
        return Code(
            f"jnp.broadcast_to({code.text}, {placing.size_text(layout, self.shape(value))})"
        )

    def _is_thin(self, value: int) -> bool:
        node = self.made.get(value)
        if node is None or (value in self.known and node.op not in (*ELEMENTWISE, "place")):
            return False
        if node.op == "place":
            (source,) = node.inputs or (value,)
            new = [
                d
                for d, o in enumerate(node.params["origins"])
                if self.shape(value)[d] > 1
                and (o is None or self.shape(source)[o] != self.shape(value)[d])
            ]
            return bool(new) or self._is_thin(source)
        if node.op in ELEMENTWISE:
            return all(self._is_thin(v) or self.shape(v) != self.shape(value) for v in node.inputs)
        return False
