"""What the family of scaled products emits equals the reference, at sizes other than its own."""

import jax.numpy as jnp
import pytest
from compiling import compile_for
from emitted_style import assert_clean
from graphs import task_info
from jax import lax
from kernels import TEAM, assert_equal, draw
from msgspec.structs import replace

from maxkernel.engineers.roles import NoAnswer
from maxkernel.targets import get_target
from maxkernel.types import ArraySpec

F8, BF16, F32, I8 = "float8_e4m3fn", "bfloat16", "float32", "int8"
BLOCK = 128


def in_blocks(t):
    return jnp.moveaxis(t.reshape(t.shape[0], -1, BLOCK), 1, 0)


def fp8_loop(x, x_scale, w, w_scale):
    """Block after block in a loop, the DeepSeek way."""
    w_scale = jnp.repeat(w_scale, BLOCK, axis=0)

    def add_block(total, block):
        x_b, x_scale_b, w_b, w_scale_b = block
        part = jnp.einsum("tk,nk->tn", x_b, w_b, preferred_element_type=jnp.float32)
        return total + part * x_scale_b[:, None] * w_scale_b, None

    total = jnp.zeros((x.shape[0], w.shape[0]), jnp.float32)
    blocks = (in_blocks(x).astype(BF16), x_scale.T, in_blocks(w).astype(BF16), w_scale.T)
    return lax.scan(add_block, total, blocks)[0].astype(jnp.bfloat16)


def int8_at_once(x, x_scale, w, w_scale):
    """All blocks in one batched product; w lies (k, n), x has a batch."""
    x = x.reshape(*x.shape[:2], -1, BLOCK)
    w = w.reshape(-1, BLOCK, w.shape[1])
    part = jnp.einsum("stbk,bkn->bstn", x, w, preferred_element_type=jnp.int32)
    part = part.astype(jnp.float32) * jnp.moveaxis(x_scale, 2, 0)[..., None]
    return (part * w_scale[:, None, None, :]).sum(0)


def weights_only(x, w, w_scale):
    part = jnp.einsum(
        "tbk,nbk->btn",
        x.reshape(x.shape[0], -1, BLOCK),
        w.reshape(w.shape[0], -1, BLOCK).astype(x.dtype),
        preferred_element_type=jnp.float32,
    )
    return (part * w_scale.T[:, None, :]).sum(0)


def shapes(m, n, blocks):
    k = blocks * BLOCK
    return {
        fp8_loop: (((m, k), F8), ((m, blocks), F32), ((n, k), F8), ((n // BLOCK, blocks), F32)),
        int8_at_once: (
            ((2, m, k), I8),
            ((2, m, blocks), F32),
            ((k, n), I8),
            ((blocks, n), F32),
        ),
        weights_only: (((m, k), BF16), ((n, k), F8), ((n, blocks), F32)),
    }


def source_of(reference, full, check):
    info = task_info(reference, *full)
    info = replace(info, check_inputs=tuple(ArraySpec(s, d) for s, d in check))
    chip = get_target("v6e")
    (plan,) = [p for p in TEAM.planner.plan(info, chip, ()) if p.family == "scaled"]
    return TEAM.implementer.implement(info, plan, chip)


@pytest.mark.parametrize("reference", [fp8_loop, int8_at_once, weights_only])
def test_scaled_products(reference):
    full, check = shapes(4096, 4096, 56)[reference], shapes(72, 256, 6)[reference]
    source = source_of(reference, full, check)
    assert "BLOCKS = 2 " in source, "56 and 6 blocks have two in common"
    assert_clean(source)
    inputs = draw(check, 0)
    assert_equal(reference, source, inputs, block_m=64, block_n=128, chunk_rows=32)


def test_compiles_for_the_chip():
    full = shapes(1024, 1024, 8)[fp8_loop]
    compile_for(source_of(fp8_loop, full, full), full, "v6e", block_m=256, block_n=256)


def short_blocks(x, scale, w):
    part = jnp.einsum("tbk,nbk->btn", x.reshape(x.shape[0], -1, 64), w.reshape(w.shape[0], -1, 64))
    return (part * scale.T[:, :, None]).sum(0)


def other_factor(x, scale, w):
    part = jnp.einsum(
        "tbk,nbk->btn", x.reshape(x.shape[0], -1, 128), w.reshape(w.shape[0], -1, 128)
    )
    return (part * jnp.exp(scale.T[:, :, None])).sum(0)


@pytest.mark.parametrize(
    ("reference", "blocks", "reason"),
    [(short_blocks, 16, "no whole registers"), (other_factor, 8, "combined with `exp`")],
)
def test_refuses(reference, blocks, reason):
    info = task_info(reference, ((256, 1024), F32), ((256, blocks), F32), ((256, 1024), F32))
    with pytest.raises(NoAnswer, match=reason):
        TEAM.planner.plan(info, get_target("v6e"), ())
