"""Grouped products of weights that lie in memory as codes: kernels decode them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from jax import lax
from kernels import TEAM, load

from maxkernel.targets import get_target

GROUPS, RUN = 5, 16
SIZES = jnp.array([0, 1, 40, 0, 23], jnp.int32)


def four_bits(codes, scale):
    """Two e2m1 values in a byte, the even row in its low half; a power of two per 32 rows."""
    both = jnp.stack([codes & 15, codes >> 4], axis=2)
    code = both.reshape(*scale.shape[:2], 2 * RUN, scale.shape[2]).astype(jnp.int32)
    size = code & 7
    quarters = jnp.where(size < 2, 2 * size, (2 + (size & 1)) << (size >> 1))
    value = jnp.where(code > 7, -quarters, quarters).astype(jnp.float32) / 4.0
    power = jnp.exp2(scale.astype(jnp.float32) - 127.0)[:, :, None]
    return (value * power).astype(jnp.bfloat16).reshape(scale.shape[0], -1, scale.shape[2])


def bytes_by_runs(codes, scale):
    """A signed byte for each weight, a factor for every 16 rows."""
    wide = codes.reshape(*scale.shape[:2], RUN, scale.shape[2]).astype(jnp.float32)
    return (wide * scale[:, :, None, :]).reshape(codes.shape).astype(jnp.bfloat16)


def other_half_first(codes, scale):
    """`four_bits` otherwise: the odd row in the low half, shifts before masks."""
    shifted = [(codes >> shift) & 15 for shift in (4, 0)]
    code = jnp.stack(shifted, axis=-2).astype(jnp.int32)
    code = code.reshape(scale.shape[0], -1, 2 * RUN, scale.shape[2])
    size = code & 7
    grown = lax.shift_left(2 + (size & 1), size >> 1)
    value = jnp.where(size >= 2, grown, size * 2).astype(jnp.float32) * 0.25
    value = value * (1.0 - 2.0 * (code >> 3).astype(jnp.float32))
    power = jnp.exp2(scale.astype(jnp.float32) - 127.0)
    return (
        (power[:, :, None] * value).astype(jnp.bfloat16).reshape(codes.shape[0], -1, codes.shape[2])
    )


def one_product(decode):
    def reference(x, codes, scale, sizes):
        return lax.ragged_dot(x, decode(codes, scale), sizes)

    return reference


def gated(x, gate, gate_scale, up, up_scale, sizes):
    h, g = (
        lax.ragged_dot(x, four_bits(*w), sizes, preferred_element_type=jnp.float32)
        for w in ((up, up_scale), (gate, gate_scale))
    )
    return h * jax.nn.silu(0.01 * g)


def packed(rows, columns, seed):
    """Codes and scales; `rows` of weights."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (GROUPS, rows // 2, columns)).astype(np.uint8)
    scale = rng.integers(122, 130, (GROUPS, rows // 2 // RUN, columns)).astype(np.uint8)
    return jnp.asarray(codes), jnp.asarray(scale)


def whole_bytes(rows, columns, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(-127, 128, (GROUPS, rows, columns)).astype(np.int8)
    scale = rng.uniform(0.01, 0.02, (GROUPS, rows // RUN, columns)).astype(np.float32)
    return jnp.asarray(codes), jnp.asarray(scale)


def tokens(count, width, seed):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.standard_normal((count, width)), jnp.bfloat16)


def emitted(reference, inputs):
    specs = tuple((x.shape, str(x.dtype)) for x in inputs)
    info, chip = task_info(reference, *specs), get_target("v6e")
    (plan,) = [p for p in TEAM.planner.plan(info, chip, ()) if p.family == "grouped"]
    return TEAM.implementer.implement(info, plan, chip), specs


def assert_close(reference, source, inputs, **tunables):
    wanted = np.asarray(jax.jit(reference)(*inputs), np.float32)
    found = np.asarray(load(source)(*inputs, **tunables), np.float32)
    used = int(SIZES.sum())
    scale = np.sqrt(np.mean(wanted[:used] ** 2))
    assert np.max(np.abs(found - wanted) / (scale + np.abs(wanted))) < 2e-2


CASES = [
    (one_product(four_bits), packed, 2),
    (one_product(other_half_first), packed, 2),
    (one_product(bytes_by_runs), whole_bytes, 1),
]


@pytest.mark.parametrize(("reference", "draw", "places"), CASES)
def test_codes_are_decoded_in_the_kernel_at_ragged_sizes(reference, draw, places):
    x = tokens(64, 192, 1)
    source, _ = emitted(reference, (x, *draw(192, 256, 2), SIZES))
    assert f"by_place(rows, {places}, tail)" in source and "decode(" in source
    assert_clean(source)
    for rows, columns in ((192, 256), (32 * 11, 200), (32, 72)):
        inputs = (tokens(77, rows, 3), *draw(rows, columns, 4), SIZES)
        assert_close(reference, source, inputs, block_rows=16, block_columns=128)


def test_two_products_of_codes_in_one_pass():
    inputs = (tokens(77, 352, 5), *packed(352, 200, 6), *packed(352, 200, 7), SIZES)
    source, _ = emitted(gated, inputs)
    assert source.count("def decode(") == 1 and source.count("decode(codes") == 3
    assert_clean(source)
    assert_close(gated, source, inputs, block_rows=16, block_columns=128)


def test_scales_that_serve_odd_runs_are_left_to_xla():
    def reference(x, codes, scale, sizes):
        wide = codes.reshape(*scale.shape[:2], 6, scale.shape[2]).astype(jnp.float32)
        weights = (wide * scale[:, :, None, :]).reshape(codes.shape).astype(jnp.bfloat16)
        return lax.ragged_dot(x, weights, sizes)

    codes, _ = whole_bytes(96, 128, 8)
    scale = jnp.full((GROUPS, 16, 128), 0.01, jnp.float32)
    inputs = (tokens(64, 96, 9), codes, scale, SIZES)
    source, _ = emitted(reference, inputs)
    assert "decode" not in source
    assert_close(reference, source, inputs, block_rows=16)


def test_the_compiler_takes_decoding():
    inputs = (tokens(64, 320, 1), *packed(320, 256, 2), SIZES)
    source, specs = emitted(CASES[0][0], inputs)
    compile_for(source, specs, "v6e")
