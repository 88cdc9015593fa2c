"""A map over a batch of one is the program that was written for batches."""

import functools

import jax
import jax.numpy as jnp
import pytest
from graphs import task_info
from kernels import TEAM, assert_equal, draw, sources

from maxkernel.engineers.builtin.units import without_unit_dims
from maxkernel.targets import get_target


def mapped(reference, *batched):
    """`reference` on batches of one, mapped over the arguments at `batched`."""

    @functools.wraps(reference)
    def changed(*given):
        def one(*slices):
            whole = list(given)
            for place, part in zip(batched, slices, strict=True):
                whole[place] = part[None]
            return reference(*whole)[0]

        return jax.vmap(one)(*(given[i] for i in batched))

    return changed


def gated_norm(x, w, b):
    y = x @ w + b
    centred = y - jnp.mean(y, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def run_means(x, w, b):
    y = (x @ w.T + b).reshape(x.shape[0], -1, 16)
    return jax.nn.logsumexp(jnp.mean(y, axis=-1), axis=-1, keepdims=True)


def cross_entropy(x, w, labels):
    logits = jnp.dot(x, w, preferred_element_type=jnp.float32)
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.2
    place = jnp.arange(q.shape[1])
    weights = jax.nn.softmax(jnp.where(place[:, None] >= place, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def chosen_rows(q, kv, index):
    rows = jax.vmap(lambda table, places: table[places])(kv, index)
    scores = jnp.einsum("bmhd,bmnd->bmhn", q, rows, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(scores * 0.2, axis=-1)
    return jnp.einsum("bmhn,bmnd->bmhd", weights, rows)


def f32(*shape):
    return (shape, "float32")


HEADS = f32(3, 80, 2, 32)
CASES = [
    (gated_norm, (0,), (f32(40, 64), f32(64, 96), f32(96)), (f32(17, 48), f32(48, 200), f32(200))),
    (run_means, (0,), (f32(40, 64), f32(96, 64), f32(96)), (f32(17, 48), f32(160, 48), f32(160))),
    (
        cross_entropy,
        (0, 2),
        (f32(40, 64), f32(64, 300), ((40,), "int32")),
        (f32(33, 48), f32(48, 130), ((33,), "int32")),
    ),
    (attention, (0, 1, 2), (HEADS,) * 3, (f32(2, 50, 3, 32),) * 3),
]


@pytest.mark.parametrize(("reference", "batched", "specs", "others"), CASES)
def test_the_same_plans_and_right_kernels(reference, batched, specs, others):
    target = get_target("v6e")
    changed = mapped(reference, *batched)
    plans = [TEAM.planner.plan(task_info(r, *specs), target, ()) for r in (reference, changed)]
    assert [(p.family, p.strategy) for p in plans[0]] == [(p.family, p.strategy) for p in plans[1]]
    for given in (specs, others):
        for source in sources(changed, *specs)[:1]:
            assert_equal(changed, source, draw(given, 2), 5e-3)


def test_rows_that_an_index_chooses_per_batch():
    """The batch that a gather's table and indices share is tied through it."""
    target = get_target("v6e")
    specs = f32(2, 5, 16, 128), f32(2, 40, 128), ((2, 5, 24), "int32")
    infos = [task_info(r, *specs) for r in (chosen_rows, mapped(chosen_rows, 0, 1, 2))]
    plain, changed = (TEAM.planner.plan(info, target, ()) for info in infos)
    assert plain
    assert [(p.family, p.strategy) for p in plain] == [(p.family, p.strategy) for p in changed]


def test_dimensions_that_something_needs_stay():
    """Sizes of 1 that a reference has itself, in its inputs, its results or between."""

    def kept(x):
        top = jnp.max(x, axis=-1, keepdims=True)
        return jnp.exp(x - top), top

    for reference, specs in ((kept, [f32(40, 64)]), (jnp.cumsum, [f32(40, 1, 64)])):
        graph = task_info(reference, *specs).graph
        assert without_unit_dims(graph) is graph


def test_what_a_map_leaves_alone_is_not_touched():
    """A sum over the mapped dimension, and a running sum along the batch of one."""

    def running(x):
        return jnp.cumsum(x, axis=0)

    graph = task_info(mapped(running, 0), f32(5, 7)).graph
    assert without_unit_dims(graph) is graph


def test_plans_are_made_once_for_a_task_and_anew_for_another():
    first, second = (task_info(gated_norm, *specs) for specs in CASES[0][2:])
    target, planner = get_target("v6e"), TEAM.planner
    plans = planner.plan(first, target, ())
    assert all(a is b for a, b in zip(plans, planner.plan(first, target, ()), strict=True))
    assert planner.plan(second, target, ())[0].expected_seconds != plans[0].expected_seconds
    assert (
        planner.plan(first, get_target("v5e"), ())[0].expected_seconds > plans[0].expected_seconds
    )
