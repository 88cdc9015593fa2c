"""Makes the program behind a row of tokamax's published tuning caches again (tokamax 0.0.12)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import tokamax
from benchmarks.fidelity.rows import Row
from pydantic import TypeAdapter
from tokamax._src.ops.attention import pallas_mosaic_tpu as attention
from tokamax._src.ops.linear_softmax_cross_entropy_loss import pallas_mosaic_tpu as loss
from tokamax._src.ops.ragged_dot import base as ragged_base
from tokamax._src.ops.ragged_dot import pallas_mosaic_tpu as ragged

Program = tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]
_DTYPES = {"bf16": jnp.bfloat16, "f32": jnp.float32, "i32": jnp.int32, "i8": jnp.int8}


def build(row: Row) -> Program:
    """The function and its inputs' shapes; raises ValueError for a description not understood.

    The caches for v5p are of an earlier version, which named the tiles of the transposed product
    after the forward one.
    """
    desc, config = row.fields["desc"], json.loads(row.fields["config"])
    if row.name == "flash_attention":
        return _attention(desc, config)
    if row.name == "ragged_dot":
        if row.target == "v5p" and "contract=[[1], [2]]" in desc:
            config["tile_k"], config["tile_n"] = config["tile_n"], config["tile_k"]
        return _ragged_dot(desc, config)
    return _loss(desc, config)


def _configured(module: Any, op: Any, config: dict[str, Any]) -> Any:
    type(op).supported_on = lambda self, device: True
    return op.replace(config=TypeAdapter(module.Config).validate_python(config))


def _attention(desc: str, config: dict[str, Any]) -> Program:
    op = _configured(attention, attention.PallasMosaicTpuFlashAttention(), config)
    options = {
        "is_causal": _field(desc, "causal") == "True",
        "logits_soft_cap": None if (cap := _field(desc, "softcap")) == "None" else float(cap),
        "return_residuals": _field(desc, "residuals") == "True",
    }
    if _field(desc, "bias") != "None" or _field(desc, "boolmask") != "None":
        raise ValueError(f"bias or mask: {desc}")
    return lambda q, k, v: op(q, k, v, **options), [_array(desc, name) for name in "qkv"]


def _ragged_dot(desc: str, config: dict[str, Any]) -> Program:
    op = _configured(ragged, ragged.PallasMosaicTpuRaggedDot(), config)
    dims = {
        "[[1], [1]]": ragged.DEFAULT_RAGGED_DOT_DIM_NUMS,
        "[[1], [2]]": ragged.DLHS_RAGGED_DOT_DIM_NUMS,
        "[[0], [0]]": ragged.DRHS_RAGGED_DOT_DIM_NUMS,
    }[re.search(r"contract=(\[\[.\], \[.\]\])", desc)[1]]
    sizes = TypeAdapter(ragged_base.GroupSizes).validate_python(_groups(desc))
    if _field(desc, "act") != "None":
        raise ValueError(f"activation: {desc}")
    keep = _field(desc, "residuals") == "True"

    def call(lhs: Any, rhs: Any) -> Any:
        return op(
            lhs, rhs, group_sizes=sizes, ragged_dot_dimension_numbers=dims, return_residuals=keep
        )

    return call, [_array(desc, name) for name in ("lhs", "rhs")]


def _groups(desc: str) -> dict[str, int] | tuple[int, ...]:
    """The group sizes; long lists are cut in the description, and whole in tokamax's own caches."""
    whole = re.search(r"groups=(\{.*?\}|\[.*?\])", desc)
    if whole is not None:
        groups = json.loads(whole[1])
        return groups if isinstance(groups, dict) else tuple(groups)
    start = re.search(r"groups=\[([\d, ]+),", desc)[1].replace(" ", "")
    for path in (Path(tokamax.__file__).parent / "data" / "autotuning").glob("*/*ragged_dot.json"):
        for found in re.finditer(rf"group_sizes\W+(\[{start},[\d,]*\])", path.read_text()):
            groups = tuple(json.loads(found[1]))
            if sum(groups) == _array(desc, "lhs").shape[0]:
                return groups
    raise ValueError(f"no such groups in tokamax's caches: {desc}")


def _loss(desc: str, config: dict[str, Any]) -> Program:
    op = _configured(loss, loss.PallasMosaicTpuLinearSoftmaxCrossEntropyLoss(), config)
    reduction = _field(desc, "reduction")
    return (
        lambda x, labels, w: op(x, labels, w, reduction=reduction),
        [_array(desc, name) for name in ("x", "labels", "w")],
    )


def _field(desc: str, name: str) -> str:
    found = re.search(rf"\b{name}=(\S+)", desc)
    if found is None:
        raise ValueError(f"no {name} in {desc}")
    return found[1]


def _array(desc: str, name: str) -> jax.ShapeDtypeStruct:
    found = re.search(rf"(?:^| ){name}=(\w+)\[([\d,]*)\]", desc)
    if found is None:
        raise ValueError(f"no array {name} in {desc}")
    shape = tuple(int(size) for size in found[2].split(",") if size)
    return jax.ShapeDtypeStruct(shape, _DTYPES[found[1]])
