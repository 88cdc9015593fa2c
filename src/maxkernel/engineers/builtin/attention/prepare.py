"""What becomes of queries, keys or values before the products: jnp code that XLA fuses with the
change of layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from maxkernel.engineers.builtin.attention.sides import Side
from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.chunks import loaded
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.terms import Program
from maxkernel.engineers.builtin.text import Names, call, doc


def prepare(
    program: Program,
    sides: Sequence[tuple[Side, str]],
    arrays: tuple[str, ...],
    module: Module,
    others: Iterable[Side] = (),
) -> tuple[list[str], list[str]]:
    """(statements of `kernel` that make of each side's input what the products read, the names of
    what they read); the functions that the statements call go to `module`.

    `sides` come with their roles. What is made of an input that is read elsewhere as well, by
    another side or by one of `others`, has a name of its own.
    """
    everyone = [*(side for side, _ in sides), *others]
    readers = Counter(i for s in everyone for i in (s.use.index, *(v.index for v in s.vectors)))
    lines: list[str] = []
    found: list[str] = []
    for side, role in sides:
        name = arrays[side.use.index]
        if program[side.term].op != "input":
            result = name if readers[side.use.index] == 1 else Names(arrays).new(f"{name}_{role}")
            lines += _statement(program, side, role, arrays, result, module)
            name = result
        found.append(name)
    return lines, found


def _statement(
    program: Program, side: Side, role: str, arrays: tuple[str, ...], result: str, module: Module
) -> list[str]:
    if side.use.dims[-1] != side.cols:
        raise Unsupported(f"`{side.use.name}` is changed along a dimension that is not its last")
    name, vectors = arrays[side.use.index], [arrays[use.index] for use in side.vectors]
    module.functions.append(_function(program, side, role, vectors, module))
    rows = f"{name}.reshape(-1, {name}.shape[-1])"
    text = call(f"prepare_{role}", [rows, *vectors], 4, f"{result} = ", f".reshape({name}.shape)")
    return text.split("\n")


def _function(program: Program, side: Side, role: str, vectors: list[str], module: Module) -> str:
    names = Names(["x", *vectors])
    by_index = dict(zip((use.index for use in side.vectors), vectors, strict=True))

    def load(term: int) -> Code:
        use = program.input(term)
        return loaded(by_index.get(use.index, "x"), use.dtype)

    def refuse(over: Dim) -> Code:
        raise Unsupported(f"the {role} depend on positions")

    scope = Scope(
        program=program,
        rows=frozenset(side.heads + side.rows),
        cols=side.cols,
        load=load,
        iota=refuse,
        size=refuse,
        names=names,
        helpers=module.helpers,
        constants=module.constants,
        narrow=side.use.dtype != "float32",
    )
    (value,) = scope.write([side.term])
    lines = [
        f"def prepare_{role}({', '.join(['x', *vectors])}):",
        doc(f"What becomes of the {role} before the product, row by row.", 4),
        *(f"    {line}" for line in scope.lines),
        f"    return {value.at(100)}.astype(x.dtype)",
    ]
    return "\n".join(lines)
