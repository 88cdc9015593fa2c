"""Products whose epilogue looks at whole rows, and rows too long for VMEM."""

import jax
import jax.numpy as jnp
import pytest
from kernels import assert_equal, draw, sources
from test_rowwise_family import activations, cross_entropy, layer_norm_residual, softmax

BF16, F32 = "bfloat16", "float32"


def gemm_softmax(x, w, b):
    return jax.nn.softmax(x @ w.T + b, axis=-1)


def gemm_layer_norm(x, w, scale):
    t = x @ w
    mean, var = t.mean(-1, keepdims=True), t.var(-1, keepdims=True)
    return (t - mean) / jnp.sqrt(var + 1e-5) * scale


def gemm_lse(x, w):
    return jax.nn.logsumexp(x @ w, axis=-1)


def gemm_sigmoid_sum(x, w, b):
    return jax.nn.sigmoid(x @ w + b).sum(-1, keepdims=True)


def gemm_cross_entropy(x, w, labels):
    logp = jax.nn.log_softmax((x @ w).astype(jnp.float32))
    return -jnp.take_along_axis(logp, labels[:, None], axis=-1).mean()


def gemm_group_norm(x, w, scale):
    t = jax.nn.silu(x @ w).reshape(x.shape[0], -1, 16)
    mean, var = t.mean(-1, keepdims=True), t.var(-1, keepdims=True)
    return ((t - mean) * jax.lax.rsqrt(var + 1e-5)).reshape(x.shape[0], -1) * scale


def gemm_pool_max(x, w):
    return jax.nn.gelu((x @ w).reshape(x.shape[0], -1, 16).mean(-1)).max(-1)


def gemm_outer_sum(x, w, bias):
    return (x @ w).min(-1)[None, :] + bias[:, None]


def specs(m, n, k, *more, dtype=F32, turned=False):
    return (((m, k), dtype), ((n, k) if turned else (k, n), dtype), *more)


@pytest.mark.parametrize(
    ("reference", "given"),
    [
        (gemm_softmax, specs(130, 640, 72, ((640,), F32), turned=True)),
        (gemm_softmax, specs(33, 100, 72, ((100,), BF16), dtype=BF16, turned=True)),
        (gemm_layer_norm, specs(130, 512, 72, ((512,), F32))),
        (gemm_lse, specs(33, 640, 72)),
        (gemm_sigmoid_sum, specs(130, 129, 72, ((129,), F32))),
        (gemm_cross_entropy, specs(130, 640, 72, ((130,), "int32"))),
        (gemm_group_norm, specs(40, 640, 72, ((640,), F32))),
        (gemm_pool_max, specs(40, 640, 72)),
        (gemm_outer_sum, specs(40, 640, 72, ((50,), F32))),
    ],
)
def test_epilogue_over_rows(reference, given):
    for source in sources(reference, *given):
        assert_equal(reference, source, draw(given, 1))


@pytest.mark.parametrize(
    ("reference", "full", "check"),
    [
        (softmax, (((64, 4_000_000), BF16),), (((20, 9000), F32),)),
        (
            layer_norm_residual,
            (((64, 3_000_000), F32),) * 2 + (((3_000_000,), F32),) * 2,
            (((9, 9000), F32),) * 2 + (((9000,), F32),) * 2,
        ),
        (
            cross_entropy,
            (((64, 4_000_000), BF16), ((64,), "int32")),
            (((20, 9000), BF16), ((20,), "int32")),
        ),
        (activations, (((64, 4_000_000), F32),) * 2, (((9, 9000), F32),) * 2),
    ],
)
def test_long_rows(reference, full, check):
    for source in sources(reference, *full):
        assert "block_cols" in source
        assert_equal(reference, source, draw(check, 0, high=9000))


def test_accumulator_over_k():
    wide = (((256, 65536), BF16), ((65536, 1024), BF16))
    check = (((40, 1024), F32), ((1024, 200), F32))

    def gemm(x, w):
        return jax.nn.relu(x @ w)

    (source,) = sources(gemm, *wide, only="k innermost")
    assert_equal(gemm, source, draw(check, 0), block_k=512)
