"""What a grouped kernel makes of its products before it stores them."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.build import Builder
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.cuts import cut, producers
from maxkernel.engineers.builtin.operands import Role, Space, flat, place
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program
from maxkernel.types import Graph, Node, TaskInfo

_SHAPING = frozenset("broadcast_in_dim reshape squeeze expand_dims convert_element_type".split())
_COUNTING = frozenset("lt le gt ge iota reduce_sum".split())
_KEEP_ZERO = frozenset("neg abs square silu gelu mish tanh sqrt erf sign to_float expm1".split())


@dataclass(frozen=True)
class Extra:
    """An array that the epilogue reads: `value` in the graph, and its place in the tile."""

    term: int
    value: int
    role: Role


@dataclass(frozen=True)
class Epilogue:
    """`root` as a function of the terms `products` and of `extras`. `zero`: it is zero where
    they are."""

    program: Program
    root: int
    products: tuple[int, ...]
    extras: tuple[Extra, ...]
    dtype: str
    zero: bool = True

    @property
    def plain(self) -> bool:
        """Whether the product is stored as it is."""
        return self.root in self.products


def read_epilogue(info: TaskInfo, products: list[int], sizes: int, result: int) -> Epilogue:
    """The value `result` as an expression of the products; raises Unsupported.

    Selections of the rows that belong to some group are dropped: elsewhere products are zero.
    """
    graph = info.graph
    given = [*products, *_foreign(graph, products, sizes, result)]
    virtual = [v for v in given if v not in graph.inputs]
    program = canonicalise(cut(info, virtual, [result]))
    values = (*graph.inputs, *virtual)
    root = program.outputs[0].term
    reached = program.reach([root])
    by_value: dict[int, int] = {}
    for t in reached:
        if program[t].op == "input":
            index: int = program[t].attr("index")
            by_value[values[index]] = t
    if not all(v in by_value for v in products):
        raise Unsupported("a product has no part in the result")
    terms = tuple(by_value[v] for v in products)
    rows, cols = program.input(terms[0]).dims
    root = _unmasked(program, root, set(terms), by_value.get(sizes))
    space = Space((), rows, cols)
    if flat(program.outputs[0].dims) != rows + cols or any(
        program.input(t).dims != (rows, cols) for t in terms
    ):
        raise Unsupported("the result lies in another order than the products")
    extras: list[Extra] = []
    for term in program.reach([root]):
        t = program[term]
        if t.op in (*REDUCTIONS, "dot", "iota", "size"):
            raise Unsupported(f"what follows the products holds `{t.op}`")
        if t.op == "input" and term not in terms:
            operand = place(program, space, term)
            if operand.role == "scalar" or operand.spread or operand.flipped:
                raise Unsupported("what follows the products reads an array of another form")
            extras.append(Extra(term, values[operand.use.index], operand.role))
    zero = _is_zero(program, root, set(terms))
    return Epilogue(program, root, terms, tuple(extras), graph.values[result].dtype, zero)


def _foreign(graph: Graph, products: list[int], sizes: int, result: int) -> list[int]:
    """Values that the path to `result` reads and that are computed in ways of their own."""
    made = producers(graph)
    below = set(products)
    for node in graph.nodes:
        if below.intersection(node.inputs):
            below.update(node.outputs)
    found: dict[int, None] = {}
    stack, seen = [result], set[int]()
    while stack:
        value = stack.pop()
        node = made.get(value)
        if value in seen or value in products or node is None:
            continue
        seen.add(value)
        if value in below or _is_visible(graph, node, sizes):
            stack.extend(node.inputs)
        else:
            found[value] = None
    return list(found)


def _is_visible(graph: Graph, node: Node, sizes: int) -> bool:
    """Whether a node only shapes an array, or counts the rows of all groups."""
    if node.op in _SHAPING:
        return True
    integers = all("int" in graph.values[v].dtype for v in node.inputs)
    if node.op == "reduce_sum":
        return node.inputs[0] == sizes
    return node.op in _COUNTING and integers


def _unmasked(program: Program, root: int, products: set[int], sizes: int | None) -> int:
    """The same term without selections of the rows that belong to some group."""
    build = Builder(program)
    known: dict[int, int] = {}
    for term in program.reach([root]):
        t = program[term]
        if t.op in ("input", "literal", "iota", "size"):
            known[term] = term
            continue
        if t.op == "where" and sizes is not None:
            condition, yes, no = t.args
            kept = _belongs(program, condition, sizes)
            zero, value = (no, yes) if kept else (yes, no)
            none = kept is not None and program.literal(zero) == 0
            if none and _is_zero(program, value, products):
                known[term] = known[value]
                continue
        known[term] = build.raw(t.op, tuple(known[a] for a in t.args), t.kind, **dict(t.attrs))
    return known[root]


def _belongs(program: Program, condition: int, sizes: int) -> bool | None:
    """True for `row < sum(sizes)`, False for its negation, None for anything else."""
    t = program[condition]
    if t.op == "not":
        inner = _belongs(program, t.args[0], sizes)
        return None if inner is None else not inner
    if t.op not in ("lt", "ge", "gt", "le"):
        return None
    row, total = t.args if t.op in ("lt", "ge") else t.args[::-1]
    whole = program[total].op == "sum" and program[total].args == (sizes,)
    return t.op in ("lt", "gt") if whole and program[row].op == "iota" else None


def _is_zero(program: Program, term: int, products: set[int]) -> bool:
    """Whether a term is zero where the products are."""
    t = program[term]
    if term in products or program.literal(term) == 0:
        return True
    zeros = [_is_zero(program, a, products) for a in t.args]
    if t.op == "mul":
        return any(zeros)
    if t.op == "div":
        return zeros[0]
    if t.op in ("add", "sub", "max", "min"):
        return all(zeros)
    if t.op == "where":
        return zeros[1] and zeros[2]
    return t.op in _KEEP_ZERO and all(zeros)
