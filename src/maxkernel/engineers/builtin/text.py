"""Python text that `ruff format` leaves as it is, for any line length from 88 on."""

from __future__ import annotations

import keyword
import math
import re
import struct
from collections.abc import Iterable, Sequence

WIDTH = 88
"""Ruff's own default; longer calls are exploded with a trailing comma."""
RESERVED = frozenset({"jax", "jnp", "pl", "pltpu", "functools", "math", "kernel", "body"})


def call(name: str, args: Sequence[str], indent: int, prefix: str = "", suffix: str = "") -> str:
    """`prefix name(args) suffix` on one line if it fits at this indentation, else exploded."""
    pad = " " * indent
    line = f"{pad}{prefix}{name}({', '.join(args)}){suffix}"
    if len(line) < WIDTH and not any("\n" in a for a in args):
        return line
    inner = "".join(f"{pad}    {a.lstrip()},\n" for a in args)
    return f"{pad}{prefix}{name}(\n{inner}{pad}){suffix}"


def sequence(items: Sequence[str], indent: int, prefix: str, brackets: str = "[]") -> str:
    """A bracketed list like `call`'s arguments."""
    if brackets == "()" and len(items) == 1:
        return f"{' ' * indent}{prefix}({items[0]},)"
    return call("", items, indent, prefix).replace("(", brackets[0], 1)[:-1] + brackets[1]


def broken(spec: str, indent: int) -> str:
    """A call as an item of a list at this indentation, its arguments on a line of their own where
    it is too long."""
    if len(spec) + indent + 1 <= WIDTH:
        return spec
    function, arguments = spec[:-1].split("(", 1)
    return f"{function}(\n{' ' * (indent + 4)}{arguments}\n{' ' * indent})"


def assigned(name: str, spec: str) -> str:
    """`name=spec` as an argument at indentation 8, the call `spec` broken where it is too long."""
    line = f"{name}={spec}"
    if len(line) + 9 <= WIDTH:
        return line
    function, arguments = spec[:-1].split("(", 1)
    return f"{name}={function}(\n            {arguments}\n        )"


def compiler_params(semantics: Sequence[str]) -> str:
    """The compiler's parameters as an argument of `pallas_call` at indentation 8; `semantics`:
    `parallel` or `arbitrary` for each axis of the grid."""
    axes = sequence([f'"{kind}"' for kind in semantics], 12, "dimension_semantics=", "()")
    limit = "vmem_limit_bytes=VMEM_LIMIT_BYTES"
    return call("pltpu.CompilerParams", [axes, limit], 8, "compiler_params=")


def statement(name: str, args: Sequence[str], target: str) -> str:
    """`target = name(args)` without indentation, broken as it has to be at indentation 4."""
    return call(name, args, 4, f"{target} = ").replace("\n    ", "\n")[4:]


def add_return(lines: list[str], returned: str) -> None:
    """Ends a function's statements: with the last one's value where that is what is returned."""
    if lines[-1].startswith(f"{returned} = "):
        lines[-1] = lines[-1].replace(f"{returned} =", "return", 1)
    else:
        lines.append(f"return {returned}")


def number(value: float | int | bool) -> str:
    """A literal: the shortest decimal that is the same float32."""
    if isinstance(value, (bool, int)):
        return repr(value)
    if math.isnan(value):
        return "jnp.nan"
    if math.isinf(value):
        return "jnp.inf" if value > 0 else "-jnp.inf"
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if _f32(short) == _f32(value):
            return repr(short)
    return repr(value)


def _f32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return b""


def doc(text: str, indent: int = 0) -> str:
    """A docstring; `text` is one line, or a line, an empty one and more."""
    pad = " " * indent
    lines = text.split("\n")
    if len(lines) == 1:
        return f'{pad}"""{text}"""'
    return "\n".join(f"{pad}{line}".rstrip() for line in ['"""' + lines[0], *lines[1:], '"""'])


def wrap(text: str, width: int = WIDTH) -> str:
    """Words in lines of at most `width`."""
    lines: list[str] = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


class Names:
    """Unique identifiers of one scope."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken) | RESERVED | set(keyword.kwlist)

    def new(self, hint: str) -> str:
        """An unused identifier close to `hint`."""
        base = re.sub(r"\W+", "_", hint).strip("_").lower() or "value"
        base = f"v_{base}" if base[0].isdigit() else base
        name, count = base, 2
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        return name
