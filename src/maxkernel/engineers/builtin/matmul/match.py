"""Recognises one matrix product with what comes before and after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.operands import Operand, Space, flat, place
from maxkernel.engineers.builtin.split import Region, Result, carve
from maxkernel.engineers.builtin.terms import REDUCTIONS, Dot, Program


@dataclass(frozen=True)
class Side:
    """One operand of the product: an expression over (rows, contracted)."""

    term: int
    space: Space
    operands: tuple[Operand, ...]
    dtype: str
    """What the matrix unit reads."""
    flipped: bool
    """It lies (contracted, rows) in memory."""
    plain: bool
    """It is an input as it stands."""

    @property
    def rows(self) -> Dim:
        """Axes of its rows."""
        return self.space.rows


@dataclass(frozen=True)
class MatmulProgram:
    """One product over (batch, rows, cols), its sides and its epilogue."""

    program: Program
    term: int
    dot: Dot
    lhs: Side
    rhs: Side
    region: Region
    """The epilogue: what the kernel makes of the product."""

    @property
    def space(self) -> Space:
        """Axes of the product."""
        return self.region.space

    @property
    def batch(self) -> Dim:
        """Axes that both sides and the product share."""
        return self.space.batch

    @property
    def contract(self) -> Dim:
        """Contracted axes, as those of the left side."""
        return self.lhs.space.cols

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs of the epilogue."""
        return self.region.operands

    @property
    def results(self) -> tuple[Result, ...]:
        """What the kernel writes."""
        return self.region.results

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(batch, m, n, k) at full size."""
        extent = self.program.extent
        return (
            extent(self.batch),
            extent(self.space.rows),
            extent(self.space.cols),
            extent(self.contract),
        )

    @property
    def epilogue(self) -> list[int]:
        """Terms between the product and the kernel's results."""
        return [t for t in self.region.terms if t != self.term]


def match(program: Program) -> MatmulProgram:
    """The program as one product; raises Unsupported with the reason."""
    dots = [t for t in program.live() if program[t].op == "dot"]
    if not dots:
        raise Unsupported("it holds no matrix product")
    if len(dots) > 1:
        raise Unsupported(f"it holds {len(dots)} matrix products")
    found: list[MatmulProgram] = []
    reasons: list[str] = []
    for swapped in (False, True):
        try:
            found.append(_match(program, dots[0], swapped))
        except Unsupported as why:
            reasons.append(str(why))
    if not found:
        raise Unsupported(reasons[0])
    return min(found, key=lambda matmul: matmul.region.has_rest)


def _match(program: Program, term: int, swapped: bool) -> MatmulProgram:
    dot: Dot = program[term].attr("dot")
    left, right = program[term].args
    inner = [a for a, _ in dot.contract], [b for _, b in dot.contract]
    lhs = _side(program, left, dot.lhs_batch, dot.lhs_free, inner[0], dot.lhs_dtype)
    rhs = _side(program, right, dot.rhs_batch, dot.rhs_free, inner[1], dot.rhs_dtype)
    rows, cols = _result(dot.lhs_free), _result(dot.rhs_free)
    if swapped:
        lhs, rhs, rows, cols = rhs, lhs, cols, rows
    if not rows or not cols:
        raise Unsupported("a product with a vector")
    region = carve(program, Space(_result(dot.lhs_batch), rows, cols), term)
    if swapped and region.has_rest:
        raise Unsupported("its result lies in another order")
    return MatmulProgram(program, term, dot, lhs, rhs, region)


def _result(pairs: tuple[tuple[Dim, Dim], ...]) -> Dim:
    return flat([dim for dim, _ in pairs])


def _side(
    program: Program,
    term: int,
    batch: tuple[tuple[Dim, Dim], ...],
    free: tuple[tuple[Dim, Dim], ...],
    contracted: list[Dim],
    dtype: str,
) -> Side:
    space = Space(flat([d for _, d in batch]), flat([d for _, d in free]), flat(contracted))
    inside = program.reach([term])
    for t in inside:
        if program[t].op in (*REDUCTIONS, "dot", "iota", "size"):
            raise Unsupported(f"an operand of the product holds `{program[t].op}`")
    operands = tuple(place(program, space, t) for t in inside if program[t].op == "input")
    full = [o for o in operands if o.role == "full"]
    if not full or len({o.flipped for o in full}) > 1:
        raise Unsupported("an operand of the product is computed from arrays that lie crosswise")
    flipped = full[0].flipped
    operands = tuple(
        replace(o, flipped=flipped) if o.role in ("row", "col") else o for o in operands
    )
    plain = program[term].op == "input"
    source = full[0].use.dtype
    narrow = source if plain and _same_product(source, dtype) else dtype
    return Side(term, space, operands, narrow, flipped, plain)


def _same_product(source: str, wanted: str) -> bool:
    """Whether the matrix unit may read `source` values as they are instead of converted."""
    return source == wanted or (source, wanted) == ("bfloat16", "float32")
