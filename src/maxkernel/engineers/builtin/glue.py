"""What XLA does after the kernel: the rest of the program, as jnp code on whole arrays.

Every value has one dimension per group of axes, in one order, of size 1 where it does not depend
on the group; so broadcasting needs no code here either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.expr import REDUCE, Code, Scope
from maxkernel.engineers.builtin.module import Module, Shapes
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.split import Region
from maxkernel.engineers.builtin.terms import REDUCTIONS, Output, Program, Term
from maxkernel.engineers.builtin.text import WIDTH, Names


@dataclass
class GlueScope(Scope):
    """Expressions on whole arrays; reductions run over groups of axes."""

    groups: tuple[Dim, ...] = ()

    def _reduce(self, t: Term, arg: Code) -> Code:
        over: Dim = t.attr("over")
        places = [i for i, group in enumerate(self.groups) if set(group) <= set(over)]
        if sum(len(self.groups[i]) for i in places) != len(over):
            raise Unsupported("a reduction over part of a dimension")
        name = REDUCE[t.op]
        axis = str(places[0]) if len(places) == 1 else str(tuple(places))
        return Code(f"{name}({arg.text}, axis={axis}, keepdims=True)")


def finish(
    program: Program,
    region: Region,
    results: list[str],
    shapes: Shapes,
    names: Names,
    module: Module,
) -> tuple[list[str], list[str]]:
    """(statements, returned expressions) that turn the kernel's results into the outputs."""
    direct = {r.output: name for r, name in zip(region.results, results, strict=True)}
    rest = [(i, o) for i, o in enumerate(program.outputs) if i not in direct]
    lines: list[str] = []
    values: dict[int, str] = {}
    if rest:
        lines, values = _rest(program, region, results, [o for _, o in rest], shapes, names, module)
    returned: list[str] = []
    for i, output in enumerate(program.outputs):
        if i in direct:
            result = next(r for r in region.results if r.output == i)
            returned.append(restored(direct[i], result.role, output, region, shapes))
        else:
            returned.append(values[rest.index((i, output))])
    return lines, returned


def restored(name: str, role: str, output: Output, region: Region, shapes: Shapes) -> str:
    """A result in the shape of the output that it is."""
    space = region.space
    rank = 3 if space.batch else 2
    if role == "full" and len(output.dims) == rank and output.dims[-1] == space.cols:
        return name
    return f"{name}.reshape({shapes.shape(output.dims)})"


def _rest(
    program: Program,
    region: Region,
    results: list[str],
    outputs: list[Output],
    shapes: Shapes,
    names: Names,
    module: Module,
) -> tuple[list[str], dict[int, str]]:
    known = {r.term: name for r, name in zip(region.results, results, strict=True)}
    terms = program.reach([o.term for o in outputs], stop=known.__contains__)
    groups = _groups(program, region, terms, outputs)

    def shape(axes: frozenset[Axis]) -> str:
        sizes = [shapes.dim(g) if axes & set(g) else "1" for g in groups]
        return f"({', '.join(sizes)})"

    def ordered(text: str, lies: Dim, axes: frozenset[Axis]) -> str:
        order = [g for g in groups if axes & set(g)]
        if lies == flat(order):
            return f"{text}.reshape{shape(axes)}"
        if len(order) == 2 and lies == flat(order[::-1]):
            return f"{text}.T.reshape{shape(axes)}"
        raise Unsupported("what follows the kernel permutes dimensions")

    scope = _scope(program, region, groups, ordered, shapes, names, module)
    space = region.space
    for term, name in known.items():
        if term in terms:
            lies = space.batch + space.rows + (space.cols if _is_full(region, term) else ())
            scope.known[term] = Code(ordered(name, lies, program[term].axes))
    values: dict[int, str] = {}
    for i, output in enumerate(outputs):
        (value,) = scope.write([output.term])
        if not value.text.isidentifier():
            value = scope.assign(output.term, value)
        values[i] = as_output(value.text, output, program, groups, shapes)
        if len(values[i]) > WIDTH - 12:
            name = names.new("shape")
            scope.lines.append(f"{name} = {shapes.shape(output.dims)}")
            values[i] = values[i].replace(
                f"reshape({shapes.shape(output.dims)})", f"reshape({name})"
            )
    return scope.lines, values


def _is_full(region: Region, term: int) -> bool:
    return next(r.role for r in region.results if r.term == term) == "full"


def as_output(
    text: str, output: Output, program: Program, groups: tuple[Dim, ...], shapes: Shapes
) -> str:
    """A value whose dimensions are `groups`, in the shape and dtype of the output that it is."""
    axes = program[output.term].axes
    lies = flat(output.dims)
    if [g for g in groups if set(g) & set(lies)] != _runs(lies, groups):
        raise Unsupported("an output lies in another order than what follows the kernel")
    missing = [g for g in groups if set(g) & set(lies) and not set(g) & axes]
    if missing:
        sizes = ", ".join(shapes.dim(g) for g in groups)
        text = f"jnp.broadcast_to({text}, ({sizes},))"
    cast = "" if output.dtype in ("float32", "int32") else f".astype(jnp.{output.dtype})"
    return f"{text}.reshape({shapes.shape(output.dims)}){cast}"


def _runs(lies: Dim, groups: tuple[Dim, ...]) -> list[Dim]:
    """Groups in the order in which they lie."""
    order: list[Dim] = []
    for axis in lies:
        group = next(g for g in groups if axis in g)
        if group not in order:
            order.append(group)
    return order


def _groups(
    program: Program, region: Region, terms: list[int], outputs: list[Output]
) -> tuple[Dim, ...]:
    """Axes that always come together, in the order of the largest output."""
    sets = [program[t].axes for t in terms]
    sets += [frozenset(program[t].attr("over")) for t in terms if program[t].op in REDUCTIONS]
    sets += [frozenset(d) for o in outputs for d in o.dims]
    order: list[Axis] = []
    largest = max(outputs, key=lambda o: program.extent(flat(o.dims)))
    space = region.space
    for axis in (*flat(largest.dims), *space.batch, *space.rows, *space.cols):
        if axis not in order and any(axis in s for s in sets):
            order.append(axis)
    order += sorted(frozenset[Axis]().union(*sets) - set(order))
    return runs_of(order, sets)


def runs_of(order: Sequence[Axis], sets: Sequence[frozenset[Axis]]) -> tuple[Dim, ...]:
    """Axes in `order`, together where neighbours are both in or both out of each of `sets`."""
    groups: list[list[Axis]] = []
    for axis in order:
        together = groups and all((axis in s) == (groups[-1][-1] in s) for s in sets)
        if together:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return tuple(tuple(g) for g in groups)


def _scope(
    program: Program,
    region: Region,
    groups: tuple[Dim, ...],
    ordered: Callable[[str, Dim, frozenset[Axis]], str],
    shapes: Shapes,
    names: Names,
    module: Module,
) -> GlueScope:
    def load(term: int) -> Code:
        use = program.input(term)
        text = ordered(shapes.arrays[use.index], flat(use.dims), program[term].axes)
        return as_computed(program, term, text)

    def iota(over: Dim) -> Code:
        if over not in groups:
            raise Unsupported("an index along part of a dimension")
        shape = ", ".join(shapes.dim(g) if g == over else "1" for g in groups)
        return Code(f"jax.lax.broadcasted_iota(jnp.int32, ({shape},), {groups.index(over)})")

    return whole_scope(program, groups, load, iota, shapes, names, module)


def as_computed(program: Program, term: int, text: str) -> Code:
    """An input, written `text`, in the dtype that programs compute in."""
    kind = {"float": "float32", "int": "int32"}.get(program[term].kind)
    plain = kind in (None, program.input(term).dtype)
    return Code(text if plain else f"{text}.astype(jnp.{kind})")


def whole_scope(
    program: Program,
    groups: tuple[Dim, ...],
    load: Callable[[int], Code],
    iota: Callable[[Dim], Code],
    shapes: Shapes,
    names: Names,
    module: Module,
) -> GlueScope:
    """A scope of code around kernels, on whole arrays whose dimensions are `groups`."""
    return GlueScope(
        program=program,
        rows=frozenset(),
        cols=(),
        load=load,
        iota=iota,
        size=lambda over: Code(shapes.dim(over)),
        names=names,
        helpers=module.helpers,
        constants=module.constants,
        groups=groups,
    )
