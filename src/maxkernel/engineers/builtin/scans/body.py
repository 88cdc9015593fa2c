"""The body of a scan over chunks: products inside a chunk, a state between chunks.

Vectors of a position are columns there: sums over keys then run along sublanes, which costs plain
additions, and decays of queries are rows.
"""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.scans.match import Scan
from maxkernel.engineers.builtin.text import Names, call, doc, number

LANES = 128
TAKEN = tuple(
    "h c j q k v o g here heads state seen key query last total keep scores weights before grown"
    " kept kept32 earlier chunk step past sums rows queries norm fold key_sums"
    " q_ref k_ref v_ref decay_ref out_ref state_ref kept_ref key_sum_ref carry g_keys"
    " product high low".split()
)
_FOLD = '''def fold(x):
    """Sums of sizes, eight rows apart: sublanes need not be shuffled."""
    return jnp.sum(jnp.abs(x).reshape(-1, 8, x.shape[1]), axis=0)
'''
_PRODUCT = '''def product(a, b):
    """Matrix product, added up in float32."""
    return jnp.dot(a, b, preferred_element_type=jnp.float32{precision})
'''


def narrow(width: int) -> bool:
    """Whether XLA keeps (positions, width) arrays with positions along lanes."""
    return width < LANES


def body(scan: Scan, module: Module) -> str:
    """Source of the body; helpers that it needs go to `module`."""
    highest = scan.pair.precision == "highest" and scan.pair.q.use.dtype == "float32"
    precision = ", precision=jax.lax.Precision.HIGHEST" if highest else ""
    module.helpers.add(_PRODUCT.format(precision=precision))
    if scan.norm == "absolute":
        module.helpers.add(_FOLD)
    refs = ["q_ref", "k_ref", "v_ref", *_decay(scan, "decay_ref"), "out_ref", "state_ref"]
    refs += ["key_sum_ref"] if scan.norm == "signed" else []
    refs += ["kept_ref"] if scan.norm == "absolute" else []
    chunks = f"{'q_ref.shape[2]' if narrow(scan.sizes[2]) else 'q_ref.shape[1]'} // chunk"
    lines = [
        call("body", [*refs, "*", "chunk"], 0, "def ", ":"),
        doc("A few heads, chunk by chunk; their chains of products overlap.", 4),
        "    heads = range(q_ref.shape[0])",
        "    state_ref[...] = jnp.zeros(state_ref.shape, jnp.float32)",
        *(
            ["    key_sum_ref[...] = jnp.zeros(key_sum_ref.shape, jnp.float32)"]
            if scan.norm == "signed"
            else []
        ),
        "    key = jax.lax.broadcasted_iota(jnp.int32, (chunk, chunk), 0)",
        "    query = jax.lax.broadcasted_iota(jnp.int32, (chunk, chunk), 1)",
        "    seen = key <= query",
        "",
        "    def step(c, carry):",
        "        here = pl.ds(pl.multiple_of(c * chunk, chunk), chunk)",
        f"        queries = [{_load(scan, 'q', scan.sizes[2])} for h in heads]",
        *(_sweep(scan) if scan.norm == "absolute" else []),
        "        for h in heads:",
        *(f"            {line}" for line in _chunk(scan, module)),
        "        return carry",
        "",
        f"    jax.lax.fori_loop(0, {chunks}, step, 0)",
    ]
    return "\n".join(lines)


def _decay(scan: Scan, *lines: str) -> list[str]:
    return list(lines) if scan.step is not None else []


def _load(scan: Scan, name: str, width: int) -> str:
    """A chunk with a column per position."""
    return f"{name}_ref[h, :, here]" if narrow(width) else f"{name}_ref[h, here].T"


def _sweep(scan: Scan) -> list[str]:
    """Sizes of scores do not add up in a state: all earlier keys are met again."""
    keep = "keep = jnp.exp(decay_ref[h, j][:, chunk - 1 :])"
    carried = "carry[h] * keep" if scan.step is not None else "carry[h]"
    return [
        "",
        "        def past(j, carry):",
        doc("Sizes of scores with an earlier chunk of keys, decayed to its end.", 12),
        "            rows = pl.ds(pl.multiple_of(j * chunk, chunk), chunk)",
        "            sums = []",
        "            for h in heads:",
        *_decay(scan, f"                {keep}"),
        "                scores = product(kept_ref[h, rows], queries[h])",
        f"                sums.append({carried} + fold(scores))",
        "            return tuple(sums)",
        "",
        "        sums = tuple(jnp.zeros((8, chunk), jnp.float32) for h in heads)",
        "        sums = jax.lax.fori_loop(0, c, past, sums)",
    ]


def _chunk(scan: Scan, module: Module) -> list[str]:
    """One head of a chunk: scores inside it, what the state adds, and the next state."""
    _, _, width, value_width = scan.sizes
    decays = scan.step is not None
    flipped = narrow(width)
    weights = "jnp.where(seen, scores, 0.0)"
    if decays:
        weights = "scores * jnp.exp(jnp.where(seen, g - g_keys, -jnp.inf))"
    k = "k = k_ref[h, :, here]" if flipped else "k = k_ref[h, here]"
    return [
        "q = queries[h]",
        k,
        f"v = {_load(scan, 'v', value_width)}",
        *_decay(
            scan,
            "g = decay_ref[h, c]",
            "g_keys = jnp.broadcast_to(g, (chunk, chunk)).T",
            "last = g[:, chunk - 1 :]",
            "grown = jnp.exp(g)",
        ),
        f"scores = product({'k.T' if flipped else 'k'}, q)",
        f"weights = {weights}",
        "state = state_ref[h]",
        *_before(scan),
        f"o = product(v, weights.astype(v.dtype)) + {'before * grown' if decays else 'before'}",
        *_total(scan),
        *_next_state(scan),
        *_finish(scan, module),
        f"out_ref[h, {':, here' if narrow(value_width) else 'here'}] = "
        f"{'o' if narrow(value_width) else 'o.T'}.astype(out_ref.dtype)",
    ]


def _before(scan: Scan) -> list[str]:
    """What earlier chunks add. A division by a small sum of scores makes a rounded state count."""
    if scan.norm_term is None or scan.pair.q.use.dtype == "float32":
        return ["before = product(state.astype(q.dtype), q)"]
    return [
        "# In two parts: where scores cancel, one rounding of the state would show.",
        "high = state.astype(q.dtype)",
        "low = (state - high.astype(jnp.float32)).astype(q.dtype)",
        "before = product(high, q) + product(low, q)",
    ]


def _total(scan: Scan) -> list[str]:
    """The sum of each query's scores, as a row."""
    grown = " * grown" if scan.step is not None else ""
    if scan.norm == "absolute":
        return [
            f"total = jnp.sum(sums[h]{grown} + fold(weights), axis=0, keepdims=True)",
        ]
    if scan.norm == "signed":
        return [
            "# Sums may cancel: they are added up in float32, not in the matrix unit.",
            "earlier = q.astype(jnp.float32) * key_sum_ref[h]",
            f"total = jnp.sum(earlier, axis=0, keepdims=True){grown}",
            "total = total + jnp.sum(weights, axis=0, keepdims=True)",
        ]
    return []


def _next_state(scan: Scan) -> list[str]:
    decays, flipped = scan.step is not None, narrow(scan.sizes[2])
    lines: list[str] = []
    if decays:
        left = "last - g" if flipped else "last - g_keys[:, :1]"
        lines.append(f"kept32 = k.astype(jnp.float32) * jnp.exp({left})")
        lines.append("kept = kept32.astype(k.dtype)")
    elif scan.norm == "signed":
        lines.append("kept32 = k.astype(jnp.float32)")
    kept = "kept" if decays else "k"
    if decays:
        lines.append("keep = jnp.exp(last)")
    if scan.norm == "signed":
        old = "keep * key_sum_ref[h]" if decays else "key_sum_ref[h]"
        if flipped:
            lines.append("key_sums = jnp.sum(kept32, axis=1, keepdims=True)")
        else:
            lines.append("key_sums = jnp.sum(kept32, axis=0, keepdims=True)")
            lines.append("key_sums = jnp.broadcast_to(key_sums, kept32.shape).T[:, :1]")
        lines.append(f"key_sum_ref[h] = {old} + key_sums")
    if scan.norm == "absolute":
        lines.append(f"kept_ref[h, here] = {kept}{'.T' if flipped else ''}")
    new = f"product(v, {kept}{'.T' if flipped else ''})"
    lines.append(f"state_ref[h] = {'keep * state' if decays else 'state'} + {new}")
    return lines


def _finish(scan: Scan, module: Module) -> list[str]:
    """The division of rows, and constants."""
    lines: list[str] = []
    if scan.norm_term is not None and scan.scale != 1.0:
        module.constants["SCALE"] = (number(scan.scale), "of scores")
        lines.append("total = total * SCALE")
    gain = scan.scale * scan.gain
    factor = ""
    if gain != 1.0:
        module.constants["GAIN"] = (number(gain), "of the result")
        factor = "GAIN"
    if scan.norm_term is None:
        return [f"o = o * {factor}"] if factor else []
    scope = _norm_scope(scan, module)
    (value,) = scope.write([scan.norm_term])
    lines += scope.lines
    top = f"({factor} / {value.at(30)})" if factor else f"(1.0 / {value.at(30)})"
    return [*lines, f"o = o * {top}"]


def _norm_scope(scan: Scan, module: Module) -> Scope:
    def refuse(what: int | Dim) -> Code:
        raise Unsupported("rows are divided by something that depends on more than their sum")

    assert scan.sum_term is not None
    return Scope(
        program=scan.program,
        rows=frozenset(),
        cols=(),
        load=refuse,
        iota=refuse,
        size=refuse,
        names=Names(TAKEN),
        known={scan.sum_term: Code("total")},
        helpers=module.helpers,
        constants=module.constants,
    )
