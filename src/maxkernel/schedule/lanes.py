"""Scalars that a program takes out of vector memory: loads whose first lane is pushed and popped.

The top-level program passes a scalar to a kernel that way. The push is given the address of its
load, so that the value can be looked up.
"""

from __future__ import annotations

import re

from maxkernel.schedule.text import Instruction, Memory

_LOAD = re.compile(r"%(v\d+\w*) = vld \[vmem:\[(#allocation\d+)\](?: sm:\$0x\w+)?\]")
_PUSH = re.compile(r"= vpush %(v\d+\w*)")


def with_addresses(text: str) -> str:
    """The text with `vpush %v1` as `vpush [vmem:[#allocation2]]` where %v1 is what lies there."""
    if "= vpush " not in text:
        return text
    loads = {found[1]: found[2] for found in _LOAD.finditer(text)}

    def place(push: re.Match[str]) -> str:
        allocation = loads.get(push[1])
        return f"= vpush [vmem:[{allocation}]]" if allocation else push[0]

    return _PUSH.sub(place, text)


def with_inlined_calls(text: str) -> str:
    """The text with calls of ops that were compiled apart written as inlined ones: they pass the
    same operands. Programs that are large for the instruction memory have them."""
    return text.replace(" = call %", " = inlined_call %")


def address_of(item: Instruction | None) -> Memory | None:
    """Where the value of a push lies; None for another instruction or a computed value."""
    if item is None or item.op != "vpush" or not item.operands:
        return None
    operand = item.operands[0]
    return operand if isinstance(operand, Memory) else None
