"""Recognises one matrix product with what comes before and after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.terms import REDUCTIONS, Dot, InputUse, Output, Program

Role = Literal["full", "row", "col", "scalar"]


@dataclass(frozen=True)
class Operand:
    """An input in the space of one side or of the result; `flipped` when it lies (cols, rows)."""

    term: int
    use: InputUse
    role: Role
    flipped: bool = False
    batched: bool = False


@dataclass(frozen=True)
class Side:
    """One operand of the product: an expression over (rows, contracted)."""

    term: int
    rows: Dim
    operands: tuple[Operand, ...]
    dtype: str
    """What the matrix unit reads."""
    flipped: bool
    """It lies (contracted, rows) in memory."""
    plain: bool
    """It is an input as it stands."""


@dataclass(frozen=True)
class MatmulProgram:
    """One product over (batch, rows, cols), its sides and its epilogue."""

    program: Program
    term: int
    dot: Dot
    batch: Dim
    rows: Dim
    cols: Dim
    contract: Dim
    """As axes of the left side."""
    lhs: Side
    rhs: Side
    operands: tuple[Operand, ...]
    """Inputs of the epilogue."""
    outputs: tuple[tuple[Output, Role], ...]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(batch, m, n, k) at full size."""
        extent = self.program.extent
        return (
            extent(self.batch),
            extent(self.rows),
            extent(self.cols),
            extent(self.contract),
        )

    @property
    def epilogue(self) -> list[int]:
        """Terms between the product and the results."""
        roots = [out.term for out, _ in self.outputs]
        return [
            t for t in self.program.reach(roots, stop=lambda t: t == self.term) if t != self.term
        ]


def match(program: Program) -> MatmulProgram:
    """The program as one product; raises Unsupported with the reason."""
    dots = [t for t in program.live() if program[t].op == "dot"]
    if not dots:
        raise Unsupported("it holds no matrix product")
    if len(dots) > 1:
        raise Unsupported(f"it holds {len(dots)} matrix products")
    reasons: list[str] = []
    for swapped in (False, True):
        try:
            return _match(program, dots[0], swapped)
        except Unsupported as why:
            reasons.append(str(why))
    raise Unsupported(reasons[0])


def _match(program: Program, term: int, swapped: bool) -> MatmulProgram:
    dot: Dot = program[term].attr("dot")
    left, right = program[term].args
    batch, rows, cols = (
        _result(dot.lhs_batch),
        _result(dot.lhs_free),
        _result(dot.rhs_free),
    )
    lhs = _side(
        program, left, dot.lhs_batch, dot.lhs_free, [a for a, _ in dot.contract], dot.lhs_dtype
    )
    rhs = _side(
        program, right, dot.rhs_batch, dot.rhs_free, [b for _, b in dot.contract], dot.rhs_dtype
    )
    contract = tuple(a for pair, _ in dot.contract for a in pair)
    if swapped:
        lhs, rhs, rows, cols = rhs, lhs, cols, rows
        contract = tuple(a for _, pair in dot.contract for a in pair)
    if not rows or not cols:
        raise Unsupported("a product with a vector")
    place = _placer(program, batch, rows, cols)
    inside = program.reach((o.term for o in program.outputs), stop=lambda t: t == term)
    across = set(batch) | set(rows)
    for t in inside:
        if t != term and program[t].op in REDUCTIONS and across & set(program[t].attr("over")):
            raise Unsupported("its epilogue reduces over rows of the product")
    operands = tuple(place(t) for t in inside if program[t].op == "input")
    outputs = tuple[tuple[Output, Role], ...](
        (out, _output_role(program, out, batch, rows, cols)) for out in program.outputs
    )
    return MatmulProgram(
        program, term, dot, batch, rows, cols, contract, lhs, rhs, operands, outputs
    )  # fmt: skip


def _result(pairs: tuple[tuple[Dim, Dim], ...]) -> Dim:
    return tuple(a for dim, _ in pairs for a in dim)


def _operand(pairs: tuple[tuple[Dim, Dim], ...]) -> Dim:
    return tuple(a for _, dim in pairs for a in dim)


def _flat(use: InputUse) -> Dim:
    return tuple(a for dim in use.dims for a in dim)


def _side(
    program: Program,
    term: int,
    batch_pairs: tuple[tuple[Dim, Dim], ...],
    free_pairs: tuple[tuple[Dim, Dim], ...],
    contracted: list[Dim],
    dtype: str,
) -> Side:
    batch, rows = _operand(batch_pairs), _operand(free_pairs)
    contract = tuple(a for dim in contracted for a in dim)
    inside = program.reach([term])
    for t in inside:
        if program[t].op in (*REDUCTIONS, "dot", "iota", "size"):
            raise Unsupported(f"an operand of the product holds `{program[t].op}`")
    place = _placer(program, batch, rows, contract)
    operands = tuple(place(t) for t in inside if program[t].op == "input")
    full = [o for o in operands if o.role == "full"]
    if not full or len({o.flipped for o in full}) > 1:
        raise Unsupported("an operand of the product is computed from arrays that lie crosswise")
    plain = program[term].op == "input"
    source = full[0].use.dtype if plain else dtype
    narrow = source if plain and _narrower(source, dtype) else dtype
    return Side(term, rows, operands, narrow, full[0].flipped, plain)


def _narrower(source: str, wanted: str) -> bool:
    """Whether `source` values, read by the matrix unit as they are, equal their conversion."""
    return source == wanted or (source, wanted) == ("bfloat16", "float32")


def _placer(program: Program, batch: Dim, rows: Dim, cols: Dim) -> Callable[[int], Operand]:
    """Finds how inputs lie in the space (batch, rows, cols)."""

    def place(term: int) -> Operand:
        use = program.input(term)
        flat = _flat(use)
        layouts: list[tuple[Dim, Role, bool, bool]] = [
            (batch + rows + cols, "full", False, True),
            (batch + cols + rows, "full", True, True),
            (batch + rows, "row", False, True),
            (batch + cols, "col", False, True),
            (cols, "col", False, False),
            ((), "scalar", False, False),
        ]
        for layout, role, flipped, batched in layouts:
            if flat == layout:
                return Operand(term, use, role, flipped, batched and bool(batch))
        raise Unsupported(f"`{use.name}` lies in another order than the product")

    return place


def _output_role(program: Program, out: Output, batch: Dim, rows: Dim, cols: Dim) -> Role:
    flat = tuple(a for dim in out.dims for a in dim)
    if flat == batch + rows + cols:
        return "full"
    if flat == batch + rows:
        return "row"
    raise Unsupported("a result lies in another order than the product")
