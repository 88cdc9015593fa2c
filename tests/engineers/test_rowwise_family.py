"""What the row-wise family emits equals the reference, at sizes that no block divides."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import assert_equal, draw, sources

SETTINGS = settings(max_examples=6, deadline=None, derandomize=True)
SIZES = st.sampled_from([1, 7, 16, 127, 129, 300])
WIDTHS = st.sampled_from([8, 127, 128, 129, 384, 1000])
DTYPES = st.sampled_from(["float32", "bfloat16"])


def rms_norm(x, scale):
    x32 = x.astype(jnp.float32)
    mean = jnp.mean(x32 * x32, axis=-1, keepdims=True)
    return (x32 * jax.lax.rsqrt(mean + 1e-5) * scale.astype(jnp.float32)).astype(x.dtype)


def layer_norm_residual(x, residual, gamma, beta):
    t = x + residual
    mean = t.mean(-1, keepdims=True)
    var = t.var(-1, keepdims=True)
    return (t - mean) / jnp.sqrt(var + 1e-5) * gamma + beta, t


def softmax(x):
    return jax.nn.softmax(x, axis=-1)


def log_softmax_temperature(x, temperature):
    return jax.nn.log_softmax(x / temperature, axis=-1)


def cross_entropy(logits, labels):
    logits = logits.astype(jnp.float32)
    picked = jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


def one_hot_cross_entropy(logits, labels):
    logp = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -(jax.nn.one_hot(labels, logits.shape[-1]) * logp).sum(-1)


def activations(x, y):
    return jax.nn.silu(x) * y + jax.nn.gelu(x) - jax.nn.sigmoid(y) * jnp.where(x > 0, x, 0.1 * x)


def statistics(x):
    return x.sum(-1), x.max(-1), x.min(-1, keepdims=True), jnp.mean(jnp.abs(x), -1)


def mish_elu(x):
    return jax.nn.mish(x) + jax.nn.elu(x) + jax.nn.softplus(x)


@SETTINGS
@given(st.sampled_from([1, 3]), SIZES, WIDTHS, DTYPES)
def test_rms_norm(batch, rows, cols, dtype):
    specs = (((batch, rows, cols), dtype), ((cols,), dtype))
    for source in sources(rms_norm, *specs):
        assert_equal(rms_norm, source, draw(specs, rows + cols))


@SETTINGS
@given(SIZES, WIDTHS, DTYPES)
def test_layer_norm_with_two_results(rows, cols, dtype):
    full, col = ((rows, cols), dtype), ((cols,), "float32")
    for source in sources(layer_norm_residual, full, full, col, col):
        assert_equal(layer_norm_residual, source, draw((full, full, col, col), rows))


@SETTINGS
@given(SIZES, WIDTHS, DTYPES)
def test_softmax(rows, cols, dtype):
    specs = (((rows, cols), dtype),)
    for source in sources(softmax, *specs):
        assert_equal(softmax, source, draw(specs, cols))


@SETTINGS
@given(SIZES, WIDTHS, st.sampled_from([cross_entropy, one_hot_cross_entropy]), DTYPES)
def test_cross_entropy(rows, cols, reference, dtype):
    specs = (((rows, cols), dtype), ((rows,), "int32"))
    for source in sources(reference, ((64, cols), dtype), ((64,), "int32")):
        assert_equal(reference, source, draw(specs, cols, high=cols))


@SETTINGS
@given(SIZES, WIDTHS, DTYPES)
def test_elementwise(rows, cols, dtype):
    specs = (((rows, cols), dtype), ((rows, cols), dtype))
    for source in sources(activations, *specs):
        assert_equal(activations, source, draw(specs, cols))


@pytest.mark.parametrize(
    ("reference", "specs"),
    [
        (log_softmax_temperature, (((40, 200), "float32"), ((), "float32"))),
        (log_softmax_temperature, (((40, 200), "bfloat16"), ((1,), "bfloat16"))),
        (statistics, (((5, 33, 130), "float32"),)),
        (mish_elu, (((3, 50, 256), "float32"),)),
        (lambda x, s: x.astype(jnp.float32) * s, (((33, 256), "int8"), ((256,), "float32"))),
        (lambda x, m: jnp.where(m, x, -1.0), (((33, 256), "float32"), ((33, 256), "bool"))),
    ],
)
def test_more_references(reference, specs):
    for source in sources(reference, *specs):
        assert_equal(reference, source, draw(specs, 1))


def test_one_source_serves_other_sizes():
    full = (((8, 4096, 8192), "bfloat16"), ((8192,), "bfloat16"))
    check = (((2, 33, 520), "bfloat16"), ((520,), "bfloat16"))
    for source in sources(rms_norm, *full):
        assert_equal(rms_norm, source, draw(check, 0))
