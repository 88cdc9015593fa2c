"""Recognises paged decode attention: one query per sequence, head and step over gathered pages."""

from __future__ import annotations

from dataclasses import dataclass, replace

from maxkernel.engineers.builtin.attention.match import constant_factor
from maxkernel.engineers.builtin.attention.sides import pair_up, present
from maxkernel.engineers.builtin.attention.softmax import divided, read_softmax, unmask
from maxkernel.engineers.builtin.axes import Axis, Dim, Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.cuts import cut
from maxkernel.engineers.builtin.operands import flat
from maxkernel.engineers.builtin.paged.bounds import length_bound
from maxkernel.engineers.builtin.paged.frame import Frame, find_frame
from maxkernel.engineers.builtin.paged.pools import Gathered, page_gathers
from maxkernel.engineers.builtin.terms import REDUCTIONS, Dot, InputUse, Output, Program
from maxkernel.types import TaskInfo

Pairs = tuple[tuple[Dim, Dim], ...]


@dataclass(frozen=True)
class Pool:
    """A pool of pages. `axis`, `slot`, `head`: the dimensions that count pages, positions in a
    page, and key/value heads (None where there is one head only); the width is the last one.
    `columns`: only the first so many columns are meant."""

    use: InputUse
    axis: int
    slot: int
    head: int | None
    columns: int | None = None


@dataclass(frozen=True)
class Decode:
    """Attention of one query per sequence and query head over the pages of the sequence.

    Queries lie (sequences, key/value heads, queries per head, width), perhaps merged. `score` is a
    function of `product`, the first matrix product times `scale`. Position p counts where
    p < lengths + `shift`. `table`: position of the page table among the inputs. `computed`: the
    graph value that the queries are, where they are no input; `result`: the one that is computed.
    """

    program: Program
    queries: InputUse
    keys: Pool
    values: Pool
    table: int
    lengths: InputUse
    shift: int
    score: int
    product: int
    scale: float
    output: Output
    heads: int
    group: int
    computed: int | None
    result: int

    @property
    def shared(self) -> bool:
        """Whether one pool holds keys that are values as well."""
        return self.keys.use.index == self.values.use.index


@dataclass(frozen=True)
class _Hand:
    """One operand of a product, and how its axes relate to the result's."""

    term: int
    batch: Pairs
    free: Pairs
    contract: Dim


def match(info: TaskInfo) -> Decode:
    """The task as paged decode attention; raises Unsupported with the reason."""
    gathers = page_gathers(info.graph)
    if len(gathers) not in (1, 2):
        raise Unsupported("it does not gather the pages of keys and values by a table")
    if len({g.table for g in gathers}) != 1:
        raise Unsupported("keys and values have different page tables")
    frame = find_frame(info.graph, gathers)
    gathers += frame.parts
    given = [g.value for g in gathers]
    given += [] if frame.queries is None else [frame.queries]
    program = canonicalise(cut(info, given, [frame.result]))
    return _decode(info, program, frame, {len(info.inputs) + i: g for i, g in enumerate(gathers)})


def _decode(info: TaskInfo, program: Program, frame: Frame, gathers: dict[int, Gathered]) -> Decode:
    first, second = _products(program)
    output, position = program.outputs[0], next(iter(gathers.values())).table
    mine = 0 if first in program.reach([program[second].args[0]]) else 1
    weights, values = _hand(program, second, mine), _hand(program, second, 1 - mine)
    if output.term != second and divided(program, weights.term):
        raise Unsupported("something follows the second product")
    softmax = read_softmax(program, weights.term, output.term, second)
    if softmax.sink is not None or weights.contract != softmax.keys:
        raise Unsupported("the softmax has a sink, or runs over other positions than the values")
    keys, queries, factor = _sides(program, first, gathers)
    heads = flat([r for r, _ in keys.batch]) + flat([r for r, _ in queries.free])
    if flat([r for r, _ in keys.free]) != softmax.keys:
        raise Unsupported("the softmax does not run over the gathered positions")
    table = info.inputs[position].shape
    spread = present(pair_up(program, heads, keys.batch), program[keys.term].axes)
    key_pool, outer = _pool(program, keys.term, gathers, spread, keys.free, keys.contract, table)
    ties = [(p, v) for (_, p), (_, v) in zip(weights.batch, values.batch, strict=True)]
    spread = present(pair_up(program, heads, ties), program[values.term].axes)
    width = flat([v for _, v in values.free])
    positions = ((softmax.keys, values.contract),)
    value_pool, _ = _pool(program, values.term, gathers, spread, positions, width, table)
    results = {p: r for r, p in (*weights.batch, *weights.free)}
    if flat(output.dims) != _renamed(heads, results) + flat([r for r, _ in values.free]):
        raise Unsupported("the result does not lie by sequence, head and width")

    score, seen, hidden = unmask(program, softmax.scores)
    if len(seen) + len(hidden) != 1:
        raise Unsupported("the positions of a sequence are not bounded by one length")
    length, shift = length_bound(program, seen, hidden, softmax.keys)
    lengths = program.input(length)
    if flat(lengths.dims) != heads[:outer]:
        raise Unsupported("the lengths are not one per sequence")
    score, product, scale = constant_factor(program, score, first)
    _check_score(program, score, product)
    pool = info.inputs[key_pool.use.index].shape
    kv_heads = pool[key_pool.head] if key_pool.head is not None else 1
    return Decode(
        program, _queries(program, queries, heads), key_pool, value_pool, position, lengths,
        shift, score, product, scale * factor, output, kv_heads,
        program.extent(heads[outer:]) // kv_heads, frame.queries, frame.result,
    )  # fmt: skip


def _products(program: Program) -> tuple[int, int]:
    """The two products, the second of which yields the result, perhaps divided."""
    dots = [t for t in program.live() if program[t].op == "dot"]
    if len(dots) != 2 or len(program.outputs) != 1:
        raise Unsupported("it is not two matrix products with one result")
    first, second = dots
    output = program.outputs[0].term
    if first not in program.reach([second]) or second not in (output, *program[output].args):
        raise Unsupported("its products do not follow one another")
    return first, second


def _sides(
    program: Program, product: int, gathers: dict[int, Gathered]
) -> tuple[_Hand, _Hand, float]:
    """(keys, queries, constant factor of both) of the first product."""
    hands = [_hand(program, product, i) for i in (0, 1)]
    peeled = [_peel(program, hand.term) for hand in hands]
    plain = [replace(hand, term=term) for hand, (term, _) in zip(hands, peeled, strict=True)]
    gathered = [_gather(program, hand.term, gathers) is not None for hand in plain]
    if sum(gathered) != 1:
        raise Unsupported("the first product is not one of queries and gathered pages")
    keys, queries = plain if gathered[0] else plain[::-1]
    return keys, queries, peeled[0][1] * peeled[1][1]


def _queries(program: Program, queries: _Hand, heads: Dim) -> InputUse:
    """The input that the queries are, in the order of the heads."""
    if program[queries.term].op != "input":
        raise Unsupported("the queries are computed before the product")
    use = program.input(queries.term)
    axes = [a for a, _, _ in pair_up(program, heads, (*queries.batch, *queries.free))]
    if flat(use.dims) != (*axes, *queries.contract) or use.dims[-1] != queries.contract:
        raise Unsupported("the queries do not lie by sequence, head and width")
    return use


def _hand(program: Program, product: int, position: int) -> _Hand:
    dot: Dot = program[product].attr("dot")
    term = program[product].args[position]
    contract = flat([pair[position] for pair in dot.contract])
    if position == 0:
        return _Hand(term, dot.lhs_batch, dot.lhs_free, contract)
    return _Hand(term, dot.rhs_batch, dot.rhs_free, contract)


def _peel(program: Program, term: int) -> tuple[int, float]:
    """An input times a constant."""
    t = program[term]
    value = program.literal(t.args[1]) if t.op == "mul" else None
    if value is None:
        return term, 1.0
    base, more = _peel(program, t.args[0])
    return base, more * float(value)


def _gather(program: Program, term: int, gathers: dict[int, Gathered]) -> Gathered | None:
    return gathers.get(program[term].attr("index")) if program[term].op == "input" else None


def _pool(
    program: Program,
    term: int,
    gathers: dict[int, Gathered],
    batch: list[tuple[Axis, int, bool]],
    free: Pairs,
    width: Dim,
    table: tuple[int, ...],
) -> tuple[Pool, int]:
    """(the pool, number of axes that count sequences) of gathered keys or values.

    `batch`: their axes along sequences and heads (size, and whether they have it); `free`: the
    positions; `table`: the shape of the page table.
    """
    gathered = _gather(program, term, gathers)
    if gathered is None:
        raise Unsupported("a product reads pages that are changed after gathering")
    use = program.input(term)
    if gathered.columns is not None:
        return _columns(program, use, gathered, [a for a, _, has in batch if has], free, table)
    rank = len(use.dims)
    outer = flat([use.dims[i] for i in gathered.index_dims(rank)])
    record = [use.dims[i] for i in gathered.offsets]
    count, pages = _split(program, outer, table[0])
    heads = tuple(a for a, _, has in batch if has)
    flags = [has for _, _, has in batch]
    positions = flat([mine for _, mine in free])
    if heads[: len(count)] != count or positions[: len(pages)] != pages:
        raise Unsupported("sequences or pages lie in another order than the table's")
    if not all(flags[: len(heads)]):
        raise Unsupported("query heads share keys in a pattern that is not grouped")
    slot, head = positions[len(pages) :], heads[len(count) :]
    if record[-1] != width or slot not in record[:-1] or (head and head not in record[:-1]):
        raise Unsupported("a page does not lie by position and head, its width last")
    places = [i for i in range(len(record) + 1) if i != gathered.axis]
    of_head = places[record.index(head)] if head else None
    if len([d for d in record if d]) != (3 if head else 2):
        raise Unsupported("a page has dimensions that attention does not know")
    pool = _input(program, gathered.pool)
    return Pool(pool, gathered.axis, places[record.index(slot)], of_head), len(count)


def _columns(
    program: Program,
    use: InputUse,
    gathered: Gathered,
    sequences: list[Axis],
    free: Pairs,
    table: tuple[int, ...],
) -> tuple[Pool, int]:
    """The pool of values that are the first columns of rows without heads."""
    pool = _input(program, gathered.pool)
    positions = flat([mine for _, mine in free])
    plain = use.dims[:2] == (tuple(sequences), positions) and len(pool.shape) == 3
    if not plain or gathered.axis != 0 or program.extent(sequences) != table[0]:
        raise Unsupported("part of the gathered rows lies in another order")
    return Pool(pool, 0, 1, None, gathered.columns), len(sequences)


def _input(program: Program, position: int) -> InputUse:
    names, shapes, dtypes = program.names, program.shapes, program.dtypes
    return InputUse(position, names[position], shapes[position], dtypes[position], ())


def _split(program: Program, axes: Dim, size: int) -> tuple[Dim, Dim]:
    """The leading axes of `size` elements together, and the rest."""
    for end in range(len(axes) + 1):
        if program.extent(axes[:end]) == size:
            return axes[:end], axes[end:]
    raise Unsupported("the page table is not one row per sequence")


def _renamed(axes: Dim, names: dict[Dim, Dim]) -> Dim:
    """Axes by their names in another product, run by run."""
    found: Dim = ()
    while axes:
        run = next((p for p in names if p and axes[: len(p)] == p), None)
        if run is None:
            raise Unsupported("the result mixes sequences and heads")
        found += names[run]
        axes = axes[len(run) :]
    return found


def _check_score(program: Program, score: int, product: int) -> None:
    for term in program.reach([score], stop=lambda t: t == product):
        if term != product and program[term].op in (*REDUCTIONS, "dot", "iota", "size", "input"):
            raise Unsupported(f"the score holds `{program[term].op}`")
