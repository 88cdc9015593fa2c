"""Which operands of kernels are small enough to steer them, and their types in HLO text."""

from __future__ import annotations

import math

from maxkernel.worker.mosaic.read import Value, read_type

ELEMENTS_LIMIT = 1 << 18
"""Elements of the largest operand that is looked at: scalar memory has as many words."""
FLOATS_LIMIT = 256
"""The same of floats: a factor, or a number per head."""


def small_integer(value: Value) -> bool:
    """Whole numbers that fit in scalar memory: tables, lengths, sizes."""
    kind = read_type(value.type)
    integer = kind.element.removeprefix("u").startswith("i")
    return kind.kind == "tensor" and integer and math.prod(kind.shape) <= ELEMENTS_LIMIT


def small_float(value: Value) -> bool:
    """Factors and the like, which kernels take in scalar memory: they seldom steer, but may."""
    kind = read_type(value.type)
    few = math.prod(kind.shape) <= FLOATS_LIMIT
    return kind.kind == "tensor" and kind.element == "f32" and few


def hlo_type(value: Value) -> str:
    """The type of a value as HLO writes it, `s32[8,128]`."""
    kind = read_type(value.type)
    element = kind.element.lower()
    if element == "i1":
        element = "pred"
    elif element.startswith("ui"):
        element = f"u{element[2:]}"
    elif element.startswith("i"):
        element = f"s{element[1:]}"
    return f"{element}[{','.join(map(str, kind.shape))}]"
