"""What the convolution family emits equals the reference, however the reference is written."""

import jax
import jax.numpy as jnp
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from jax import lax
from kernels import assert_equal, draw, sources

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.canon import canonicalise
from maxkernel.engineers.builtin.conv import plans
from maxkernel.targets import get_target

NCHW = ("NCHW", "OIHW", "NCHW")
NCDHW = ("NCDHW", "OIDHW", "NCDHW")


def conv(x, w, padding="VALID"):
    numbers = NCHW if x.ndim == 4 else NCDHW
    return lax.conv_general_dilated(x, w, (1,) * (x.ndim - 2), padding, dimension_numbers=numbers)


def relu_bias(x, w, b):
    return jax.nn.relu(conv(x, w)) + b[:, None, None]


def rewritten(b, filters, pictures):
    """`relu_bias` with other names, orders and layouts of weights and result."""
    c = lax.conv_general_dilated(
        pictures, filters, (1, 1), "VALID", dimension_numbers=("NCHW", "HWIO", "NHWC")
    )
    return b + jnp.where(c > 0, c, 0)


def same_size(x, w, b):
    return jnp.tanh(conv(x, w, "SAME") * b[:, None, None])


def volume(x, w, b):
    c = conv(x, w) + b[:, None, None, None]
    return c * jnp.tanh(c)


def instance_norm(x, w, scale):
    c = conv(x, w)
    centred = c - c.mean((2, 3), keepdims=True)
    return centred * lax.rsqrt(c.var((2, 3), keepdims=True) + 1e-5) * scale[:, None, None]


def group_norm(x, w, scale):
    c = conv(x, w)
    groups = c.reshape(c.shape[0], 4, -1)
    mean, var = (f(groups, axis=-1, keepdims=True) for f in (jnp.mean, jnp.var))
    return ((groups - mean) / jnp.sqrt(var + 1e-5)).reshape(c.shape) * scale[:, None, None]


def batch_norm(x, w, scale):
    c = jnp.tanh(conv(x, w))
    mean, var = c.mean((0, 2, 3), keepdims=True), c.var((0, 2, 3), keepdims=True)
    return (c - mean) * scale[:, None, None] / jnp.sqrt(var + 1e-5)


def gelu_pooled(x, w, b):
    return jax.nn.gelu(conv(x, w) + b[:, None, None]).mean((2, 3))


def extremes(x, w):
    c = conv(x, w, "SAME")
    return c.max((2, 3), keepdims=True) - c.min((2, 3), keepdims=True)


def norm_logsumexp(x, w, b):
    c = conv(x, w)
    return jax.nn.logsumexp(c + jnp.tanh(group_norm(x, w, b)), axis=1, keepdims=True)


def volume_norm_mean(x, w, b):
    """The mean of normalised values depends on the scales and on the means of channels alone."""
    c = conv(x, w) + b[:, None, None, None]
    groups = c.reshape(c.shape[0], 4, -1)
    mean, var = (f(groups, axis=-1, keepdims=True) for f in (jnp.mean, jnp.var))
    y = ((groups - mean) / jnp.sqrt(var + 1e-5)).reshape(c.shape)
    return (y * b[:, None, None, None] - 1.0).mean((1, 2, 3, 4))


def volume_pooled(x, w, b):
    return jnp.tanh(conv(x, w, "SAME") * b[:, None, None, None]).mean((2, 3, 4))


CASES = [
    (relu_bias, ((3, 64, 21, 14), "bfloat16"), ((24, 64, 3, 3), "bfloat16"), ((24,), "float32")),
    (rewritten, ((24,), "float32"), ((3, 3, 5, 24), "float32"), ((17, 5, 9, 11), "float32")),
    (same_size, ((2, 20, 9, 12), "float32"), ((8, 20, 3, 5), "float32"), ((8,), "float32")),
    (volume, ((2, 32, 4, 7, 6), "bfloat16"), ((8, 32, 2, 3, 3), "bfloat16"), ((8,), "bfloat16")),
    (instance_norm, ((3, 64, 19, 8), "float32"), ((16, 64, 3, 3), "float32"), ((16,), "float32")),
    (group_norm, ((2, 16, 12, 9), "float32"), ((8, 16, 3, 3), "float32"), ((8,), "float32")),
    (batch_norm, ((18, 64, 9, 6), "float32"), ((8, 64, 3, 3), "float32"), ((8,), "float32")),
    (gelu_pooled, ((3, 5, 20, 11), "float32"), ((24, 5, 3, 3), "float32"), ((24,), "float32")),
    (extremes, ((2, 8, 16, 13), "bfloat16"), ((8, 8, 3, 3), "bfloat16")),
    (
        volume_norm_mean,
        ((3, 3, 4, 5, 11), "float32"),
        ((16, 3, 2, 3, 3), "float32"),
        ((16,), "float32"),
    ),
    (
        volume_pooled,
        ((2, 2, 3, 4, 9), "bfloat16"),
        ((8, 2, 3, 3, 2), "bfloat16"),
        ((8,), "bfloat16"),
    ),
    (norm_logsumexp, ((2, 8, 21, 9), "float32"), ((16, 8, 3, 3), "float32"), ((16,), "float32")),
]
COLUMNS_IN_LANES = ("gelu_pooled", "extremes", "norm_logsumexp")
IMAGES_IN_LANES = ("volume_norm_mean", "volume_pooled")
NAMES = [case[0].__name__ for case in CASES]


@pytest.fixture(scope="module")
def written():
    return {name: sources(*case) for name, case in zip(NAMES, CASES, strict=True)}


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_reference(written, name):
    reference, *given = CASES[NAMES.index(name)]
    inputs = draw(tuple(given), 3)
    if "norm" in name:
        # A mean far from zero, where naive sums of squares lose digits.
        inputs = (inputs[0] + 3.0, *inputs[1:])
    # The matrix unit reads bfloat16: such values are exact.
    inputs = tuple(x.astype(jnp.bfloat16).astype(x.dtype) for x in inputs)
    (source,) = written[name]
    tolerance = 2e-2 if inputs[0].dtype == jnp.bfloat16 else 1e-4
    constants = {"step_groups": 2} if name in COLUMNS_IN_LANES else {"chunk_cols": 4}
    constants = {} if name in IMAGES_IN_LANES else constants
    assert_equal(reference, source, inputs, tolerance, **constants)


def test_the_compiler_takes_it(written):
    _, *given = CASES[NAMES.index("batch_norm")]
    compile_for(written["batch_norm"][0], tuple(given), "v6e")


def test_ruff_agrees(written):
    for (source,) in written.values():
        assert_clean(source, line_length=88)


def strided(x, w):
    return lax.conv_general_dilated(x, w, (2, 2), "VALID", dimension_numbers=NCHW)


def grouped(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=NCHW, feature_group_count=2
    )


def precise(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=NCHW, precision=lax.Precision.HIGHEST
    )


@pytest.mark.parametrize(
    ("reference", "channels", "reason"),
    [
        (strided, 8, "strides"),
        (grouped, 4, "grouped"),
        (precise, 8, "precision"),
        (lambda x, w: conv(x, w).max(2), 8, "all pixels"),
        (lambda x, w: jax.nn.softmax(conv(x, w), axis=1), 8, "full size"),
        (lambda x, w: conv(x, w).mean((0, 2, 3)), 8, "dimensions of the images"),
        (lambda x, w: conv(conv(x, w), w), 8, "2 convolutions"),
    ],
)
def test_what_it_does_not_cover_is_refused_with_the_reason(reference, channels, reason):
    info = task_info(reference, ((2, 8, 9, 9), "float32"), ((8, channels, 3, 3), "float32"))
    with pytest.raises(Unsupported, match=reason):
        plans(info, canonicalise(info), get_target("v6e"))
