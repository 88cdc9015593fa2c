"""The body of an attention kernel: one block of queries against the keys that it sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxkernel.engineers.builtin import chunks
from maxkernel.engineers.builtin.attention.match import Attention
from maxkernel.engineers.builtin.attention.sides import Side
from maxkernel.engineers.builtin.attention.stream import stream
from maxkernel.engineers.builtin.attention.walk import LOG2_E, Walk, band, start, sweep
from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.build import Builder
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.text import Names, call, doc, number

UPDATE = '''def update(top, acc, s, values):
    """One step of a running softmax: the maximum so far, and weighted values with their sum."""
    new_top = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
    weights = jnp.exp2(s - new_top).astype(values.dtype)
    product = jnp.dot(weights, values, preferred_element_type=jnp.float32)
    return new_top, jnp.exp2(top - new_top) * acc + product
'''
TAKEN = tuple(
    "heads i h b j r q k v s o q_ref k_ref v_ref out_ref wide_ref block strip strips window width "
    "first top acc rows keys start size row column distance visible masked edge key_count update "
    "product score step widen back lane ones near far whole ragged key_block".split()
)
_WIDEN = """\
wide_ref[:, :width] = v_ref[0]
ones = (wide_ref.shape[0], wide_ref.shape[1] - width)
wide_ref[:, width:] = jnp.ones(ones, wide_ref.dtype)""".split("\n")


@dataclass(frozen=True)
class Plan:
    """What the body's text depends on."""

    attention: Attention
    walk: Walk
    names: dict[int, str]
    """Name of each extra array and of the sink by term."""

    @property
    def streams(self) -> bool:
        """Blocks of keys pass by, and are of their own size."""
        return self.walk == "stream"

    @property
    def strips(self) -> bool:
        """Blocks are worked on in strips where they cross the edge of what is visible."""
        return self.attention.mask.causal and not self.streams


def body(plan: Plan, module: Module) -> str:
    """Source of the body; helpers and constants it needs go to `module`."""
    a = plan.attention
    extras = [f"{plan.names[e.term]}_ref" for e in a.read]
    refs = ["q_ref", *key_refs(a), "v_ref", *extras, "out_ref", "wide_ref"]
    refs += ["k_ref"] if a.k.parts else []
    refs += ["top_ref", "acc_ref"] if plan.streams else []
    options = [*(["strips"] if plan.strips else []), *(["window"] if a.mask.window else [])]
    if not a.mask.causal:
        options = ["key_count", *([] if plan.streams else ["key_block"])]
    sink = plan.names[a.sink.term] if a.sink else ""
    module.helpers.add(UPDATE)
    module.constants.setdefault("LOWEST", ("-1e30", "stands for a score that is not visible"))
    lines = [
        call("body", [*refs, *(["*", *options] if options else [])], 0, "def ", ":"),
        doc("One block of queries against the keys that it sees.", 4),
        "    block, width = q_ref.shape[1], v_ref.shape[2]",
        *(["    strip = block // strips"] if plan.strips else []),
        *(["    key_block = k_ref.shape[1]"] if plan.streams else []),
        *(_head(a) if any(_scalar(e) for e in a.read) else []),
        f"    i{', j' if plan.streams else ''} = pl.program_id(1)"
        + (", pl.program_id(2)" if plan.streams else ""),
        *(["    first = i * block"] if a.mask.causal or _positions(a) else []),
        *(["    start = j * key_block"] if plan.streams else []),
        "",
        *([] if plan.streams else [*_widen(a), ""]),
        f"    q = {scaled(a, module)}",
        "",
        *_score(plan, module),
        "",
        *(stream(a, sink) if plan.streams else start(a, plan.walk, sink)),
        *(band() if plan.walk == "band" else sweep(a) if plan.walk == "sweep" else []),
    ]
    return "\n".join(lines)


def key_refs(a: Attention) -> list[str]:
    """Names of the blocks that hold a head's keys, or the parts that they are joined of."""
    return [f"k_{i + 1}_ref" for i in range(len(a.k.parts))] or ["k_ref"]


def _head(a: Attention) -> list[str]:
    head, heads = "pl.program_id(0)", "pl.num_programs(0)"
    if a.shared is not None:
        head = f"pl.program_id(2) * {heads} + {head}"
        heads += " * pl.num_programs(2)"
    several = any(_scalar(e) and grouped(a, e) for e in a.read)
    return [f"    h = {head}", *([f"    heads = {heads}"] if several else [])]


def grouped(a: Attention, extra: Side) -> bool:
    """Whether consecutive heads have one slice."""
    fewer = a.program.extent(extra.heads) < a.program.extent(a.heads)
    return extra.share == "outer" and fewer


def _widen(a: Attention) -> list[str]:
    """Columns of ones beside the values, and keys put together of their parts; once per head, where
    its blocks follow one another."""
    why = "Columns of ones: the second product also adds up the weights."
    lines: list[str] = list(_WIDEN)
    if a.k.parts:
        why = "Keys of one piece; columns of ones, so that the second product adds up the weights."
        parts = ", ".join(f"{ref}[0]" for ref in key_refs(a))
        lines.append(f"k_ref[...] = jnp.concatenate([{parts}], axis=1)")
    if a.shared is not None:
        return [f"    # {why}", *(f"    {line}" for line in lines)]
    head = ["    @pl.when(i == 0)", "    def widen():", doc(why, 8)]
    return [*head, *(f"        {line}" for line in lines)]


def _scalar(extra: Side) -> bool:
    return not extra.rows and not extra.cols


_BENDS = frozenset({"tanh", "logistic", "exp", "square", "integer_pow"})


def _positions(a: Attention) -> bool:
    """Whether the score or a mask speaks of positions."""
    program = a.program
    terms = program.reach([a.score, *a.mask.rest], stop=lambda t: t == a.product)
    return any(program[t].op == "iota" and program[t].attr("over") == a.rows for t in terms)


def _bent(a: Attention) -> bool:
    """Whether the score bends the product, as a cap does: scaled queries, rounded, would not do."""
    terms = set(a.program.reach([a.score], stop=lambda t: t == a.product)) - {a.product}
    bends = any(a.program[t].op in _BENDS for t in terms)
    return bends and math.frexp(a.scale)[0] != 0.5


def scaled(a: Attention, module: Module) -> str:
    """A block of queries, times the scale."""
    scale = a.scale * (LOG2_E if a.plain else 1.0)
    if scale == 1.0:
        return "q_ref[0]"
    why = "with log2(e): weights are powers of two" if a.plain else ""
    module.constants["SCALE"] = (number(scale), why)
    if _bent(a):
        return "q_ref[0]"
    return "(q_ref[0].astype(jnp.float32) * SCALE).astype(q_ref.dtype)"


def _score(plan: Plan, module: Module) -> list[str]:
    a = plan.attention
    bounded = a.mask.causal
    keys = "k_ref[keys]" if a.k.parts else "k_ref[0, keys]"
    unit = "strip" if plan.strips else "key_block"
    place = f"pl.ds(pl.multiple_of(start, {unit}), size)"
    if plan.streams:
        place = "slice(0, size)"
    written = modified(plan, module)
    used = "\n".join(written)
    lines = [
        "def score(rows, start, size, masked=False):",
        doc("Scores of a slice of queries and `size` keys from `start`, as powers of two.", 4),
        f"    keys = {place}",
        call("jax.lax.dot_general", ["q[rows]", keys, *numbers_of(a)], 4, "s = "),
    ]
    if "row" in names_in(used):
        iota = "jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)"
        lines.append(f"    row = first + rows.start + {iota}")
    if "column" in names_in(used):
        lines.append("    column = start + jax.lax.broadcasted_iota(jnp.int32, s.shape, 1)")
    lines += [f"    {line}" for line in written]
    lines.append("    if masked:")
    if bounded:
        lines += [
            "        row = jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)",
            "        column = jax.lax.broadcasted_iota(jnp.int32, s.shape, 1)",
            "        distance = row - column + (first + rows.start - start)",
            f"        s = jnp.where({_visible(a)}, s, LOWEST)",
        ]
    else:
        lines += [
            "        column = start + jax.lax.broadcasted_iota(jnp.int32, (1, size), 1)",
            "        s = jnp.where(column < key_count, s, -jnp.inf)",
        ]
    lines.append("    return s, wide_ref[keys]")
    return [f"    {line}" if line else line for text in lines for line in text.split("\n")]


def numbers_of(a: Attention) -> list[str]:
    """How queries and keys are multiplied."""
    numbers = ["(((1,), (1,)), ((), ()))", "preferred_element_type=jnp.float32"]
    if a.precision == "highest" and a.q.use.dtype == "float32":
        numbers.append("precision=jax.lax.Precision.HIGHEST")
    return numbers


def modified(plan: Plan, module: Module) -> list[str]:
    """What is done to the products `s`: modifiers of scores, then masks other than by distance."""
    a = plan.attention
    names = Names([*TAKEN, *(f"{n}_ref" for n in plan.names.values())])
    scope = _scope(plan, names, module)
    scope.known[a.product] = Code("s")
    build = Builder(a.program)
    root = a.score if a.plain else build.apply("mul", (a.score, build.literal(LOG2_E)))
    written: list[str] = []
    if not a.plain:
        (value,) = scope.write([root])
        written = [*scope.lines, f"s = {value.text}"]
        scope.lines = []
    for condition in a.mask.rest:
        (value,) = scope.write([condition])
        written += [*scope.lines, f"s = jnp.where({value.text}, s, LOWEST)"]
        scope.lines = []
    if _bent(a):
        written.insert(0, "s = s * SCALE")
    return written


def names_in(text: str) -> set[str]:
    """Identifiers in a piece of code."""
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text)
    return set(words.split())


def _visible(a: Attention) -> str:
    if a.mask.window is None:
        return "distance >= 0"
    return "(distance >= 0) & (distance < window)"


def _scope(plan: Plan, names: Names, module: Module) -> Scope:
    a = plan.attention
    by_term = {e.term: e for e in a.extras}

    def load(term: int) -> Code:
        extra, ref = by_term[term], f"{plan.names[term]}_ref"
        if _scalar(extra) and grouped(a, extra):
            return Code(f"{ref}[h // (heads // {ref}.shape[0])]")
        if _scalar(extra):
            return Code(f"{ref}[h % {ref}.shape[0]]")
        where = ["rows" if extra.rows else ":", "keys" if extra.cols else ":"]
        return chunks.loaded(f"{ref}[0, {', '.join(where)}]", extra.use.dtype)

    def iota(over: Dim) -> Code:
        return Code("row" if over == a.rows else "column")

    def size(over: Dim) -> Code:
        raise Unsupported("the score depends on a size")

    return Scope(
        program=a.program,
        rows=frozenset(a.rows),
        cols=a.cols,
        load=load,
        iota=iota,
        size=size,
        names=names,
        helpers=module.helpers,
        constants=module.constants,
        narrow=a.q.use.dtype != "float32",
    )
