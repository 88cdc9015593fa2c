"""What the grouped family emits equals the reference at ragged sizes, and it knows grouped products
however what stands around them is written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from jax import lax
from kernels import TEAM, load

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.grouped.match import match, read
from maxkernel.targets import get_target

BF16, F32, I32 = "bfloat16", "float32", "int32"
ROWS, K, N, GROUPS = 77, 64, 200, 6
SIZES = jnp.array([0, 1, 40, 0, 23, 5], I32)


def grouped(lhs, rhs, sizes):
    y = lax.ragged_dot(lhs, rhs, sizes, preferred_element_type=jnp.float32)
    used = jnp.arange(lhs.shape[0]) < jnp.sum(sizes)
    return jnp.where(used[:, None], y, 0).astype(lhs.dtype)


def grouped_again(a, counts, b):
    """`grouped` under other names, the unused rows selected the other way round."""
    y = lax.ragged_dot(a, b, counts)
    return lax.select(
        jnp.broadcast_to(jnp.sum(counts) <= jnp.arange(a.shape[0])[:, None], y.shape),
        jnp.zeros_like(y),
        y,
    )


def experts(x, weights, sizes, gate, up, down):
    h = lax.ragged_dot(x, up, sizes) * jax.nn.silu(lax.ragged_dot(x, gate, sizes))
    return lax.ragged_dot(h, down, sizes) * weights[:, None].astype(x.dtype)


def alternating(x, sizes, both, bias, place, down, shift):
    """A gate and what it gates in alternating columns, with a bias per group."""
    t = lax.ragged_dot(x, both, sizes, preferred_element_type=jnp.float32) + bias[place]
    gate, up = jnp.minimum(t[:, 0::2], 1.5), jnp.clip(t[:, 1::2], -2.0, 2.0)
    h = ((up + 1.0) * gate * jax.nn.sigmoid(1.7 * gate)).astype(x.dtype)
    return lax.ragged_dot(h, down, sizes, preferred_element_type=jnp.float32) + shift[place]


def routed(x, router, gate, up, down):
    scores = jnp.dot(x, router, preferred_element_type=jnp.float32)
    chosen = lax.top_k(scores + 1.0, 2)[1]
    best = jnp.take_along_axis(scores, chosen, axis=-1)
    weights, chosen = jax.nn.softmax(best, axis=-1), chosen.reshape(-1)
    order = jnp.argsort(chosen)
    sizes = jnp.sum(jax.nn.one_hot(chosen, gate.shape[0], dtype=jnp.int32), axis=0)
    rows = x[order // 2]
    h = jax.nn.silu(lax.ragged_dot(rows, gate, sizes)) * lax.ragged_dot(rows, up, sizes)
    z = lax.ragged_dot(h, down, sizes)[jnp.argsort(order)].reshape(*weights.shape, -1)
    return jnp.sum(weights[..., None] * z, axis=1).astype(x.dtype)


LHS, RHS, COUNTS = ((ROWS, K), BF16), ((GROUPS, K, N), BF16), ((GROUPS,), I32)
DOWN = ((GROUPS, N, K), BF16)
PLACE, BOTH = ((ROWS,), I32), ((GROUPS, K, 2 * N), BF16)
ALTERNATING = (LHS, COUNTS, BOTH, ((GROUPS, 2 * N), BF16), PLACE, DOWN, ((GROUPS, K), BF16))
CASES = [
    (grouped, (LHS, RHS, COUNTS), {"block_rows": 16, "block_columns": 128}),
    (grouped, (((ROWS, K), F32), ((GROUPS, K, N), F32), COUNTS), {"block_rows": 128}),
    (grouped_again, (LHS, COUNTS, RHS), {"block_rows": 32}),
    (experts, (LHS, ((ROWS,), F32), COUNTS, RHS, RHS, DOWN), {"block_rows": 16}),
    (routed, (LHS, ((K, GROUPS), BF16), RHS, RHS, DOWN), {"block_rows": 32}),
    (alternating, ALTERNATING, {"block_rows": 16, "block_columns_1": 128}),
]


def emitted(reference, specs):
    info, chip = task_info(reference, *specs), get_target("v6e")
    (plan,) = [p for p in TEAM.planner.plan(info, chip, ()) if p.family == "grouped"]
    return TEAM.implementer.implement(info, plan, chip)


def draw(specs):
    rng = np.random.default_rng(1)
    known = {COUNTS: SIZES, PLACE: jnp.arange(ROWS, dtype=I32) % GROUPS}
    return [
        known[spec] if spec in known else jnp.asarray(rng.standard_normal(spec[0]) * 0.5, spec[1])
        for spec in specs
    ]


@pytest.mark.parametrize(("reference", "specs", "tunables"), CASES)
def test_equal_at_ragged_sizes(reference, specs, tunables):
    inputs = draw(specs)
    source = emitted(reference, specs)
    assert_clean(source)
    wanted = np.asarray(jax.jit(reference)(*inputs), np.float32)
    found = np.asarray(load(source)(*inputs, **tunables), np.float32)
    tolerance = 0.02 * float(np.sqrt(np.mean(wanted**2)))
    np.testing.assert_allclose(found, wanted, atol=2 * tolerance, rtol=2e-2)


def test_the_largest_that_nothing_reads_have_no_name():
    assert "_, picks = jax.lax.top_k(" in emitted(routed, CASES[4][1])


def test_products_of_the_same_rows_are_one_kernel():
    (first, second) = match(task_info(experts, *CASES[3][1]))
    assert (len(first.weights), len(second.weights)) == (2, 1)
    assert [x.role for x in second.epilogue.extras] == ["row"]
    (alone,) = match(task_info(grouped, *CASES[0][1]))
    assert alone.epilogue.plain and not alone.epilogue.extras


def test_alternating_columns_are_told_apart_in_the_kernel():
    info, (first, second) = read(task_info(alternating, *ALTERNATING))
    assert (first.apart, first.whole, first.epilogue.dtype) == (True, False, BF16)
    assert info.graph.values[first.weights[0]].shape == (GROUPS, K, 2 * N)
    assert (second.apart, second.whole, second.epilogue.zero) == (False, True, False)


def test_a_product_that_is_read_whole_too_stays_whole():
    def reference(x, both, sizes):
        t = lax.ragged_dot(x, both, sizes)
        return t[:, ::2] * t[:, 1::2] + jnp.sum(t, axis=1, keepdims=True)

    task = task_info(reference, LHS, BOTH, COUNTS)
    info, (stage,) = read(task)
    assert info is task and not stage.apart


@pytest.mark.parametrize(("reference", "specs"), [CASES[3][:2], CASES[5][:2]])
def test_the_tpu_compiler_accepts_odd_sizes(reference, specs):
    compile_for(emitted(reference, specs), specs, "v6e")


def test_groups_along_the_contraction_are_refused():
    def gradient(x, y, sizes):
        numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
        return lax.ragged_dot_general(x, y, sizes, numbers)

    specs = (((ROWS, K), BF16), ((ROWS, N), BF16), COUNTS)
    with pytest.raises(Unsupported, match="other dimensions"):
        match(task_info(gradient, *specs))
