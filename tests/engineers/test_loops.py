"""Loops whose steps do not depend on each other become operations on whole arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graphs import task_info
from jax import lax
from kernels import assert_equal, draw, sources

from maxkernel.engineers.builtin.loops import flattened
from maxkernel.engineers.builtin.text import Names
from maxkernel.engineers.builtin.xla import Writer

F32, BF16 = "float32", "bfloat16"
X, Y, W = ((3, 4, 5), F32), ((3, 4, 5), F32), ((5, 6), F32)


def one_sided_products(x, y, w):
    """The left side, then the right side alone differs between steps."""

    def step(pair):
        a, b = pair
        left = jnp.einsum("mk,kn->nm", a, w)
        right = jnp.einsum("kn,mk->nm", w, b)
        return left * right.sum() - jnp.max(a)

    return lax.map(step, (x, y))


def one_sided_batches(x, y, w):
    """Products with a batch of their own, of which the steps see one side."""
    return lax.map(lambda a: jnp.einsum("gmk,mk->gm", y, a) + jnp.einsum("mk,gmk->gm", a, y), x)


def pieces(x, y, w):
    """Layouts, a part that is the same in every step, and a result that is."""
    fixed = jnp.concatenate([w[:, :2], w[:, 3:]], axis=1)

    def step(a):
        joined = jnp.concatenate([a[:, 1:4].T, fixed[:3, :4]], axis=1)
        return joined.reshape(-1)[None, :] * a[0, 0], jnp.tanh(fixed)

    return lax.map(step, x)


def sums(x, y, w):
    """Three carries that only gather, and results beside them."""

    def step(carry, pair):
        total, top, count = carry
        a, b = pair
        return (total + a @ w, jnp.maximum(top, b), count + 2.0), a * b

    return lax.scan(step, (jnp.ones((4, 6)), jnp.zeros((4, 5)), 1.0), (x, y))


def nested(x, y, w):
    return lax.map(lambda a: lax.map(lambda row: jax.nn.softmax(row @ w), a), x)


def evaluated(graph, arrays):
    """The graph's results, by the statements that are written for it."""
    names = [f"x{i}" for i in range(len(arrays))]
    writer = Writer(graph, names, Names(names), {})
    returned = ", ".join(writer.result(v) for v in graph.outputs)
    lines = [f"def run({', '.join(names)}):", *writer.lines, f"return {returned},"]
    scope = {"jax": jax, "jnp": jnp}
    exec("\n".join(lines).replace("\n", "\n    "), scope)
    return scope["run"](*arrays)


@pytest.mark.parametrize("reference", [one_sided_products, one_sided_batches, pieces, sums, nested])
def test_all_steps_at_once(reference):
    graph = flattened(task_info(reference, X, Y, W).graph)
    assert not any(node.op == "scan" for node in graph.nodes)
    arrays = draw((X, Y, W), 0)
    wanted = jax.tree.leaves(reference(*arrays))
    for found, expected, value in zip(evaluated(graph, arrays), wanted, graph.outputs, strict=True):
        assert found.shape == expected.shape == graph.values[value].shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def recurrence(x, y, w):
    return lax.scan(lambda c, a: (0.5 * c + a, c), jnp.zeros((4, 5)), x)


def seen_by_the_step(x, y, w):
    return lax.scan(lambda c, a: (c + a, c * a), jnp.zeros((4, 5)), x)


def handed_out(x, y, w):
    def step(carry, a):
        carry = carry + a
        return carry, carry

    return lax.scan(step, jnp.zeros((4, 5)), x)


def sorts(x, y, w):
    return lax.map(lambda a: lax.sort(a), x)


@pytest.mark.parametrize("reference", [recurrence, seen_by_the_step, handed_out, sorts])
def test_other_loops_stay(reference):
    graph = task_info(reference, X, Y, W).graph
    kept = flattened(graph)
    assert (kept.nodes, kept.outputs) == (graph.nodes, graph.outputs)


def latent_attention(q, k_nope, k_rope, v):
    """Head by head; the last columns of the keys are shared by all heads."""
    causal = jnp.tril(jnp.ones((q.shape[1], q.shape[1]), bool))

    def one_head(head):
        q, k_nope, v = head
        k = jnp.concatenate([k_nope, k_rope], axis=-1)
        s = jnp.einsum("bqd,bkd->bqk", q, k, preferred_element_type=jnp.float32) * 0.2
        p = jax.nn.softmax(jnp.where(causal, s, -jnp.inf), axis=-1)
        return jnp.einsum("bqk,bkd->bqd", p.astype(v.dtype), v)

    return jnp.moveaxis(
        lax.map(one_head, tuple(jnp.moveaxis(t, 2, 0) for t in (q, k_nope, v))), 0, 2
    )


def latent_specs(batch, length, heads):
    wide, narrow = (batch, length, heads, 48), (batch, length, heads, 32)
    return ((wide, BF16), (narrow, BF16), ((batch, length, 16), BF16), (narrow, BF16))


def test_attention_head_by_head():
    (source,) = sources(latent_attention, *latent_specs(1, 256, 4))
    check = latent_specs(2, 64, 3)
    assert_equal(latent_attention, source, draw(check, 0), block=32, strips=2)
