"""Programs of several parts: kernels for some of them, XLA for the rest, at any size."""

import ast

import jax
import jax.numpy as jnp
import pytest
from emitted_style import assert_clean
from graphs import task_info
from kernels import TEAM, assert_equal, draw, sources

from maxkernel.engineers.builtin.cuts import without_repeats
from maxkernel.engineers.builtin.module import Module
from maxkernel.engineers.builtin.regions.join import joined, take_apart
from maxkernel.engineers.roles import NoAnswer
from maxkernel.targets import get_target

HEADS, WIDTH = 2, 32


def rotate(t):
    half = t.shape[-1] // 2
    angle = jnp.arange(t.shape[1])[:, None] * 100.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    a, b = t[..., :half], t[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(t.dtype)


def soft(q, k, v):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
    causal = jnp.tril(jnp.ones((q.shape[1], q.shape[1]), bool))
    p = jax.nn.softmax(jnp.where(causal, s * q.shape[-1] ** -0.5, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p.astype(v.dtype), v)


def projected(x, w_q, w_k, w_v, w_out):
    """Projections, positions by rotation, attention, and the way back."""
    q, k, v = ((x @ w).reshape(*x.shape[:2], HEADS, WIDTH) for w in (w_q, w_k, w_v))
    return soft(rotate(q), rotate(k), v).reshape(*x.shape[:2], HEADS * WIDTH) @ w_out


def specs(batch, length, features):
    weights = [((features, HEADS * WIDTH), "float32")] * 3
    back = ((HEADS * WIDTH, features), "float32")
    return (((batch, length, features), "float32"), *weights, back)


def scaled(inputs):
    x, *weights = inputs
    return (x, *(w / w.shape[0] ** 0.5 for w in weights))


def test_attention_between_projections_at_several_sizes():
    (source,) = sources(projected, *specs(2, 64, 48))
    assert "left to XLA" in source
    assert_clean(source)
    for size in ((2, 64, 48), (1, 40, 48), (3, 96, 80)):
        assert_equal(projected, source, scaled(draw(specs(*size), seed=1)))


def test_a_second_product_whose_rows_are_reduced():
    def reference(x, w1, b1, w2, b2):
        h = jax.nn.sigmoid(x @ w1.T + b1)
        return jax.nn.logsumexp(h @ w2.T + b2, axis=1)

    def shapes(m):
        kinds = (m, 128), (256, 128), (256,), (384, 256), (384,)
        return tuple((s, "float32") for s in kinds)

    found = sources(reference, *shapes(96))
    assert any("running statistics" in s or "whole rows" in s for s in found)
    for source in found:
        assert_clean(source)
        assert_equal(reference, source, draw(shapes(70), seed=2))


def test_two_attentions_keep_their_own_constants():
    def reference(q, k, v, k_2, v_2):
        s = jnp.einsum("bqhd,bkhd->bhqk", soft(q, k, v) * 2.0, k_2)
        return jnp.tanh(jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, axis=-1), v_2))

    shape = ((1, 96, HEADS, WIDTH), "float32")
    (source,) = sources(reference, *[shape] * 5)
    names = [n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    assert len(names) == len(set(names)) and {"attention", "attention_2"} <= set(names)
    assert "block_2=block_2" in source or "block=block_2" in source
    assert_equal(reference, source, draw((shape,) * 5, seed=3))


def test_rotations_of_two_arrays_share_one_kernel():
    def reference(q, k, positions):
        half = q.shape[-1] // 2
        angle = positions[..., None] * 100.0 ** (-jnp.arange(half) / half)
        cos, sin = jnp.cos(angle)[:, :, None], jnp.sin(angle)[:, :, None]

        def turn(t):
            a, b = jnp.split(t.astype(jnp.float32), 2, axis=-1)
            return jnp.concatenate([a * cos - b * sin, a * sin + cos * b], -1).astype(t.dtype)

        return turn(q), turn(k)

    def shapes(batch, length, width):
        q, k = ((batch, length, heads, width) for heads in (4, 2))
        return (q, "bfloat16"), (k, "bfloat16"), ((batch, length), "int32")

    (source,) = sources(reference, *shapes(2, 40, 128))
    assert source.count("pl.pallas_call") == 1 and source.count("rotation(") == 3
    assert_clean(source)
    assert_equal(reference, source, draw(shapes(3, 70, 128), seed=4))
    (source,) = sources(reference, *shapes(2, 40, 32))
    assert_equal(reference, source, draw(shapes(1, 9, 32), seed=5), block=8)


def test_attention_over_rows_that_an_index_chooses():
    def reference(q, table, index):
        rows = jax.vmap(lambda t, i: t[i])(table, jnp.maximum(index, 0))
        s = jnp.einsum("bmhd,bmnd->bmhn", q, rows) * 0.125
        s = jnp.where((index >= 0)[:, :, None], s, -jnp.inf)
        return jnp.einsum("bmhn,bmnd->bmhd", jax.nn.softmax(s, axis=-1), rows)

    def shapes(batch, queries, chosen):
        q, table = (batch, queries, 8, 64), (batch, 100, 64)
        return (q, "float32"), (table, "float32"), ((batch, queries, chosen), "int32")

    (source,) = sources(reference, *shapes(2, 6, 40))
    assert_clean(source)
    assert_equal(reference, source, draw(shapes(1, 5, 70), seed=6))


def test_gates_around_a_batched_product():
    def reference(z, w_1, w_2, w_3, w_4):
        left = (z @ w_1) * jax.nn.sigmoid(z @ w_2)
        right = (z @ w_3) * jax.nn.sigmoid(z @ w_4)
        return jnp.einsum("ikc,jkc->ijc", left, right)

    def shapes(n):
        return tuple((s, "bfloat16") for s in ((n, n, 64), *[(64, 64)] * 4))

    (source,) = sources(reference, *shapes(24), only="2 x products")
    assert source.count("pl.pallas_call") == 1
    assert_clean(source)
    assert_equal(reference, source, draw(shapes(20), seed=7), tolerance=6e-2)


def test_a_part_that_no_family_knows_is_taken_apart():
    def reference(x, w_1, w_2, w_3, b):
        gate = jax.nn.sigmoid(x @ w_2)
        return jnp.sort(jnp.tanh((x @ w_1) * gate) @ w_3 + b, axis=0)

    specs = tuple((s, "float32") for s in ((48, 128), *[(128, 128)] * 3, (128,)))
    found = sources(reference, *specs)
    assert found and all("products" not in source.split("import")[0] for source in found)
    for source in found:
        assert_equal(reference, source, draw(specs, seed=8))


def test_rows_after_a_convolution_that_stays_with_xla():
    def reference(x, w, b, scale):
        c = jax.lax.conv_general_dilated(
            x,
            w[:, :, ::-1, ::-1],
            (1, 1),
            [(2, 2), (2, 2)],
            lhs_dilation=(2, 2),
            dimension_numbers=("NCHW", "IOHW", "NCHW"),
        )
        c = c + b[:, None, None]
        centred = c - jnp.mean(c, axis=-1, keepdims=True)
        spread = jnp.sqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
        return jnp.tanh(centred / spread * scale)

    def shapes(n, side):
        kinds = (n, 8, side, side), (8, 16, 4, 4), (16,), (2 * side,)
        return tuple((s, "float32") for s in kinds)

    (source,) = sources(reference, *shapes(2, 16))
    assert "conv_general_dilated" in source and "pl.pallas_call" in source
    assert_clean(source)
    assert_equal(reference, source, draw(shapes(3, 8), seed=9))


def test_equal_operations_are_done_once():
    def reference(q, k, v):
        return soft(rotate(q), rotate(k), v)

    info = task_info(reference, *[((1, 64, HEADS, WIDTH), "float32")] * 3)
    ops = [n.op for n in without_repeats(info).graph.nodes]
    assert [n.op for n in info.graph.nodes].count("cos") == 2
    assert ops.count("cos") == ops.count("sin") == 1


def test_definitions_that_clash_get_names_of_their_own():
    one = take_apart(
        "A = 1  # first\n\n\ndef f(x):\n    return x + A\n\n\ndef kernel(x):\n    return f(x)\n",
        "g",
    )
    two = take_apart(
        "A = 2\n\n\ndef f(x):\n    return x.A + A\n\n\ndef kernel(x):\n    return f(x)\n", "h"
    )
    module = Module("", "", {})
    joined([one, two], module)
    assert module.constants == {"A": ("1", "first"), "A_2": ("2", "")}
    assert "return x.A + A_2" in "\n".join(module.functions)
    assert "def h(x):\n    return f_2(x)" in "\n".join(module.functions)


def test_what_has_no_product_says_so():
    info = task_info(lambda x: jnp.sort(x[:, ::-1], axis=1), ((64, 64), "float32"))
    with pytest.raises(NoAnswer, match="not in parts: the rows: the operation `rev`"):
        TEAM.planner.plan(info, get_target("v6e"), ())
