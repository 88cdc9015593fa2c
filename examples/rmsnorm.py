"""RMSNorm of Llama-3.1-70B: 8 sequences of 4096 tokens, 8192 features, computed in float32."""

import jax
import jax.numpy as jnp

EPS = 1e-5
TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Normalise x (batch, sequence, features) by its root mean square over features."""
    x32 = x.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(x32), axis=-1, keepdims=True)
    normed = x32 * jax.lax.rsqrt(mean_square + EPS)
    return (normed * scale.astype(jnp.float32)).astype(x.dtype)


def _draw(key: jax.Array, batch: int, sequence: int, features: int) -> tuple[jax.Array, jax.Array]:
    """Tokens whose sizes differ by a factor of about e, and a scale around one."""
    key_x, key_size, key_scale = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (batch, sequence, features))
    size = jnp.exp(jax.random.normal(key_size, (batch, sequence, 1)))
    scale = 1.0 + 0.25 * jax.random.normal(key_scale, (features,))
    return (x * size).astype(jnp.bfloat16), scale.astype(jnp.bfloat16)


def inputs(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Full size: 512 MiB in, 512 MiB out."""
    return _draw(key, 8, 4096, 8192)


def check_inputs(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Small enough for a CPU: several blocks of rows, and a ragged edge for large ones."""
    return _draw(key, 2, 320, 2048)
