"""What the bodies of matrix-product kernels share: the product, and scopes for its epilogue."""

from __future__ import annotations

from collections.abc import Callable

from maxkernel.engineers.builtin import chunks
from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.matmul.arguments import Argument, Where
from maxkernel.engineers.builtin.matmul.match import MatmulProgram, Side
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names, call

_PLAIN = '''def dot(lhs, rhs):
    """Matrix product of lhs (m, k) and rhs (k, n), accumulated in {accumulated}."""
{statement}
'''
_CROSSED = '''def dot(lhs, rhs):
    """lhs {left} times rhs {right} as they lie: nothing is transposed in memory."""
{statement}
'''


def define_dot(matmul: MatmulProgram, module: Module) -> None:
    """Adds the helper `dot` for the way both sides lie."""
    accumulated = "int32" if matmul.dot.dtype == "int32" else "float32"
    options = [f"preferred_element_type=jnp.{accumulated}"]
    if matmul.dot.precision == "highest" and matmul.lhs.dtype == "float32":
        options.insert(0, "precision=jax.lax.Precision.HIGHEST")
    left, right = matmul.lhs.flipped, not matmul.rhs.flipped
    if not left and not right:
        statement = call("jnp.dot", ["lhs", "rhs", *options], 4, "return ")
        module.helpers.add(_PLAIN.format(accumulated=accumulated, statement=statement))
        return
    numbers = f"((({0 if left else 1},), ({1 if right else 0},)), ((), ()))"
    statement = call("jax.lax.dot_general", ["lhs", "rhs", numbers, *options], 4, "return ")
    shapes = {"left": "(k, m)" if left else "(m, k)", "right": "(n, k)" if right else "(k, n)"}
    module.helpers.add(_CROSSED.format(statement=statement, **shapes))


def product_code(
    matmul: MatmulProgram,
    args: tuple[Argument, ...],
    names: Names,
    module: Module,
    cols: bool = False,
) -> tuple[list[str], list[str], str]:
    """(statements before the loop, statements per chunk, the product of a chunk).

    A chunk is some rows, with `cols` also some columns, of a block of the result.
    """
    define_dot(matmul, module)
    before, rhs = _side(matmul, matmul.rhs, "rhs", args, names, module, "cols" if cols else "")
    inner, lhs = _side(matmul, matmul.lhs, "lhs", args, names, module, "rows")
    if cols:
        before, inner = [], [*before, *inner]
    return before, inner, f"dot({lhs}, {rhs})"


def _side(
    matmul: MatmulProgram,
    side: Side,
    where: Where,
    args: tuple[Argument, ...],
    names: Names,
    module: Module,
    cut: str,
) -> tuple[list[str], str]:
    """(statements, expression) for one side's block; `cut` names a slice of the side's rows."""
    by_term = {a.operand.term: a for a in args if a.where == where}
    full = (f":, {cut}" if side.flipped else f"{cut}, :") if cut else "..."
    slices = {"full": full, "row": full, "col": "..."}

    def load(term: int) -> Code:
        argument = by_term[term]
        if argument.operand.role == "scalar":
            return Code(f"{argument.ref}[0, 0]")
        text = f"{argument.ref}[{slices[argument.operand.role]}]"
        return chunks.loaded(text, argument.operand.use.dtype)

    if side.plain:
        argument = by_term[side.term]
        cast = "" if argument.operand.use.dtype == side.dtype else f".astype(jnp.{side.dtype})"
        return [], f"{argument.ref}[{full}]{cast}"
    scope = _scope(matmul, (side.rows, ()), load, names, module)
    (value,) = scope.write([side.term])
    cast = "" if side.dtype == "float32" else f".astype(jnp.{side.dtype})"
    name = names.new("right" if where == "rhs" else "left")
    return [*scope.lines, f"{name} = {value.at(100)}{cast}"], name


def epilogue_scope(
    matmul: MatmulProgram,
    where: Where,
    args: tuple[Argument, ...],
    names: Names,
    module: Module,
    cols: str = ":",
) -> Scope:
    """A scope over chunks of rows of the result: of one block (`tile`) or whole (`wide`)."""
    by_term = {a.operand.term: a for a in args if a.where == where}

    def load(term: int) -> Code:
        argument = by_term[term]
        operand = argument.operand
        if operand.role == "scalar":
            return Code(f"{argument.ref}[0, 0]")
        if operand.flipped:
            return chunks.loaded(f"{argument.ref}[{cols}, rows].T", operand.use.dtype)
        slices = {"full": f"rows, {cols}", "row": "rows, :", "col": f":, {cols}"}[operand.role]
        slices = "..." if slices == ":, :" else slices
        return chunks.loaded(f"{argument.ref}[{slices}]", operand.use.dtype)

    space = (matmul.space.rows, matmul.space.cols)
    return _scope(matmul, space, load, names, module, where == "wide")


def _scope(
    matmul: MatmulProgram,
    space: tuple[Dim, Dim],
    load: Callable[[int], Code],
    names: Names,
    module: Module,
    wide: bool = False,
) -> Scope:
    def iota(over: Dim) -> Code:
        if over == matmul.space.cols:
            if wide:
                return Code("jax.lax.broadcasted_iota(jnp.int32, (1, n), 1)")
            first = "jax.lax.broadcasted_iota(jnp.int32, (1, block_n), 1)"
            return Code(f"{first} + column_0", 10)
        raise Unsupported("an index other than the column's")

    def size(over: Dim) -> Code:
        if over == matmul.space.cols:
            return Code("n")
        raise Unsupported("a size other than the row's")

    return Scope(
        program=matmul.program,
        rows=frozenset(space[0]),
        cols=space[1],
        load=load,
        iota=iota,
        size=size,
        names=names,
        helpers=module.helpers,
        constants=module.constants,
        narrow=matmul.lhs.dtype != "float32",
    )
