"""Keys that are joined of a head's own columns and of columns that all heads share."""

import jax
import jax.numpy as jnp
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from kernels import TEAM, assert_equal, draw, sources

from maxkernel.targets import get_target

OWN, SHARED, WIDTH = 32, 16, 24


def softmax_of(scores, v, hidden=None):
    scores = scores * 0.2
    if hidden is not None:
        scores = jnp.where(hidden, -jnp.inf, scores)
    weights = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights.astype(v.dtype), v)


def latent(q, own, shared, v):
    """Causal; the shared columns come last."""
    repeated = jnp.broadcast_to(shared[:, :, None, :], (*own.shape[:3], shared.shape[-1]))
    k = jnp.concatenate([own, repeated], axis=-1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
    place = jnp.arange(q.shape[1])
    return softmax_of(scores, v, place[None, :] > place[:, None])


def by_heads(q, own, shared, v):
    """The same, with a loop over heads."""

    def one_head(head):
        q, own, v = (t[:, :, None] for t in head)
        return latent(q, own, shared, v)[:, :, 0]

    return jnp.moveaxis(jax.lax.map(one_head, [jnp.moveaxis(t, 2, 0) for t in (q, own, v)]), 0, 2)


def shared_first(q, own, shared, v):
    """Every key is visible; the shared columns come first."""
    repeated = jnp.repeat(shared[:, :, None, :], own.shape[2], axis=2)
    k = jnp.concatenate([repeated, own], axis=-1)
    return softmax_of(jnp.einsum("bqhd,bkhd->bhqk", q, k), v)


def each_its_own(q, one, two, v):
    """Nothing is shared: XLA may as well join them."""
    k = jnp.concatenate([one, two], axis=-1)
    return softmax_of(jnp.einsum("bqhd,bkhd->bhqk", q, k), v)


def specs(batch, length, heads, dtype="float32"):
    def of(width):
        return ((batch, length, heads, width), dtype)

    return (of(OWN + SHARED), of(OWN), ((batch, length, SHARED), dtype), of(WIDTH))


@pytest.mark.parametrize("reference", [latent, by_heads, shared_first])
def test_shared_columns_are_read_once(reference):
    (source,) = sources(reference, *specs(2, 160, 3))
    assert "k_1_ref" in source and "k_2_ref" in source
    assert "broadcast_to" not in source and "repeat" not in source
    assert_clean(source)
    for size in ((2, 160, 3), (1, 129, 2), (3, 40, 4)):
        inputs = draw(specs(*size), seed=3)
        assert_equal(reference, source, inputs, 1e-4, block=64)


def test_keys_joined_of_arrays_of_every_head_are_joined_outside():
    own = ((2, 96, 3, SHARED), "float32")
    given = (*specs(2, 96, 3)[:2], own, specs(2, 96, 3)[3])
    (source,) = sources(each_its_own, *given)
    assert "k_1_ref" not in source
    assert_equal(each_its_own, source, draw(given, seed=4), 1e-4)


def test_the_compiler_takes_parts_that_are_no_whole_lanes():
    """The shared 64 columns in front, as the heads' own start in the middle of the lanes."""
    batch, length, heads = 1, 512, 2
    given = tuple(
        (shape, "bfloat16")
        for shape in (
            (batch, length, heads, 192),
            (batch, length, heads, 128),
            (batch, length, 64),
            (batch, length, heads, 128),
        )
    )
    (source,) = sources(shared_first, *given)
    compile_for(source, given, "v6e")


def test_strips_are_a_choice_only_below_a_diagonal():
    target = get_target("v6e")
    for reference, has in ((latent, True), (shared_first, False)):
        info = task_info(reference, *specs(2, 160, 3))
        (plan,) = TEAM.planner.plan(info, target, ())
        source = TEAM.implementer.implement(info, plan, target)
        assert ("strips" in source) == has
