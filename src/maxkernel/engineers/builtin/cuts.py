"""Parts of an operator graph that a family computes by other means, taken out of it.

What such a part yields becomes an input of the rest, so that the rest can be read as terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from maxkernel.types import ArraySpec, Graph, Node, TaskInfo, Value


def cut(info: TaskInfo, given: Sequence[int], wanted: Sequence[int] | None = None) -> TaskInfo:
    """The task with the graph values `given` as further inputs, in this order after its own.

    `wanted`: the values that are its outputs; its own where None. Names of the new inputs are
    `value_0`, `value_1`, ...
    """
    graph = info.graph
    taken = set(given)
    nodes = tuple(node for node in graph.nodes if not taken.intersection(node.outputs))
    outputs = graph.outputs if wanted is None else tuple(wanted)
    values = [graph.values[v] for v in given]
    specs = tuple(ArraySpec(value.shape, value.dtype) for value in values)
    return replace(
        info,
        input_names=(
            *info.input_names[: len(info.inputs)],
            *(f"value_{i}" for i in range(len(values))),
        ),
        inputs=(*info.inputs, *specs),
        check_inputs=(),
        outputs=tuple(ArraySpec(graph.values[v].shape, graph.values[v].dtype) for v in outputs),
        graph=replace(graph, inputs=(*graph.inputs, *given), outputs=outputs, nodes=nodes),
    )


def without_repeats(info: TaskInfo) -> TaskInfo:
    """The task with equal operations on equal operands done once."""
    return replace(info, graph=distinct(info.graph))


def distinct(graph: Graph) -> Graph:
    """The graph with equal operations on equal operands done once."""
    first: dict[object, tuple[int, ...]] = {}
    same: dict[int, int] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(same.get(v, v) for v in node.inputs)
        read = tuple(_identity(graph, v) for v in inputs)
        types = tuple((graph.values[v].shape, graph.values[v].dtype) for v in node.outputs)
        key = (node.op, read, types, repr(sorted(node.params.items())))
        if key in first and not node.bodies:
            same.update(zip(node.outputs, first[key], strict=True))
        else:
            first[key] = node.outputs
            nodes.append(replace(node, inputs=inputs))
    outputs = tuple(same.get(v, v) for v in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def _identity(graph: Graph, value: int) -> object:
    """What tells values apart: scalar constants by what they are."""
    known = graph.values[value]
    return value if known.literal is None else (repr(known.literal), known.dtype)


def producers(graph: Graph) -> dict[int, Node]:
    """The node that makes each value; inputs and constants have none."""
    return {value: node for node in graph.nodes for value in node.outputs}


def is_zero(values: Sequence[Value], made: Mapping[int, Node], value: int) -> bool:
    """Whether a value is zero everywhere: a literal, spread or converted."""
    while value in made and made[value].op in ("broadcast_in_dim", "convert_element_type"):
        value = made[value].inputs[0]
    return values[value].literal == 0


def before_transposes(
    graph: Graph, made: Mapping[int, Node], value: int
) -> tuple[int, tuple[int, ...]]:
    """The value that a value is with its dimensions in another order, and where they lie there."""
    order = tuple(range(len(graph.values[value].shape)))
    while value in made and made[value].op == "transpose":
        order = tuple(int(made[value].params["permutation"][d]) for d in order)
        value = made[value].inputs[0]
    return value, order


def unwrapped_index(graph: Graph, made: dict[int, Node], value: int) -> int:
    """The index that a program writes before indexing: without the wrapping of negative ones,
    without conversions and dimensions of size 1."""
    while True:
        node = made.get(value)
        if node is None:
            return value
        source = node.inputs[0]
        if node.op == "select_n":
            kept = _wrapped(graph, made, node)
            if kept is None:
                return value
            value = kept
        elif node.op in ("convert_element_type", "copy", "stop_gradient"):
            value = source
        elif node.op in ("broadcast_in_dim", "reshape", "squeeze", "expand_dims"):
            if _plain(graph.values[source].shape) != _plain(graph.values[value].shape):
                return value
            value = source
        else:
            return value


def _plain(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _wrapped(graph: Graph, made: dict[int, Node], node: Node) -> int | None:
    """i when the node is `i + n if i < 0 else i`."""
    condition, index, other = node.inputs
    below, shifted = made.get(condition), made.get(other)
    if below is None or shifted is None or (below.op, shifted.op) != ("lt", "add"):
        return None
    if below.inputs[0] != index or index not in shifted.inputs:
        return None
    return index if graph.values[below.inputs[1]].literal == 0 else None
