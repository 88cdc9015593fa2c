"""What the paged family emits equals the reference, however the reference is written, and reads
nothing beyond a sequence's length."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from emitted_style import assert_clean
from graphs import task_info
from kernels import TEAM, load

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.paged.match import match
from maxkernel.engineers.roles import NoAnswer
from maxkernel.targets import get_target

SEQUENCES, PAGE, PAGES, WIDTH = 5, 8, 6, 128
LENGTHS = (1, PAGE * PAGES, PAGE, PAGE + 1, 3 * PAGE - 1)


def plain(q, k_pages, v_pages, lens, table):
    n, heads, width = q.shape
    kv_heads = k_pages.shape[2]
    k = k_pages[table].reshape(n, -1, kv_heads, width)
    v = v_pages[table].reshape(n, -1, kv_heads, width)
    q = q.reshape(n, kv_heads, heads // kv_heads, width)
    s = jnp.einsum("sgrd,spgd->sgrp", q, k) * width**-0.5
    valid = jnp.arange(k.shape[1]) < lens[:, None]
    p = jax.nn.softmax(jnp.where(valid[:, None, None, :], s, -1e30), axis=-1)
    return jnp.einsum("sgrp,spgd->sgrd", p, v).reshape(n, heads, width)


def rewritten(x, b, a, c, where):
    """`plain` under other names, by sequence, with repeated heads and a late division."""

    def one(query, own, length):
        group = query.shape[0] // a.shape[2]
        values = jnp.take(b, own, axis=0, mode="clip").reshape(-1, *b.shape[2:])
        keys = jnp.take(a, own, axis=0, mode="clip").reshape(-1, *a.shape[2:])
        keys, values = (jnp.repeat(y, group, axis=1) for y in (keys, values))
        s = jnp.einsum("phd,hd->hp", keys, query * 0.125) * 0.7071067811865476
        s = s.astype(jnp.float32) + jnp.where(jnp.arange(s.shape[1]) > length - 1, -1e30, 0.0)
        e = jnp.exp(s - s.max(-1, keepdims=True))
        o = jnp.einsum("hp,phd->hd", e.astype(values.dtype), values)
        return (o / e.sum(-1, keepdims=True)).astype(query.dtype)

    return jax.vmap(one)(x, where, c)


def capped(q, k_pages, v_pages, lens, table):
    """Pools that lie by head, one key head per query head, scores with a cap."""
    n, heads, width = q.shape
    k = k_pages[:, table].reshape(heads, n, -1, width)
    v = v_pages[:, table].reshape(heads, n, -1, width)
    s = 5.0 * jnp.tanh(jnp.einsum("shd,hspd->shp", q, k) * width**-0.5 / 5.0)
    s = jnp.where(lens[:, None, None] > jnp.arange(k.shape[2]), s, -jnp.inf)
    return jnp.einsum("shp,hspd->shd", jax.nn.softmax(s, axis=-1), v)


def one_head(q, k_pages, v_pages, lens, table):
    n, _, width = q.shape
    k, v = (pages[table].reshape(n, -1, width) for pages in (k_pages, v_pages))
    s = jnp.einsum("shd,spd->shp", q, k) * width**-0.5
    s = jnp.where(jnp.arange(k.shape[1]) < lens[:, None, None], s, -1e30)
    return jnp.einsum("shp,spd->shd", jax.nn.softmax(s, axis=-1), v)


def same_rows(q, cache, lens, table):
    """A cache whose rows are keys and values at once."""
    rows = cache[table].reshape(q.shape[0], -1, q.shape[-1])
    s = jnp.einsum("shd,spd->shp", q, rows) * 0.1
    s = jnp.where(jnp.arange(rows.shape[1]) >= lens[:, None, None], -1e30, s)
    return jnp.einsum("shp,spd->shd", jax.nn.softmax(s, axis=-1), rows)


def latent(x, cache, lens, table, w_key, starts, w_value):
    """Absorbed projections around one cache whose first columns are the values."""
    rows = cache[table].reshape(x.shape[0], -1, cache.shape[-1])
    q = jnp.einsum("shd,hdc->shc", x[starts[:-1]], w_key)
    s = jnp.einsum("spc,shc->shp", rows, q, preferred_element_type=jnp.float32) * 0.01
    s = jnp.where(jnp.arange(rows.shape[1]) < lens[:, None, None], s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1).astype(x.dtype)
    return jnp.einsum("shc,hcd->shd", jnp.einsum("shp,spc->shc", p, rows[..., :128]), w_value)


def specs(heads, record, dtype="bfloat16", axis=0, pools=2):
    spare = SEQUENCES * PAGES + 1
    pool = (*record[:axis], spare, *record[axis:])
    return (
        ((SEQUENCES, heads, WIDTH), dtype),
        *(((pool, dtype),) * pools),
        ((SEQUENCES,), "int32"),
        ((SEQUENCES, PAGES), "int32"),
    )


LATENT = (
    ((4, WIDTH, 192), "bfloat16"),
    ((SEQUENCES + 1,), "int32"),
    ((4, 128, WIDTH), "bfloat16"),
)
CASES = [
    (plain, specs(8, (PAGE, 2, WIDTH)), 4),
    (plain, specs(12, (PAGE, 4, WIDTH), "float32"), 64),
    (rewritten, specs(8, (PAGE, 2, WIDTH)), 1),
    (capped, specs(2, (2, PAGE, WIDTH), axis=1), 4),
    (one_head, specs(8, (PAGE, WIDTH)), 2),
    (same_rows, specs(8, (PAGE, WIDTH), pools=1), 4),
    (latent, (*specs(4, (PAGE, 192), pools=1), *LATENT), 4),
]
"""(reference, inputs, pages of a block)"""


def emitted(reference, given):
    info, chip = task_info(reference, *given), get_target("v6e")
    (plan,) = [p for p in TEAM.planner.plan(info, chip, ()) if p.family == "paged"]
    return TEAM.implementer.implement(info, plan, chip)


def draw(given):
    """Inputs whose unused table entries name a spare page of NaN; the same with a page of zeros."""
    rng = np.random.default_rng(0)
    axis = next(s.index(SEQUENCES * PAGES + 1) for s, _ in given if SEQUENCES * PAGES + 1 in s)
    floats = [jnp.asarray(rng.standard_normal(s), d) for s, d in given if "float" in d]
    table = rng.permutation(SEQUENCES * PAGES).reshape(SEQUENCES, PAGES)
    unused = np.arange(PAGES) * PAGE >= np.array(LENGTHS)[:, None]
    whole = (jnp.array(LENGTHS), jnp.asarray(np.where(unused, SEQUENCES * PAGES, table)))
    place = (slice(None),) * axis + (-1,)
    starts = jnp.arange(SEQUENCES + 1, dtype=jnp.int32)

    def inputs(spare):
        pools = [SEQUENCES * PAGES + 1 in x.shape for x in floats]
        filled = [
            x.at[place].set(spare) if pool else x for x, pool in zip(floats, pools, strict=True)
        ]
        rest, ints = iter(filled), iter((*whole, starts))
        return tuple(next(rest if "float" in d else ints) for _, d in given)

    return inputs(jnp.nan), inputs(0.0)


@pytest.mark.parametrize(("reference", "given", "block_pages"), CASES)
def test_equal_and_within_the_length(reference, given, block_pages):
    source = emitted(reference, given)
    assert_clean(source)
    poisoned, clean = draw(given)
    wide = [x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x for x in clean]
    wanted = np.asarray(reference(*wide))
    found = np.asarray(load(source)(*poisoned, block_pages=block_pages))
    size = max(1.0, float(np.sqrt(np.mean(wanted**2))))
    np.testing.assert_allclose(found.astype(np.float32), wanted, atol=3e-2 * size, rtol=2e-2)


def test_a_sequence_without_positions_yields_zeros():
    _, (q, k, v, lens, table) = draw(CASES[0][1])
    found = load(emitted(*CASES[0][:2]))(q, k, v, lens.at[1].set(0), table, block_pages=2)
    assert not np.asarray(found[1], np.float32).any()
    assert np.isfinite(np.asarray(found, np.float32)).all()


def test_what_is_not_paged_decode_is_refused():
    def unbounded(q, k_pages, v_pages, lens, table):
        return plain(q, k_pages, v_pages, jnp.maximum(lens, 3), table)

    with pytest.raises(Unsupported, match="computed by the program"):
        match(task_info(unbounded, *CASES[0][1]))
    with pytest.raises(NoAnswer, match="not paged"):
        TEAM.planner.plan(
            task_info(lambda x, i: x[i], ((4, 8), "float32"), ((4,), "int32")),
            get_target("v6e"),
            (),
        )
