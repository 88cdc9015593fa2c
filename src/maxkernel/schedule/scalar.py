"""The scalar instructions: what each computes, as Python source over 32-bit unsigned integers."""

from __future__ import annotations

import struct
from collections.abc import Callable

M = 0xFFFFFFFF
_SIGN = 0x80000000

_BINARY = {
    "sadd.s32": "({a} + {b}) & 4294967295",
    "sadd.u32": "({a} + {b}) & 4294967295",
    "ssub.s32": "({a} - {b}) & 4294967295",
    "ssub.u32": "({a} - {b}) & 4294967295",
    "smul.u32": "({a} * {b}) & 4294967295",
    "smul.s32": "({a} * {b}) & 4294967295",
    "smulhi.u32": "({a} * {b}) >> 32",
    "sand.u32": "{a} & {b}",
    "sor.u32": "{a} | {b}",
    "sxor.u32": "{a} ^ {b}",
    "sshll.u32": "shift_left({a}, {b})",
    "sshrl.u32": "shift_right({a}, {b})",
    "sshra.s32": "shift_signed({a}, {b})",
    "smin.u32": "min({a}, {b})",
    "smax.u32": "max({a}, {b})",
    "smin.s32": "min({a} ^ 2147483648, {b} ^ 2147483648) ^ 2147483648",
    "smax.s32": "max({a} ^ 2147483648, {b} ^ 2147483648) ^ 2147483648",
    "sadd.f32": "float_op('+', {a}, {b})",
    "ssub.f32": "float_op('-', {a}, {b})",
    "smul.f32": "float_op('*', {a}, {b})",
    "smin.f32": "float_op('<', {a}, {b})",
    "smax.f32": "float_op('>', {a}, {b})",
    "sc.u32": "({a} + {b}) > 4294967295",
    "por": "{a} | {b}",
    "pand": "{a} & {b}",
    "pxor": "{a} ^ {b}",
    "pnand": "({a} & {b}) ^ 1",
    "pnor": "({a} | {b}) ^ 1",
}
_COPIES = ("smov", "pmov", "spop.drf", "sphi")
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

IGNORED = (
    "sfence", "cfence", "vsettm", "shalt.err", "set.rngseed", "vpush", "vpush.ccrf", "vpush.sfrf",
    "compiler-scheduling-barrier", "vwait.ne.trace", "vwait.ne",
    "vwait.eq.trace", "vwait.eq", "vpop.drf", "sphi", "snop",
)  # fmt: skip
"""Instructions without an effect on scalar values, control flow or DMAs (their bundles count)."""

CONTROL = ("sbr", "scall", "sret", "sjmp", "dma", "vsync", "vwait", "shalt", "vdelay")
"""Prefixes of instructions that steer: an unknown one of these is an error, used or not."""


def expression(op: str, operands: list[str]) -> str | None:
    """Python source for the result of a scalar `op`; None where the op is unknown.

    Operands are Python expressions of unsigned 32-bit integers, or of 0 and 1 for predicates.
    """
    if op in _COPIES or op.startswith("int_to_ptr."):
        return operands[0] if operands else "0"
    if op == "pneg" or op == "pnot":
        return f"{operands[0]} ^ 1"
    if op.startswith("scalar_lea."):
        return f"({' + '.join(operands)}) & 4294967295"
    if op == "reloc":
        return "0"
    if op.startswith("scmp.") and len(operands) == 2:
        return _comparison(op, operands)
    template = _BINARY.get(op)
    if template is None or len(operands) != 2:
        return None
    return template.format(a=operands[0], b=operands[1])


def _comparison(op: str, operands: list[str]) -> str | None:
    _, relation, dtype = op.split(".")[:3]
    symbol = _COMPARE.get(relation)
    if symbol is None:
        return None
    a, b = operands
    if dtype == "f32":
        return f"as_float({a}) {symbol} as_float({b})"
    if dtype == "s32" and relation not in ("eq", "ne"):
        return f"({_flip(a)}) {symbol} ({_flip(b)})"
    return f"({a}) {symbol} ({b})"


def _flip(text: str) -> str:
    return str(int(text) ^ _SIGN) if text.isdigit() else f"{text} ^ 2147483648"


def shift_left(value: int, count: int) -> int:
    return (value << count) & M if count < 32 else 0


def shift_right(value: int, count: int) -> int:
    return value >> count if count < 32 else 0


def shift_signed(value: int, count: int) -> int:
    signed = value - (1 << 32) if value & _SIGN else value
    return (signed >> min(count, 31)) & M


def as_float(bits: int) -> float:
    """The f32 of a bit pattern."""
    return struct.unpack("<f", struct.pack("<I", int(bits) & M))[0]


def float_op(symbol: str, a: int, b: int) -> int:
    """The bits of an f32 operation on two bit patterns."""
    x, y = as_float(a), as_float(b)
    value = {"+": x + y, "-": x - y, "*": x * y, "<": min(x, y), ">": max(x, y)}[symbol]
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


HELPERS: dict[str, Callable[..., object]] = {
    "shift_left": shift_left,
    "shift_right": shift_right,
    "shift_signed": shift_signed,
    "as_float": as_float,
    "float_op": float_op,
}
