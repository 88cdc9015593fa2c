"""A convolution as a term: its geometry, read from the dimension numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxkernel.engineers.builtin.axes import Dims


@dataclass(frozen=True)
class Conv:
    """Geometry of a convolution; per spatial dimension, outermost first, where it is a tuple.

    `lhs`, `rhs`, `out` give the positions of (batch, features, spatial...) in the operand,
    (out features, in features, spatial...) in the weights, and of the result as `lhs`.
    """

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int
    dims: Dims
    """Axes of the result, in memory order."""
    lhs_dtype: str
    rhs_dtype: str
    precision: str


def convolution(params: Mapping[str, Any], dims: Dims, dtypes: Sequence[str]) -> Conv:
    """The geometry in a `conv_general_dilated` node's parameters; `dtypes` of its operands."""
    numbers: dict[str, Any] = params["dimension_numbers"]
    return Conv(
        lhs=_ints(numbers["lhs_spec"]),
        rhs=_ints(numbers["rhs_spec"]),
        out=_ints(numbers["out_spec"]),
        strides=_ints(params["window_strides"]),
        padding=tuple((int(low), int(high)) for low, high in params["padding"]),
        lhs_dilation=_ints(params["lhs_dilation"]),
        rhs_dilation=_ints(params["rhs_dilation"]),
        groups=int(params["feature_group_count"]) * int(params["batch_group_count"]),
        dims=dims,
        lhs_dtype=dtypes[0],
        rhs_dtype=dtypes[1],
        precision=str(params.get("precision")).upper(),
    )


def _ints(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)
