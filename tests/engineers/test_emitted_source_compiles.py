"""The TPU compiler accepts what is emitted, at odd sizes and on every generation."""

import jax
import jax.numpy as jnp
import pytest
from compiling import compile_for
from kernels import sources

BF16, F32, I8 = "bfloat16", "float32", "int8"


def rms_norm(x, scale):
    x32 = x.astype(jnp.float32)
    return x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + 1e-5) * scale


def cross_entropy(logits, labels):
    logp = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(logp, labels[:, None], axis=-1)[:, 0]


def group_norm(x, scale):
    runs = x.reshape(x.shape[0], -1, 16)
    mean, var = runs.mean(-1, keepdims=True), runs.var(-1, keepdims=True)
    return ((runs - mean) * jax.lax.rsqrt(var + 1e-5)).reshape(x.shape) * scale


def mish_gelu(x):
    return jax.nn.mish(x) + jax.nn.gelu(x) + jax.nn.elu(x) + jax.nn.sigmoid(x)


def gemm(x, w):
    return jax.nn.relu(x @ w) * 2


def gemm_transposed(x, w):
    return x @ w.T


def gemm_softmax(x, w):
    return jax.nn.softmax(x @ w)


def gemm_lse(x, w):
    return jax.nn.logsumexp(x @ w, axis=-1)


def gemm_group_norm(x, w, scale):
    return group_norm(x @ w, scale)


def int8_gemm(x, w, scale):
    return jax.lax.dot(x, w, preferred_element_type=jnp.int32).astype(jnp.float32) * scale


def batched(x, w):
    return jnp.einsum("bmk,bkn->bmn", x, w)


CASES = [
    (rms_norm, (((2, 77, 1000), BF16), ((1000,), BF16))),
    (cross_entropy, (((100, 1000), BF16), ((100,), "int32"))),
    (group_norm, (((64, 512), F32), ((512,), F32))),
    (mish_gelu, (((333, 640), BF16),)),
    (gemm, (((300, 520), BF16), ((520, 1000), BF16))),
    (gemm_transposed, (((300, 512), F32), ((640, 512), F32))),
    (gemm_softmax, (((300, 512), BF16), ((512, 640), BF16))),
    (gemm_softmax, (((300, 512), BF16), ((512, 1000), BF16))),
    (gemm_lse, (((300, 512), BF16), ((512, 640), BF16))),
    (gemm_group_norm, (((300, 512), BF16), ((512, 640), BF16), ((640,), BF16))),
    (int8_gemm, (((256, 512), I8), ((512, 256), I8), ((256,), F32))),
    (batched, (((3, 128, 256), BF16), ((3, 256, 128), BF16))),
]


@pytest.mark.parametrize(("reference", "specs"), CASES)
def test_compiles_for_v6e(reference, specs):
    for source in sources(reference, *specs):
        compile_for(source, specs, "v6e")


@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v7x"])
def test_compiles_for_every_generation(target):
    for reference, specs in (CASES[0], CASES[4]):
        compile_for(sources(reference, *specs, target=target)[0], specs, target)
