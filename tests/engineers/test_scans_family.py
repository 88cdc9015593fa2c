"""What the scans family emits equals the reference, however the reference is written."""

import ast

import jax
import jax.numpy as jnp
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from kernels import TEAM, assert_equal, draw, load, sources

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.scans.match import match
from maxkernel.judge.gate import check_gate
from maxkernel.targets import get_target

SMALL = {"chunk": 128, "heads": 2}


def arrays(*shapes, dtype="bfloat16"):
    return tuple((shape, dtype) for shape in shapes)


def retention(q, k, v):
    """Each head decays at its own rate; rows are divided by the sum of their sizes."""
    place = jnp.arange(q.shape[2], dtype=jnp.float32)
    distance = place[:, None] - place
    rate = jnp.log(1.0 - 2.0 ** (-4.0 - jnp.arange(q.shape[1], dtype=jnp.float32)))
    decay = jnp.exp(rate[:, None, None] * jnp.maximum(distance, 0.0))
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32)
    s = s * jnp.where(distance >= 0, decay, 0.0)
    norm = jnp.maximum(jnp.sum(jnp.abs(s), axis=-1, keepdims=True), 1.0)
    return jnp.einsum("bhqk,bhkd->bhqd", (s / norm).astype(v.dtype), v)


def retention_rewritten(values, b, a):
    """The same with other names, orders and operations: q is b, k is a."""
    heads, length = b.shape[1:3]
    i = jnp.arange(length)
    gamma = 1.0 - jnp.exp2(-4.0 - jnp.arange(heads))
    power = gamma[:, None, None] ** (i[None, :, None] - i)
    hidden = i[None, :] > i[:, None]
    s = jnp.einsum("bhkd,bhqd->bhkq", a, b, preferred_element_type=jnp.float32).swapaxes(2, 3)
    s = jnp.where(hidden, 0.0, power * s)
    total = jnp.abs(s).sum(-1)
    out = jnp.matmul(s.astype(values.dtype), values) / jnp.maximum(1.0, total)[..., None]
    return out.astype(values.dtype)


def state_space(q, k, v, a):
    """Decays depend on the data; rows are divided by the size of their sum."""
    c = jnp.cumsum(jnp.log(jax.nn.sigmoid(a)), axis=-1)
    causal = jnp.tril(jnp.ones((q.shape[2], q.shape[2]), bool))
    decay = jnp.exp(jnp.where(causal, c[..., :, None] - c[..., None, :], -1e30))
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32) * decay
    norm = jnp.maximum(jnp.abs(jnp.sum(s, axis=-1, keepdims=True)), 1.0)
    return jnp.einsum("bhqk,bhkd->bhqd", (s / norm).astype(v.dtype), v)


def plain(q, k, v):
    """Positions before heads, neither decays nor a norm."""
    causal = jnp.tril(jnp.ones((q.shape[1], q.shape[1]), bool))
    s = jnp.where(causal, 0.25 * jnp.einsum("bqhd,bkhd->bhqk", q, k), 0.0)
    return jnp.einsum("bhqk,bkhd->bqhd", s, v)


CASES = [
    (retention, arrays(*[(2, 4, 300, 128)] * 3)),
    (retention, arrays(*[(1, 2, 130, 64)] * 2, (1, 2, 130, 128))),
    (retention_rewritten, arrays(*[(2, 4, 300, 128)] * 3)),
    (state_space, (*arrays(*[(2, 3, 200, 64)] * 3), ((2, 3, 200), "float32"))),
    (state_space, (*arrays(*[(1, 2, 256, 128)] * 2, (1, 2, 256, 64)), ((1, 2, 256), "float32"))),
    (plain, arrays(*[(2, 150, 2, 64)] * 3)),
]


@pytest.mark.parametrize(("reference", "specs"), CASES)
def test_equals_the_reference(reference, specs):
    (source,) = sources(reference, *specs)
    assert check_gate(ast.parse(source)) is None
    assert_equal(reference, source, draw(specs, 1), 5e-2, **SMALL)


def test_ruff_agrees():
    for reference, specs in CASES:
        (source,) = sources(reference, *specs)
        assert_clean(source, line_length=88)


def test_another_spelling_is_the_same_scan():
    specs = arrays(*[(2, 4, 256, 64)] * 3)
    one = match(canonicalise(task_info(retention, *specs)))
    two = match(canonicalise(task_info(retention_rewritten, *specs)))
    assert (one.norm, one.sizes, one.scale) == (two.norm, two.sizes, two.scale)
    assert [side.use.name for side in two.sides] == ["b", "a", "values"]


def test_one_source_serves_other_sizes():
    full = (*arrays(*[(4, 64, 4096, 64)] * 3), ((4, 64, 4096), "float32"))
    check = (*arrays(*[(2, 4, 300, 64)] * 3), ((2, 4, 300), "float32"))
    (source,) = sources(state_space, *full)
    assert_equal(state_space, source, draw(check, 0), 5e-2)


def test_small_sums_of_scores_do_not_magnify_a_rounded_state():
    """Where all positions are alike every result is plus or minus the value; queries and keys are
    almost orthogonal, so the sums that results are divided by are small."""
    specs = arrays(*[(1, 2, 512, 128)] * 3)
    (source,) = sources(retention, *specs)
    for seed in range(3):
        q, k, v = (jnp.broadcast_to(x[:, :, :1], x.shape) for x in draw(specs, seed))
        q32, k32 = q.astype(jnp.float32), k.astype(jnp.float32)
        along = jnp.sum(q32 * k32, -1, keepdims=True) / jnp.sum(k32 * k32, -1, keepdims=True)
        q = (q32 - 0.9 * along * k32).astype(q.dtype)
        got, wanted = load(source)(q, k, v), retention(q, k, v)
        error = jnp.abs(got.astype(jnp.float32) - wanted.astype(jnp.float32))
        assert float(jnp.max(error)) < 0.02, seed


def growing(q, k, v):
    """A decay that is bounded from below is no difference between positions."""
    place = jnp.arange(q.shape[2], dtype=jnp.float32)
    distance = place[:, None] - place
    decay = jnp.exp(-0.1 * jnp.maximum(distance - 3.0, 0.0))
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * jnp.where(distance >= 0, decay, 0.0)
    return jnp.einsum("bhqk,bhkd->bhqd", s, v)


def open_mask(q, k, v):
    return jnp.einsum("bhqk,bhkd->bhqd", jnp.einsum("bhqd,bhkd->bhqk", q, k), v)


@pytest.mark.parametrize("reference", [growing, open_mask])
def test_other_programs_are_refused(reference):
    info = task_info(reference, *arrays(*[(2, 2, 256, 64)] * 3))
    with pytest.raises(Unsupported):
        match(canonicalise(info))


@pytest.mark.parametrize("target", ["v5e", "v5p", "v7x"])
def test_other_targets_have_plans(target):
    info = task_info(retention, *arrays(*[(4, 16, 4096, 256)] * 3))
    plans = TEAM.planner.plan(info, get_target(target), ())
    assert [plan.family for plan in plans] == ["scans"]


@pytest.mark.parametrize(
    ("reference", "specs"), [CASES[0], CASES[3]], ids=["retention", "state_space"]
)
def test_the_tpu_compiler_takes_it(reference, specs):
    (source,) = sources(reference, *specs)
    compile_for(source, specs, "v6e", **SMALL)
