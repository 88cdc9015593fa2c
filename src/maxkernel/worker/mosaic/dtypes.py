"""Element types of MLIR as numpy dtypes, and the patterns that stand for memory never written."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any, Literal

import ml_dtypes
import numpy as np

from maxkernel.worker.mosaic.errors import Unsupported

Poison = Literal["nan", "large", "small", "zero"]
"""What unwritten memory holds: NaN, a large finite value, a small odd one, or zero."""

POISONS: tuple[Poison, ...] = ("nan", "large", "small", "zero")

FLOATS: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}
INTEGERS: dict[str, Any] = {
    "i1": np.bool_,
    "i2": ml_dtypes.int2,
    "i4": ml_dtypes.int4,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
}
UNSIGNED: dict[str, Any] = {
    "i2": ml_dtypes.uint2,
    "i4": ml_dtypes.uint4,
    "i8": np.uint8,
    "i16": np.uint16,
    "i32": np.uint32,
    "i64": np.uint64,
    "index": np.uint64,
}


def is_float(element: str) -> bool:
    """True for a floating-point element type."""
    return element in FLOATS


def numpy_dtype(element: str) -> np.dtype[Any]:
    """The numpy dtype of an element type; integers are signed, as MLIR's are signless."""
    found = FLOATS.get(element) or INTEGERS.get(element)
    if found is None:
        raise Unsupported(f"element type {element}")
    return np.dtype(found)


def tensor_dtype(element: str) -> np.dtype[Any] | None:
    """The numpy dtype of an element type outside kernels, where integers have signs (`ui8`)."""
    if element.startswith("ui"):
        found = UNSIGNED.get(element.removeprefix("u"))
    else:
        found = FLOATS.get(element) or INTEGERS.get(element)
    return None if found is None else np.dtype(found)


def bits(element: str) -> int:
    """Width in bits."""
    if element == "index":
        return 64
    digits = element.lstrip("bfi").split("E")[0]
    return int(digits)


def poison_value(dtype: np.dtype[Any], poison: Poison) -> Any:
    """The scalar that fills unwritten memory of this dtype."""
    if poison == "zero":
        return np.zeros((), dtype)[()]
    if dtype == np.bool_:
        return np.bool_(poison != "small")
    if dtype.kind in "iu":
        top = int(np.iinfo(dtype).max)
        pattern = {"nan": top // 3 * 2 - 1, "large": top, "small": 3}[poison]
        return dtype.type(pattern)
    if dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.int2)):
        return dtype.type(1 if poison == "small" else -1)
    if poison == "small":
        return dtype.type(0.75)
    if dtype == np.dtype(ml_dtypes.float4_e2m1fn):
        return dtype.type(6.0)
    limits: Any = ml_dtypes.finfo(dtype)
    return dtype.type(np.nan) if poison == "nan" else limits.max


def poisoned(shape: tuple[int, ...], dtype: np.dtype[Any], poison: Poison) -> np.ndarray[Any, Any]:
    """A new array full of poison."""
    found = np.empty(shape, dtype)
    fill_poison(found, poison)
    return found


def fill_poison(array: np.ndarray[Any, Any], poison: Poison) -> None:
    """Overwrite an array with poison; as integers, which numpy copies several times faster."""
    word = np.dtype(f"u{array.itemsize}")
    array.view(word)[...] = np.asarray(poison_value(array.dtype, poison)).view(word)
