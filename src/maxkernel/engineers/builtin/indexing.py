"""Operations that pick or order elements, and products, as jnp code for `xla.Writer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.cuts import unwrapped_index
from maxkernel.engineers.builtin.expr import Code
from maxkernel.types import Node

if TYPE_CHECKING:
    from maxkernel.engineers.builtin.xla import Writer


def iota(w: Writer, node: Node, value: int) -> Code:
    """An index along one dimension."""
    dims = w.sizes.dims[value]
    place = int(node.params["dimension"])
    dtype = w.graph.values[value].dtype
    if any(d for i, d in enumerate(dims) if i != place):
        w.thin.add(value)
    size = w.sizes.text(dims[place])
    text = f"jnp.arange({size})" if dtype == "int32" else f"jnp.arange({size}, dtype=jnp.{dtype})"
    behind = len(dims) - 1 - place
    index = ", ".join([":", *["None"] * behind])
    return Code(f"{text}[{index}]" if behind else text)


def sort(w: Writer, node: Node, value: int) -> Code:
    """A sorted array, or the order that sorts it; raises Unsupported for other forms."""
    keys = node.inputs[0]
    axis = int(node.params["dimension"])
    if int(node.params.get("num_keys", 1)) != 1:
        raise Unsupported("a sort by several keys")
    if value == node.outputs[0]:
        return Code(f"jnp.sort({w.full(keys).text}, axis={axis})")
    position = node.outputs.index(value)
    made = w.made.get(node.inputs[position])
    if made is None or made.op != "iota" or int(made.params["dimension"]) != axis:
        raise Unsupported("a sort that carries another array along")
    rank = len(w.graph.values[keys].shape)
    where = "" if rank == 1 else f", axis={axis}"
    return Code(f"jnp.argsort({w.full(keys).text}{where})")


def top_k(w: Writer, node: Node, value: int) -> Code:
    """The largest elements along the last dimension, or where they are."""
    source = node.inputs[0]
    rank = len(w.graph.values[source].shape)
    if int(node.params.get("axis", rank - 1)) != rank - 1:
        raise Unsupported("the largest elements along another dimension than the last")
    operand = w.full(source).text
    count = w.sizes.integer(int(node.params["k"]))
    read = {v for n in w.graph.nodes for v in n.inputs}.union(w.graph.outputs)
    both = zip(node.outputs, ("best", "picks"), strict=True)
    names = [w.names.new(name) if v in read else "_" for v, name in both]
    w.lines.append(f"{', '.join(names)} = jax.lax.top_k({operand}, {count})")
    w.known.update(zip(node.outputs, names, strict=True))
    return Code(w.known[value])


def gather(w: Writer, node: Node) -> Code:
    """Whole rows by an index, or one element per row and index; else raises Unsupported."""
    operand, indices = node.inputs
    numbers: dict[str, Any] = node.params["dimension_numbers"]
    shape = w.graph.values[operand].shape
    axes = [int(i) for i in numbers["start_index_map"]]
    batch = [int(i) for i in numbers["operand_batching_dims"]]
    collapsed = [int(i) for i in numbers["collapsed_slice_dims"]]
    sizes = [int(n) for n in node.params["slice_sizes"]]
    index = unwrapped_index(w.graph, w.made, indices)
    picked = tuple(w.graph.values[indices].shape[:-1])
    if tuple(w.graph.values[index].shape) != picked or collapsed != axes:
        raise Unsupported("a `gather` of another form")
    rank = len(shape)
    offsets = [int(i) for i in numbers["offset_dims"]]
    rows = axes == [0] and not batch and sizes[1:] == list(shape[1:])
    if rows and offsets == list(range(len(picked), len(picked) + rank - 1)):
        return Code(f"{w.full(operand).at(100)}[{w.full(index).text}]")
    if axes == [rank - 1] and batch == list(range(rank - 1)) and not offsets:
        parts = f"{w.full(operand).text}, {w.full(index).text}"
        return Code(f"jnp.take_along_axis({parts}, axis={rank - 1})")
    whole = sizes == [1, 1, *shape[2:]]
    if (
        (axes, batch) == ([1], [0])
        and whole
        and offsets == list(range(len(picked), rank - 2 + len(picked)))
    ):
        parts = f"{w.full(operand).text}, {w.full(index).text}"
        return Code(f"jax.vmap(lambda rows, index: rows[index])({parts})")
    raise Unsupported("a `gather` of another form")


def dot(w: Writer, node: Node, value: int) -> Code:
    """A matrix product; raises Unsupported for other forms."""
    numbers: Any = node.params["dimension_numbers"]
    (left, right), (left_batch, _) = numbers
    lhs, rhs = (w.full(v) for v in node.inputs)
    rank = len(w.graph.values[node.inputs[0]].shape)
    dtype = w.graph.values[value].dtype
    end = f"preferred_element_type=jnp.{dtype}"
    precision = str(node.params.get("precision") or "")
    if "HIGH" in precision.upper():
        raise Unsupported("a product of high precision beside the kernels")
    if (list(left), list(right), list(left_batch)) == ([rank - 1], [0], []):
        return Code(f"jnp.dot({lhs.text}, {rhs.text}, {end})")
    dims = tuple(tuple(tuple(int(i) for i in y) for y in x) for x in numbers)
    return Code(f"jax.lax.dot_general({lhs.text}, {rhs.text}, {dims}, {end})")


def slice_of(w: Writer, node: Node) -> Code:
    """Part of an array."""
    (source,) = node.inputs
    shape = w.graph.values[source].shape
    starts = [int(i) for i in node.params["start_indices"]]
    limits = [int(i) for i in node.params["limit_indices"]]
    strides = [int(i) for i in node.params.get("strides") or [1] * len(shape)]
    parts: list[str] = []
    for axis, stride in enumerate(strides):
        ends = [_bound(w, source, axis, place) for place in (starts[axis], limits[axis])]
        gap = " " if any("." in end for end in ends) else ""
        spaced = f"{ends[0]}{gap if ends[0] else ''}:{gap if ends[1] else ''}{ends[1]}"
        parts.append(f"{spaced}:{stride}" if stride != 1 else spaced)
    return Code(f"{w.full(source).at(100)}[{', '.join(parts)}]")


def convolution(w: Writer, node: Node) -> Code:
    """A convolution; raises Unsupported for one of high precision."""
    p: dict[str, Any] = node.params
    if "HIGH" in str(p.get("precision")).upper():
        raise Unsupported("a convolution of high precision beside the kernels")
    numbers = p["dimension_numbers"]
    specs = [(numbers[f"{side}_spec"], kinds) for side, kinds in _SIDES]
    layouts = tuple(_layout([int(i) for i in spec], kinds) for spec, kinds in specs)
    parts = [w.full(v).text for v in node.inputs]
    parts += [str(_ints(p["window_strides"])), str([_ints(ends) for ends in p["padding"]])]
    for name in ("lhs_dilation", "rhs_dilation"):
        if set(_ints(p[name])) != {1}:
            parts.append(f"{name}={_ints(p[name])}")
    parts.append("dimension_numbers=" + str(layouts).replace("'", '"'))
    for name in ("feature_group_count", "batch_group_count"):
        if int(p[name]) != 1:
            parts.append(f"{name}={int(p[name])}")
    return Code(f"jax.lax.conv_general_dilated({', '.join(parts)})")


_SIDES = (("lhs", "NC"), ("rhs", "OI"), ("out", "NC"))


def _layout(spec: list[int], kinds: str) -> str:
    """Letters of an array's dimensions, `NCHW`, from where its kinds of dimensions lie."""
    letters = kinds + "DHW"[5 - len(spec) :]
    return "".join(letters[spec.index(i)] for i in range(len(spec)))


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def shift(w: Writer, node: Node, codes: list[Code]) -> Code:
    """A shift of bits, to the right with the sign of the operand's type."""
    unsigned = w.graph.values[node.inputs[0]].dtype.startswith("u")
    if node.op != "shift_left" and (node.op == "shift_right_logical") != unsigned:
        raise Unsupported(f"`{node.op}` of another sign beside the kernels")
    sign = "<<" if node.op == "shift_left" else ">>"
    return Code(f"{codes[0].at(11)} {sign} {codes[1].at(11)}", 9)


def joined(w: Writer, node: Node) -> Code:
    """Arrays one after another, or beside one another along a new dimension."""
    parts = ", ".join(w.full(v).text for v in node.inputs)
    axis = node.params["axis" if node.op == "stack" else "dimension"]
    return Code(f"jnp.{node.op}([{parts}], axis={int(axis)})")


def split(w: Writer, node: Node, value: int) -> Code:
    """One of the parts that an array is cut into."""
    (source,) = node.inputs
    axis = int(node.params["axis"])
    sizes = [w.graph.values[v].shape[axis] for v in node.outputs]
    place = node.outputs.index(value)
    ends = [str(n) for n in (sum(sizes[:place]), sum(sizes[: place + 1]))]
    rank = len(w.graph.values[source].shape)
    parts = [":"] * rank
    parts[axis] = f"{'' if not place else ends[0]}:{'' if place == len(sizes) - 1 else ends[1]}"
    return Code(f"{w.full(source).at(100)}[{', '.join(parts)}]")


def _bound(w: Writer, source: int, axis: int, place: int) -> str:
    """Where a slice begins or ends: by the size of a part, where an input tells it."""
    size = w.graph.values[source].shape[axis]
    if place in (0, size):
        return ""
    for node in w.graph.nodes:
        if node.op == "slice" and node.inputs[0] == source:
            start, limit = (int(node.params[f"{s}_indices"][axis]) for s in ("start", "limit"))
            text = w.sizes.text(w.sizes.dims[node.outputs[0]][axis])
            if not text.isdecimal() and (start, limit) == (0, place):
                return text
            if not text.isdecimal() and (start, limit) == (place, size):
                return f"-{text}" if text.count(" ") == 0 else f"-({text})"
    named = not w.sizes.text(w.sizes.dims[source][axis]).isdecimal()
    return str(place - size) if named and place > size // 2 else str(place)
