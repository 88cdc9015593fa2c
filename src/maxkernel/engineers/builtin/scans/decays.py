"""What XLA does before the kernel: the log-decay of each position, and its running sums."""

from __future__ import annotations

from maxkernel.engineers.builtin.attention.order import ordered
from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.glue import as_computed, whole_scope
from maxkernel.engineers.builtin.module import Module, Shapes
from maxkernel.engineers.builtin.scans.match import Scan
from maxkernel.engineers.builtin.text import Names, call

RUNNING_SUMS = '''def running_sums(steps, chunk):
    """Sums of log-decays from the start of each chunk, (heads, chunks, 1, chunk).

    One small product with a triangle of ones instead of a scan along lanes.
    """
    tail = -steps.shape[-1] % chunk
    rows = jnp.pad(steps, ((0, 0), (0, tail))).reshape(-1, chunk)
    ones = jnp.triu(jnp.ones((chunk, chunk), jnp.float32))
    sums = jnp.dot(rows, ones, precision=jax.lax.Precision.HIGHEST)
    return sums.reshape(steps.shape[0], -1, 1, chunk)
'''


def decay_heads(scan: Scan) -> Dim:
    """The heads that decays are kept for: the last ones where only those matter, else all."""
    mine, heads = scan.step_heads, scan.pair.heads
    return mine if mine and mine == heads[len(heads) - len(mine) :] else heads


def log_decays(
    scan: Scan, arrays: tuple[str, ...], shapes: Shapes, names: Names, module: Module
) -> list[str]:
    """Statements that make `decays`, the running sums per chunk."""
    assert scan.step is not None
    module.helpers.add(RUNNING_SUMS)
    program, step = scan.program, scan.step
    groups: tuple[Dim, ...] = (*((a,) for a in decay_heads(scan)), (scan.row,))
    sizes = [_size(scan, axis, shapes) for (axis,) in groups]

    def shape(axes: frozenset[Axis]) -> str:
        mine = [n if axes & set(g) else "1" for n, g in zip(sizes, groups, strict=True)]
        return ", ".join(mine)

    def load(term: int) -> Code:
        use = program.input(term)
        axes = program[term].axes
        wanted = tuple(g for g in groups if axes & set(g))
        text = ordered(use, arrays[use.index], wanted, shapes)
        if len(wanted) < len(groups):
            text = f"{text}.reshape({shape(axes)})"
        return as_computed(program, term, text)

    def iota(over: Dim) -> Code:
        if over not in groups:
            raise Unsupported("a decay depends on an index of part of a dimension")
        text = f"jax.lax.broadcasted_iota(jnp.int32, ({shape(frozenset(over))}), "
        return Code(f"{text}{groups.index(over)})")

    scope = whole_scope(program, groups, load, iota, shapes, names, module)
    for term in program.reach([step]):
        if program[term].op == "input" and load(term).text.isidentifier():
            scope.known[term] = load(term)
    (value,) = scope.write([step])
    text = value.text
    if not text.isidentifier():
        scope.lines.append(f"steps = {text}")
        text = "steps"
    spread = program[step].axes != frozenset(a for g in groups for a in g)
    if spread:
        scope.lines.append(f"steps = jnp.broadcast_to({text}, ({', '.join(sizes)}))")
        text = "steps"
    flat = text if spread and len(groups) == 2 else f"{text}.reshape(-1, length)"
    return [*scope.lines, call("running_sums", [flat, "chunk"], 4, "decays = ").lstrip()]


def _size(scan: Scan, axis: Axis, shapes: Shapes) -> str:
    if axis == scan.row:
        return "length"
    place = scan.pair.heads.index(axis)
    return shapes.dim((scan.pair.q.heads[place],))
