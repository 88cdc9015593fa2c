"""3p: multi-head latent attention, the full DeepSeek-V3 block in prefill form.

Queries and keys/values pass through low-rank latents; each head's query and key is 128 columns
without and 64 with rotary position (the rotary key is shared by all heads), its value 128 wide.
All products are bfloat16 in and out; the latents are not normalised. Full size: 4 items, 2048
positions, model width 7168, 128 heads, query rank 1536, key/value rank 512.
"""

import jax
import jax.numpy as jnp

EDITION = "hardened"
TOLERANCE = {"atol": 9e-3, "rtol": 1e-2}

NOPE, ROPE, VALUE, THETA = 128, 64, 128, 10000.0


def reference(x, w_q_down, w_q_up, w_kv_down, w_k_up, w_v_up, w_out):
    """x: (B, S, E). Returns (B, S, E).

    Weights: (E, Rq), (Rq, H*192), (E, Rkv+64), (Rkv, H*128), (Rkv, H*128), (H*128, E).
    """
    batch, length, _ = x.shape
    heads, rank = w_k_up.shape[1] // NOPE, w_k_up.shape[0]

    q = (x @ w_q_down @ w_q_up).reshape(batch, length, heads, NOPE + ROPE)
    latent = x @ w_kv_down
    k_rope = rotate(latent[:, :, None, rank:])
    latent = latent[:, :, :rank]
    k_nope = (latent @ w_k_up).reshape(batch, length, heads, NOPE)
    v = (latent @ w_v_up).reshape(batch, length, heads, VALUE)

    q = jnp.concatenate([q[..., :NOPE], rotate(q[..., NOPE:])], axis=-1)
    k_rope = jnp.broadcast_to(k_rope, (batch, length, heads, ROPE))
    k = jnp.concatenate([k_nope, k_rope], axis=-1)

    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (NOPE + ROPE) ** -0.5
    causal = jnp.tril(jnp.ones((length, length), bool))
    p = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    o = jnp.einsum("bhqk,bkhd->bqhd", p, v)
    return o.reshape(batch, length, heads * VALUE) @ w_out


def rotate(t):
    """Rotary position, halves paired: t is (B, S, H, 64), position 0 first."""
    half = t.shape[-1] // 2
    frequency = THETA ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(t.shape[1], dtype=jnp.float32)[:, None] * frequency
    cos = jnp.cos(angle).astype(t.dtype)[:, None, :]
    sin = jnp.sin(angle).astype(t.dtype)[:, None, :]
    a, b = t[..., :half], t[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def inputs(key):
    return draw(key, batch=4, length=2048, width=7168, heads=128, q_rank=1536, kv_rank=512)


def check_inputs(key):
    return draw(key, batch=2, length=512, width=512, heads=4, q_rank=256, kv_rank=128)


def draw(key, batch, length, width, heads, q_rank, kv_rank):
    keys = jax.random.split(key, 8)
    return (
        normal(keys[0], (batch, length, width)),
        weight(keys[1], (width, q_rank), 7168),
        weight(keys[2], (q_rank, heads * (NOPE + ROPE)), 1536),
        weight(keys[3], (width, kv_rank + ROPE), 7168),
        weight(keys[4], (kv_rank, heads * NOPE), 512),
        weight(keys[5], (kv_rank, heads * VALUE), 512),
        weight(keys[6], (heads * VALUE, width), 128 * VALUE),
    )


def weight(key, shape, full_fan_in):
    """N(0, 0.02^2) at full size; the spread grows as the fan-in shrinks."""
    return normal(key, shape, 0.02 * (full_fan_in / shape[0]) ** 0.5)


def normal(key, shape, std=1.0):
    """Normal draws; the hardened edition rounds float32 draws, bfloat16 ones take few values."""
    if EDITION == "hardened":
        return (std * jax.random.normal(key, shape)).astype(jnp.bfloat16)
    return jax.random.normal(key, shape, jnp.bfloat16) * std
