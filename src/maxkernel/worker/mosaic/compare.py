"""Whether two artifacts are the same program up to sizes.

Kernels that are right at the check size and cheat at the full size must differ somewhere: in their
operations (`structure`), or in a constant that no size explains. The first is refused, the second
is listed for whoever judges.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxkernel.worker.mosaic.artifact import Program
from maxkernel.worker.mosaic.errors import refusing
from maxkernel.worker.mosaic.model import Kernel
from maxkernel.worker.mosaic.read import read_func
from maxkernel.worker.mosaic.renumber import constants_apart
from maxkernel.worker.mosaic.syntax import Block, Func, Op, Raw, Type

_IGNORED = {"backend_config", "operand_layouts", "result_layouts", "sym_name", "function_type"}
_DIGITS = re.compile(r"-?\d+")
LIMIT = 200
"""Most differences of one kind that are reported."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that differs between the two programs."""

    where: str
    """Function and source line."""
    used_by: str
    """The first operation that uses it."""
    full: str
    check: str


@dataclass(frozen=True, slots=True)
class Differences:
    """How two programs differ."""

    structure: tuple[str, ...]
    """Operations, types or attributes that differ in more than size: not the same program."""
    sizes: tuple[str, ...]
    """Shapes, block shapes and grids."""
    constants: tuple[Constant, ...]

    @property
    def same(self) -> bool:
        """True when the programs have the same structure."""
        return not self.structure


class _Comparison:
    def __init__(self) -> None:
        self.structure: dict[str, None] = {}
        self.sizes: dict[str, None] = {}
        self.constants: dict[Constant, None] = {}

    def result(self) -> Differences:
        return Differences(
            tuple(self.structure)[:LIMIT], tuple(self.sizes)[:LIMIT], tuple(self.constants)[:LIMIT]
        )

    def funcs(self, name: str, full: Func, check: Func) -> None:
        """Two functions; stops at the first operation that differs in kind."""
        full, check = constants_apart(full), constants_apart(check)
        pairs = list(_paired(full.body, check.body))
        uses = _first_uses(full)
        for a, b in pairs:
            if a is None or b is None or a.name != b.name or len(a.regions) != len(b.regions):
                self.structure[f"{name}: {_show(a)} at full size, {_show(b)} at check size"] = None
                return
            if a.operands != b.operands or len(a.results) != len(b.results):
                self.structure[f"{name}: {_show(a)} works on other values than {_show(b)}"] = None
                return
            for x, y in zip(a.results, b.results, strict=True):
                self.types(f"{name}: {_show(a)}", full.types[x], check.types[y])
            self.attributes(name, a, b, uses)
        for x, y in zip(full.body.args, check.body.args, strict=False):
            self.types(f"{name}: argument {x}", full.types[x], check.types[y])
        if len(full.body.args) != len(check.body.args):
            self.structure[f"{name}: another number of arguments"] = None

    def types(self, where: str, a: Type, b: Type) -> None:
        """Two types: only extents may differ."""
        if (a.kind, a.element, len(a.shape), a.space) != (b.kind, b.element, len(b.shape), b.space):
            self.structure[f"{where}: {a} at full size, {b} at check size"] = None
        elif a.shape != b.shape:
            self.sizes[f"{where}: {a} at full size, {b} at check size"] = None

    def attributes(self, name: str, a: Op, b: Op, uses: dict[int, str]) -> None:
        """Attributes of two operations of the same kind."""
        for key in sorted((set(a.attrs) | set(b.attrs)) - _IGNORED):
            x, y = a.attrs.get(key), b.attrs.get(key)
            if _equal(x, y):
                continue
            if key == "value" and a.results:
                used = uses.get(a.results[0], "nothing")
                self.constants[Constant(f"{name}, {a.location}", used, _text(x), _text(y))] = None
            elif _alike(x, y):
                self.sizes[f"{name}: {_show(a)}: {key} {_text(x)} and {_text(y)}"] = None
            else:
                self.structure[f"{name}: {_show(a)}: {key} {_text(x)} and {_text(y)}"] = None

    def kernels(self, full: Kernel, check: Kernel) -> None:
        """Bodies, grids, windows and configuration of two kernels."""
        name = f"kernel {full.name}"
        for what in ("name", "semantics", "prefetch", "aliases", "side_effects"):
            x, y = getattr(full, what), getattr(check, what)
            if x != y:
                self.structure[f"{name}: {what} {x} and {y}"] = None
        if full.config != check.config:
            self.sizes[f"{name}: configuration {full.config} and {check.config}"] = None
        if len(full.grid) != len(check.grid) or len(full.windows) != len(check.windows):
            self.structure[f"{name}: grids {full.grid} and {check.grid}"] = None
            return
        if full.grid != check.grid:
            self.sizes[f"{name}: grids {full.grid} and {check.grid}"] = None
        self.funcs(name, full.body, check.body)
        for k, (v, w) in enumerate(zip(full.windows, check.windows, strict=True)):
            where = f"{name}: window {k}"
            if (v.transform is None) != (w.transform is None) or v.element != w.element:
                self.structure[f"{where}: another kind"] = None
            elif v.transform is not None and w.transform is not None:
                self.funcs(where, v.transform, w.transform)
            if v.bounds != w.bounds or v.pipeline_mode != w.pipeline_mode:
                self.sizes[
                    f"{where}: {v.bounds} {v.pipeline_mode} and {w.bounds} {w.pipeline_mode}"
                ] = None


def same_up_to_sizes(full: Program, check: Program) -> Differences:
    """Compare the captures of one source at two sizes: kernels, their windows, the outer program.

    `structure` is empty when the two are the same program; `sizes` and `constants` explain the
    rest.
    """
    with refusing("comparing two artifacts"):
        return _compare(full, check)


def _compare(full: Program, check: Program) -> Differences:
    found = _Comparison()
    if len(full.kernels) != len(check.kernels):
        found.structure[f"{len(full.kernels)} kernels and {len(check.kernels)}"] = None
        return found.result()
    for a, b in zip(full.kernels, check.kernels, strict=True):
        found.kernels(a, b)
    outer, other = list(full.functions.values()), list(check.functions.values())
    if len(outer) != len(other):
        found.structure[f"{len(outer)} outer functions and {len(other)}"] = None
        return found.result()
    for x, y in zip(outer, other, strict=True):
        a, b = read_func(x), read_func(y)
        found.funcs(f"function {a.name}", a, b)
    return found.result()


def _paired(a: Block, b: Block) -> Iterator[tuple[Op | None, Op | None]]:
    for k in range(max(len(a.ops), len(b.ops))):
        x = a.ops[k] if k < len(a.ops) else None
        y = b.ops[k] if k < len(b.ops) else None
        yield x, y
        if x is None or y is None or x.name != y.name:
            return
        for r, s in zip(x.regions, y.regions, strict=False):
            yield from _paired(r, s)


def _first_uses(func: Func) -> dict[int, str]:
    found: dict[int, str] = {}
    for op in func.walk():
        for value in op.operands:
            found.setdefault(value, op.name)
    return found


def _show(op: Op | None) -> str:
    if op is None:
        return "the end"
    return f"{op.name} ({op.location})" if op.location else op.name


def _text(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, np.ndarray):
        first = value.reshape(-1)[:4].tolist()
        return f"{value.dtype}{list(value.shape)} {first}"
    return str(value)


def _equal(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
    return type(x) is type(y) and bool(x == y)


def _alike(x: Any, y: Any) -> bool:
    """True for attributes that differ in numbers only."""
    if isinstance(x, bool) or isinstance(y, bool):
        return False
    if isinstance(x, int) and isinstance(y, int):
        return True
    if isinstance(x, Raw) and isinstance(y, Raw):
        return _DIGITS.sub("0", x.text) == _DIGITS.sub("0", y.text)
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(_equal(x[k], y[k]) or _alike(x[k], y[k]) for k in x)
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_equal(a, b) or _alike(a, b) for a, b in zip(x, y))  # noqa: B905
    return isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.ndim == y.ndim
