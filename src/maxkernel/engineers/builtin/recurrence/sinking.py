"""Conversions of a loop's operands to wider types, and gates that join them, taken into its body.

What the kernel converts itself crosses memory in the narrow type. An operand that is cut into
chunks after such an operation is cut before it instead; padding with zeros stays the same, because
the operations make zeros of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from maxkernel.engineers.builtin.batching import Writer
from maxkernel.engineers.builtin.costs import itemsize
from maxkernel.engineers.builtin.cuts import before_transposes, is_zero, producers
from maxkernel.engineers.builtin.recurrence.around import cut_of
from maxkernel.types import Graph, Node, Value


def sunk(graph: Graph) -> Graph:
    """The graph with such operations in its loop's body; itself where it has none."""
    while True:
        found = _once(graph)
        if found is None:
            return graph
        graph = found


def _once(graph: Graph) -> Graph | None:
    loops = [node for node in graph.nodes if node.op == "scan"]
    if len(loops) != 1:
        return None
    (loop,) = loops
    made = producers(graph)
    first = int(loop.params["num_consts"]) + int(loop.params["num_carry"])
    for position in range(first, len(loop.inputs)):
        chain = _chain(graph, made, loop.inputs[position], int(loop.params["length"]))
        parts = _parts(graph, made, chain) if chain is not None else None
        if chain is not None and parts is not None:
            return _moved(graph, loop, position, chain, parts)
    return None


@dataclass(frozen=True)
class _Chain:
    """How an operand is cut: `source` is padded, cut at `position`, and its dimensions turned."""

    source: int
    pad: Node | None
    cut: Node
    position: int
    order: tuple[int, ...]
    """Where the operand's dimensions lie in what the cut makes."""


def _chain(graph: Graph, made: Mapping[int, Node], value: int, length: int) -> _Chain | None:
    source, order = before_transposes(graph, made, value)
    node = made.get(source)
    cut = cut_of(graph, made, node, length) if node is not None and node.op == "reshape" else None
    if cut is None or order[0] != cut.position:
        return None
    pad = cut.padding
    if pad is not None and not _pads_zeros(graph, made, pad, cut.position):
        return None
    source = (pad or cut.node).inputs[0]
    return _Chain(source, pad, cut.node, cut.position, order)


def _pads_zeros(graph: Graph, made: Mapping[int, Node], pad: Node, position: int) -> bool:
    others = [c for d, c in enumerate(pad.params["padding_config"]) if d != position]
    return is_zero(graph.values, made, pad.inputs[1]) and not any(any(c) for c in others)


@dataclass(frozen=True)
class _Part:
    """One array operand of an operation, and where its dimensions lie in the result's."""

    value: int
    places: tuple[int, ...]


def _parts(
    graph: Graph, made: Mapping[int, Node], chain: _Chain
) -> tuple[Node, list[_Part | int]] | None:
    """The operation that makes a chain's source, and its operands (arrays as parts, numbers as
    they are), if it is worth moving."""
    node = made.get(chain.source)
    if node is None or node.op not in ("convert_element_type", "mul"):
        return None
    shape = graph.values[chain.source].shape
    parts: list[_Part | int] = []
    for value in node.inputs:
        before = graph.values[value]
        maker = made.get(value)
        if before.literal is not None:
            parts.append(value)
        elif before.shape == shape:
            parts.append(_Part(value, tuple(range(len(shape)))))
        elif maker is not None and maker.op == "broadcast_in_dim":
            places = tuple(int(d) for d in maker.params["broadcast_dimensions"])
            given = graph.values[maker.inputs[0]].shape
            if chain.position not in places or given != tuple(shape[d] for d in places):
                return None
            parts.append(_Part(maker.inputs[0], places))
        else:
            return None
    whole = [p.value for p in parts if isinstance(p, _Part) and len(p.places) == len(shape)]
    if len(whole) != 1:
        return None
    (value,) = whole
    narrow = made.get(value) if node.op == "mul" else node
    if narrow is None or narrow.op != "convert_element_type":
        return None
    types = [graph.values[v].dtype for v in (narrow.inputs[0], narrow.outputs[0])]
    floats = all("float" in dtype for dtype in types)
    return (node, parts) if floats and itemsize(types[0]) < itemsize(types[1]) else None


def _moved(
    graph: Graph,
    loop: Node,
    position: int,
    chain: _Chain,
    found: tuple[Node, list[_Part | int]],
) -> Graph:
    """The graph with the operation in the loop's body."""
    node, parts = found
    writer = Writer(graph)
    body = loop.bodies["jaxpr"]
    values, nodes, inputs = list(body.values), list(body.nodes), list(body.inputs)
    operands = list(loop.inputs)
    result = inputs[position]
    read: list[int] = []
    free = [position]
    for part in parts:
        if not isinstance(part, _Part):
            values.append(graph.values[part])
            read.append(len(values) - 1)
            continue
        stacked, own = _cut_part(writer, chain, part)
        values.append(Value(tuple(writer.shape(stacked)[1:]), graph.values[part.value].dtype))
        given = len(values) - 1
        if free:
            operands[free[0]], inputs[free.pop()] = stacked, given
        else:
            operands.append(stacked)
            inputs.append(given)
        if len(own) < len(values[result].shape):
            shape = values[result].shape
            values.append(Value(shape, values[given].dtype))
            params = {"shape": list(shape), "broadcast_dimensions": own}
            nodes.insert(0, Node("broadcast_in_dim", (given,), (len(values) - 1,), params))
            given = len(values) - 1
        read.append(given)
    spreads = [n for n in nodes if n not in body.nodes]
    nodes = [*spreads, Node(node.op, tuple(read), (result,), node.params), *body.nodes]
    inner = replace(body, values=tuple(values), inputs=tuple(inputs), nodes=tuple(nodes))
    moved = replace(loop, inputs=tuple(operands), bodies={**loop.bodies, "jaxpr": inner})
    place = graph.nodes.index(loop)
    before, after = graph.nodes[:place], graph.nodes[place + 1 :]
    writer.nodes[:0] = before
    writer.nodes += [moved, *after]
    return writer.finished(graph.inputs, graph.outputs)


def _cut_part(writer: Writer, chain: _Chain, part: _Part) -> tuple[int, list[int]]:
    """A part cut like the chain's source: the value, and where its dimensions lie in a step's."""
    like, value = writer.values[part.value], part.value
    shape = list(like.shape)
    if chain.pad is not None:
        config = [chain.pad.params["padding_config"][d] for d in part.places]
        shape = [n + int(c[1]) for n, c in zip(shape, config, strict=True)]
        writer.values.append(Value((), like.dtype, 0.0))
        filling = len(writer.values) - 1
        value = writer.node("pad", [value, filling], like, shape, {"padding_config": config})
    at = part.places.index(chain.position)
    sizes = writer.values[chain.cut.outputs[0]].shape[chain.position : chain.position + 2]
    shape[at : at + 1] = sizes
    params = {"new_sizes": list(shape), "dimensions": None}
    value = writer.node("reshape", [value], like, shape, params)
    present = _present(part.places, chain.position)
    order = [present.index(d) for d in chain.order if d in present]
    turned = [shape[d] for d in order]
    value = writer.node("transpose", [value], like, turned, {"permutation": order})
    own = [i for i, d in enumerate(chain.order[1:]) if d in present]
    return value, own


def _present(places: Sequence[int], position: int) -> list[int]:
    """The dimensions of the cut source that a part has, in the part's order."""
    found: list[int] = []
    for d in places:
        found += [d, d + 1] if d == position else [d + (d > position)]
    return found
