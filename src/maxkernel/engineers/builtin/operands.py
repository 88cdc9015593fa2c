"""How inputs become a kernel's two-dimensional arrays, and what XLA has to prepare for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.module import Shapes
from maxkernel.engineers.builtin.terms import InputUse, Program
from maxkernel.engineers.builtin.text import call

Role = Literal["full", "row", "col", "scalar"]


@dataclass(frozen=True)
class Space:
    """The axes that a kernel's blocks run over: (batch, rows, columns)."""

    batch: Dim
    rows: Dim
    cols: Dim

    def role(self, axes: frozenset[int]) -> Role:
        """Shape class of a value that depends on these axes. A lone row counts as full."""
        across = bool(axes & {*self.batch, *self.rows})
        along = bool(axes & set(self.cols))
        if along and (across or not self.rows):
            return "full"
        return "row" if across else "col" if along else "scalar"


@dataclass(frozen=True)
class Operand:
    """An input in a space.

    `flipped`: it lies (columns, rows). `batched`: it has the batch dimension. `spread`: it is a
    small vector over part of the rows or columns, which XLA repeats over the rest; its own axes
    are `lies`.
    """

    term: int
    use: InputUse
    role: Role
    flipped: bool = False
    batched: bool = False
    spread: bool = False

    @property
    def lies(self) -> Dim:
        """The input's axes in memory order."""
        return flat(self.use.dims)


def flat(dims: Sequence[Dim]) -> Dim:
    """All axes of an array, major first."""
    return tuple(a for dim in dims for a in dim)


def place(program: Program, space: Space, term: int) -> Operand:
    """An input in a space; raises Unsupported when it lies in another order."""
    use = program.input(term)
    lies = flat(use.dims)
    batch, rows, cols = space.batch, space.rows, space.cols
    layouts: list[tuple[Dim, Role, bool, bool]] = [
        (batch + rows + cols, "full", False, True),
        (batch + cols + rows, "full", True, True),
        (batch + rows, "row", False, True),
        (batch + cols, "col", False, True),
        (cols, "col", False, False),
        ((), "scalar", False, False),
    ]
    for layout, role, flipped, batched in layouts:
        if lies == layout and (role != "row" or rows or batch):
            return Operand(term, use, role, flipped, batched and bool(batch))
    vectors: tuple[tuple[Dim, Role], ...] = ((rows, "row"), (cols, "col"))
    for whole, role in vectors:
        if lies and lies == tuple(a for a in whole if a in lies) and not batch:
            return Operand(term, use, role, spread=True)
    raise Unsupported(f"`{use.name}` lies in another order than the rest")


def as_block(
    operand: Operand, space: Space, sizes: tuple[str, str], name: str, shapes: Shapes
) -> tuple[list[str], str]:
    """(statements, expression) for an input as the kernel takes it: two (or three) dimensions of
    the named `sizes`, scalars as 32-bit (1, 1)."""
    dtype = operand.use.dtype
    if operand.role == "scalar":
        kind = "int32" if "int" in dtype or dtype == "bool" else "float32"
        return [], f"{name}.astype(jnp.{kind}).reshape(1, 1)"
    cast = ".astype(jnp.int8)" if dtype == "bool" else ""
    parts = [
        sizes[0] if operand.role in ("full", "row") else "1",
        sizes[1] if operand.role in ("full", "col") else "1",
    ]
    if operand.flipped:
        parts.reverse()
    if space.batch:
        parts.insert(0, "batch" if operand.batched else "1")
    shape = f"({', '.join(parts)})"
    if operand.spread:
        whole = space.rows if operand.role == "row" else space.cols
        lies = operand.lies
        own = ", ".join(shapes.dim((a,)) if a in lies else "1" for a in whole)
        full = ", ".join(shapes.dim((a,)) for a in whole)
        spread = f"{name}_spread"
        arguments = [f"{name}{cast}.reshape({own})", f"({full})"]
        return [call("jnp.broadcast_to", arguments, 4, f"{spread} = ").lstrip()], (
            f"{spread}.reshape{shape}"
        )
    separate = all(len(d) == 1 for d in operand.use.dims)
    if not cast and separate and len(operand.use.dims) == len(parts) == operand_rank(operand):
        return [], name
    return [], f"{name}{cast}.reshape{shape}"


def operand_rank(operand: Operand) -> int:
    """Dimensions of an input that is passed as it is; 0 for vectors, which need a reshape."""
    return (3 if operand.batched else 2) if operand.role == "full" else 0
