"""How a part of an operator's result follows from parts of its operands, operator by operator.

A part is a box: a span along every dimension. Starts may be traced, so that one compilation serves
all boxes of a size; two spans are the same only if they have the very same start. An operator
without a rule, or a box that its rule cannot follow, needs its operands whole.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """Elements along one dimension."""

    start: Any
    """An integer, or a traced one."""
    size: int

    def same(self, other: Span) -> bool:
        """Whether both are certain to be the same elements."""
        return self.start is other.start and self.size == other.size


Part = tuple[Span, ...]


@dataclass(frozen=True)
class Plan:
    """How a part of a result is computed."""

    operands: tuple[Part, ...]
    result: Part | None
    """What comes of these operands: the wanted part, or more; None for all of every result."""
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    """Parameters of the operator that differ from those for the whole."""


@dataclass(frozen=True)
class Operator:
    """An equation of a jaxpr, as rules look at it."""

    name: str
    params: dict[str, Any]
    operands: tuple[Shape, ...]
    result: Shape


Rule = Callable[[Operator, Part], Plan | None]


def whole(shape: Shape) -> Part:
    """All elements of an array of this shape."""
    return tuple(Span(0, n) for n in shape)


def merged(a: Part, b: Part, shape: Shape) -> Part:
    """A part that holds both: a dimension in which they differ is taken whole."""
    both = zip(a, b, shape, strict=True)
    return tuple(mine if mine.same(theirs) else Span(0, n) for mine, theirs, n in both)


def plan_of(operator: Operator, wanted: Part) -> Plan:
    """What is needed for a part of the result."""
    rule = _RULES.get(operator.name)
    found = rule(operator, wanted) if rule is not None else None
    if found is not None:
        return found
    return Plan(tuple(whole(shape) for shape in operator.operands), None)


def _elementwise(op: Operator, wanted: Part) -> Plan | None:
    """Scalars and dimensions of one element serve all."""
    parts: list[Part] = []
    for shape in op.operands:
        if shape and not _spreads(shape, op.result):
            return None
        part = (Span(0, 1) if n == 1 else span for n, span in zip(shape, wanted, strict=False))
        parts.append(tuple(part))
    return Plan(tuple(parts), wanted)


def _spreads(shape: Shape, result: Shape) -> bool:
    same = zip(shape, result, strict=False)
    return len(shape) == len(result) and all(n in (1, m) for n, m in same)


def _along(op: Operator, wanted: Part, axes: Sequence[int]) -> Plan:
    """Operands and results of one shape, all of it needed along some axes."""
    part = _with_whole(wanted, axes, op.result)
    return Plan((part,) * len(op.operands), part)


def _with_whole(part: Part, axes: Sequence[int], shape: Shape) -> Part:
    return tuple(Span(0, shape[k]) if k in axes else span for k, span in enumerate(part))


def _broadcast(op: Operator, wanted: Part) -> Plan | None:
    if len(op.operands) != 1:  # sizes that are known at run time only
        return None
    shape = op.operands[0]
    axes = op.params["broadcast_dimensions"]
    part = tuple(
        Span(0, 1) if n == 1 else wanted[axis] for n, axis in zip(shape, axes, strict=True)
    )
    return Plan((part,), wanted, {"shape": _sizes(wanted)})


def _reduce(op: Operator, wanted: Part) -> Plan | None:
    if len(op.operands) != 1:
        return None
    shape, left = op.operands[0], iter(wanted)
    part = tuple(
        Span(0, n) if axis in op.params["axes"] else next(left) for axis, n in enumerate(shape)
    )
    return Plan((part,), wanted)


def _transpose(op: Operator, wanted: Part) -> Plan:
    part = [Span(0, n) for n in op.operands[0]]
    for span, axis in zip(wanted, op.params["permutation"], strict=True):
        part[axis] = span
    return Plan((tuple(part),), wanted)


def _squeeze(op: Operator, wanted: Part) -> Plan:
    shape, left = op.operands[0], iter(wanted)
    gone = [axis % len(shape) for axis in op.params["dimensions"]]
    return Plan(
        (tuple(Span(0, 1) if axis in gone else next(left) for axis in range(len(shape))),), wanted
    )


def _product(op: Operator, wanted: Part) -> Plan:
    (left, right), (left_batch, right_batch) = op.params["dimension_numbers"]
    batch, rest = wanted[: len(left_batch)], list(wanted[len(left_batch) :])
    parts: list[Part] = []
    for shape, contracted, shared in zip(
        op.operands, (left, right), (left_batch, right_batch), strict=True
    ):
        given = dict(zip(shared, batch, strict=True))
        given |= {axis: Span(0, shape[axis]) for axis in contracted}
        parts.append(tuple(given[k] if k in given else rest.pop(0) for k in range(len(shape))))
    return Plan(tuple(parts), wanted)


def _reshape(op: Operator, wanted: Part) -> Plan | None:
    """Dimensions that stay, and a dimension that is split into several."""
    if len(op.operands) != 1 or op.params.get("dimensions") is not None:
        return None
    shape = op.operands[0]
    if 0 in shape:
        return None
    part = [Span(0, n) for n in shape]
    result = list(wanted)
    for before, after in _groups(shape, op.result):
        old = [k for k in before if shape[k] != 1]
        new = [k for k in after if op.result[k] != 1]
        if [shape[k] for k in old] == [op.result[k] for k in new]:
            for k, n in zip(old, new, strict=True):
                part[k] = wanted[n]
            continue
        inner = math.prod(op.result[k] for k in new[1:])
        first = wanted[new[0]]
        if len(old) == 1 and first.size < op.result[new[0]]:
            part[old[0]] = Span(first.start * inner, first.size * inner)
            new = new[1:]
        for k in new:
            result[k] = Span(0, op.result[k])
    return Plan((tuple(part),), tuple(result), {"new_sizes": _sizes(result)})


def _groups(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
    """Dimensions of both shapes, cut into runs of equal products."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        before, after, a, b = [], [], 1, 1
        while not (before or after) or a != b:
            if j == len(new) or (a <= b and i < len(old)):
                before.append(i)
                a, i = a * old[i], i + 1
            else:
                after.append(j)
                b, j = b * new[j], j + 1
        found.append((before, after))
    return found


def _concatenate(op: Operator, wanted: Part) -> Plan:
    axis = op.params["dimension"]
    parts = tuple(_with_whole(wanted, (axis,), shape) for shape in op.operands)
    return Plan(parts, _with_whole(wanted, (axis,), op.result))


def _slice(op: Operator, wanted: Part) -> Plan:
    shape = op.operands[0]
    cut = [axis for axis, n in enumerate(shape) if n != op.result[axis]]
    part = _with_whole(wanted, cut, shape)
    limits = [op.params["limit_indices"][k] if k in cut else s.size for k, s in enumerate(part)]
    return Plan((part,), _with_whole(wanted, cut, op.result), {"limit_indices": tuple(limits)})


def _pad(op: Operator, wanted: Part) -> Plan:
    cut = [axis for axis, edges in enumerate(op.params["padding_config"]) if any(edges)]
    part = _with_whole(wanted, cut, op.operands[0])
    return Plan((part, ()), _with_whole(wanted, cut, op.result))


def _windows(op: Operator, wanted: Part) -> Plan | None:
    """A pooling: dimensions in which a window is one element."""
    if len(op.operands) != 1:
        return None
    p = op.params
    rows = zip(
        p["window_dimensions"], p["window_strides"], p["padding"], p["base_dilation"],
        p["window_dilation"], strict=True,
    )  # fmt: skip
    cut = [k for k, row in enumerate(rows) if row != (1, 1, (0, 0), 1, 1)]
    return Plan((_with_whole(wanted, cut, op.operands[0]),), _with_whole(wanted, cut, op.result))


def _convolution(op: Operator, wanted: Part) -> Plan | None:
    """Elements of the batch and features of the result; space is needed whole."""
    if op.params["feature_group_count"] != 1 or op.params["batch_group_count"] != 1:
        return None
    numbers = op.params["dimension_numbers"]
    left, right = (list(whole(shape)) for shape in op.operands)
    batch, features = numbers.out_spec[:2]
    left[numbers.lhs_spec[0]] = wanted[batch]
    right[numbers.rhs_spec[0]] = wanted[features]
    space = numbers.out_spec[2:]
    return Plan((tuple(left), tuple(right)), _with_whole(wanted, space, op.result))


def _sizes(part: Sequence[Span]) -> Shape:
    return tuple(span.size for span in part)


_ELEMENTWISE = (
    "abs acos acosh add and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy "
    "copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow "
    "is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or pow "
    "reduce_precision rem round rsqrt select_n shift_left shift_right_arithmetic "
    "shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor"
).split()
_REDUCTIONS = (
    "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor"
).split()
_CUMULATIVE = "cumlogsumexp cummax cummin cumprod cumsum".split()

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(_CUMULATIVE, lambda op, part: _along(op, part, (op.params["axis"],))),
    "sort": lambda op, part: _along(op, part, (op.params["dimension"],)),
    "rev": lambda op, part: _along(op, part, op.params["dimensions"]),
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "squeeze": _squeeze,
    "reshape": _reshape,
    "dot_general": _product,
    "concatenate": _concatenate,
    "slice": _slice,
    "pad": _pad,
    **dict.fromkeys(("reduce_window_max", "reduce_window_min", "reduce_window_sum"), _windows),
    "conv_general_dilated": _convolution,
}
