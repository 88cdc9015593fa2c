"""First pass over a graph: which dimensions of which arrays are the same axis.

Parts of the graph that depend on no input (constants, iotas and what is computed from them) are
instantiated once per use, so that one `arange` may serve as row and as column index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from maxkernel.engineers.builtin.axes import Axis, AxisTable, Dims, Unsupported
from maxkernel.types import Graph, Node

PASS_THROUGH = frozenset(
    {"copy", "copy_p", "stop_gradient", "reduce_precision", "name", "optimization_barrier"}
)
ELEMENTWISE = frozenset(
    "add add_any sub mul div neg max min exp exp2 log log1p expm1 tanh logistic rsqrt sqrt "
    "sin cos tan integer_pow pow square abs sign erf floor ceil round rem clamp select_n is_finite "
    "eq ne lt le gt ge and or not xor convert_element_type "
    "shift_left shift_right_logical shift_right_arithmetic".split()
)
REDUCE = {"reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin"}
RUNNING = {"cumsum": "cumsum"}
"""Running reductions along one dimension, and the terms that they become."""


@dataclass(frozen=True)
class Instance:
    """One use of one graph value: its defining node, operands (instances) and dimensions."""

    value: int
    node: Node | None
    args: tuple[int, ...]
    dims: Dims


@dataclass
class Layouts:
    """Instances in topological order, and the axes that tie them together."""

    graph: Graph
    table: AxisTable = field(default_factory=AxisTable)
    instances: list[Instance] = field(default_factory=list[Instance])
    outputs: tuple[int, ...] = ()


def lay_out(graph: Graph) -> Layouts:
    """Instances for everything that the graph's outputs need; raises Unsupported."""
    lowering = _Lowering(graph)
    result = lowering.result
    for node in _needed(graph):
        for value in node.outputs:
            if not lowering.is_free(value):
                lowering.use(value)
    result.outputs = tuple(lowering.use(v) for v in graph.outputs)
    for instance in result.instances:
        axes = [a for dim in instance.dims for a in result.table.resolve(dim)]
        if len(axes) != len(set(axes)):
            shape = graph.values[instance.value].shape
            raise Unsupported(f"two dimensions of an array of shape {shape} are one index")
    return result


def _needed(graph: Graph) -> list[Node]:
    """The nodes that some output depends on, in order."""
    wanted, nodes = set(graph.outputs), list[Node]()
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            nodes.append(node)
    return nodes[::-1]


class _Lowering:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.result = Layouts(graph)
        self.producer = {v: node for node in graph.nodes for v in node.outputs}
        self.inputs = frozenset(graph.inputs)
        self.free: dict[int, bool] = {}
        self.known: dict[int, int] = {}

    def use(self, value: int) -> int:
        """The instance of a value for one more use of it."""
        if value in self.known:
            return self.known[value]
        node = self.producer.get(value)
        args: tuple[int, ...] = ()
        if node is None:
            dims = tuple(self.result.table.fresh(n) for n in self.shape(value))
        else:
            args = tuple(self.use(v) for v in node.inputs)
            if node.op in ELEMENTWISE:
                args = self._apart(args)
            dims = self._dims(node, value, args)
        self.result.instances.append(Instance(value, node, args, dims))
        index = len(self.result.instances) - 1
        if not self.is_free(value):
            self.known[value] = index
        return index

    def shape(self, value: int) -> tuple[int, ...]:
        return self.graph.values[value].shape

    def is_free(self, value: int) -> bool:
        if value not in self.free:
            node = self.producer.get(value)
            self.free[value] = (
                value not in self.inputs and value not in self.graph.constants
                if node is None
                else all(self.is_free(v) for v in node.inputs)
            )
        return self.free[value]

    def _dims(self, node: Node, value: int, args: tuple[int, ...]) -> Dims:
        of = [self.result.instances[a].dims for a in args]
        if node.op in ELEMENTWISE:
            return self.together(of)
        if node.op in PASS_THROUGH:
            return of[node.outputs.index(value)]
        rule = _RULES.get(node.op)
        if rule is None:
            raise Unsupported(f"the operation `{node.op}` has no rule")
        return rule(self, node, of)

    def _apart(self, args: tuple[int, ...]) -> tuple[int, ...]:
        """Operands such that no index runs along two dimensions: in `x[:, None] - x[None, :]` the
        second `x` is read a second time, along an index of its own."""
        places: dict[Axis, int] = {}
        apart: list[int] = []
        for arg in args:
            dims = [self.result.table.resolve(d) for d in self.result.instances[arg].dims]
            clash = {a for i, dim in enumerate(dims) for a in dim if places.get(a, i) != i}
            if clash:
                arg = self._renamed(arg, {a: self._fresh_like(a) for a in clash})
                dims = [self.result.table.resolve(d) for d in self.result.instances[arg].dims]
            places.update((a, i) for i, dim in enumerate(dims) for a in dim)
            apart.append(arg)
        return tuple(apart)

    def _fresh_like(self, axis: Axis) -> Axis:
        return self.result.table.fresh(self.result.table.size(axis))[0]

    def _renamed(self, index: int, names: dict[Axis, Axis]) -> int:
        """A copy of an instance, and of what it is computed from, along other axes."""
        copies: dict[int, int] = {}

        def copy(i: int) -> int:
            instance = self.result.instances[i]
            dims = [self.result.table.resolve(d) for d in instance.dims]
            if not any(a in names for dim in dims for a in dim):
                return i
            if i not in copies:
                args = tuple(copy(a) for a in instance.args)
                renamed = tuple(tuple(names.get(a, a) for a in dim) for dim in dims)
                self.result.instances.append(Instance(instance.value, instance.node, args, renamed))
                copies[i] = len(self.result.instances) - 1
            return copies[i]

        return copy(index)

    def together(self, of: list[Dims]) -> Dims:
        """Equal shapes, scalars, and dimensions of size 1 against any size."""
        full = list(max(of, key=len))
        for other in of:
            for i, dim in enumerate(other if len(other) == len(full) else ()):
                if full[i] and dim:
                    self.result.table.unify(full[i], dim)
                full[i] = full[i] or dim
        return tuple(full)


def _ints(node: Node, name: str) -> list[int]:
    return [int(i) for i in node.params[name]]


def _broadcast(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    shape, places = _ints(node, "shape"), _ints(node, "broadcast_dimensions")
    operand = self.shape(node.inputs[0])
    kept = {j: of[0][i] for i, j in enumerate(places) if operand[i] == shape[j]}
    return tuple(kept[j] if j in kept else self.result.table.fresh(n) for j, n in enumerate(shape))


def _reshape(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    return self.result.table.regroup(of[0], self.shape(node.outputs[0]))


def _transpose(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    return tuple(of[0][i] for i in _ints(node, "permutation"))


def _reduce(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    axes = set(reduced_dims(node))
    return tuple(dim for i, dim in enumerate(of[0]) if i not in axes)


def _running(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    return of[0]


def _joined(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    """Parts one after another along a dimension of its own; the other dimensions are the same."""
    along, width = joined_dim(node)
    others = self.together([(*dims[:along], (), *dims[along + width :]) for dims in of])
    size = self.shape(node.outputs[0])[along]
    return (*others[:along], self.result.table.fresh(size), *others[along + 1 :])


def joined_dim(node: Node) -> tuple[int, int]:
    """(the dimension along which a `concatenate` or `stack` puts its parts, how many dimensions of
    a part lie there: one or none)."""
    stacks = node.op == "stack"
    return int(node.params["axis" if stacks else "dimension"]), 0 if stacks else 1


def _iota(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    return tuple(self.result.table.fresh(n) for n in self.shape(node.outputs[0]))


def reduced_dims(node: Node) -> list[int]:
    """The dimensions that a reduction removes, in order."""
    return sorted(_ints(node, "axes"))


def dot_numbers(node: Node) -> tuple[list[int], list[int], list[int], list[int]]:
    """Contracting and batch dimensions of a `dot_general`: (lhs, rhs, lhs batch, rhs batch)."""
    (lhs, rhs), (lhs_batch, rhs_batch) = node.params["dimension_numbers"]
    return list(lhs), list(rhs), list(lhs_batch), list(rhs_batch)


def _dot(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    return tuple(self.result.table.fresh(n) for n in self.shape(node.outputs[0]))


def is_row_pick(graph: Graph, node: Node) -> bool:
    """Whether a `gather` takes one element along the last axis per row of a matrix."""
    operand = graph.values[node.inputs[0]].shape
    numbers: dict[str, Any] = node.params["dimension_numbers"]
    last = len(operand) - 1
    leading = list(range(last))
    return (
        list(numbers["collapsed_slice_dims"]) == [last]
        and list(numbers["start_index_map"]) == [last]
        and list(numbers["operand_batching_dims"]) == leading
        and list(numbers["start_indices_batching_dims"]) == leading
        and not numbers["offset_dims"]
        and all(n == 1 for n in node.params["slice_sizes"])
    )


def _gather(self: _Lowering, node: Node, of: list[Dims]) -> Dims:
    if not is_row_pick(self.graph, node):
        raise Unsupported("a `gather` other than one element per row")
    out = self.shape(node.outputs[0])
    if any(n != 1 for n in out[len(of[0]) - 1 :]):
        raise Unsupported("a `gather` of several elements per row")
    for left, right in zip(of[0][:-1], of[1], strict=False):
        self.result.table.unify(left, right)
    return (*of[0][:-1], *(() for _ in out[len(of[0]) - 1 :]))


_RULES: dict[str, Callable[[_Lowering, Node, list[Dims]], Dims]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
    "reduce_sum": _reduce,
    "reduce_max": _reduce,
    "reduce_min": _reduce,
    "cumsum": _running,
    "concatenate": _joined,
    "stack": _joined,
    "iota": _iota,
    "dot_general": _dot,
    "conv_general_dilated": _dot,
    "gather": _gather,
}
