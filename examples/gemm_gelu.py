"""The up projection of a transformer's MLP: a bfloat16 matrix product, a bias and tanh-GELU."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def reference(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    """GELU(x @ weight + bias) for x (tokens, in) and weight (in, out), in float32 inside."""
    product = jnp.dot(x, weight, preferred_element_type=jnp.float32)
    return jax.nn.gelu(product + bias.astype(jnp.float32), approximate=True).astype(x.dtype)


def _draw(key: jax.Array, tokens: int, fan_in: int, fan_out: int) -> tuple[jax.Array, ...]:
    """Unit-variance activations, fan-in scaled weights, a bias that matters."""
    key_x, key_weight, key_bias = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (tokens, fan_in), jnp.bfloat16)
    weight = jax.random.normal(key_weight, (fan_in, fan_out)) * fan_in**-0.5
    bias = 0.5 * jax.random.normal(key_bias, (fan_out,))
    return x, weight.astype(jnp.bfloat16), bias.astype(jnp.bfloat16)


def inputs(key: jax.Array) -> tuple[jax.Array, ...]:
    """Full size: 0.55 tera-operations."""
    return _draw(key, 4096, 8192, 8192)


def check_inputs(key: jax.Array) -> tuple[jax.Array, ...]:
    """Small enough for a CPU; three different dimensions, several blocks along each."""
    return _draw(key, 512, 1024, 2048)
