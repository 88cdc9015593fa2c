"""What the paged family emits for a buffer of query tokens over pages equals the reference, and
reads nothing beyond what a token sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from emitted_style import assert_clean
from graphs import task_info
from jax import lax
from kernels import TEAM, load

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.paged.ragged import match_ragged
from maxkernel.targets import get_target

TOKENS, SLOTS, HEADS, GROUPS, WIDTH, PAGE, PAGES, BLOCK = 40, 6, 4, 2, 128, 8, 4, 16
COUNTS = (1, 1, 20, 1, 9, 0)
LENGTHS = (1, PAGE * PAGES, 29, PAGE, 9, 0)
SPECS = (
    ((SLOTS,), "int32"),
    ((TOKENS, HEADS, WIDTH), "bfloat16"),
    ((SLOTS * PAGES + 1, PAGE, 2 * GROUPS, WIDTH), "bfloat16"),
    ((SLOTS + 1,), "int32"),
    ((SLOTS, PAGES), "int32"),
)


def mixed(context, x, cache, bounds, where):
    """One serving step, in blocks of queries."""
    begin = bounds[:-1]
    counts = jnp.where(context > 0, bounds[1:] - begin, 0)
    blocks = (counts + BLOCK - 1) // BLOCK
    behind = jnp.cumsum(blocks)

    def attend(item):
        slot = jnp.minimum(jnp.sum(behind <= item), SLOTS - 1)
        place = (item - behind[slot] + blocks[slot]) * BLOCK + jnp.arange(BLOCK)
        rows = jnp.clip(begin[slot] + place, 0, TOKENS - 1)
        q = x[rows].reshape(BLOCK, GROUPS, HEADS // GROUPS, WIDTH)
        both = cache[where[slot]].reshape(PAGE * PAGES, 2 * GROUPS, WIDTH)
        s = jnp.einsum("kgd,qgrd->grqk", both[:, 0::2], q, preferred_element_type=jnp.float32)
        last = jnp.maximum(context[slot] - counts[slot] + place, 0)
        s = jnp.where(last[:, None] >= jnp.arange(PAGE * PAGES), s * WIDTH**-0.5, -1e30)
        p = jax.nn.softmax(s, axis=-1).astype(both.dtype)
        return jnp.einsum("grqk,kgd->qgrd", p, both[:, 1::2]).reshape(BLOCK, HEADS, WIDTH)

    done = lax.map(attend, jnp.arange(TOKENS // BLOCK + SLOTS))
    token = jnp.arange(TOKENS)
    slot = jnp.minimum(jnp.sum(bounds[1:] <= token[:, None], axis=1), SLOTS - 1)
    place = token - begin[slot]
    o = done[behind[slot] - blocks[slot] + place // BLOCK, place % BLOCK]
    return jnp.where((place < counts[slot])[:, None, None], o, 0)


@pytest.fixture(scope="module")
def source():
    info, chip = task_info(mixed, *SPECS), get_target("v6e")
    (plan,) = TEAM.planner.plan(info, chip, ())
    assert plan.family == "paged"
    return TEAM.implementer.implement(info, plan, chip)


def draw(spare):
    """Unused table entries name a page that is filled with `spare`."""
    rng = np.random.default_rng(0)
    q, pool = (jnp.asarray(rng.standard_normal(s), "bfloat16") for s, _ in SPECS[1:3])
    table = rng.permutation(SLOTS * PAGES).reshape(SLOTS, PAGES)
    unused = np.arange(PAGES) * PAGE >= np.array(LENGTHS)[:, None]
    table = jnp.asarray(np.where(unused, SLOTS * PAGES, table), jnp.int32)
    ends = jnp.asarray(np.concatenate([[0], np.cumsum(COUNTS)]), jnp.int32)
    return jnp.array(LENGTHS, jnp.int32), q, pool.at[-1].set(spare), ends, table


def test_decodes_chunks_and_unused_rows(source):
    assert_clean(source)
    wanted = np.asarray(mixed(*draw(0.0)), np.float32)
    tunables = {"block_q": 8, "block_pages": 3, "decode_pages": 2}
    found = np.asarray(load(source)(*draw(jnp.nan), **tunables), np.float32)
    np.testing.assert_allclose(found, wanted, atol=3e-2, rtol=2e-2)
    assert not found[sum(COUNTS) :].any()


def test_keys_and_values_that_do_not_take_turns_are_refused():
    def split(context, x, cache, bounds, where):
        return mixed(context, x, jnp.concatenate([cache, cache], 2), bounds, where)

    pool = ((SLOTS * PAGES + 1, PAGE, GROUPS, WIDTH), "bfloat16")
    with pytest.raises(Unsupported, match="does not gather pages"):
        match_ragged(task_info(split, *SPECS[:2], pool, *SPECS[3:]))
