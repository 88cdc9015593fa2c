"""What the updates family emits equals the reference, however the reference is written."""

import ast

import jax
import jax.numpy as jnp
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from kernels import TEAM, assert_equal, draw

from maxkernel import suites
from maxkernel.api import open_session
from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.updates.match import match
from maxkernel.judge.gate import check_gate
from maxkernel.suites.models.tasks.w12_qwen3_next_delta_decode import reference as delta_step
from maxkernel.suites.models.tasks.w12_qwen3_next_delta_decode import unit
from maxkernel.targets import get_target
from maxkernel.types import Candidate

V6E = get_target("v6e")
F32, BF16 = "float32", "bfloat16"


def delta_step_rewritten(q, k, v, a, b, rate, bias, state):
    """`delta_step` with products, other names and another order."""
    n, heads, width, value_width = state.shape
    shared = q.shape[1]
    parts = state.reshape(n, shared, heads // shared, width, value_width)
    keys, queries = unit(k), unit(q) / width**0.5
    gates = jnp.exp(jax.nn.softplus(bias + a.astype(jnp.float32)) * -jnp.exp(rate))
    parts = parts * gates.reshape(n, shared, -1, 1, 1)
    seen = jnp.einsum("nsd,nshdv->nshv", keys, parts)
    strength = 1 / (1 + jnp.exp(-b.astype(jnp.float32))).reshape(n, shared, -1, 1)
    change = strength * (v.astype(jnp.float32).reshape(seen.shape) - seen)
    parts = jnp.einsum("nsd,nshv->nshdv", keys, change) + parts
    out = jnp.einsum("nsd,nshdv->nshv", queries, parts)
    return out.reshape(v.shape).astype(v.dtype), parts.reshape(state.shape)


def mamba_step(x, dt, a_log, b, c, d, state):
    """One step of Mamba-2: all heads of a group share b and c; the state is read along lanes."""
    groups = b.shape[1]
    repeats = x.shape[1] // groups
    step = jax.nn.softplus(dt)
    b, c = (jnp.repeat(t, repeats, axis=1) for t in (b, c))
    decay = jnp.exp(-jnp.exp(a_log) * step)
    fresh = jnp.einsum("nhp,nhs->nhps", x * step[..., None], b)
    state = state * decay[..., None, None] + fresh
    y = jnp.einsum("nhps,nhs->nhp", state, c) + d[:, None] * x
    return state, y.astype(x.dtype)


def retention_step(q, k, v, gate, state):
    """One step of retention, normalised over heads and gated: the last part needs all heads."""
    decay = 1.0 - jnp.exp2(-5.0 - jnp.arange(q.shape[1]))
    state = state * decay[:, None, None] + k[..., None] * v[..., None, :]
    out = jnp.einsum("nhd,nhdv->nhv", q, state)
    scale = jax.lax.rsqrt(jnp.mean(out * out, axis=(1, 2), keepdims=True) + 1e-5)
    return (out * scale * jax.nn.silu(gate)).astype(gate.dtype), state.astype(jnp.float32)


def masked_step(q, k, v, active, state):
    """Linear attention; sequences that have ended keep their states."""
    new = 0.9 * state + k[..., None] * v[..., None, :]
    state = jnp.where(active[:, None, None, None], new, state)
    out = jnp.einsum("nhd,nhdv->nhv", q, state)
    return jnp.where(active[:, None, None], out, 0.0), state


def row_norm(x, scale):
    """Row-wise: another family's."""
    x = x.astype(jnp.float32)
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def pooled(x, weights):
    """Nothing is updated: matrices are only read."""
    return jnp.sum(x * weights[..., None], axis=1)


def cumulative(x, y):
    """Rows depend on those before them."""
    return jnp.cumsum(x * y[..., None], axis=1), jnp.sum(x, axis=1)


def delta_specs(n, shared, heads, width, value_width):
    keys, gates = ((n, shared, width), BF16), ((n, heads), BF16)
    vectors = [((heads,), F32)] * 2
    state = ((n, heads, width, value_width), F32)
    return (keys, keys, ((n, heads, value_width), BF16), gates, gates, *vectors, state)


def mamba_specs(n, heads, groups, width, states):
    shared = ((n, groups, states), F32)
    one = ((heads,), F32)
    x, dt = ((n, heads, width), F32), ((n, heads), F32)
    return (x, dt, one, shared, shared, one, ((n, heads, width, states), F32))


def retention_specs(n, heads, width, value_width):
    keys, values = ((n, heads, width), F32), ((n, heads, value_width), F32)
    gate = ((n, heads, value_width), BF16)
    return (keys, keys, values, gate, ((n, heads, width, value_width), F32))


def masked_specs(n, heads, width):
    vectors = ((n, heads, width), F32)
    return (vectors, vectors, vectors, ((n,), "bool"), ((n, heads, width, width), F32))


CASES = [
    (delta_step, delta_specs(3, 2, 6, 128, 128), delta_specs(16, 2, 6, 128, 128)),
    (delta_step, delta_specs(2, 3, 3, 72, 128), delta_specs(3, 2, 2, 72, 128)),
    (delta_step_rewritten, delta_specs(3, 2, 4, 128, 128), delta_specs(9, 4, 8, 128, 128)),
    (mamba_step, mamba_specs(3, 6, 2, 64, 128), mamba_specs(8, 6, 2, 64, 128)),
    (mamba_step, mamba_specs(2, 24, 1, 64, 128), mamba_specs(4, 24, 1, 64, 128)),
    (retention_step, retention_specs(3, 4, 128, 256), retention_specs(5, 8, 128, 256)),
    (masked_step, masked_specs(3, 4, 128), masked_specs(6, 4, 128)),
]


def source_of(reference, specs):
    info = task_info(reference, *specs)
    (plan,) = TEAM.planner.plan(info, V6E, ())
    assert plan.family == "updates"
    return TEAM.implementer.implement(info, plan, V6E)


@pytest.mark.parametrize(("reference", "specs", "other"), CASES)
def test_one_source_equals_the_reference_at_other_sizes(reference, specs, other):
    source = source_of(reference, other)
    assert check_gate(ast.parse(source)) is None
    assert_clean(source, line_length=88)
    assert_equal(reference, source, draw(specs, 3), block=48, together=24)


@pytest.mark.parametrize(("reference", "specs", "other"), CASES)
def test_compiles_for_the_tpu(reference, specs, other):
    compile_for(source_of(reference, specs), specs, "v6e")


def test_rewriting_changes_nothing():
    """Products for sums, other names and orders: the same plan."""
    plans = [
        TEAM.planner.plan(task_info(step, *delta_specs(64, 16, 32, 128, 128)), V6E, ())
        for step in (delta_step, delta_step_rewritten)
    ]
    assert plans[0] == plans[1] != []


@pytest.mark.parametrize(
    ("reference", "specs", "reason"),
    [
        (row_norm, (((4, 64, 256), BF16), ((256,), F32)), "row-wise"),
        (pooled, (((4, 64, 256), F32), ((4, 64), F32)), "no matrix is a result"),
        (cumulative, (((4, 64, 256), F32), ((4, 64), F32)), "running sum"),
    ],
)
def test_says_why_it_does_not_take_others(reference, specs, reason):
    with pytest.raises(Unsupported, match=reason):
        match(canonicalise(task_info(reference, *specs)))


def test_the_judge_finds_a_model_s_step_faster():
    """The decode step of Qwen3-Next: right, and faster than XLA beyond the clock's error."""
    task = suites.load("models", "w12_qwen3_next_delta_decode")
    with open_session("v6e", use_cache=False) as session:
        prepared = session.judge.prepare(task)
        (plan,) = TEAM.planner.plan(prepared.info, session.judge.target, ())
        source = TEAM.implementer.implement(prepared.info, plan, session.judge.target)
        evaluation = session.judge.evaluate(prepared, Candidate(source))
        assert evaluation.accepted, evaluation.failure
        assert session.judge.verdict(prepared, evaluation).faster
