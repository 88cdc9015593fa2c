"""Loops over chunks that carry a state: recognised by dataflow, and equal to the reference."""

import ast
import sys

import jax
import jax.numpy as jnp
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from jax import lax
from kernels import TEAM, assert_equal, draw, sources

from maxkernel import suites
from maxkernel.api import open_session
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.recurrence.match import match
from maxkernel.judge.gate import check_gate
from maxkernel.tasks import task_from_text
from maxkernel.types import Candidate

CHUNK = 16
SMALL_DELTA = "length=256, key_heads=2, heads=4"


def chunked(x):
    """(B, S, ...) to (chunks, B, CHUNK, ...), padded with zeros."""
    pad = [(0, 0), (0, -x.shape[1] % CHUNK)] + [(0, 0)] * (x.ndim - 2)
    x = jnp.pad(x, pad)
    return jnp.moveaxis(x.reshape(x.shape[0], -1, CHUNK, *x.shape[2:]), 1, 0)


def delta(q, k, v, rates, beta, state):
    """The gated delta rule; q, k, v: (B, S, H, width); rates, beta: (B, S, H)."""

    def step(state, chunk):
        q, k, v, rates, beta = chunk
        g = jnp.cumsum(rates, axis=-1)
        place = jnp.arange(CHUNK)
        seen = place[:, None] >= place
        decay = jnp.exp(jnp.where(seen, g[..., :, None] - g[..., None, :], -jnp.inf))
        overlap = jnp.einsum("bhid,bhjd->bhij", k, k) * decay * beta[..., None]
        system = jnp.where(place[:, None] > place, overlap, 0.0) + jnp.eye(CHUNK)
        known = v - jnp.exp(g)[..., None] * jnp.einsum("bhid,bhdv->bhiv", k, state)
        fix = lax.linalg.triangular_solve(
            system, known * beta[..., None], left_side=True, lower=True, unit_diagonal=True
        )
        o = jnp.exp(g)[..., None] * jnp.einsum("bhid,bhdv->bhiv", q, state)
        o = o + jnp.einsum("bhij,bhjv->bhiv", jnp.einsum("bhid,bhjd->bhij", q, k) * decay, fix)
        state = jnp.exp(g[..., -1])[..., None, None] * state
        left = jnp.exp(g[..., -1:] - g)
        return state + jnp.einsum("bhid,bhi,bhiv->bhdv", k, left, fix), o

    batch, length, heads, width = v.shape
    k = k.astype(jnp.float32)
    k = k * lax.rsqrt(jnp.sum(k * k, axis=-1, keepdims=True) + 1e-6)
    rates, beta = -jax.nn.softplus(rates), jax.nn.sigmoid(beta)
    parts = [jnp.moveaxis(chunked(x.astype(jnp.float32)), 3, 2) for x in (q, k, v, rates, beta)]
    state, o = lax.scan(step, state, parts)
    o = o.transpose(1, 0, 3, 2, 4).reshape(batch, -1, heads, width)[:, :length]
    return o.astype(v.dtype), state


def space(x, rates, b, c):
    """State-space duality; x: (B, S, H, P); rates: (B, S, H); b, c: (B, S, N) of all heads."""

    def step(state, chunk):
        x, rates, b, c = chunk
        g = jnp.cumsum(rates, axis=1)
        seen = jnp.tril(jnp.ones((CHUNK, CHUNK), bool))[:, :, None]
        decay = jnp.exp(jnp.where(seen, g[:, :, None] - g[:, None, :], -jnp.inf))
        scores = jnp.einsum("bin,bjn->bij", c, b)[..., None] * decay
        y = jnp.einsum("bijh,bjhp->bihp", scores, x)
        y = y + jnp.einsum("bin,bhpn,bih->bihp", c, state, jnp.exp(g))
        left = jnp.exp(g[:, -1:] - g)
        state = jnp.exp(g[:, -1])[..., None, None] * state
        return state + jnp.einsum("bjhp,bjn,bjh->bhpn", x, b, left), y

    batch, length, heads, width = x.shape
    parts = [chunked(t.astype(jnp.float32)) for t in (x, -jnp.abs(rates), b, c)]
    first = jnp.zeros((batch, heads, width, b.shape[-1]), jnp.float32)
    last, y = lax.scan(step, first, parts)
    y = jnp.moveaxis(y, 0, 1).reshape(batch, -1, heads, width)[:, :length]
    return y.astype(x.dtype), last


def space_rewritten(c, b, x, rates):
    """The same with one batch only mapped by vmap, heads first, other products and names."""

    def step(memory, chunk):
        values, rates, keys, queries = chunk
        total = jnp.cumsum(rates, axis=1)
        i = lax.broadcasted_iota(jnp.int32, (CHUNK, CHUNK), 0)
        j = lax.broadcasted_iota(jnp.int32, (CHUNK, CHUNK), 1)
        far = total[:, :, None] - total[:, None, :]
        scores = jnp.where(j > i, 0.0, jnp.exp(jnp.minimum(far, 0.0))) * (queries @ keys.T)
        out = jnp.matmul(scores, values)
        out += jnp.exp(total)[..., None] * jnp.einsum("hnp,in->hip", memory, queries)
        kept = jnp.exp(total[:, CHUNK - 1 :] - total)[..., None] * values
        keep = jnp.exp(total[:, CHUNK - 1])[:, None, None]
        return jnp.einsum("jn,hjp->hnp", keys, kept) + memory * keep, out

    def one(c, b, x, rates):
        count = x.shape[0] // CHUNK
        split = [
            x.reshape(count, CHUNK, *x.shape[1:]).swapaxes(1, 2),
            -jnp.abs(rates).reshape(count, CHUNK, -1).swapaxes(1, 2),
            b.reshape(count, CHUNK, -1),
            c.reshape(count, CHUNK, -1),
        ]
        first = jnp.zeros((x.shape[1], b.shape[-1], x.shape[-1]), jnp.float32)
        split = [t.astype(jnp.float32) for t in split]
        last, out = lax.scan(step, first, split)
        return out.swapaxes(1, 2).reshape(x.shape).astype(x.dtype), last

    return jax.vmap(one)(c, b, x, rates)


def gated(x, rates, b, c):
    """`space` with a gate on its inputs."""
    wide = x.astype(jnp.float32) * jax.nn.sigmoid(rates)[..., None]
    return space(wide, rates, b, c)[1]


def mixing(x, rates, b, c):
    """Heads that see one another's states are no heads."""

    def step(state, chunk):
        x, b, c = chunk
        y = jnp.einsum("bin,bhpn->bihp", c, state)
        mean = jnp.mean(state, axis=(1, 2), keepdims=True)
        return mean + jnp.einsum("bjhp,bjn->bhpn", x, b), y

    parts = [chunked(t.astype(jnp.float32)) for t in (x, b, c)]
    first = jnp.zeros((x.shape[0], *x.shape[2:], b.shape[-1]), jnp.float32)
    return lax.scan(step, first, parts)[1]


def specs_of(*shapes):
    return tuple((shape, dtype) for shape, dtype in shapes)


def delta_specs(batch, length, heads, width):
    wide = ((batch, length, heads, width), "bfloat16")
    narrow = ((batch, length, heads), "float32")
    return (wide, wide, wide, narrow, narrow, ((batch, heads, width, width), "float32"))


def space_specs(batch, length, heads, width, states):
    shared = ((batch, length, states), "bfloat16")
    return (
        ((batch, length, heads, width), "bfloat16"),
        ((batch, length, heads), "float32"),
        shared,
        shared,
    )


def rewritten_specs(*sizes):
    x, rates, b, c = space_specs(*sizes)
    return (c, b, x, rates)


CASES = [
    (delta, delta_specs(2, 40, 4, 32), delta_specs(1, 64, 4, 32)),
    (space, space_specs(2, 50, 4, 8, 16), space_specs(1, 64, 4, 8, 16)),
    (space_rewritten, rewritten_specs(2, 64, 6, 8, 16), rewritten_specs(2, 48, 4, 8, 16)),
]


@pytest.mark.parametrize(("reference", "specs", "other"), CASES)
def test_one_source_equals_the_reference_at_every_size(reference, specs, other):
    """Written for one size, it is right at another batch, length, and with or without padding."""
    (source,) = sources(reference, *other)
    assert check_gate(ast.parse(source)) is None
    for sizes in (specs, other):
        assert_equal(reference, source, draw(sizes, 1), 3e-2, heads=2)


@pytest.mark.parametrize(("reference", "specs", "other"), CASES)
def test_ruff_agrees(reference, specs, other):
    (source,) = sources(reference, *specs)
    assert_clean(source, line_length=88)


def test_narrow_matrices_have_positions_along_lanes(monkeypatch):
    """Chunks of whole tiles: arrays are passed uncut, and products need no transposes."""
    monkeypatch.setattr(sys.modules[__name__], "CHUNK", 128)
    specs = space_specs(2, 200, 2, 8, 128)
    (source,) = sources(space, *specs)
    assert "x_heads = " in source and "x_chunks" not in source
    assert source.count(".T\n") == 1  # Running sums, as columns.
    assert_equal(space, source, draw(specs, 1), 3e-2, heads=2)
    compile_for(source, specs, "v6e", heads=2)


def test_conversions_and_gates_are_done_in_the_kernel():
    """What XLA would widen before the loop crosses memory in the narrow type."""
    (source,) = sources(gated, *space_specs(2, 64, 4, 8, 16))
    body = source[source.index("def body(") : source.index("def kernel(")]
    assert "x.astype(jnp.float32) * " in body
    assert_equal(gated, source, draw(space_specs(1, 56, 4, 8, 16), 1), 3e-2)


def test_triangular_systems_compile():
    specs = delta_specs(1, 48, 2, 128)
    (source,) = sources(delta, *specs)
    assert "jax.nn.softplus(rates)" in source
    compile_for(source, specs, "v5e", heads=2)


def test_a_system_of_equal_keys_is_solved():
    """All keys alike and no decay: powers of the system would cancel to nothing."""
    ones = jnp.ones((1, 64, 2, 32), jnp.bfloat16)
    q, _, v, _, _, state = draw(delta_specs(1, 64, 2, 32), 3)
    still = jnp.full((1, 64, 2), -30.0)
    (source,) = sources(delta, *delta_specs(1, 64, 2, 32))
    assert_equal(delta, source, (q, ones, v, still, -still, state), 3e-2)


def test_batches_and_heads_are_found_by_dataflow():
    one = match(task_info(space, *space_specs(2, 64, 4, 8, 16)).graph)
    two = match(task_info(space_rewritten, *rewritten_specs(2, 64, 6, 8, 16)).graph)
    for loop, heads in ((one, 4), (two, 6)):
        state = loop.body.inputs[loop.fixed]
        sizes = [loop.body.values[state].shape[d] for d in loop.places(state)]
        assert sizes == [2, heads]


def test_heads_that_see_one_another_are_refused():
    with pytest.raises(Unsupported, match="no heads"):
        match(task_info(mixing, *space_specs(2, 64, 4, 8, 16)).graph)


@pytest.mark.parametrize(
    ("name", "large", "small"),
    [
        ("w11_qwen3_next_delta_prefill", "length=8192, key_heads=16, heads=32", SMALL_DELTA),
        ("w13_mamba2_ssd", "length=4096, heads=80", "length=512, heads=8"),
    ],
)
def test_the_judge_accepts_a_model_s_layer(name, large, small):
    """The suite's own references, at fewer positions and heads."""
    task = suites.load("models", name)
    text = task.files[task.entry]
    assert large in text
    files = {task.entry: text.replace(large, small)}
    task = task_from_text(task.name, task.format, task.entry, files)
    with open_session("v6e", use_cache=False) as session:
        prepared = session.judge.prepare(task)
        (plan,) = TEAM.planner.plan(prepared.info, session.judge.target, ())
        source = TEAM.implementer.implement(prepared.info, plan, session.judge.target)
        evaluation = session.judge.evaluate(prepared, Candidate(source, {"heads": 2}))
        assert evaluation.accepted, evaluation.failure
