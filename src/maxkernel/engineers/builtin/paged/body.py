"""The body of a paged decode kernel: one sequence, its pages in blocks, one block ahead."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.expr import Code, Scope
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.paged.match import Decode, Pool
from maxkernel.engineers.builtin.text import Names, call, number

LOG2_E = 1.4426950408889634
TAKEN = tuple(
    "lengths_ref table_ref q_ref pools out_ref keys_ref values_ref semaphores turn_ref page block "
    "sequence kv_heads group width positions capacity count fetch wait turn length blocks q s p i "
    "top total acc last following limit position new_top shrink parts half words word wide "
    "scores copy index act first body by_head rows heads kernel".split()
)
_PAIRED = '''def by_head(block, heads):
    """One matrix per head from a block whose rows lie by position, then head.

    Two heads of a position share 32-bit words: a strided load yields both.
    """
    rows, width = block.shape[0] * block.shape[1], block.shape[2]
    words = block.reshape(rows, width).bitcast(jnp.uint32)
    parts = []
    for pair in range(heads // 2):
        word = words[pl.ds(pair, rows // heads, stride=heads // 2), :]
        for half in (word << 16, word & jnp.uint32(0xFFFF0000)):
            wide = jax.lax.bitcast_convert_type(half, jnp.float32)
            parts.append(wide.astype(block.dtype))
    return parts
'''
_STRIDED = '''def by_head(block, heads):
    """One matrix per head from a block whose rows lie by position, then head."""
    rows, width = block.shape[0] * block.shape[1], block.shape[2]
    lines = block.reshape(rows, width)
    return [lines[pl.ds(h, rows // heads, stride=heads), :] for h in range(heads)]
'''
_APART = '''def by_head(block, heads):
    """One matrix per head from pages that lie by head, then position."""
    return [block[:, h].reshape(-1, block.shape[3]) for h in range(heads)]
'''
_ALONE = '''def by_head(block, heads):
    """The one head's matrix from a block of pages."""
    assert heads == 1
    return [block[...].reshape(-1, block.shape[2])]
'''
_BODY = '''def body({refs}, *, page):
    """One sequence; its pages come in blocks, the next one on its way while one is used."""
    sequence = pl.program_id(0)
    kv_heads, group, _ = q_ref.shape[1:]
    block = keys_ref.shape[1]
    positions = block * page
    capacity = table_ref.shape[1] * page
{pools}

    def count(sequence, first):
        """Pages from `first` on that a block holds: none beyond the length."""
        length = jnp.minimum({length}, capacity)
        return jnp.clip(pl.cdiv(length, page) - first, 0, block)

    def fetch(sequence, first, turn):
        def one_page(i, _):
            index = table_ref[sequence, first + i]
            for pool, buffer, n in pools:
                source, target = pool.at[{page_of}], buffer.at[turn, i]
                pltpu.make_async_copy(source, target, semaphores.at[turn, n]).start()
            return 0

        pages = count(sequence, first)

        @pl.when(pages == block)
        def _whole():
            jax.lax.fori_loop(0, block, one_page, 0, unroll=min(block, UNROLL))

        @pl.when(pages < block)
        def _part():
            jax.lax.fori_loop(0, pages, one_page, 0)

    def wait(pages, turn):
        def one_page(i, _):
            for _, buffer, n in pools:
                target = buffer.at[turn, i]
                pltpu.make_async_copy(target, target, semaphores.at[turn, n]).wait()
            return 0

        @pl.when(pages == block)
        def _whole():
            for _, buffer, n in pools:
                target = buffer.at[turn]
                pltpu.make_async_copy(target, target, semaphores.at[turn, n]).wait()

        @pl.when(pages < block)
        def _part():
            jax.lax.fori_loop(0, pages, one_page, 0)

    @pl.when(sequence == 0)
    def _first():
        # Rows that no page reaches have weight 0; what they hold must be finite.
        for _, buffer, _ in pools:
            buffer[...] = jnp.zeros_like(buffer)
        turn_ref[0] = 0
        fetch(0, 0, 0)

    length = {own_length}
    blocks = jnp.maximum(pl.cdiv(jnp.minimum(length, capacity), positions), 1)
    q = q_ref[0]

    def one_block(i, carry):
        top, total, acc = carry
        turn = turn_ref[0]
        last = i == blocks - 1
        following = jnp.where(last, sequence + 1, sequence)

        @pl.when(following < pl.num_programs(0))
        def _ahead():
            fetch(following, jnp.where(last, 0, (i + 1) * block), 1 - turn)

        wait(count(sequence, i * block), turn)
        turn_ref[0] = 1 - turn
        keys = by_head(keys_ref.at[turn], kv_heads)
        products = [
            jax.lax.dot_general(q[h], keys[h], NT, preferred_element_type=jnp.float32)
            for h in range(kv_heads)
        ]
        scores = jnp.concatenate(products)
{score}
        position = jax.lax.broadcasted_iota(jnp.int32, s.shape, 1)
        s = jnp.where(position < length - i * positions, s, HIDDEN)
        new_top = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
        weights = jnp.exp2(s - new_top)
        shrink = jnp.exp2(top - new_top)
        total = shrink * total + jnp.sum(weights, axis=1, keepdims=True)
        values = {values}
        products = [
            jnp.dot(
                weights[h * group : (h + 1) * group].astype(values[h].dtype),
                values[h],
                preferred_element_type=jnp.float32,
            )
            for h in range(kv_heads)
        ]
        return new_top, total, shrink * acc + jnp.concatenate(products)

    rows = kv_heads * group
    start = (
        jnp.full((rows, 1), 0.1 * HIDDEN, jnp.float32),
        jnp.zeros((rows, 1), jnp.float32),
        jnp.zeros((rows, out_ref.shape[3]), jnp.float32),
    )
    _, total, acc = jax.lax.fori_loop(0, blocks, one_block, start)
    average = acc / jnp.where(total > 0, total, 1.0)  # nothing at length 0
    out_ref[0] = average.reshape(out_ref.shape[1:]).astype(out_ref.dtype)
'''


def body(d: Decode, module: Module) -> str:
    """Source of the body; helpers and constants it needs go to `module`."""
    module.helpers.add(_by_head(d.keys))
    shift = "" if not d.shift else f" {'+' if d.shift > 0 else '-'} {abs(d.shift)}"
    refs = ["lengths_ref", "table_ref", "q_ref", "key_pool"]
    refs += [] if d.shared else ["value_pool"]
    refs += ["out_ref", "keys_ref", *([] if d.shared else ["values_ref"]), "semaphores", "turn_ref"]
    pools = ["(key_pool, keys_ref, 0)"]
    pools += [] if d.shared else ["(value_pool, values_ref, 1)"]
    text = _BODY.format(
        refs=", ".join(refs),
        pools=f"    pools = ({', '.join(pools)}{',' if d.shared else ''})",
        length=f"lengths_ref[sequence]{shift}",
        own_length=f"lengths_ref[sequence]{shift}",
        page_of="index" if d.keys.axis == 0 else ":, index",
        score="\n".join(f"        {line}" for line in _score(d, module)),
        values=_values(d),
    )
    head, rest = text.split("\n", 1)
    if len(head) > 88:
        head = call("body", [*refs, "*", "page"], 0, "def ", ":")
    return f"{head}\n{rest}"


def _values(d: Decode) -> str:
    if d.values.columns is not None:
        return "[part[:, : out_ref.shape[3]] for part in keys]"
    return "keys" if d.shared else "by_head(values_ref.at[turn], kv_heads)"


def _by_head(pool: Pool) -> str:
    """The helper that separates the heads of a block of pages."""
    if pool.head is None:
        return _ALONE
    if pool.head < pool.slot:
        return _APART
    if pool.use.dtype == "float32":
        return _STRIDED
    if pool.use.dtype == "bfloat16" and pool.use.shape[pool.head] % 2 == 0:
        return _PAIRED
    raise Unsupported("heads of a page cannot be separated by whole words")


def _score(d: Decode, module: Module) -> list[str]:
    """Statements from `scores` to `s`, the scores in units of log 2 below their masks."""
    if d.score == d.product:
        module.constants["SCALE"] = (number(d.scale * LOG2_E), "of scores, and log2(e) for exp2")
        return ["s = SCALE * scores"]
    module.constants["SCALE"] = (number(d.scale), "of scores")
    module.constants["LOG2_E"] = (number(LOG2_E), "for exp2")

    def refuse(_: int | Dim) -> Code:
        raise Unsupported("the score reads more than the product")

    scope = Scope(
        program=d.program, rows=frozenset(), cols=(), load=refuse, iota=refuse, size=refuse,
        names=Names(TAKEN), helpers=module.helpers, constants=module.constants,
    )  # fmt: skip
    scope.known[d.product] = Code("scores")
    (value,) = scope.write([d.score])
    return ["scores = SCALE * scores", *scope.lines, f"s = LOG2_E * {value.at(21)}"]
