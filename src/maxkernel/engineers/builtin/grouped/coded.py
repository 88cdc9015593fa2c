"""Recognises weights that are decoded from codes: a kernel reads the codes, and decodes in VMEM."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.costs import itemsize
from maxkernel.engineers.builtin.cuts import cut
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program
from maxkernel.types import TaskInfo

LONGEST_RUN = 256
"""Rows of codes that one scale may serve: a step of the decoding loop holds whole runs."""
SUBLANES = 8
_FOREIGN = (*REDUCTIONS, "dot", "conv", "iota", "size", "cumsum")


@dataclass(frozen=True)
class Coded:
    """Weights (G, K, N) as a function of codes (G, K / P, N) and of values per run of codes.

    `code` is the term that holds a code of each weight; `parts` are the P terms that it is, for
    each place in what is stored (one where nothing is packed): row P i + p of the weights comes
    from row i of the codes. `root` are the weights, a function of `code` and of `scales`, terms
    that depend on `runs` only, inputs (G, K / P / run, N). `codes` and `runs` are indices of the
    task's arrays.
    """

    program: Program
    root: int
    code: int
    parts: tuple[int, ...]
    stored: int
    """The term that reads the codes."""
    codes: int
    runs: tuple[tuple[int, int], ...]
    """(term, array) for each of them."""
    scales: tuple[int, ...]
    run: int
    """Rows of codes that one scale serves, at full size; 1 where there are none."""
    rows: Dim
    columns: Dim


def read_codes(info: TaskInfo, weights: int) -> Coded:
    """Weights as codes; raises Unsupported for weights of other kinds."""
    graph = info.graph
    if weights in graph.inputs:
        raise Unsupported("the weights are an input")
    program = canonicalise(cut(info, [], [weights]))
    output = program.outputs[0]
    group, deep, columns = output.dims
    live = program.live()
    foreign = next((program[t].op for t in live if program[t].op in _FOREIGN), None)
    if foreign is not None:
        raise Unsupported(f"what the weights are made of holds `{foreign}`")
    joins = [t for t in live if program[t].op == "join"]
    if len(joins) > 1:
        raise Unsupported("the weights are joined of several arrays")
    rows = deep
    if joins:
        over: Dim = program[joins[0]].attr("over")
        rows = deep[: len(deep) - len(over)]
        if deep != rows + over or any(program[joins[0]].attr("parts")):
            raise Unsupported("the weights are joined along something else than their last rows")
    whole = [t for t in live if _lies(program, t, (group, rows, columns))]
    inputs = [t for t in live if program[t].op == "input"]
    runs = [t for t in inputs if t not in whole]
    if len(whole) != 1:
        raise Unsupported("the weights are not made of one array of codes")
    shared = _shared(program, runs, group, rows, columns)
    code = joins[0] if joins else whole[0]
    parts = program[code].args if joins else (code,)
    _check_apart(program, output.term, code, whole[0], parts)
    run = program.extent(rows) // program.extent(shared) if runs else 1
    if runs and (run % SUBLANES or run > LONGEST_RUN):
        raise Unsupported(f"a scale serves {run} rows of codes")
    read = sum(_bytes(info, program.input(t).index) for t in inputs)
    made = graph.values[weights]
    if 2 * read > program.extent(flat(output.dims)) * itemsize(made.dtype) * 1.5:
        raise Unsupported("the codes are hardly smaller than the weights")
    index = {t: program.input(t).index for t in inputs}
    scales = _scales(program, output.term, code, set(runs))
    return Coded(
        program, output.term, code, parts, whole[0], index[whole[0]],
        tuple((t, index[t]) for t in runs), scales, run, rows, columns,
    )  # fmt: skip


def _lies(program: Program, term: int, dims: tuple[Dim, Dim, Dim]) -> bool:
    return program[term].op == "input" and program.input(term).dims == dims


def _shared(program: Program, runs: list[int], group: Dim, rows: Dim, columns: Dim) -> Dim:
    """The rows of the arrays that have one value per run of codes."""
    found: set[Dim] = set()
    for term in runs:
        dims = program.input(term).dims
        if len(dims) != 3 or dims[0] != group or dims[2] != columns:
            raise Unsupported("the weights are made of an array that lies in another order")
        if not dims[1] or dims[1] != rows[: len(dims[1])]:
            raise Unsupported("a scale serves rows that do not follow one another")
        found.add(dims[1])
    if len(found) > 1:
        raise Unsupported("scales of several kinds of runs")
    return found.pop() if found else ()


def _check_apart(program: Program, root: int, code: int, stored: int, parts: tuple[int, ...]):
    """Codes come in by `code` only, and nothing else does."""
    above = program.reach([root], stop=lambda t: t == code)
    if code not in above or (stored in above and stored != code):
        raise Unsupported("the weights depend on their codes in several ways")
    if code != stored:
        below = [t for t in program.reach(parts) if program[t].op == "input"]
        if below != [stored]:
            raise Unsupported("the codes are made of several arrays")


def _scales(program: Program, root: int, code: int, runs: set[int]) -> tuple[int, ...]:
    """The largest terms that depend on arrays per run only."""
    region = program.reach([root], stop=lambda t: t == code)
    open_ = {t for t in region if _needs(program, t, {code})}
    edge = {a for t in open_ if t != code for a in program[t].args if a not in open_}
    return tuple(sorted(t for t in edge if _needs(program, t, runs)))


def _needs(program: Program, term: int, sources: set[int]) -> bool:
    return bool(sources.intersection(program.reach([term])))


def _bytes(info: TaskInfo, index: int) -> int:
    spec = info.inputs[index]
    size = itemsize(spec.dtype)
    for n in spec.shape:
        size *= n
    return size
