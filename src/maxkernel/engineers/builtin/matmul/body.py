"""Bodies of matrix-product kernels."""

from __future__ import annotations

from collections.abc import Callable

from maxkernel.engineers.builtin import chunks
from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.matmul.arguments import Argument
from maxkernel.engineers.builtin.matmul.match import MatmulProgram, Side
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names, call, doc

_PLAIN = '''def dot(lhs, rhs):
    """Matrix product of lhs (m, k) and rhs (k, n), accumulated in {accumulated}."""
{statement}
'''
_CROSSED = '''def dot(lhs, rhs):
    """Product of lhs {left} and rhs {right} as they lie: nothing is transposed in memory."""
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
    arguments = ["lhs", "rhs", numbers, *options]
    statement = call("jax.lax.dot_general", arguments, 4, "return ")
    shapes = {"left": "(k, m)" if left else "(m, k)", "right": "(n, k)" if right else "(k, n)"}
    module.helpers.add(_CROSSED.format(statement=statement, **shapes))


def out_scope(
    matmul: MatmulProgram,
    args: tuple[Argument, ...],
    names: Names,
    module: Module,
) -> Scope:
    """The scope of the epilogue: chunks of rows of one block of the result."""
    by_term = {a.operand.term: a for a in args if a.where == "out"}

    def load(term: int) -> Code:
        argument = by_term[term]
        operand = argument.operand
        if operand.role == "scalar":
            return Code(f"{argument.ref}[0, 0]")
        if operand.flipped:
            return chunks.loaded(f"{argument.ref}[:, rows].T", operand.use.dtype)
        where = "..." if operand.role == "col" else "rows, :"
        return chunks.loaded(f"{argument.ref}[{where}]", operand.use.dtype)

    return _scope(matmul, (matmul.rows, matmul.cols), load, names, module)


def side_code(
    matmul: MatmulProgram,
    side: Side,
    args: tuple[Argument, ...],
    names: Names,
    module: Module,
    where: str,
) -> tuple[list[str], str]:
    """(statements, expression) for one side's block; `where` slices the Ref of a full input."""
    by_term = {a.operand.term: a for a in args}

    def load(term: int) -> Code:
        argument = by_term[term]
        operand = argument.operand
        if operand.role == "scalar":
            return Code(f"{argument.ref}[0, 0]")
        slices = where if operand.role == "full" else "..."
        if operand.role == "row" and where != "...":
            slices = "rows, :"
        return chunks.loaded(f"{argument.ref}[{slices}]", operand.use.dtype)

    if side.plain:
        argument = by_term[side.term]
        cast = "" if argument.operand.use.dtype == side.dtype else f".astype(jnp.{side.dtype})"
        return [], f"{argument.ref}[{where}]{cast}"
    scope = _scope(matmul, (side.rows, ()), load, names, module)
    (value,) = scope.write([side.term])
    cast = "" if side.dtype == "float32" else f".astype(jnp.{side.dtype})"
    return scope.lines, f"{value.at(100)}{cast}"


def _scope(
    matmul: MatmulProgram,
    space: tuple[Dim, Dim],
    load: Callable[[int], Code],
    names: Names,
    module: Module,
) -> Scope:
    def iota(over: Dim) -> Code:
        raise Unsupported("an index in the epilogue")

    def size(over: Dim) -> Code:
        if over == matmul.cols:
            return Code("n")
        raise Unsupported("a size in the epilogue")

    return Scope(
        program=matmul.program,
        rows=frozenset(space[0]),
        cols=frozenset(space[1]),
        load=load,
        iota=iota,
        size=size,
        names=names,
        helpers=module.helpers,
        constants=module.constants,
    )


def product_code(
    matmul: MatmulProgram, args: tuple[Argument, ...], names: Names, module: Module
) -> tuple[list[str], list[str], str]:
    """(statements before the loop, statements per chunk, the product of a chunk)."""
    lhs_args = tuple(a for a in args if a.where == "lhs")
    rhs_args = tuple(a for a in args if a.where == "rhs")
    lhs_where = ":, rows" if matmul.lhs.flipped else "rows, :"
    before, rhs = side_code(matmul, matmul.rhs, rhs_args, names, module, "...")
    inner, lhs = side_code(matmul, matmul.lhs, lhs_args, names, module, lhs_where)
    if before:
        name = names.new("right")
        before.append(f"{name} = {rhs}")
        rhs = name
    if inner:
        name = names.new("left")
        inner.append(f"{name} = {lhs}")
        lhs = name
    return before, inner, f"dot({lhs}, {rhs})"


def full_depth(
    matmul: MatmulProgram, args: tuple[Argument, ...], results: list[str], module: Module
) -> str:
    """The body without an axis over k: whole products, no accumulator."""
    out_refs = [f"{name}_ref" for name in results]
    names = Names([*(a.ref for a in args), *out_refs, *chunks.TAKEN, "dot", "n"])
    define_dot(matmul, module)
    before, inner, product = product_code(matmul, args, names, module)
    scope = out_scope(matmul, args, names, module)
    scope.known[matmul.term] = Code(names.new("product"))
    outputs = [
        chunks.Store(ref, out.term, out.dtype)
        for ref, (out, _) in zip(out_refs, matmul.outputs, strict=True)
    ]
    before += chunks.hoisted(scope, [o.term for o in outputs], frozenset(matmul.rows))
    inner = [
        *inner,
        f"{scope.known[matmul.term].text} = {product}",
        *chunks.stores(scope, outputs, 8),
    ]
    lines = [
        call("body", [*(a.ref for a in args), *out_refs, "*", "chunk_rows"], 0, "def ", ":"),
        doc("One block of the result, a few rows at a time, with its epilogue.", 4),
        *(f"    {line}" for line in before),
        *chunks.loop(inner, f"{out_refs[0]}.shape[0]", 4),
    ]
    return "\n".join(lines)
