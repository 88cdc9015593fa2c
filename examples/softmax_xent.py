"""Softmax cross-entropy of a language model: one loss per token over 32000 classes."""

import jax
import jax.numpy as jnp

TOLERANCE = {"atol": 1e-3, "rtol": 1e-4}


def reference(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Loss per token, float32, for logits (tokens, classes) and integer labels (tokens,)."""
    logits32 = logits.astype(jnp.float32)
    log_normaliser = jax.nn.logsumexp(logits32, axis=-1)
    picked = jnp.take_along_axis(logits32, labels[:, None], axis=-1)[:, 0]
    return log_normaliser - picked


def _draw(key: jax.Array, tokens: int, classes: int) -> tuple[jax.Array, jax.Array]:
    """Logits with a spread of 3 and a level per token; half of the labels are the best class."""
    key_logits, key_level, key_labels, key_best = jax.random.split(key, 4)
    logits = 3.0 * jax.random.normal(key_logits, (tokens, classes))
    logits += 5.0 * jax.random.normal(key_level, (tokens, 1))
    labels = jax.random.randint(key_labels, (tokens,), 0, classes)
    best = jax.random.bernoulli(key_best, 0.5, (tokens,))
    labels = jnp.where(best, jnp.argmax(logits, axis=-1), labels)
    return logits.astype(jnp.bfloat16), labels.astype(jnp.int32)


def inputs(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Full size: 500 MiB of logits."""
    return _draw(key, 8192, 32000)


def check_inputs(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Small enough for a CPU; 4000 classes, which no power of two divides into blocks."""
    return _draw(key, 512, 4000)
